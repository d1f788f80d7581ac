"""Timers: each goes off once, in order, whatever the clock does and whoever fails."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from gateway.clock import ManualClock, SteadyClock, SystemClock, TimerQueue
from gateway.clock.timer_queue import BATCH

HOUR = 3_600_000
TURNS = 20


@asynccontextmanager
async def ringing(timers: TimerQueue) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        await rest()
        yield
        tasks.cancel_scope.cancel()


async def rest() -> None:
    """Let the timers' task do all it can: nothing else happens on this loop."""
    for _ in range(TURNS):
        await anyio.lowlevel.checkpoint()


async def test_alarms_ring_in_the_order_of_their_times() -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)
    for at_ms in (30, 10, 20, 10):
        timers.call_at(at_ms, lambda at_ms=at_ms: rung.append(at_ms))  # type: ignore[misc]
    assert repr(timers) == "<TimerQueue 4 set>"
    async with ringing(timers):
        clock.set(20)
        await rest()
        assert rung == [10, 10, 20]
        clock.set(30)
        await rest()
    assert rung == [10, 10, 20, 30]
    assert len(timers) == 0


async def test_an_earlier_one_is_not_late_because_all_sleep() -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)
    async with ringing(timers):
        timers.call_at(100, lambda: rung.append("late"))
        await rest()
        timers.call_at(50, lambda: rung.append("early"))
        timers.call_at(40, lambda: rung.append("earlier"))
        clock.set(60)
        await rest()
        assert rung == ["earlier", "early"]
        timers.call_at(-5, lambda: rung.append("past"))
        await rest()
    assert rung == ["earlier", "early", "past"]


async def test_a_real_clock_wakes_for_an_earlier_one() -> None:
    clock, rung = SystemClock(), anyio.Event()
    timers = TimerQueue(clock)
    async with ringing(timers):
        timers.call_at(clock.now_ms() + HOUR, lambda: None)
        await rest()
        at_ms = clock.now_ms() + 20
        timers.call_at(at_ms, rung.set)
        with anyio.fail_after(10):
            await rung.wait()
        assert clock.now_ms() >= at_ms


async def test_what_is_cancelled_does_not_ring_and_may_be_cancelled_again() -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)
    cancelled = timers.call_at(10, lambda: rung.append("cancelled"))
    kept = timers.call_at(10, lambda: rung.append("kept"))
    timers.cancel(cancelled)
    timers.cancel(cancelled)
    assert len(timers) == 1
    async with ringing(timers):
        clock.set(10)
        await rest()
        timers.cancel(kept)
        timers.cancel(cancelled)
    assert rung == ["kept"]


async def test_a_cancelled_alarm_keeps_nothing_alive() -> None:
    class Held:
        def ring(self) -> None: ...

    held, timers = Held(), TimerQueue(ManualClock(0))
    seen = weakref.ref(held)
    timers.cancel(timers.call_at(HOUR, held.ring))
    del held
    gc.collect()
    assert seen() is None


async def test_a_million_cancelled_alarms_leave_no_heap() -> None:
    timers = TimerQueue(ManualClock(0))
    timers.call_at(HOUR, lambda: None)
    for _ in range(10_000):
        timers.cancel(timers.call_at(HOUR, lambda: None))
    assert len(timers) == 1
    assert len(timers._heap) < 100


async def test_alarms_keep_their_order_when_cancelled_ones_are_cleared_away() -> None:
    clock = ManualClock(0)
    timers = TimerQueue(clock)
    rung: list[int] = []
    for number in range(1000):
        at_ms = number * 617 % 1000
        alarm = timers.call_at(at_ms, lambda at_ms=at_ms: rung.append(at_ms))  # type: ignore[misc]
        if number % 10:
            timers.cancel(alarm)
    async with ringing(timers):
        for _ in range(100):
            clock.advance(10)
            await rest()
    assert len(rung) == 100
    assert rung == sorted(rung)


async def test_one_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)

    def fail() -> None:
        raise LookupError("a bug")

    timers.call_at(10, fail)
    timers.call_at(10, lambda: rung.append("next"))
    timers.call_at(20, lambda: rung.append("later"))
    async with ringing(timers):
        clock.set(10)
        await rest()
        clock.set(20)
        await rest()
    assert rung == ["next", "later"]
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [LookupError]


