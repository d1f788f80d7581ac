"""Lines of an answer end between words, however its pieces come."""

from __future__ import annotations

import pytest

from gateway.cli.tables import width
from gateway.cli.wrapping import WordWrap

from .seat import drawn

FOX = "The quick brown fox jumps over the lazy dog."


def screen(pieces: list[str], columns: int) -> list[str]:
    """Draw what is written for pieces of text; a terminal goes back to the left at a line's end."""
    wrap = WordWrap()
    written = "".join(wrap.feed(piece, columns) for piece in pieces)
    return [line.rstrip() for line in drawn(written.replace("\n", "\r\n"))]


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        (FOX, 80, [FOX]),
        (FOX, 20, ["The quick brown fox", "jumps over the lazy", "dog."]),
        (FOX, 12, ["The quick", "brown fox", "jumps over", "the lazy", "dog."]),
        ("one\n\ntwo three", 10, ["one", "", "two three"]),
        ("a " + "x" * 25, 11, ["a", "x" * 10, "x" * 10, "x" * 5]),
        ("今天天气很好，我们去公园。", 11, ["今天天气很", "好，我们去", "公园。"]),
        ("go 公园 now", 8, ["go 公园", "now"]),
        ("a\tb", 20, ["a\tb"]),
        ("ab\tcdef", 10, ["ab", "cdef"]),
        ("cafe\u0301 ole\u0301", 8, ["cafe\u0301", "ole\u0301"]),
    ],
)
def test_no_word_is_broken_that_fits_a_line(text: str, columns: int, lines: list[str]) -> None:
    assert screen([text], columns) == lines
    assert all(width(line) < columns for line in lines if "\t" not in line)


@pytest.mark.parametrize("split", range(len(FOX)))
def test_any_split_gives_the_same_screen(split: int) -> None:
    assert screen([FOX[:split], FOX[split:]], 12) == screen([FOX], 12)


def test_a_word_is_shown_while_it_comes_and_moved_if_it_must() -> None:
    wrap = WordWrap()
    assert [wrap.feed(piece, 10) for piece in ("one ", "tw", "o", " t")] == [
        "one ",
        "tw",
        "o",
        " t",
    ]
    assert wrap.feed("hree", 10) == "\x1b[1D\x1b[K\nthree"
