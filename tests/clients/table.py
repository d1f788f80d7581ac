"""Writes the table of docs/clients.md: which client, which version, what the tests show of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from tests.run import ROOT

from .catalogue import CHAT_SPEAKERS, CLIENTS, Shown
from .reading import Client
from .speakers import CHAT, SPEAKERS, TITLES, Speaker

PAGE = ROOT / "docs" / "clients.md"
BEGIN = "<!-- written by python -m tests.clients.table -->\n"
END = "<!-- end of what it writes -->\n"
HEAD = (
    "| client | version | speaks | used as | upstreams speak | what was shown |\n"
    "|---|---|---|---|---|---|\n"
)


def shown() -> Iterator[Shown]:
    """Yield what the tests of this package say they show, in their order."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        for name, value in vars(import_module(f"{__package__}.{file.stem}")).items():
            if name.startswith("test_"):
                yield from getattr(value, "shown", ())


def table() -> str:
    """Write the table."""
    everything = list(shown())
    chat = [_chat_row(client, everything) for client in CLIENTS]
    others = [_row(speaker, everything) for speaker in (*CHAT_SPEAKERS, *SPEAKERS)]
    return HEAD + "".join(chat + others)


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


def _chat_row(client: Client, everything: list[Shown]) -> str:
    forms = [form.name for form in client.forms]
    told = _told(client.name, everything)
    return _cells(client.name, client.version(), TITLES[CHAT], _code(forms), TITLES[CHAT], told)


def _row(speaker: Speaker, everything: list[Shown]) -> str:
    return _cells(
        speaker.name,
        speaker.version(),
        TITLES[speaker.speaks],
        _code(speaker.forms),
        "any of the three",
        _told(speaker, everything),
    )


def _told(who: str | Speaker, everything: list[Shown]) -> str:
    """Say what was shown of a client; two tests may show the same, each with other forms."""
    return "; ".join(dict.fromkeys(found.what for found in everything if who in found.clients))


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
