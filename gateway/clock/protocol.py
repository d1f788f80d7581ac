"""What the gateway needs of a clock."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

Status = Literal["synced", "stale", "error", "disabled"]


class NtpState(msgspec.Struct, frozen=True, rename="camel"):
    """How the time was last corrected.

    `synced`: the servers were heard, and lately. `stale`: that is too long ago, or has not happened
    yet. `error`: the last attempt failed; an older correction stays in force.
    """

    status: Status
    offset_ms: int = 0
    server: str = ""
    rtt_ms: int | None = None
    last_sync_ms: int | None = None
    last_error: str = ""


DISABLED = NtpState("disabled")


class Clock(Protocol):
    """Tells the time in UTC milliseconds, and wakes those who wait for one."""

    @property
    def offset_ms(self) -> int:
        """What is added to the host's time."""

    @property
    def ntp(self) -> NtpState:
        """How the time was last corrected."""

    def now_ms(self) -> int:
        """Return the corrected time; it may step when the correction changes."""

    def steady_ms(self) -> int:
        """Return a time that never steps, and means nothing but by its differences."""

    async def sleep_until(self, at_ms: int) -> None:
        """Return at this time, or after a minute at most: call it until the time has come."""