async def test_one_that_rings_may_cancel_and_set_others() -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)

    def ring() -> None:
        rung.append("first")
        timers.cancel(other)
        timers.call_at(5, lambda: rung.append("past"))
        timers.call_at(15, lambda: rung.append("next"))

    timers.call_at(10, ring)
    other = timers.call_at(10, lambda: rung.append("cancelled"))
    async with ringing(timers):
        clock.set(10)
        await rest()
        assert rung == ["first", "past"]
        clock.set(15)
        await rest()
    assert rung == ["first", "past", "next"]


async def test_one_that_always_sets_itself_again_does_not_keep_others_waiting() -> None:
    clock, rung = ManualClock(0), anyio.Event()
    timers = TimerQueue(clock)

    def again() -> None:
        timers.call_at(-1, again)

    again()
    for at_ms in range(1000):
        timers.call_at(at_ms, lambda: None)
    timers.call_at(1000, rung.set)
    clock.set(1000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        with anyio.fail_after(10):
            await rung.wait()
        tasks.cancel_scope.cancel()


async def test_ten_thousand_at_one_instant_ring_at_once_and_let_others_run() -> None:
    clock, turns = ManualClock(0), 0
    rung: list[int] = []
    timers = TimerQueue(clock)

    async def others() -> None:
        nonlocal turns
        while len(rung) < 10_000:
            await anyio.lowlevel.checkpoint()
            turns += 1

    for number in range(10_000):
        timers.call_at(HOUR, lambda number=number: rung.append(number))  # type: ignore[misc]
    async with ringing(timers):
        clock.set(HOUR)
        with anyio.fail_after(10):
            await others()
    assert rung == list(range(10_000))
    assert 10 <= turns <= 200


@pytest.mark.parametrize("step", [-HOUR, HOUR])
async def test_a_stepped_clock_shifts_alarms_and_no_more(step: int) -> None:
    clock, rung = ManualClock(10 * HOUR), []
    timers = TimerQueue(clock)
    timers.call_at(10 * HOUR + 60_000, lambda: rung.append(clock.now_ms()))
    async with ringing(timers):
        clock.advance(step)
        await rest()
        clock.advance(-step)
        await rest()
        clock.advance(60_000)
        await rest()
    assert rung == [11 * HOUR if step > 0 else 10 * HOUR + 60_000]


async def test_alarms_outlive_the_task_that_rings_them() -> None:
    clock, rung = ManualClock(0), []
    timers = TimerQueue(clock)
    timers.call_at(10, lambda: rung.append("early"))
    timers.call_at(20, lambda: rung.append("late"))
    async with ringing(timers):
        clock.set(10)
        await rest()
    timers.call_at(15, lambda: rung.append("between"))
    clock.set(20)
    async with ringing(timers):
        await rest()
    assert rung == ["early", "between", "late"]


async def test_a_rush_is_over_when_all_have_rung() -> None:
    clock, rung, seen = ManualClock(0), [], []
    timers = TimerQueue(clock)
    for number in range(3 * BATCH + 1):
        timers.call_at(10, lambda number=number: rung.append(number))  # type: ignore[misc]

    async def look() -> None:
        while not rung:
            await anyio.lowlevel.checkpoint()
        await timers.calm()
        seen.append(len(rung))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(timers.run)
        tasks.start_soon(look)
        await timers.calm()
        assert rung == []
        clock.set(10)
        await rest()
        await timers.calm()
        tasks.cancel_scope.cancel()
    assert seen == [3 * BATCH + 1]


async def test_alarms_may_go_by_the_time_that_passes() -> None:
    passed = anyio.Event()
    steady = SteadyClock()
    timers = TimerQueue(steady)
    timers.call_at(timers.now_ms() + 30, passed.set)
    began = anyio.current_time()
    async with ringing(timers):
        with anyio.fail_after(5):
            await passed.wait()
    assert anyio.current_time() - began > 0.025
    assert repr(steady) == "<SteadyClock>"
    await steady.sleep_until(steady.now_ms() - 1000)
