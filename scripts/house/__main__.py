"""Print the figures of the house: how far a reader has to go, and what the code looks like.

What each figure means is told at the top of `traces.py` (real exchanges, traced), `shape.py` (read
from the source) and `names.py` (participles).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from shape import Shape, read_files
from traces import trace_all

HERE = Path(__file__).resolve().parents[2]


def measure(tree: Path, *, static: bool) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the figures of a tree by name, and the lists behind them."""
    figures: dict[str, float] = {}
    lists: dict[str, list[str]] = {}
    for name, trace in {} if static else trace_all(tree).items():
        figures[f"{name}: modules"] = len(trace.modules)
        figures[f"{name}: packages"] = len(trace.packages)
        figures[f"{name}: functions"] = len(trace.functions)
        figures[f"{name}: package switches"] = trace.switches
        lists[f"{name}: modules"] = trace.modules
        lists[f"{name}: functions"] = trace.functions
    shape = Shape(read_files(tree))
    return {**figures, **shape.figures()}, {**lists, **shape.lists()}


def show_table(columns: list[dict[str, float]]) -> None:
    """Print the figures side by side."""
    if len(columns) > 1:
        print(f"{'':42}{'before':>10}{'now':>10}{'ratio':>8}")
    for name in columns[-1]:
        values = [column[name] for column in columns]
        ratio = f"{values[-1] / values[0]:>8.2f}" if len(values) > 1 and values[0] else ""
        print(f"{name:42}{''.join(f'{value:>10g}' for value in values)}{ratio}")


def show_lists(lists: dict[str, list[str]]) -> None:
    """Print what is behind the figures."""
    for name, lines in lists.items():
        print(f"\n## {name} ({len(lines)})")
        for line in lines:
            print(line)


def main() -> int:
    """Measure what the arguments ask for."""
    parser = argparse.ArgumentParser(
        prog="scripts/figures", description="Print the figures of the house."
    )
    parser.add_argument(
        "--tree",
        type=Path,
        default=HERE,
        metavar="TREE",
        help="the checkout to measure; else this one",
    )
    parser.add_argument(
        "--against", type=Path, metavar="TREE", help="another checkout, shown as `before`"
    )
    parser.add_argument("--static", action="store_true", help="only what is read from the source")
    parser.add_argument("--json", action="store_true", help="print JSON, with all lists")
    parser.add_argument("--verbose", action="store_true", help="print the lists too")
    asked = parser.parse_args()
    figures, lists = measure(asked.tree, static=asked.static)
    before = measure(asked.against, static=asked.static)[0] if asked.against else None
    if asked.json:
        found: dict[str, Any] = {"figures": figures, "lists": lists}
        print(json.dumps({**found, "before": before} if before else found, indent=1))
        return 0
    show_table([before, figures] if before else [figures])
    if asked.verbose:
        show_lists(lists)
    return 0


if __name__ == "__main__":
    sys.exit(main())
