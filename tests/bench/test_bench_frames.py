"""Frames are counted alike however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.frames import FrameCounter

STREAM = b'data: {"a":1}\n\n: note\n\ndata: two\ndata: lines\n\ndata: [DONE]\n\n'


def count(*pieces: bytes) -> FrameCounter:
    counter = FrameCounter()
    for piece in pieces:
        counter.feed(piece)
    return counter


@pytest.mark.parametrize("split", range(len(STREAM) + 1))
def test_any_split_gives_the_same_count(split: int) -> None:
    counter = count(STREAM[:split], STREAM[split:])
    assert (counter.frames, counter.done) == (4, True)


def test_byte_by_byte() -> None:
    counter = count(*(STREAM[n : n + 1] for n in range(len(STREAM))))
    assert (counter.frames, counter.done) == (4, True)


@pytest.mark.parametrize(
    "stream, frames, done",
    [
        (b"", 0, False),
        (b"data: half", 0, False),
        (b"data: half\n", 0, False),
        (b"data: one\n\n", 1, False),
        (b"data: [DONE]\n\n", 1, True),
        (b"data: [DONE]\n", 0, False),
        (b"data: [DONE]\n\ndata: more\n\n", 2, False),
        (b"\n\n\n\n", 2, False),
    ],
)
def test_cases(stream: bytes, frames: int, done: bool) -> None:
    counter = count(stream)
    assert (counter.frames, counter.done) == (frames, done)


@given(st.lists(st.text("a\n", max_size=20).map(str.encode)))
def test_pieces_count_as_the_whole(pieces: list[bytes]) -> None:
    assert count(*pieces).frames == b"".join(pieces).count(b"\n\n")
