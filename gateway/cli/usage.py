"""`holdgate usage`: tokens and costs as a table, over the gateway's own HTTP API."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any

import msgspec

from gateway.cli.client import CONTROLS, CommandFailed, connect, decode, reason
from gateway.cli.tables import fit_table, table

SECONDS = 30.0
PATH = "/api/usage"
GROUPS = ("owner", "model", "upstream", "hour")
# The API speaks of its parameters; who typed a command knows its options.
OPTIONS = {"from": "--from", "to": "--to", "group_by": "--group-by", "owner": "--owner"}
NUMBERS = {
    "EXCHANGES": "exchanges",
    "TURNS": "turns",
    "REPORTED": "reported_turns",
    "INPUT": "input_tokens",
    "CACHED": "cached_tokens",
    "OUTPUT": "output_tokens",
    "REASONING": "reasoning_tokens",
}
COST = "COST USD"
NO_COST = "-"

UsageFields = dict[str, Any]


class _BudgetUse(msgspec.Struct):
    limit: float
    spent: float
    unit: str
    resets_at: str


class _Report(msgspec.Struct, rename={"from_time": "from"}):
    data: list[UsageFields]
    from_time: str
    to: str
    budget: _BudgetUse | None = None


def add_usage_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `holdgate usage`."""
    parser.add_argument(
        "--from",
        metavar="TIME",
        help="2026-11-01 or 2026-11-01T09:00:00Z; else the first of this month (UTC)",
    )
    parser.add_argument("--to", metavar="TIME", help="until before this time; else until now")
    parser.add_argument(
        "--group-by",
        metavar="WHAT",
        help=f"one or more of {', '.join(GROUPS)}, separated by commas",
    )
    parser.add_argument("--owner", metavar="O", help="only this owner's, with an admin's key")


def show_usage(url: str, key: str, given: argparse.Namespace) -> None:
    """Ask for usage and show it; raise `CommandFailed`."""
    options = vars(given)
    asked = {name: str(options[name]) for name in OPTIONS if options[name]}
    with connect(url, key, {}, SECONDS) as client:
        answer = client.get(PATH, params=asked)
    if answer.status_code != 200:
        raise CommandFailed(_name_options(reason(answer)))
    report = decode(answer.content, _Report, url)
    if given.json:
        text = msgspec.json.format(answer.content, indent=2).decode()
    else:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        text = f"{report.from_time} to {report.to}\n{write_usage(report.data, columns)}"
        if report.budget is not None:
            text += f"\n{_write_budget(report.budget)}"
    print(CONTROLS.sub("", text), flush=True)


def write_usage(data: list[UsageFields], columns: int | None) -> str:
    """Write usage as a table, a line for each group; numbers stand below each other."""
    if not data:
        return "Nothing was used."
    groups = [name for name in GROUPS if name in data[0]]
    headings = [name.upper() for name in groups]
    rows = [[str(one[name]) for name in groups] for one in data]
    numbers = {heading: [f"{one[name]:,}" for one in data] for heading, name in NUMBERS.items()}
    if any(one["cost_usd"] is not None for one in data):
        numbers[COST] = [_write_cost(one["cost_usd"]) for one in data]
    for heading, cells in numbers.items():
        widest = max(map(len, (heading, *cells)))
        headings.append(heading.rjust(widest))
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell.rjust(widest))
    fitted = None if columns is None else fit_table(headings, rows, columns, ("OWNER", "MODEL"))
    return fitted or table(headings, rows)


def _write_cost(cost: float | None) -> str:
    return NO_COST if cost is None else f"{cost:,.6f}"


def _write_budget(budget: _BudgetUse) -> str:
    """Say how much of a budget is spent now, whatever time was asked for."""
    spent, limit = (
        f"{number:,.6f}".rstrip("0").rstrip(".") for number in (budget.spent, budget.limit)
    )
    again = f"the budget begins again at {budget.resets_at}."
    return f"{spent} of {limit} {budget.unit} are spent; {again}"


def _name_options(sentence: str) -> str:
    """Write a sentence about parameters of the API as one about the options of the command."""
    first, _, rest = sentence.partition(" ")
    return f"{OPTIONS.get(first, first)} {rest}"
