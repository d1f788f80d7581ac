"""Heartbeats for all idle connections, from one timer."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Protocol

import anyio

PATIENCE = 0.05


class Line(Protocol):
    """A client connection that must not stay silent for too long."""

    @property
    def last(self) -> float:
        """When something was last sent."""

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""

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
        while True:
            if not self._heap:
                self._added = anyio.Event()
                await self._added.wait()
            await anyio.sleep(max(0.0, self._heap[0][0] - self._now()))
            await self._look()

    async def _look(self) -> None:
        while self._heap and self._heap[0][0] <= self._now():
            _, number = heapq.heappop(self._heap)
            line = self._lines.get(number)
            if line is not None:
                due = await self._tend(line)
                heapq.heappush(self._heap, (due, number))

    async def _tend(self, line: Line) -> float:
        now = self._now()
        if line.blocked_since is not None and now - line.blocked_since >= self._slow_reader:
            line.give_up()
        elif now - line.last >= self._interval:
            # A full socket must not keep the others waiting; what is not taken is not sent, but
            # tried again: only a beat that passes shows that the client has read on.
            with anyio.move_on_after(PATIENCE):
                await line.beat()
        waited = self._now() - line.last
        return self._now() + max(self._interval - waited, self._interval / 10)
