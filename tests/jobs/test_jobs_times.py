"""Jobs fire when it is time: each time once, none silently lost."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock, SystemClock
from gateway.timestamps import iso
from tests.gateway.wire import Cue
from tests.jobs.models import cued
from tests.jobs.words import (
    DAY,
    HOUR,
    MARKER,
    MINUTE,
    NOW,
    SECOND,
    add,
    asked,
    asked_besides,
    at,
    cron,
    ended,
    every,
    house,
    job_of,
    let_pass,
    mark,
    ms_of,
    ran,
    run_now,
    runs_of,
    said,
    seen,
    statuses,
)
from tests.run import Running, until
from tests.sessions.talk import kept, model, notes_of


async def test_at_a_time() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, "go", schedule=at(NOW + MINUTE))
        await let_pass(gate, clock, MINUTE - 1)
        assert asked_besides(gate) == []
        clock.advance(1)
        (run,) = await ran(gate, job_id, "ok")
        assert ms_of(run["due_at"]) == ms_of(run["started_at"]) == NOW + MINUTE
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["next_run_at"]) == (False, None)
        assert job["disabled_reason"]
        await let_pass(gate, clock, DAY)
        assert len(asked_besides(gate)) == 1


async def test_at_an_interval_whose_grid_no_run_shifts() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(MINUTE))
        clock.advance(MINUTE + 7 * SECOND)
        await ran(gate, job_id, "ok")
        clock.advance(10 * SECOND)
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok", "ok")
        assert ms_of((await job_of(gate, job_id))["next_run_at"]) == NOW + 2 * MINUTE
        clock.set(NOW + 2 * MINUTE)
        runs = await ran(gate, job_id, "ok", "ok", "ok")
        assert [run["trigger"] for run in runs] == ["timer", "manual", "timer"]
        assert [ms_of(run["due_at"]) - NOW for run in runs] == [
            MINUTE,
            MINUTE + 17 * SECOND,
            2 * MINUTE,
        ]


async def test_as_an_expression_says() -> None:
    # A Monday, 21:22:38 in London.
    clock = ManualClock(NOW)
    weekdays = {"kind": "cron", "cron": "30 18 * * mon-fri", "tz": "Europe/London"}
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, schedule=weekdays)
        days = []
        for _ in range(6):
            due = ms_of((await job_of(gate, job_id))["next_run_at"])
            days.append(due)
            clock.set(due)
            await ran(gate, job_id, *["ok"] * len(days))
        gaps = [later - earlier for earlier, later in pairwise(days)]
        # Tuesday to Friday, and over the weekend.
        assert gaps == [DAY, DAY, DAY, 3 * DAY, DAY]


async def test_a_job_of_ones_own_time_is_run_to_the_second() -> None:
    async with house(model("done"), clock=SystemClock()) as gate:
        due = (int(time.time()) + 2) * SECOND
        job_id = await add(gate, schedule=at(due))
        await until(lambda: len(gate.requests) == 1, patience=10)
        late = time.time() * SECOND - due
        assert -50 <= late <= SECOND
        (run,) = await ran(gate, job_id, "ok")
        assert ms_of(run["due_at"]) == due


async def test_every_second_by_the_clock_of_the_host() -> None:
    async with house(model("done"), clock=SystemClock()) as gate:
        job_id = await add(gate, schedule=every(SECOND))
        await until(lambda: len(gate.requests) == 3, patience=10)
        runs = [run for run in await runs_of(gate, job_id) if run["status"] != "running"]
        assert len(runs) >= 2
        for run in runs:
            assert 0 <= ms_of(run["started_at"]) - ms_of(run["due_at"]) <= SECOND


async def test_a_change_of_a_schedule_is_heeded_at_once() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        await cron(gate, "update", {"job_id": job_id, "schedule": at(NOW + SECOND)})
        clock.advance(SECOND)
        await ran(gate, job_id, "ok")


async def test_many_due_in_the_same_instant_run_one_after_another() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        jobs = [
            await add(gate, f"task {n}", session_id=f"s{n}", schedule=every(HOUR))
            for n in range(20)
        ]
        clock.advance(HOUR)
        for job_id in jobs:
            await ran(gate, job_id, "ok")
        await asked(gate, 20)
        assert gate.fakes[0].accepted == 1


async def test_at_most_so_many_at_once() -> None:
    clock, cue = ManualClock(NOW), Cue()
    settings = {"cron__max_concurrent_runs": 3}
    async with house(cued(cue, "done"), clock=clock, settings=settings) as gate:
        for n in range(5):
            await add(gate, session_id=f"s{n}", schedule=every(HOUR))
        clock.advance(HOUR)
        for count in (3, 4, 5):
            await asked(gate, count)
            assert (await cron(gate, "status"))["jobs"]["running"] == 3
            assert len(gate.requests) == count
            cue.give()


LATE: list[tuple[int, list[str], int]] = [
    # How long it was off, what is recorded then, and how many times were missed.
    (HOUR + 5 * MINUTE, ["ok"], 0),
    (3 * HOUR + 5 * MINUTE, ["missed", "ok"], 2),
    (3 * HOUR + 40 * MINUTE, ["missed"], 3),
]


@pytest.mark.parametrize("off, wanted, missed", LATE)
async def test_after_a_while_off_one_late_run_or_none(
    tmp_path: Path, off: int, wanted: list[str], missed: int
) -> None:
    settings: dict[str, Any] = {**kept(tmp_path), "cron__misfire_grace_ms": 30 * MINUTE}
    async with house(model(), clock=ManualClock(NOW), settings=settings) as gate:
        job_id = await add(gate, "go", schedule=every(HOUR))
    async with house(model("late"), clock=ManualClock(NOW + off), settings=settings) as gate:
        runs = await ran(gate, job_id, *wanted)
        last = NOW + off // HOUR * HOUR
        assert ms_of(runs[-1]["due_at"]) == last
        if missed:
            assert f"{missed} runs were missed" in runs[0]["error"]
        assert sum(run["missed"] for run in runs) == missed
        assert ms_of((await job_of(gate, job_id))["next_run_at"]) == last + HOUR
        assert len(gate.requests) == wanted.count("ok")


async def test_future_times_stand_after_a_restart(tmp_path: Path) -> None:
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        job_id = await add(gate, "go", schedule=at(NOW + HOUR))
    clock = ManualClock(NOW + MINUTE)
    async with house(model("done"), clock=clock, settings=kept(tmp_path)) as gate:
        assert ms_of((await job_of(gate, job_id))["next_run_at"]) == NOW + HOUR
        clock.set(NOW + HOUR)
        await ran(gate, job_id, "ok")
        assert said(gate.requests[0])[-1] == ("user", "go")


async def test_a_time_that_was_missed_for_good_disables_its_job(tmp_path: Path) -> None:
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        job_id = await add(gate, schedule=at(NOW + HOUR))
    async with house(model(), clock=ManualClock(NOW + DAY), settings=kept(tmp_path)) as gate:
        (run,) = await ran(gate, job_id, "missed")
        assert "1 run was missed" in run["error"]
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["last_status"]) == (False, "missed")
        assert "missed" in job["disabled_reason"]
        assert gate.requests == []


async def test_times_that_come_while_it_runs_are_told_of() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(MINUTE))
        clock.advance(MINUTE)
        await asked(gate, 1)
        clock.advance(3 * MINUTE + SECOND)
        cue.give()
        await asked(gate, 2)
        cue.give()
        runs = await ran(gate, job_id, "ok", "missed", "ok")
        assert "2 runs were missed" in runs[1]["error"]


async def test_a_clock_that_steps_back_gives_no_time_twice() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(MINUTE))
        clock.advance(MINUTE)
        await ran(gate, job_id, "ok")
        marker = await add(gate, MARKER, session_id=MARKER, schedule=at(NOW + MINUTE + 1))
        clock.advance(-HOUR)
        clock.advance(HOUR + 1)
        await ended(gate, marker)
        assert len(asked_besides(gate)) == 1
        # Once more, and this time somebody looks meanwhile.
        clock.advance(-HOUR)
        await mark(gate)
        assert notes_of(gate, "clock_set_back")
        await let_pass(gate, clock, HOUR)
        assert len(asked_besides(gate)) == 1
        clock.advance(MINUTE)
        await ran(gate, job_id, "ok", "ok")


async def test_a_clock_that_is_ahead_for_seconds_misses_nothing() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        often = await add(gate, schedule=every(SECOND))
        once = await add(gate, session_id="t", schedule=at(NOW + 5 * MINUTE))
        clock.advance(SECOND)
        await ran(gate, often, "ok")
        clock.step(2 * HOUR)
        clock.advance(5 * SECOND)
        await mark(gate)
        assert await statuses(gate, often) == ["ok"]
        clock.step(-2 * HOUR)
        # Five seconds went by, in which nobody could say what time it was.
        await ran(gate, often, "ok", "missed", "ok")
        clock.advance(SECOND)
        await ran(gate, often, "ok", "missed", "ok", "ok")
        assert ms_of((await job_of(gate, once))["next_run_at"]) == NOW + 5 * MINUTE
        clock.set(NOW + 5 * MINUTE)
        await ran(gate, once, "ok")


async def test_a_clock_that_was_ahead_for_long_leaves_no_job_silent() -> None:
    """After a tick a step is believed; when the clock comes back, so is that."""
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        often = await add(gate, schedule=every(SECOND))
        clock.advance(SECOND)
        await ran(gate, often, "ok")
        clock.step(30 * MINUTE)
        await seen(lambda: waits(gate), lambda found: found)
        clock.advance(2 * MINUTE)
        await ran(gate, often, "ok", "missed", "ok")
        clock.step(-30 * MINUTE)
        await looks_again(gate, often)
        clock.advance(SECOND)
        runs = await seen(lambda: runs_of(gate, often), lambda runs: len(runs) > 3)
        assert ms_of(runs[3]["due_at"]) <= NOW + 2 * MINUTE + 2 * SECOND
        times = [run["due_at"] for run in runs if run["status"] != "missed"]
        assert len(times) == len(set(times))


async def looks_again(gate: Running, job_id: str) -> None:
    """Have the scheduler look at the clock, as it does once a minute, and reckon anew."""
    gate.gateway.serving.jobs.scheduler.wake()
    soon = gate.gateway.parts.base.clock.now_ms() + SECOND
    await seen(lambda: job_of(gate, job_id), lambda job: ms_of(job["next_run_at"]) <= soon)


async def waits(gate: Running) -> bool:
    """Tell whether something is due that waits until the clock is believed."""
    scheduler = gate.gateway.parts.scheduler
    assert scheduler is not None
    return scheduler._doubts


async def test_a_clock_that_was_set_back_while_the_gateway_was_off(tmp_path: Path) -> None:
    settings = kept(tmp_path)
    async with house(model("done"), clock=ManualClock(NOW + DAY), settings=settings) as gate:
        often = await add(gate, schedule={"kind": "every", "every_ms": SECOND, "at": iso(NOW)})
    clock = ManualClock(NOW + HOUR)
    async with house(model("done"), clock=clock, settings=settings) as gate:
        await looks_again(gate, often)
        clock.advance(SECOND)
        await ran(gate, often, "ok")


async def test_a_run_is_not_taken_for_dead_when_the_clock_is_ahead() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        scheduler = gate.gateway.parts.scheduler
        assert scheduler is not None
        job_id = await add(gate, schedule=every(HOUR))
        await run_now(gate, job_id)
        await asked(gate, 1)
        await scheduler._end_lapsed(2**62)
        assert await statuses(gate, job_id) == ["running"]
        cue.give()
        await ran(gate, job_id, "ok")
