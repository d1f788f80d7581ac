"""A clock that stands still until it is told otherwise."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from gateway.clock.protocol import DISABLED, NtpState


class ManualClock:
    """Shows the time it was set to; whoever sleeps wakes when that time has come."""

    def __init__(self, start_ms: int, ntp: NtpState = DISABLED) -> None:
        self.ntp = ntp
        self._now_ms = start_ms
        self._steady_ms = 0
        self._moved = anyio.Event()

    def __repr__(self) -> str:
        return f"<ManualClock {self._now_ms}>"

    @property
    def offset_ms(self) -> int:
        """The correction that is said to be in force; the time shown already has it."""
        return self.ntp.offset_ms

    def now_ms(self) -> int:
        """Return the time it was set to."""
        return self._now_ms

    def steady_ms(self) -> int:
        """Return how much time has passed."""
        return self._steady_ms

    def advance(self, ms: int) -> None:
        """Let time pass, or step back if negative."""
        self.set(self._now_ms + ms)

    def set(self, now_ms: int) -> None:
        """Let time pass until it is that late; if that is past, step back to it."""
        self._steady_ms += max(0, now_ms - self._now_ms)
        self._show(now_ms)

    def step(self, ms: int) -> None:
        """Show another time, though no time has passed."""
        self._show(self._now_ms + ms)

    def _show(self, now_ms: int) -> None:
        self._now_ms = now_ms
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def sleep_until(self, at_ms: int) -> None:
        """Return when the clock was set to this time or later."""
        await anyio.lowlevel.checkpoint()
        while self._now_ms < at_ms:
            await self._moved.wait()
