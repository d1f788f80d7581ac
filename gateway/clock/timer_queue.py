"""All that waits for a time, in one heap, with one task that sleeps until the earliest."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable
from typing import NoReturn, Protocol

import anyio
import anyio.lowlevel

Ring = Callable[[], None]

# So many ring before everybody else has a turn.
BATCH = 64
SLACK = 64
NEVER = 2**62

log = logging.getLogger(__name__)


class Passing(Protocol):
    """Time that passes, and can be waited for."""

    def now_ms(self) -> int:
        """Return the time."""

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or earlier: it is called until the time has come."""


class Alarms:
    """Rings what was set, each once, when the clock shows its time or later.

    Alarms are kept by their time on the clock, which is looked at anew on every waking: a clock
    that is stepped makes them ring sooner or later, and nothing else.
    """

    def __init__(self, clock: Passing) -> None:
        self._clock = clock
        # A cancelled alarm loses its ring at once; its place in the heap goes when it comes up.
        self._heap: list[tuple[int, int]] = []
        self._rings: dict[int, Ring] = {}
        self._next_number = itertools.count()
        self._nap: anyio.CancelScope | None = None
        self._rush: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._rings)

    def __repr__(self) -> str:
        return f"<Alarms {len(self)} set>"

    def now_ms(self) -> int:
        """Return the time they go by."""
        return self._clock.now_ms()

    def set(self, at_ms: int, ring: Ring) -> int:
        """Call `ring` at this time, or soon if it is past; return the number to cancel it by."""
        rings, number = self._rings, next(self._next_number)
        rings[number] = ring
        heapq.heappush(self._heap, (at_ms, number))
        if self._nap is not None and self._heap[0][1] == number:
            self._nap.cancel()
        if len(self._heap) > 2 * len(rings) + SLACK:
            self._tidy()
        return number

    def cancel(self, number: int) -> None:
        """Do not ring, unless that has happened."""
        self._rings.pop(number, None)

    async def run(self) -> NoReturn:
        """Ring for ever."""
        while True:
            while self._ring_some():
                self._rush = self._rush or anyio.Event()
                await anyio.lowlevel.checkpoint()
            if self._rush is not None:
                self._rush.set()
                self._rush = None
            await self._sleep()

    async def calm(self) -> None:
        """Return when no more than a batch is due: what follows from it can wait for the rest."""
        if self._rush is not None:
            await self._rush.wait()

    def _ring_some(self) -> bool:
        """Ring what is due, up to a batch; tell whether there may be more."""
        due = self._take(self._clock.now_ms())
        for number in due:
            # One that rings may have cancelled one that comes after it.
            ring = self._rings.pop(number, None)
            if ring is not None:
                _call(ring)
        return len(due) == BATCH

    def _take(self, now_ms: int) -> list[int]:
        # Taken before the first rings: one that sets itself again must not keep others waiting.
        heap = self._heap
        due: list[int] = []
        while heap and heap[0][0] <= now_ms and len(due) < BATCH:
            due.append(heapq.heappop(heap)[1])
        return due

    async def _sleep(self) -> None:
        while self._heap and self._heap[0][1] not in self._rings:
            heapq.heappop(self._heap)
        try:
            with anyio.CancelScope() as self._nap:
                await self._clock.sleep_until(self._heap[0][0] if self._heap else NEVER)
        finally:
            self._nap = None

    def _tidy(self) -> None:
        self._heap = [place for place in self._heap if place[1] in self._rings]
        heapq.heapify(self._heap)


def _call(ring: Ring) -> None:
    try:
        ring()
    except Exception:
        log.exception("an alarm failed; the others ring")
