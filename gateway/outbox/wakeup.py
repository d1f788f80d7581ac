"""Wakes waiting readers, and limits how many of them each owner may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from gateway.errors import Draining, TooMany


class Wakeup:
    """Wakes one waiter; what happened before its last `look` does not wake it."""

    __slots__ = ("_event", "over")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self.over = False

    def rouse(self) -> None:
        """Wake the waiter: something happened."""
        self._event.set()

    def end(self) -> None:
        """Wake the waiter for the last time."""
        self.over = True
        self._event.set()

    def look(self) -> None:
        """Start a new look: what happens from now on wakes the waiter."""
        if self._event.is_set() and not self.over:
            self._event = anyio.Event()

    async def wait(self) -> None:
        """Wait until something happened since the last look."""
        await self._event.wait()


class SubscriberLimit:
    """The current subscribers: a limited number for each owner, none during shutdown."""

    def __init__(self, most: int, what: str) -> None:
        self.most = most
        """How many an owner may have; those that are there stay when it is lowered."""
        self._what = what
        self._taken: Counter[str] = Counter()
        self._listening: set[Wakeup] = set()
        self.left = anyio.Event()
        """Set when the gateway shuts down."""

    def __len__(self) -> int:
        return len(self._listening)

    @property
    def most_taken(self) -> int:
        """How many the owner has who has most."""
        return max(self._taken.values(), default=0)

    @contextmanager
    def admit(self, owner: str) -> Iterator[Wakeup]:
        """Admit a subscriber for a `with` block; raise `TooMany` or `Draining` if not possible."""
        if self.left.is_set():
            raise Draining("The gateway is shutting down; try again.", retry_after=1)
        if self._taken[owner] >= self.most:
            message = f"You already have {self.most} {self._what}; end one first."
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
        """End all subscribers, and admit no new ones."""
        self.left.set()
        for wakeup in self._listening:
            wakeup.end()
