"""Waiting for news: who listens now, what wakes them, and what sends them home."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from gateway.errors import Draining, TooMany


class Wakeup:
    """Wakes one who waits for something to happen; what happened before a look is no news."""

    __slots__ = ("_event", "over")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.over = False

    def rouse(self) -> None:
        """Tell that something happened."""
        self._event.set()

    def end(self) -> None:
        """Tell that there is nothing to wait for any more."""
        self.over = True
        self._event.set()

    def look(self) -> None:
        """Begin to look: what happens from now on is news."""
        if self._event.is_set() and not self.over:
            self._event = anyio.Event()

    async def wait(self) -> None:
        """Return when there is news since the last look."""
        await self._event.wait()


class SubscriberLimit:
    """Those who listen now: so many of an owner, and none when the gateway leaves."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._taken: Counter[str] = Counter()
        self._listening: set[Wakeup] = set()
        self.left = anyio.Event()
        """Set when the gateway leaves."""

    def __len__(self) -> int:
        return len(self._listening)

    @contextmanager
    def admit(self, owner: str) -> Iterator[Wakeup]:
        """Listen for a while; raises `TooMany` or `Draining` when that cannot be."""
        if self.left.is_set():
            raise Draining("The gateway is shutting down; try again.", retry_after=1)
        if self._taken[owner] >= self._most:
            message = f"You already have {self._most} {self._what}; end one first."
            raise TooMany(message, retry_after=1)
        wakeup = Wakeup()
        self._taken[owner] += 1
        self._listening.add(wakeup)
        try:
            yield wakeup
        finally:
            self._listening.discard(wakeup)
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]

    def drain(self) -> None:
        """Send all home, and let nobody in any more."""
        self.left.set()
        for wakeup in self._listening:
            wakeup.end()
