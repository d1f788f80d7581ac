"""`holdgate copy`: copy all that one store keeps into another."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gateway.app.copying import CopyOrder, copy_store
from gateway.cli.serve import find_source, load_config
from gateway.cli.tables import table
from gateway.errors import HoldgateError
from gateway.stores.copying import ComparedTable

SAME, DIFFERENT, ABOUT = "same", "different", "kept as far as possible"
DONE = "The copy is complete: both stores have the same rows."
FAILED = "holdgate: the copy is not complete; these tables differ: {}."


def add_copy_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `holdgate copy`."""
    where = "embedded, embedded:///path, sqlite:///path or postgresql://…"
    parser.add_argument(
        "--from",
        dest="source",
        default="embedded",
        metavar="URL",
        help=f"the store to copy: {where} (embedded: the configured session_dir)",
    )
    parser.add_argument(
        "--to", dest="target", metavar="URL", help="an empty store; else the configured store.url"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with a copy that was interrupted"
    )


def run_copy(arguments: argparse.Namespace) -> int:
    """Copy a store; return the exit status."""
    config = load_config(find_source(arguments))
    if config is None:
        return 1
    target = arguments.target or str(config.store.url) or "embedded"
    progress = CopyProgress()
    order = CopyOrder(
        arguments.source, target, arguments.resume, progress.show, progress.show_quarantined
    )
    try:
        compared = copy_store(config, order)
    except HoldgateError as error:
        progress.end()
        print(f"holdgate: {error.message}", file=sys.stderr)
        return 1
    progress.end()
    return _report(compared)


class CopyProgress:
    """Shows on a terminal how far the copy is."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()

    def show(self, name: str, copied: int) -> None:
        """Show how many rows of a table are copied."""
        if self._shows:
            print(f"\r\x1b[K{name} {copied:,}", end="", file=sys.stderr, flush=True)

    def show_quarantined(self, name: str, reason: str) -> None:
        """Say which document was set aside, as the gateway does with what it can not read."""
        self.end()
        print(f"holdgate: {name} was set aside: {reason}", file=sys.stderr)

    def end(self) -> None:
        """Remove what was shown."""
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _report(compared: Sequence[ComparedTable]) -> int:
    rows = [(one.name, f"{one.source.rows:,}", _judge(one)) for one in compared]
    print(table(("TABLE", "ROWS", "COPY"), rows))
    if different := [one.name for one in compared if not one.is_same]:
        print(FAILED.format(", ".join(different)), file=sys.stderr)
        return 1
    print(DONE)
    return 0


def _judge(one: ComparedTable) -> str:
    if not one.is_exact and one.source != one.target:
        return ABOUT
    return SAME if one.is_same else DIFFERENT
