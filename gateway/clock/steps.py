"""Which time is surely past, though the clock may be stepped ahead for a while and come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

# How far the clock may be from the time that passed without having been stepped.
TOLERANCE_MS = 1000


class SteppedClock(Protocol):
    """A clock that shows the time, and one beside it that only tells how much time passes."""

    def now_ms(self) -> int:
        """Return the time, which may be stepped."""

    def steady_ms(self) -> int:
        """Return a time that never steps, and means nothing but by its differences."""


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

    def __init__(self, clock: SteppedClock, tick_ms: int) -> None:
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
