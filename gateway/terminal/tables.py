"""Tables for people: columns as wide as what stands in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

GAP = "  "


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows below their headings."""
    lines = [headings, *rows]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell + " " * (most - width(cell)) for cell, most in zip(cells, widths, strict=True))
    return GAP.join(padded).rstrip()


def width(text: str) -> int:
    """Return how many columns a text takes: most Chinese signs take two, an accent none."""
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )


def clipped(text: str, most: int) -> str:
    """Return a text that takes so many columns at most."""
    if width(text) <= most:
        return text
    while width(text) > most - 1:
        text = text[:-1]
    return f"{text.rstrip()}…"
