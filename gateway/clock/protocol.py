"""What the gateway needs of a clock, and what a clock needs of the host."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import anyio.lowlevel
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


@dataclass(frozen=True, slots=True)
class Host:
    """What a clock takes from the machine it runs on.

    The steady clock stands still while a host is suspended and knows nothing of steps, so nobody
    sleeps for longer than a slice before looking at the wall clock again.
    """

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    slice_s: float = 60.0


async def sleep_a_slice(
    host: Host, left_ms: Callable[[], int], pause: Callable[[float], Awaitable[object]]
) -> None:
    """Pause until nothing is left, however often a pause ends early, or a slice is over."""
    await anyio.lowlevel.checkpoint()
    end = host.steady() + host.slice_s
    while (rest := min(left_ms() / 1000, end - host.steady())) > 0:
        await pause(rest)
