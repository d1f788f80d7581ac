"""The time by which instances of one store judge what is due: the store's, not the host's.

One host whose clock is an hour ahead must not run everybody's jobs early. What models are told is
the time of the host, corrected by time servers.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gateway.clock.protocol import Clock, NtpState

LONGEST_SLEEP = 60.0


class SharedClock:
    """Shows the time of a store that instances share; before that is open, the host's."""

    def __init__(self, host: Clock) -> None:
        self.host = host
        self._now_ms: Callable[[], int] = host.now_ms

    def __repr__(self) -> str:
        return f"<SharedClock beside {self.host!r}>"

    def follow(self, now_ms: Callable[[], int]) -> None:
        """Show this time from now on."""
        self._now_ms = now_ms

    @property
    def offset_ms(self) -> int:
        """What is added to the host's time for models."""
        return self.host.offset_ms

    @property
    def ntp(self) -> NtpState:
        """How the host's time was last corrected."""
        return self.host.ntp

    def now_ms(self) -> int:
        """Return the store's time."""
        return self._now_ms()

    def steady_ms(self) -> int:
        """Return the host's steady time."""
        return self.host.steady_ms()

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or after a minute at most."""
        await anyio.sleep(max(0.0, min((at_ms - self._now_ms()) / 1000, LONGEST_SLEEP)))
