"""All that waits for a time, in one heap, with one task that sleeps until the earliest.

A timer is kept by its time on the clock, not by a delay: the clock is looked at anew on every
waking, so a clock that is stepped makes timers go off sooner or later and does nothing else.
`_heap` orders the numbers of timers, `_callbacks` says which of them still count. To cancel only
drops the callback; the number stays in the heap until it comes up, or until dead numbers outweigh
the living ones and `_tidy` builds the heap anew. Everything happens on one event loop: there is no
lock, and callbacks must not wait.
"""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Callable
from typing import NoReturn, Protocol

import anyio
import anyio.lowlevel

Callback = Callable[[], None]

# So many go off before everybody else has a turn.
BATCH = 64
SLACK = 64
NEVER = 2**62

log = logging.getLogger(__name__)


class TimeSource(Protocol):
    """Time that passes, and can be waited for."""

    def now_ms(self) -> int:
        """Return the time."""

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or earlier: it is called until the time has come."""


class TimerQueue:
    """Calls back what was set, each once, when the clock shows its time or later."""

    def __init__(self, clock: TimeSource) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int]] = []
        self._callbacks: dict[int, Callback] = {}
        self._next_number = itertools.count()
        self._nap: anyio.CancelScope | None = None
        self._rush: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._callbacks)

    def __repr__(self) -> str:
        return f"<TimerQueue {len(self)} set>"

    def now_ms(self) -> int:
        """Return the time they go by."""
        return self._clock.now_ms()

    def call_at(self, at_ms: int, callback: Callback) -> int:
        """Call back at this time, or soon if it is past; return the number to cancel it by."""
        callbacks, number = self._callbacks, next(self._next_number)
        callbacks[number] = callback
        heapq.heappush(self._heap, (at_ms, number))
        # Whoever is the earliest now ends the sleep that was meant for another.
        if self._nap is not None and self._heap[0][1] == number:
            self._nap.cancel()
        if len(self._heap) > 2 * len(callbacks) + SLACK:
            self._tidy()
        return number

    def cancel(self, number: int) -> None:
        """Do not call back, unless that has happened."""
        self._callbacks.pop(number, None)

    async def run(self) -> NoReturn:
        """Call back for ever."""
        while True:
            while self._call_some():
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

    def _call_some(self) -> bool:
        """Call back what is due, up to a batch; tell whether there may be more."""
        heap, now_ms = self._heap, self._clock.now_ms()
        # Taken before the first call: one that sets itself again must not keep others waiting.
        due: list[int] = []
        while heap and heap[0][0] <= now_ms and len(due) < BATCH:
            due.append(heapq.heappop(heap)[1])
        for number in due:
            # One that was called may have cancelled one that comes after it.
            callback = self._callbacks.pop(number, None)
            if callback is not None:
                try:
                    callback()
                except Exception:
                    log.exception("a timer's callback failed; the other timers go on")
        return len(due) == BATCH

    async def _sleep(self) -> None:
        while self._heap and self._heap[0][1] not in self._callbacks:
            heapq.heappop(self._heap)
        try:
            with anyio.CancelScope() as self._nap:
                await self._clock.sleep_until(self._heap[0][0] if self._heap else NEVER)
        finally:
            self._nap = None

    def _tidy(self) -> None:
        self._heap = [place for place in self._heap if place[1] in self._callbacks]
        heapq.heapify(self._heap)
