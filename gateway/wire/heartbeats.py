"""Heartbeats for all idle connections, from one timer."""

from __future__ import annotations

import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel

log = logging.getLogger("holdgate.heartbeats")

PATIENCE = 0.05
# What is due within a tick is tended together: to wake up for each costs more than its beat.
TICK = 0.05
# So many are tended before everybody else has a turn.
BATCH = 16


class HeartbeatTarget(Protocol):
    """A client connection that must not stay silent for too long."""

    @property
    def last(self) -> float:
        """When something was last sent."""

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""

    def send_heartbeat_now(self) -> bool:
        """Send a heartbeat if nothing has to be waited for; tell whether that is done with."""

    async def send_heartbeat(self) -> None:
        """Send a heartbeat, unless something else waits to be sent."""

    def give_up(self) -> None:
        """Treat the client as gone: it does not read."""


OnSent = Callable[[], Awaitable[None]]


class ObservedTarget:
    """A target of whose heartbeats somebody wants to hear; all others pay nothing for that."""

    __slots__ = ("_on_sent", "_target")

    def __init__(self, target: HeartbeatTarget, on_sent: OnSent) -> None:
        self._target = target
        self._on_sent = on_sent

    @property
    def last(self) -> float:
        """When something was last sent."""
        return self._target.last

    @property
    def blocked_since(self) -> float | None:
        """Since when a send has been waiting for the client to read, if one is."""
        return self._target.blocked_since

    def send_heartbeat_now(self) -> bool:
        """Decline: whoever hears of it may have to be waited for."""
        return False

    async def send_heartbeat(self) -> None:
        """Send a heartbeat, and tell of it if one was sent."""
        before = self._target.last
        await self._target.send_heartbeat()
        if self._target.last != before:
            try:
                await self._on_sent()
            except Exception as error:
                # One task beats for all clients: a fault of one observer must not end it.
                log.exception("an observer of heartbeats failed", exc_info=error)

    def give_up(self) -> None:
        """Treat the client as gone."""
        self._target.give_up()


class Heartbeats:
    """Keeps idle targets alive and ends those that never read; one heap, one sleeping task."""

    def __init__(self, interval: float, slow_reader: float, now: Callable[[], float]) -> None:
        self._interval = interval
        self._slow_reader = slow_reader
        self._now = now
        self._heap: list[tuple[float, int]] = []
        self._targets: dict[int, HeartbeatTarget] = {}
        self._numbers: dict[HeartbeatTarget, int] = {}
        self._next_number = itertools.count()
        self._added = anyio.Event()

    def __len__(self) -> int:
        return len(self._targets)

    def add(self, target: HeartbeatTarget, on_sent: OnSent | None = None) -> None:
        """Begin to look after a target; `on_sent` is awaited after each heartbeat it was sent."""
        number = self._numbers.get(target)
        if number is not None:
            if on_sent is not None:
                self._targets[number] = ObservedTarget(target, on_sent)
            return
        number = next(self._next_number)
        self._numbers[target] = number
        self._targets[number] = target if on_sent is None else ObservedTarget(target, on_sent)
        heapq.heappush(self._heap, (self._now() + self._interval, number))
        self._added.set()

    def remove(self, target: HeartbeatTarget) -> None:
        """Stop looking after a target; only its number stays in the heap until it is due."""
        number = self._numbers.pop(target, None)
        if number is not None:
            del self._targets[number]

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
        """Do what is due for a target; False when that takes waiting for its client."""
        target = self._targets.get(number)
        if target is None:
            return True
        now = self._now()
        if target.blocked_since is not None and now - target.blocked_since >= self._slow_reader:
            target.give_up()
        elif now - target.last >= self._interval and not target.send_heartbeat_now():
            return False
        self._come_again(target, number)
        return True

    async def _wait_for(self, numbers: list[int]) -> None:
        while numbers:
            # A full socket must not keep the others waiting; what is not taken is not sent, but
            # tried again: only a beat that passes shows that the client has read on.
            with anyio.move_on_after(PATIENCE):
                while numbers:
                    number = numbers.pop()
                    target = self._targets.get(number)
                    if target is None:
                        continue
                    try:
                        await target.send_heartbeat()
                    finally:
                        self._come_again(target, number)

    def _come_again(self, target: HeartbeatTarget, number: int) -> None:
        now = self._now()
        due = now + max(self._interval - (now - target.last), self._interval / 10)
        heapq.heappush(self._heap, (due, number))
