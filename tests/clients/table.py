"""Writes the table of docs/clients.md: which client, which version, what the tests show of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from .catalogue import CLIENTS, Shown
from .processes import ROOT
from .reading import Client

PAGE = ROOT / "docs" / "clients.md"
BEGIN = "<!-- written by python -m tests.clients.table -->\n"
END = "<!-- end of what it writes -->\n"
HEAD = "| client | version | used as | what was shown |\n|---|---|---|---|\n"


def shown() -> Iterator[Shown]:
    """Yield what the tests of this package say they show, in their order."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for value in vars(import_module(f"{__package__}.{file.stem}")).values():
            found = getattr(value, "__dict__", {}).get("shown")
            if isinstance(found, Shown):
                yield found


def table() -> str:
    """Write the table."""
    return HEAD + "".join(_row(client, list(shown())) for client in CLIENTS)


def without_versions(text: str) -> str:
    """Leave the versions out: they are those of the machine that wrote the table."""
    return re.sub(r"^(\| [^|]+) \| [^|]+", r"\1", text, flags=re.MULTILINE)


def written(page: str) -> str:
    """Return the table that stands in a page."""
    return page.partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Put the table into the page."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{PAGE} does not have {BEGIN!r} and {END!r}"
    PAGE.write_text(before + begin + table() + end + after)


def _row(client: Client, everything: list[Shown]) -> str:
    forms = ", ".join(f"`{form.name}`" for form in client.forms)
    # Two tests may show the same, each with other forms.
    what = dict.fromkeys(found.what for found in everything if client.name in found.clients)
    return f"| {client.name} | {client.version()} | {forms} | {'; '.join(what)} |\n"


if __name__ == "__main__":
    main()
