"""Beats: what goes over the wire, and when.

A beat is bytes to write, seconds to wait, the head of an answer, or a break. A manner changes the
beats of any answer, whatever they say.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

from gateway.demo.steps import Break, Manner

Headers = tuple[tuple[str, str], ...]
BOM = b"\xef\xbb\xbf"
GZIP = 31


@dataclass(frozen=True, slots=True)
class Head:
    """The status and headers of an answer; without a length the body comes in chunks."""

    status: int
    headers: Headers
    length: int | None = None


Beat = bytes | float | Head | Break
Beats = Iterator[Beat]


def mannered(beats: Beats, manner: Manner) -> Beats:
    """Change beats as a manner wants them; most answers are left alone."""
    if manner == PLAIN:
        return beats
    changes = (titled, ended_lines, marked, zipped, cut, split)
    return reduce(lambda beats, change: change(beats, manner), changes, beats)


PLAIN = Manner()


def titled(beats: Beats, manner: Manner) -> Beats:
    """Change the headers."""
    for beat in beats:
        yield retitled(beat, manner) if isinstance(beat, Head) else beat


def retitled(head: Head, manner: Manner) -> Head:
    """Return a head with other headers."""
    headers = dict(head.headers)
    if manner.content_type is not None:
        headers["content-type"] = manner.content_type
    if not manner.gzip:
        return replace(head, headers=(*headers.items(), *manner.headers))
    headers["content-encoding"] = "gzip"
    return Head(head.status, (*headers.items(), *manner.headers))


def ended_lines(beats: Beats, manner: Manner) -> Beats:
    """End lines differently; within a frame's JSON there are no line ends."""
    for beat in beats:
        yield beat.replace(b"\n", manner.newline) if isinstance(beat, bytes) else beat


def marked(beats: Beats, manner: Manner) -> Beats:
    """Put a byte order mark first."""
    for beat in beats:
        yield beat
        if manner.bom and isinstance(beat, Head):
            yield BOM


def zipped(beats: Beats, manner: Manner) -> Beats:
    """Compress the body, each beat to its end, so that nothing waits for the next."""
    if not manner.gzip:
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


def cut(beats: Beats, manner: Manner) -> Beats:
    """Reset the connection after so many bytes of the body."""
    left = manner.reset_at
    for beat in beats:
        if left is None or not isinstance(beat, bytes):
            yield beat
            continue
        yield beat[:left]
        left -= len(beat)
        if left <= 0:
            yield Break("reset")
            return


def split(beats: Beats, manner: Manner) -> Beats:
    """Give the bytes in pieces of one size, each with a chance to leave before the next."""
    rest = b""
    for beat in beats:
        if not manner.split or not isinstance(beat, bytes):
            yield from (rest, beat) if rest else (beat,)
            rest = b""
            continue
        rest += beat
        whole = len(rest) - len(rest) % manner.split
        for at in range(0, whole, manner.split):
            yield rest[at : at + manner.split]
            yield 0.0
        rest = rest[whole:]
    if rest:
        yield rest
