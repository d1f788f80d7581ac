"""A time limit that costs nothing while all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf


class ReadTimer:
    """Rings when nothing has happened for too long.

    What happens sets `since` and leaves the loop's timer alone; the timer looks at it when it
    fires, and is set anew for the rest. So there is one timer, however many bytes come.
    """

    __slots__ = ("_at", "_limit", "_loop", "_ring", "_timer", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self.since = 0.0
        self._loop = loop
        self._ring = ring
        self._limit = inf
        self._at = inf
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, limit: float) -> None:
        """Begin to wait for something that must happen within so many seconds."""
        self.since = self._loop.time()
        self._limit = limit
        if self.since + limit < self._at:
            self._set(self.since + limit)

    def snooze(self) -> None:
        """Begin the same wait again."""
        self.expect(self._limit)

    def stop(self) -> None:
        """Never ring again, unless something is expected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = inf

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._check)

    def _check(self) -> None:
        self._timer = None
        self._at = inf
        due = self.since + self._limit
        if due <= self._loop.time():
            self._ring()
        else:
            self._set(due)
