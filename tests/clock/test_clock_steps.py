"""A clock that is stepped, and the time that is past for certain."""

from __future__ import annotations

from gateway.clock import ManualClock
from gateway.clock.system import TOLERANCE_MS, ClockSteps

NOW = 1_770_067_358_229
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def test_time_that_only_passes() -> None:
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    for passed in (SECOND, MINUTE, HOUR):
        clock.advance(passed)
        assert (steps.past_ms(), steps.is_ahead) == (clock.now_ms(), False)


def test_a_clock_that_is_ahead_for_a_while() -> None:
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    clock.step(HOUR)
    assert (steps.past_ms(), steps.is_ahead) == (NOW, True)
    clock.advance(10 * SECOND)
    assert (steps.past_ms(), steps.is_ahead) == (NOW + 10 * SECOND, True)
    clock.step(-HOUR)
    assert (steps.past_ms(), steps.is_ahead) == (NOW + 10 * SECOND, False)


def test_a_clock_that_stays_ahead_is_believed_after_a_tick() -> None:
    """So is a host that was suspended."""
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    clock.step(HOUR)
    assert steps.is_ahead
    clock.advance(MINUTE)
    assert (steps.past_ms(), steps.is_ahead) == (clock.now_ms(), False)


def test_a_second_step_is_a_new_doubt() -> None:
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    for step in (HOUR, HOUR):
        clock.step(step)
        assert steps.is_ahead
        clock.advance(MINUTE // 2)
    assert steps.past_ms() == NOW + MINUTE
    clock.advance(MINUTE // 2)
    assert steps.past_ms() == clock.now_ms()


def test_a_clock_that_is_set_back_shows_what_is_past() -> None:
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    clock.step(-HOUR)
    assert (steps.past_ms(), steps.is_ahead) == (NOW - HOUR, False)
    assert repr(steps) == "<ClockSteps doubtful>"
    clock.advance(MINUTE)
    assert steps.past_ms() == NOW - HOUR + MINUTE
    assert repr(steps) == "<ClockSteps steady>"


def test_small_corrections_are_no_steps() -> None:
    clock = ManualClock(NOW)
    steps = ClockSteps(clock, MINUTE)
    for _ in range(100):
        clock.step(TOLERANCE_MS)
        assert not steps.is_ahead
        clock.advance(MINUTE)
        assert steps.past_ms() == clock.now_ms()
