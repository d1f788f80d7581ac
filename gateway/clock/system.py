"""The host's clock as it is."""

from __future__ import annotations

import anyio

from gateway.clock.protocol import DISABLED, Host, NtpState, sleep_a_slice


class SystemClock:
    """Trusts the host; no time server is asked."""

    offset_ms = 0

    def __init__(self, host: Host | None = None) -> None:
        self._host = host or Host()
        self._wall = self._host.wall

    def __repr__(self) -> str:
        return "<SystemClock>"

    @property
    def ntp(self) -> NtpState:
        """That no correction takes place."""
        return DISABLED

    def now_ms(self) -> int:
        """Return the host's time."""
        return int(self._wall() * 1000)

    def steady_ms(self) -> int:
        """Return the host's steady time."""
        return int(self._host.steady() * 1000)

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or after a slice."""
        await sleep_a_slice(self._host, lambda: at_ms - self.now_ms(), anyio.sleep)
