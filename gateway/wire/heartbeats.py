"""Heartbeats for all idle connections, from one timer."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

import anyio
import anyio.lowlevel

PATIENCE = 0.05
# What is due within a tick is tended together: to wake up for each costs more than its beat.
TICK = 0.05
# So many are tended before everybody else has a turn.
BATCH = 16


class Line(Protocol):
    """A client connection that must not stay silent for too long."""

    @property
    def last(self) -> float:
        """When something was last sent."""

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""

    def beat_at_once(self) -> bool:
        """Send a heartbeat if nothing has to be waited for; tell whether that is done with."""

    async def beat(self) -> None:
        """Send a heartbeat, unless something else waits to be sent."""

    def give_up(self) -> None:
        """Treat the client as gone: it does not read."""


class Beats:
    """Keeps idle lines alive and ends those that never read; one heap, one sleeping task."""

    def __init__(self, interval: float, slow_reader: float, now: Callable[[], float]) -> None:
        self._interval = interval
        self._slow_reader = slow_reader
        self._now = now
        self._heap: list[tuple[float, int]] = []
        self._lines: dict[int, Line] = {}
        self._numbers: dict[Line, int] = {}
        self._next_number = itertools.count()
        self._added = anyio.Event()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: Line) -> None:
        """Begin to look after a line."""
        if line in self._numbers:
            return
        number = next(self._next_number)
        self._numbers[line] = number
        self._lines[number] = line
        heapq.heappush(self._heap, (self._now() + self._interval, number))
        self._added.set()

    def remove(self, line: Line) -> None:
        """Stop looking after a line; only its number stays in the heap until it is due."""
        number = self._numbers.pop(line, None)
        if number is not None:
            del self._lines[number]

    async def run(self) -> None:
        """Beat for ever."""
        tick = min(TICK, self._interval / 10)
        while True:
            if not self._heap:
                self._added = anyio.Event()
                await self._added.wait()
            await anyio.sleep(max(tick, self._heap[0][0] - self._now()))
            while due := self._due():
                slow = [number for number in due if not self._tend(number)]
                await self._wait_for(slow[::-1])
                await anyio.lowlevel.checkpoint()

    def _due(self) -> list[int]:
        """Take the numbers that are due, up to a batch."""
        now = self._now()
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now and len(due) < BATCH:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def _tend(self, number: int) -> bool:
        """Do what is due for a line; False when that takes waiting for its client."""
        line = self._lines.get(number)
        if line is None:
            return True
        now = self._now()
        if line.blocked_since is not None and now - line.blocked_since >= self._slow_reader:
            line.give_up()
        elif now - line.last >= self._interval and not line.beat_at_once():
            return False
        self._come_again(line, number)
        return True

    async def _wait_for(self, numbers: list[int]) -> None:
        while numbers:
            # A full socket must not keep the others waiting; what is not taken is not sent, but
            # tried again: only a beat that passes shows that the client has read on.
            with anyio.move_on_after(PATIENCE):
                while numbers:
                    number = numbers.pop()
                    line = self._lines.get(number)
                    if line is not None:
                        await self._beat(line, number)

    async def _beat(self, line: Line, number: int) -> None:
        try:
            await line.beat()
        finally:
            self._come_again(line, number)

    def _come_again(self, line: Line, number: int) -> None:
        now = self._now()
        due = now + max(self._interval - (now - line.last), self._interval / 10)
        heapq.heappush(self._heap, (due, number))
