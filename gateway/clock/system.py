"""The host's clocks: the one on the wall, the steady one, and whether the first was stepped.

The wall clock may be set back or ahead at any time, the steady one only counts. So nobody sleeps
for longer than a slice without looking at the wall again, and nothing is ended for good by a wall
clock that was just stepped ahead and may come back: `ClockSteps` says which time is surely past.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from gateway.clock.protocol import DISABLED, Clock, NtpState

LONGEST_SLEEP = 3600.0
# How far the clock may be from the time that passed without having been stepped.
TOLERANCE_MS = 1000


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


@dataclass(frozen=True, slots=True)
class _Look:
    now_ms: int
    steady_ms: int

    def at(self, steady_ms: int) -> int:
        """Return what the clock shows then, unless it is stepped."""
        return self.now_ms + steady_ms - self.steady_ms

    def agrees(self, later: _Look) -> bool:
        """Whether the clock was not stepped between two looks."""
        return abs(later.now_ms - self.at(later.steady_ms)) <= TOLERANCE_MS


class ClockSteps:
    """Believes a clock that was stepped when two looks, a tick apart, show no further step.

    Until then time passes as if there had been none. A host that was suspended looks like a clock
    that was stepped ahead. At the start the clock is believed.
    """

    def __init__(self, clock: Clock, tick_ms: int) -> None:
        self._clock = clock
        self._tick_ms = tick_ms
        self._trusted = self._look()
        self._doubted: _Look | None = None

    def __repr__(self) -> str:
        return f"<ClockSteps {'doubtful' if self._doubted else 'steady'}>"

    @property
    def is_ahead(self) -> bool:
        """Whether the clock was stepped ahead so lately that it may come back."""
        look = self._compare()
        return self._doubted is not None and look.now_ms > self._trusted.at(look.steady_ms)

    def past_ms(self) -> int:
        """Return the latest time that is past for certain."""
        look = self._compare()
        if self._doubted is None:
            return look.now_ms
        return min(look.now_ms, self._trusted.at(look.steady_ms))

    def _look(self) -> _Look:
        return _Look(self._clock.now_ms(), self._clock.steady_ms())

    def _compare(self) -> _Look:
        look = self._look()
        if self._trusted.agrees(look):
            self._doubted = None
            if self._is_tick(self._trusted, look):
                self._trusted = look
        elif self._doubted is None or not self._doubted.agrees(look):
            self._doubted = look
        elif self._is_tick(self._doubted, look):
            self._trusted, self._doubted = look, None
        return look

    def _is_tick(self, earlier: _Look, later: _Look) -> bool:
        # A sleep of a tick may end a little early.
        return later.steady_ms - earlier.steady_ms >= self._tick_ms * 0.9
