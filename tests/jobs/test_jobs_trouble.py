"""Jobs in bad times: a store that is down, a row that cannot be, a fault of our own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gateway.clock import ManualClock
from gateway.jobs.model import Job
from gateway.jobs.schedule.model import Cron
from tests.agents.talking import messages_of
from tests.jobs.faults import Flaky
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    add,
    asked,
    events_of,
    every,
    house,
    inbox,
    job_of,
    ran,
    run_now,
    seen,
    statuses,
)
from tests.run import Running, until
from tests.sessions.talk import kept, model, notes_of


def spoil(gate: Running, *names: str, late: bool = False) -> Flaky:
    """Have calls of the scheduler to its store fail, and let it try again soon."""
    scheduler = gate.gateway.parts.scheduler
    assert scheduler is not None
    flaky = Flaky(scheduler.services.rows, *names, late=late)
    scheduler.services.rows = flaky
    scheduler.services.settings = replace(scheduler.services.settings, store_retry_ms=10)
    return flaky


async def test_a_store_that_cannot_be_read_makes_a_run_late() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        flaky = spoil(gate, "claim", "next_run_ms")
        clock.advance(HOUR)
        await until(lambda: flaky.failures > 2)
        assert gate.requests == []
        flaky.mend()
        await ran(gate, job_id, "ok")
        assert notes_of(gate, "jobs_not_read")


async def test_the_end_of_a_run_is_recorded_when_the_store_is_back() -> None:
    async with house(model("it rains")) as gate:
        job_id = await add(gate, agent="")
        flaky = spoil(gate, "finish", "extend")
        await run_now(gate, job_id)
        await until(lambda: flaky.failures > 2)
        assert await statuses(gate, job_id) == ["running"]
        assert await inbox(gate) == []
        flaky.mend()
        await ran(gate, job_id, "ok")
        assert [item["text"] for item in await inbox(gate)] == ["it rains"]
        await asked(gate, 1)


async def test_an_end_that_was_recorded_unawares_is_told_all_the_same() -> None:
    async with house(model("it rains"), clock=ManualClock(NOW)) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        flaky = spoil(gate, "finish", late=True)
        await run_now(gate, job_id)
        await until(lambda: flaky.failures > 1)
        flaky.mend()
        told = await events_of(gate, "s", "run.finished")
        assert [event for event, _ in told] == ["run.started", "run.finished"]
        assert told[-1][1]["data"]["result"] == "it rains"
        assert [item["text"] for item in await inbox(gate)] == ["it rains"]
        assert notes_of(gate, "run_dropped") == []
        # Whoever holds an answer for the job waits for its next time, not for that run.
        index = gate.gateway.parts.job_index
        await until(lambda: index.expecting("local", "s") == NOW + HOUR)


async def test_what_is_owed_is_told_when_the_store_is_back() -> None:
    async with house(model("result", "I see")) as gate:
        job_id = await add(gate, session="isolated")
        flaky = spoil(gate, "take_owed")
        await run_now(gate, job_id)
        await until(lambda: flaky.failures > 2)
        await asked(gate, 1)
        flaky.mend()
        await seen(lambda: messages_of(gate), lambda found: len(found) == 2)


async def test_what_cannot_be_settled_is_told_again() -> None:
    async with house(model("result", "I see")) as gate:
        job_id = await add(gate, session="isolated")
        flaky = spoil(gate, "settle_owed")
        await run_now(gate, job_id)
        await until(lambda: flaky.failures > 0)
        flaky.mend()
        # Twice rather than never.
        await until(lambda: len(gate.requests) >= 3)
        await until(lambda: not gate.live)


async def test_a_schedule_that_cannot_be_reckoned_hurts_only_its_job() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        rows = gate.gateway.parts.rows.jobs
        bad = Job(
            job_id="job_bad",
            user_id="local",
            session_id="s",
            name="bad",
            schedule=Cron("0 9 * * *", "No/Where"),
            message="x",
            due_ms=NOW + MINUTE,
            next_run_ms=NOW + MINUTE,
        )
        await rows.add(bad, lambda job: job, 100)
        good = await add(gate, schedule=every(HOUR))
        clock.advance(HOUR)
        await ran(gate, good, "ok")
        job = await job_of(gate, "job_bad")
        assert job["enabled"] is False
        assert "schedule" in job["disabled_reason"]


async def test_whoever_finds_the_end_of_a_run_finds_the_event_of_it(tmp_path: Path) -> None:
    async with house(model("done"), settings=kept(tmp_path)) as gate:
        feed = gate.gateway.parts.feed
        job_id = await add(gate, agent="")
        feed.rows = flaky = Flaky(feed.rows, "note")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        assert flaky.failures == 1
        flaky.mend()
        assert len(await events_of(gate, "s", "run.finished")) == 1
    for _ in range(2):
        async with house(model("done"), settings=kept(tmp_path)) as gate:
            told = await events_of(gate, "s", "run.finished")
            assert [event for event, _ in told] == ["run.finished"]


async def test_a_fault_of_our_own_hurts_only_its_run() -> None:
    async with house(model("done")) as gate:
        rows = gate.gateway.parts.snapshots.rows
        gate.gateway.parts.snapshots.rows = Flaky(rows, "snapshot", error=RuntimeError)
        bad = await add(gate, agent="")
        await run_now(gate, bad)
        (run,) = await ran(gate, bad, "error")
        assert run["error"] == "Something went wrong inside the gateway."
        good = await add(gate)
        await run_now(gate, good)
        await ran(gate, good, "ok")
