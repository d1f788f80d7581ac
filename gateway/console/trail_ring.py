"""The exchanges that ended lately, packed in batches.

A trail is a few dozen objects. Thousands of them would fill the processor's caches, and every
request would become dearer. So a batch of them is written as one value, which costs less than one
by one, and is read again for whoever looks.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec

from gateway.exchange.exchange_totals import limit_usage
from gateway.exchange.machine import State
from gateway.exchange.model import Route, Stop, Usage
from gateway.exchange.trail import LONGEST_NAME, ROUTE_FAILED, TURN_ENDED, Trail, TrailStep

MOST_ENDED = 2000
MOST_BYTES = 7 * 512 * 1024
AT_ONCE = 32
# Of a trail; more are needed if something in it is very long.
USUAL_BYTES = 1024


class TrailBatch(msgspec.Struct, array_like=True, gc=False):
    """Trails that were packed together."""

    since_ms: float
    """What makes UTC milliseconds of a time by the clock of exchanges."""
    trails: list[Trail]


class TrailRing:
    """Keeps the newest trails of exchanges that ended."""

    def __init__(self, now: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._now = now
        self._now_ms = now_ms
        self._fresh: list[Trail] = []
        self._batches: deque[tuple[int, bytes]] = deque()
        self._kept = 0
        self._bytes = 0
        self._packed_count = 0

    def __repr__(self) -> str:
        return f"<TrailRing {self._kept + len(self._fresh)} trails>"

    @property
    def count(self) -> int:
        """How many were kept since the process began."""
        return self._packed_count + len(self._fresh)

    def keep(self, trail: Trail) -> None:
        """Keep a trail whose exchange has ended."""
        fresh = self._fresh
        fresh.append(trail)
        if len(fresh) >= AT_ONCE:
            self._pack_fresh()

    def read(self, newest: int = MOST_ENDED, name: str = "") -> Iterator[Trail]:
        """Yield the newest trails, the last first; with a name, at least those it occurs in."""
        self._pack_fresh()
        return islice(self._read_all(name), min(newest, MOST_ENDED))

    def _read_all(self, name: str) -> Iterator[Trail]:
        part = name.encode(errors="replace")
        for _, packed in tuple(reversed(self._batches)):
            if part in packed:
                yield from reversed(unpack_trails(packed))

    def _pack_fresh(self) -> None:
        fresh, self._fresh = self._fresh, []
        if not fresh:
            return
        packed = pack_trails(fresh, self._now_ms() - self._now() * 1000)
        self._batches.append((len(fresh), packed))
        self._packed_count += len(fresh)
        self._kept += len(fresh)
        self._bytes += len(packed)
        while self._kept - self._batches[0][0] >= MOST_ENDED or self._bytes > MOST_BYTES:
            count, packed = self._batches.popleft()
            self._kept -= count
            self._bytes -= len(packed)


def pack_trails(trails: list[Trail], since_ms: float) -> bytes:
    """Write trails as bytes."""
    batch = TrailBatch(since_ms, trails)
    try:
        packed = ENCODER.encode(batch)
    except (OverflowError, UnicodeEncodeError):
        # An upstream may report any number, and call a tool anything.
        packed = b""
    if packed and len(packed) <= len(trails) * USUAL_BYTES:
        return packed
    for trail in trails:
        _limit(trail)
    return ENCODER.encode(batch)


def unpack_trails(packed: bytes) -> list[Trail]:
    """Read trails."""
    batch = DECODER.decode(packed)
    for trail in batch.trails:
        trail.steps = [_restore_step(*step) for step in trail.steps]
        # An earlier look may have set it.
        trail.begun_at = trail.begun_at or int(batch.since_ms + trail.begun * 1000)
    return batch.trails


def _limit(trail: Trail) -> None:
    """Bring numbers and names of a trail into a form that can be written, and is not long."""
    trail.pack()
    trail.names = tuple([_limit_name(str(name)) for name in trail.names])
    ended = trail.ended
    if ended is not None:
        info = msgspec.structs.replace(ended.info, model=_limit_name(ended.info.model))
        usage = None if ended.usage is None else limit_usage(ended.usage)
        trail.ended = msgspec.structs.replace(ended, info=info, usage=usage)


def _limit_name(name: str) -> str:
    return name[:LONGEST_NAME].encode(errors="replace").decode()


def _restore_step(at: float, what: str | int, *values: Any) -> TrailStep:
    if isinstance(what, str):
        return at, State(what)
    if what == TURN_ENDED:
        stop, size, usage, route = values
        tokens = msgspec.convert(usage, Usage | None)
        return at, what, Stop(stop), size, tokens, msgspec.convert(route, Route)
    if what == ROUTE_FAILED:
        route, *others = values
        return at, what, route and msgspec.convert(route, Route), *others
    return at, what, *values


def _pack_numbers(numbers: object) -> bytes:
    assert isinstance(numbers, array)
    return numbers.tobytes()


def _unpack_numbers(kind: object, packed: bytes) -> array[int]:
    return array("I", packed)


ENCODER = msgspec.msgpack.Encoder(enc_hook=_pack_numbers)
DECODER = msgspec.msgpack.Decoder(TrailBatch, dec_hook=_unpack_numbers)
