"""Beats: what goes over the wire, and when.

A beat is bytes to write, seconds to wait, the head of an answer, or a break. A manner changes the
beats of any answer, whatever they say.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

from gateway.demo.script import Break, WireFormat

Headers = tuple[tuple[str, str], ...]
BOM = b"\xef\xbb\xbf"
GZIP = 31


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The status and headers of an answer; without a length the body comes in chunks."""

    status: int
    headers: Headers
    length: int | None = None


Output = bytes | float | ResponseHead | Break
Outputs = Iterator[Output]


def apply_format(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Change beats as a manner wants them; most answers are left alone."""
    if wire_format == PLAIN:
        return beats
    changes = (change_headers, change_line_ends, add_bom, compress, cut, split)
    return reduce(lambda beats, change: change(beats, wire_format), changes, beats)


PLAIN = WireFormat()


def change_headers(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Change the headers."""
    for beat in beats:
        yield change_head(beat, wire_format) if isinstance(beat, ResponseHead) else beat


def change_head(head: ResponseHead, wire_format: WireFormat) -> ResponseHead:
    """Return a head with other headers."""
    headers = dict(head.headers)
    if wire_format.content_type is not None:
        headers["content-type"] = wire_format.content_type
    if not wire_format.gzip:
        return replace(head, headers=(*headers.items(), *wire_format.headers))
    headers["content-encoding"] = "gzip"
    return ResponseHead(head.status, (*headers.items(), *wire_format.headers))


def change_line_ends(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """End lines differently; within a frame's JSON there are no line ends."""
    for beat in beats:
        yield beat.replace(b"\n", wire_format.newline) if isinstance(beat, bytes) else beat


def add_bom(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Put a byte order mark first."""
    for beat in beats:
        yield beat
        if wire_format.bom and isinstance(beat, ResponseHead):
            yield BOM


def compress(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Compress the body, each beat to its end, so that nothing waits for the next."""
    if not wire_format.gzip:
        yield from beats
        return
    packer = zlib.compressobj(wbits=GZIP)
    for beat in beats:
        if isinstance(beat, bytes):
            yield packer.compress(beat) + packer.flush(zlib.Z_SYNC_FLUSH)
            continue
        yield beat
        if isinstance(beat, Break):
            return
    yield packer.flush()


def cut(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Reset the connection after so many bytes of the body."""
    left = wire_format.reset_at
    for beat in beats:
        if left is None or not isinstance(beat, bytes):
            yield beat
            continue
        yield beat[:left]
        left -= len(beat)
        if left <= 0:
            yield Break("reset")
            return


def split(beats: Outputs, wire_format: WireFormat) -> Outputs:
    """Give the bytes in pieces of one size, each with a chance to leave before the next."""
    rest = b""
    for beat in beats:
        if not wire_format.split or not isinstance(beat, bytes):
            yield from (rest, beat) if rest else (beat,)
            rest = b""
            continue
        rest += beat
        whole = len(rest) - len(rest) % wire_format.split
        for at in range(0, whole, wire_format.split):
            yield rest[at : at + wire_format.split]
            yield 0.0
        rest = rest[whole:]
    if rest:
        yield rest
