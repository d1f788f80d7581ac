"""Manners: the same beats, looking different."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.demo.orders import Break, Orders
from gateway.demo.output import Output, ResponseHead, apply_format

HEAD = ResponseHead(200, (("content-type", "text/event-stream"),))
BEATS: list[Output] = [HEAD, b"ab\n", 0.5, b"cdefg\n"]

MANNERS: dict[str, tuple[Orders, list[Output]]] = {
    "none": (Orders(), BEATS),
    "crlf": (Orders(crlf=True), [HEAD, b"ab\r\n", 0.5, b"cdefg\r\n"]),
    "bom": (Orders(bom=True), [HEAD, b"\xef\xbb\xbf", b"ab\n", 0.5, b"cdefg\n"]),
    "split": (
        Orders(split=2),
        [HEAD, b"ab", 0.0, b"\n", 0.5, b"cd", 0.0, b"ef", 0.0, b"g\n", 0.0],
    ),
    "reset in the middle": (Orders(reset_at=5), [HEAD, b"ab\n", 0.5, b"cd", Break("reset")]),
    "reset at once": (Orders(reset_at=0), [HEAD, b"", Break("reset")]),
    "reset too late": (Orders(reset_at=99), BEATS),
    "reset in pieces": (
        Orders(reset_at=4, split=3),
        [HEAD, b"ab\n", 0.0, 0.5, b"c", Break("reset")],
    ),
    "headers": (
        Orders(content_type="a/b", header=(("x", "1"), ("x", "2"))),
        [ResponseHead(200, (("content-type", "a/b"), ("x", "1"), ("x", "2"))), *BEATS[1:]],
    ),
}


@pytest.mark.parametrize("name", MANNERS)
def test_manner(name: str) -> None:
    orders, expected = MANNERS[name]
    assert list(apply_format(iter(BEATS), orders)) == expected


def test_each_compressed_beat_can_be_read_when_it_comes() -> None:
    head, first, wait, second, end = apply_format(iter(BEATS), Orders(gzip=True))
    assert head == ResponseHead(200, (*HEAD.headers, ("content-encoding", "gzip")))
    assert wait == 0.5
    assert isinstance(first, bytes)
    assert isinstance(second, bytes)
    assert isinstance(end, bytes)
    assert zlib.decompressobj(wbits=31).decompress(first) == b"ab\n"
    assert gzip.decompress(first + second + end) == b"ab\ncdefg\n"


def test_a_broken_answer_has_no_compressed_end() -> None:
    *_, body, last = apply_format(iter([HEAD, b"ab", Break("close")]), Orders(gzip=True))
    assert last == Break("close")
    assert isinstance(body, bytes)
    unpacker = zlib.decompressobj(wbits=31)
    assert (unpacker.decompress(body), unpacker.eof) == (b"ab", False)


@given(st.lists(st.binary()), st.integers(1, 9))
def test_any_split_keeps_the_bytes(body: list[bytes], size: int) -> None:
    pieces = [b for b in apply_format(iter(body), Orders(split=size)) if isinstance(b, bytes)]
    assert b"".join(pieces) == b"".join(body)
    assert all(len(piece) == size for piece in pieces[:-1])
