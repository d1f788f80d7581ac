"""The inflater: any split of the input gives the same bytes, none of them at once."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamBroke
from gateway.wire.http_client.responses import PIECE, Inflater

GZIP = 31
TEXT = b"data: a frame, and another one\n\n" * 20

FORMS = {
    "gzip": (GZIP, gzip.compress(TEXT)),
    "deflate": (None, zlib.compress(TEXT)),
    "raw deflate": (None, zlib.compress(TEXT, wbits=-15)),
    "members": (GZIP, gzip.compress(b"") + gzip.compress(TEXT[:50]) + gzip.compress(TEXT[50:])),
}


def inflated(wbits: int | None, *inputs: bytes) -> bytes:
    inflater = Inflater(wbits)
    seen = b""
    for data in inputs:
        inflater.feed(data)
        while piece := inflater.step():
            assert len(piece) <= PIECE
            seen += piece
    inflater.end()
    return seen


@pytest.mark.parametrize("wbits, data", FORMS.values(), ids=FORMS.keys())
def test_any_split_gives_the_same_bytes(wbits: int | None, data: bytes) -> None:
    for at in range(len(data) + 1):
        assert inflated(wbits, data[:at], data[at:]) == TEXT
    assert inflated(wbits, *[bytes([byte]) for byte in data]) == TEXT


@pytest.mark.parametrize("wbits, data", FORMS.values(), ids=FORMS.keys())
def test_an_end_in_the_middle_is_an_error(wbits: int | None, data: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        inflated(wbits, data[:-1])


def test_nothing_at_all_is_nothing() -> None:
    assert inflated(GZIP) == b""


@pytest.mark.parametrize("length", [PIECE - 1, PIECE, PIECE + 1, 5 * PIECE])
def test_a_step_is_never_longer_than_a_piece(length: int) -> None:
    assert inflated(GZIP, gzip.compress(bytes(length)) * 2) == bytes(2 * length)


@given(st.binary(max_size=200))
def test_garbage_is_broken_or_read_and_never_anything_else(data: bytes) -> None:
    for wbits in (GZIP, None):
        try:
            inflated(wbits, data)
        except UpstreamBroke:
            continue
