"""The time that passes, whatever the clock on the wall is set to."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

LONGEST_SLEEP = 3600.0


class SteadyClock:
    """Counts milliseconds from some instant; nobody can step it."""

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady

    def __repr__(self) -> str:
        return "<SteadyClock>"

    def now_ms(self) -> int:
        """Return how many have passed."""
        return int(self._steady() * 1000)

    async def sleep_until(self, at_ms: int) -> None:
        """Return when so many have passed, or after an hour."""
        left = at_ms / 1000 - self._steady()
        await anyio.sleep(max(0.0, min(left, LONGEST_SLEEP)))
