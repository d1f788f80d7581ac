"""Whether a database is waited for: not after three failures in a row, until a probe succeeds."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio

MOST_FAILURES = 3
FIRST_PROBE_SECONDS = 0.05
PROBE_SECONDS = 1.0
RETRY_AFTER_SECONDS = 1


class Breaker:
    """Counts failures; from the third one on, it is open."""

    def __init__(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` with a reason when it opens, and with "" when it closes."""
        self._on_change = on_change
        self._failures = 0
        self.reason = ""
        self.back = anyio.Event()
        self.back.set()
        self.opened = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether nobody should wait for the database."""
        return not self.back.is_set()

    def succeed(self) -> None:
        """Note that the database did something."""
        self._failures = 0
        if self.is_open:
            self.reason = ""
            self.opened = anyio.Event()
            self.back.set()
            self._on_change("")

    def fail(self, reason: str) -> None:
        """Note that the database did not answer."""
        self._failures += 1
        if self._failures >= MOST_FAILURES and not self.is_open:
            self.reason = reason
            self.back = anyio.Event()
            self.opened.set()
            self._on_change(reason)


def add_jitter(seconds: float) -> float:
    """Return about as many seconds; processes that lost one server do not come back as one."""
    return seconds * (0.5 + random.random())
