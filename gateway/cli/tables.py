"""Tables for people: columns as wide as what stands in them, or as the terminal allows."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Sequence

GAP = "  "
NARROWEST = 6


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows below their headings."""
    lines = [headings, *rows]
    return _write(lines, _widths(lines))


def fit_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], most: int, elastic: Collection[str]
) -> str | None:
    """Write rows that fit, with elastic columns cut; None if that is not enough."""
    lines = [headings, *rows]
    widths = _widths(lines)
    cuttable = [number for number, heading in enumerate(headings) if heading in elastic]
    while sum(widths) + len(GAP) * (len(widths) - 1) > most:
        widest = max(cuttable, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= NARROWEST:
            return None
        widths[widest] -= 1
    return _write(lines, widths)


def _widths(lines: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*lines, strict=True)]


def _write(lines: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    cut = [clip(cell, most) for cell, most in zip(cells, widths, strict=True)]
    padded = (cell + " " * (most - width(cell)) for cell, most in zip(cut, widths, strict=True))
    return GAP.join(padded).rstrip()


def width(text: str) -> int:
    """Return how many columns a text takes: most Chinese signs take two, an accent none."""
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )


def clip(text: str, most: int) -> str:
    """Return a text that takes so many columns at most."""
    if width(text) <= most:
        return text
    while width(text) > most - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"


def join_names(names: Sequence[str], most: int) -> str:
    """Write names in one line; of many only the first."""
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])
