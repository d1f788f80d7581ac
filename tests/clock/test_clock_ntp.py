"""The corrected clock against real servers on loopback: good, bad, silent and contradictory."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event

import anyio
import msgspec
import pytest

from gateway.clock import Host, NtpClock, NtpSettings, TimerQueue
from gateway.clock.sntp import Address, resolve

from .sntp import Behaviour, FakeServer, Told, never, serving, well

HOUR_MS = 3_600_000
SETTINGS = NtpSettings((), timeout_ms=5000, max_offset_ms=10 * HOUR_MS)


def clock_of(*servers: FakeServer, host: Host | None = None, **how: int) -> NtpClock:
    settings = replace(SETTINGS, servers=tuple(server.name for server in servers), **how)
    return NtpClock(settings, host=host)


def shows(clock: NtpClock, off_ms: float) -> bool:
    """Tell whether a clock is corrected by this, as well as its round trip allows."""
    return abs(clock.offset_ms - off_ms) <= (clock.ntp.rtt_ms or 0) / 2 + 2


async def until(fact: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not fact():  # noqa: ASYNC110 - what servers hear happens in their own threads
            await anyio.sleep(0.002)


@asynccontextmanager
async def running(clock: NtpClock) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.run)
        yield
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("off_s", [0, 0.7, -300, 1800])
async def test_the_time_is_the_hosts_plus_the_offset(off_s: float) -> None:
    with serving(well(off_s=off_s)) as (server,):
        clock = clock_of(server)
        before_ms = clock.now_ms()
        state = await clock.sync()
    early, now_ms, late = time.time(), clock.now_ms(), time.time()
    assert int(early * 1000) <= now_ms - clock.offset_ms <= int(late * 1000)
    assert shows(clock, off_s * 1000)
    assert (state.status, state.server, state.last_error) == ("synced", server.name, "")
    assert state.offset_ms == clock.offset_ms
    assert state.last_sync_ms is not None
    assert before_ms <= state.last_sync_ms - state.offset_ms <= clock.now_ms() - state.offset_ms
    assert repr(clock) == f"<NtpClock synced {clock.offset_ms:+d} ms>"


async def test_the_nearest_server_wins() -> None:
    far, near = well(off_s=0.5, far_s=0.3), well(off_s=0.1)
    with serving(far, near, far) as servers:
        clock = clock_of(*servers)
        assert (await clock.sync()).server == servers[1].name
    assert shows(clock, 100)


async def test_all_are_asked_at_once_and_each_once() -> None:
    # Each answers only when all have been asked.
    barrier = Barrier(3)

    def together(question: bytes) -> list[bytes]:
        barrier.wait(10)
        return [Told().answer(question)]

    with serving(together, together, together) as servers:
        clock = clock_of(*servers, *servers)
        assert (await clock.sync()).status == "synced"
    assert [len(server.questions) for server in servers] == [1, 1, 1]


STEPS: dict[str, tuple[tuple[Behaviour, ...], float | None]] = {
    "one, alone": ((well(off_s=300),), 300_000),
    "one, the other is silent": ((well(off_s=300), never), 300_000),
    "one, the other is bad": ((well(off_s=300), well(stratum=16)), 300_000),
    "one, the other sees no need": ((well(off_s=300), well(off_s=0.2, far_s=0.1)), 200),
    "two agree": ((well(off_s=300), well(off_s=300, far_s=0.1)), 300_000),
    "two agree, a third does not": (
        (well(off_s=-9), well(off_s=300, far_s=0.2), well(off_s=300.5, far_s=0.1)),
        300_500,
    ),
    "two contradict each other": ((well(off_s=300), well(off_s=200)), None),
}


@pytest.mark.parametrize("behaviours, expected_ms", STEPS.values(), ids=STEPS)
async def test_a_large_correction_needs_a_witness(
    behaviours: tuple[Behaviour, ...], expected_ms: float | None
) -> None:
    with serving(*behaviours) as servers:
        clock = clock_of(*servers, timeout_ms=1000)
        state = await clock.sync()
    assert shows(clock, expected_ms or 0)
    assert state.status == ("error" if expected_ms is None else "synced")
    if expected_ms is None:
        assert state.last_error.startswith("the servers contradict each other: 127.0.0.1:")


FAILURES: dict[str, tuple[Behaviour, str]] = {
    "silence": (never, "no answer within 400 ms"),
    "kiss of death": (well(Told(stratum=0, reference=b"RATE")), "(RATE)"),
    "wrong origin": (well(Told(origin=b"whatever")), "does not match our request"),
    "garbage": (lambda _: [b"garbage"], "does not match our request"),
    "absurd offset": (well(off_s=86_400), "and no more than 36000000 ms is corrected"),
    "not set": (well(leap=3), "its own clock is not set"),
}


@pytest.mark.parametrize("bad, reason", FAILURES.values(), ids=FAILURES)
async def test_a_failure_changes_status_and_error_only(bad: Behaviour, reason: str) -> None:
    behaviour = well(off_s=5)
    with serving(lambda question: behaviour(question)) as (server,):
        # Only who waits for an answer that never comes is in a hurry.
        clock = clock_of(server, timeout_ms=400 if bad is never else 2000)
        good = await clock.sync()
        behaviour = bad
        state = await clock.sync()
    assert good.status == "synced"
    assert state.status == "error"
    assert state.last_error.startswith(f"{server.name}: ")
    assert reason in state.last_error
    assert (state.offset_ms, state.last_sync_ms, state.rtt_ms, state.server) == (
        good.offset_ms,
        good.last_sync_ms,
        good.rtt_ms,
        good.server,
    )
    assert shows(clock, 5000)


async def test_each_bad_server_is_named_once() -> None:
    with serving(well(mode=5), well(leap=3)) as servers:
        state = await clock_of(*servers, *servers).sync()
    first, second = state.last_error.split("; ")
    assert first.startswith(f"{servers[0].name}: ")
    assert second.startswith(f"{servers[1].name}: ")


async def test_without_servers_there_is_an_error() -> None:
    assert (await clock_of().sync()).last_error == "no time server is configured"


async def test_who_wants_to_be_left_alone_is() -> None:
    with serving(well(Told(stratum=0, reference=b"DENY")), well()) as servers:
        clock = clock_of(*servers)
        for _ in range(3):
            assert (await clock.sync()).status == "synced"
    assert [len(server.questions) for server in servers] == [1, 3]


async def test_and_is_asked_again_after_a_day() -> None:
    passed = 0.0
    host = Host(steady=lambda: time.monotonic() + passed)
    with serving(well(stratum=0)) as (server,):
        clock = clock_of(server, host=host)
        await clock.sync()
        assert "asked not to be queried" in (await clock.sync()).last_error
        passed = 86_401.0
        await clock.sync()
    assert len(server.questions) == 2


class Labyrinth:
    """Looks up names; those that end in .test get lost until they are freed."""

    def __init__(self) -> None:
        self.freed = Event()
        self.entered = 0

    def look_up(self, host: str, port: int) -> list[Address]:
        if not host.endswith(".test"):
            return resolve(host, port)
        self.entered += 1
        self.freed.wait(30)
        return []


async def test_a_name_that_never_resolves_holds_up_nobody() -> None:
    labyrinth = Labyrinth()
    with serving(well(off_s=3)) as (server,):
        settings = replace(SETTINGS, servers=("lost.test", server.name), timeout_ms=400)
        clock = NtpClock(settings, look_up=labyrinth.look_up)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await anyio.sleep(0.005)
                ticks += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            with anyio.fail_after(5):
                assert (await clock.sync()).status == "synced"
            tasks.cancel_scope.cancel()
        assert ticks > 2
        assert shows(clock, 3000)
        await given_up_once(clock, labyrinth)


async def given_up_once(clock: NtpClock, labyrinth: Labyrinth) -> None:
    """See that one lost thread is all there is, and that its end is noticed."""
    for _ in range(3):
        await clock.sync()
    assert labyrinth.entered == 1
    lost = [thread for thread in threading.enumerate() if thread.name.endswith("lost.test")]
    assert [thread.daemon for thread in lost] == [True]
    labyrinth.freed.set()
    await anyio.to_thread.run_sync(lost[0].join)
    await clock.sync()
    assert labyrinth.entered == 2


async def test_a_second_attempt_waits_for_the_first() -> None:
    with serving(well(far_s=0.05)) as (server,):
        clock = clock_of(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(clock.sync)
            tasks.start_soon(clock.sync)
    assert clock.ntp.status == "synced"
    assert len(server.questions) == 2


async def test_a_host_without_a_thread_to_spare_is_one_more_failure(tmp_path: Path) -> None:
    with serving(well()) as (server,):
        settings = replace(SETTINGS, servers=(server.name,))
        clock = NtpClock(settings, tmp_path / "ntp-state.json")
        # No host has room for a stack like this.
        usual = threading.stack_size(2**50)
        try:
            state = await clock.sync()
        finally:
            threading.stack_size(usual)
        assert state.last_error == f"{server.name}: the host cannot start another thread"
        assert (await clock.sync()).status == "synced"


async def test_leaving_in_the_middle_leaves_at_once() -> None:
    labyrinth = Labyrinth()
    clock = NtpClock(replace(SETTINGS, servers=("lost.test",)), look_up=labyrinth.look_up)
    with anyio.fail_after(3):
        async with running(clock):
            await until(lambda: labyrinth.entered == 1)
    labyrinth.freed.set()


async def test_it_asks_again_and_again_whatever_happens() -> None:
    behaviour: Behaviour = never
    with serving(lambda question: behaviour(question)) as (server,):
        clock = clock_of(server, timeout_ms=20, resync_ms=10)
        async with running(clock):
            await until(lambda: clock.ntp.status == "error")
            behaviour = well(Told(origin=b"whatever"))
            await until(lambda: "match our request" in clock.ntp.last_error)
            behaviour = well(off_s=4)
            await until(lambda: clock.ntp.status == "synced")
            assert shows(clock, 4000)
            behaviour = never
            await until(lambda: clock.ntp.status == "error")
            behaviour = well(off_s=-4)
            await until(lambda: clock.offset_ms < 0)
    assert shows(clock, -4000)


@pytest.mark.parametrize("chance, spread", [(0.0, 0.9), (0.5, 1.0), (0.999, 1.1)])
async def test_the_time_between_attempts_varies(chance: float, spread: float) -> None:
    heard: list[float] = []

    def note(question: bytes) -> list[bytes]:
        heard.append(time.monotonic())
        return [Told().answer(question)]

    with serving(note) as (server,):
        clock = clock_of(server, resync_ms=100, host=Host(chance=lambda: chance))
        async with running(clock):
            await until(lambda: len(heard) == 2)
    assert heard[1] - heard[0] >= 0.1 * spread - 0.002


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
async def test_a_step_of_the_host_is_corrected_without_waiting(step_s: float) -> None:
    step = 0.0
    host = Host(wall=lambda: time.time() + step, slice_s=0.01)
    with serving(well()) as (server,):
        clock = clock_of(server, host=host)
        async with running(clock):
            await until(lambda: clock.ntp.status == "synced")
            step = step_s
            await until(lambda: len(server.questions) == 2)
            await until(lambda: shows(clock, -step_s * 1000))
    assert len(server.questions) == 2


@pytest.mark.parametrize("step_s", [-3.0, 3.0])
async def test_a_correction_becomes_stale(step_s: float) -> None:
    step = 0.0
    with serving(well()) as (server,):
        host = Host(wall=lambda: time.time() + step)
        clock = clock_of(server, host=host, stale_after_ms=2000)
        fresh = await clock.sync()
        step = step_s
        assert clock.ntp == msgspec.structs.replace(fresh, status="stale")
        step = 0.0
        assert clock.ntp == fresh


async def test_a_correction_wakes_those_it_makes_late() -> None:
    with serving(well(off_s=7200)) as (server,):
        clock = clock_of(server)
        at_ms, woken = clock.now_ms() + HOUR_MS, anyio.Event()

        async def sleeper() -> None:
            await clock.sleep_until(at_ms)
            woken.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper)
            await anyio.wait_all_tasks_blocked()
            assert not woken.is_set()
            await clock.sync()
            with anyio.fail_after(5):
                await woken.wait()
        assert clock.now_ms() >= at_ms


async def looked(timers: TimerQueue, clock: NtpClock) -> None:
    """Wait until the timers have rung all that is due by now."""
    is_due = anyio.Event()
    timers.call_at(clock.now_ms(), is_due.set)
    await is_due.wait()


async def test_corrections_shift_alarms_and_ring_each_once() -> None:
    behaviour = well(off_s=-7200)
    rung: list[str] = []
    with serving(lambda question: behaviour(question)) as (server,):
        clock = clock_of(server)
        timers = TimerQueue(clock)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timers.run)
            timers.call_at(clock.now_ms() + 30_000, lambda: rung.append("soon"))
            timers.call_at(clock.now_ms() + HOUR_MS, lambda: rung.append("later"))
            await clock.sync()
            await looked(timers, clock)
            assert rung == []
            behaviour = well(off_s=60)
            await clock.sync()
            await until(lambda: bool(rung))
            behaviour = well(off_s=7200)
            await clock.sync()
            await until(lambda: len(rung) == 2)
            behaviour = well(off_s=0)
            await clock.sync()
            await looked(timers, clock)
            tasks.cancel_scope.cancel()
    assert rung == ["soon", "later"]
