"""All clocks alike: what they tell, and when they let a sleeper go."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from gateway.clock import (
    Clock,
    Host,
    ManualClock,
    NtpClock,
    NtpSettings,
    NtpState,
    SystemClock,
    TimerQueue,
)

REAL: dict[str, Callable[[Host], Clock]] = {
    "system": SystemClock,
    "ntp": lambda host: NtpClock(NtpSettings(()), host=host),
}


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def rest() -> None:
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


@pytest.fixture(params=REAL)
def make(request: pytest.FixtureRequest) -> Callable[[Host], Clock]:
    return REAL[request.param]


def test_the_time_is_the_hosts_in_whole_milliseconds(make: Callable[[Host], Clock]) -> None:
    clock = make(Host(wall=lambda: 1770038558.2299))
    assert clock.now_ms() == 1770038558229
    assert clock.offset_ms == 0


def test_without_correction_the_state_says_so() -> None:
    assert SystemClock().ntp == NtpState("disabled")
    assert ManualClock(0).ntp == NtpState("disabled")
    assert NtpClock(NtpSettings(())).ntp == NtpState("stale")


def test_clocks_say_what_they_are() -> None:
    clocks: tuple[Clock, ...] = (SystemClock(), ManualClock(12), NtpClock(NtpSettings(())))
    assert [repr(clock) for clock in clocks] == [
        "<SystemClock>",
        "<ManualClock 12>",
        "<NtpClock stale +0 ms>",
    ]


def test_clocks_and_alarms_may_be_made_before_there_is_a_loop() -> None:
    manual, ntp = ManualClock(0), NtpClock(NtpSettings(()))
    timers, rung = TimerQueue(manual), anyio.Event()
    timers.call_at(20, rung.set)
    manual.set(10)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timers.run)
            tasks.start_soon(ntp.run)
            await rest()
            manual.set(20)
            await rung.wait()
            tasks.cancel_scope.cancel()

    anyio.run(main)
    assert ntp.ntp.status == "error"


@pytest.mark.parametrize("wait_ms", [-1000, 0, 1, 30])
async def test_a_sleeper_wakes_when_the_time_has_come(
    make: Callable[[Host], Clock], wait_ms: int
) -> None:
    clock = make(Host())
    at_ms = clock.now_ms() + wait_ms
    with anyio.fail_after(10):
        await clock.sleep_until(at_ms)
    assert clock.now_ms() >= at_ms


async def test_a_sleeper_looks_up_after_a_slice(make: Callable[[Host], Clock]) -> None:
    clock = make(Host(slice_s=0.02))
    began = time.monotonic()
    with anyio.fail_after(10):
        await clock.sleep_until(clock.now_ms() + 3_600_000)
    assert time.monotonic() - began >= 0.019


async def test_a_stepped_host_is_noticed_after_a_slice(make: Callable[[Host], Clock]) -> None:
    step = 0.0
    clock = make(Host(wall=lambda: time.time() + step, slice_s=0.02))
    at_ms, slices = clock.now_ms() + 3_600_000, 0
    with anyio.fail_after(10):
        while clock.now_ms() < at_ms:
            await clock.sleep_until(at_ms)
            slices += 1
            step = 3600.0 if slices == 2 else step
    assert slices == 2


async def test_sleeping_into_the_past_lets_others_run(make: Callable[[Host], Clock]) -> None:
    clock = make(Host())
    order = []

    async def other() -> None:
        order.append("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await clock.sleep_until(0)
        order.append("sleeper")
    assert order == ["other", "sleeper"]


async def test_a_manual_clock_moves_by_hand_and_wakes_sleepers() -> None:
    clock = ManualClock(1000, NtpState("synced", offset_ms=-12))
    woken = []

    async def sleeper(at_ms: int) -> None:
        await clock.sleep_until(at_ms)
        woken.append(at_ms)

    async with anyio.create_task_group() as tasks:
        for at_ms in (3000, 1500, 900):
            tasks.start_soon(sleeper, at_ms)
        await rest()
        assert woken == [900]
        clock.advance(499)
        clock.set(0)
        await rest()
        assert woken == [900]
        clock.set(1500)
        await rest()
        assert woken == [900, 1500]
        clock.advance(90_000)
    assert woken == [900, 1500, 3000]
    assert (clock.now_ms(), clock.offset_ms) == (91_500, -12)
