"""Runs wait for their session to be idle, and keep nobody else waiting."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import begin, messages_of, said, text_of
from tests.clock.holding import acting, held, schedules
from tests.clock.holding import says as tells
from tests.gateway.client import Client
from tests.gateway.wire import Cue
from tests.jobs.models import cued
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add,
    asked,
    asked_besides,
    at,
    cron,
    every,
    house,
    inbox,
    job_of,
    mark,
    ms_of,
    ran,
    run_now,
    seen,
    statuses,
)
from tests.jobs.words import said as told
from tests.run import Running, until, within
from tests.sessions.talk import kept, model, notes_of

SLOW = {"cron__idle_retry_ms": 50, "cron__max_busy_wait_ms": 150}


async def finished(client: Client) -> str:
    """Hear an answer out."""
    answer = await client.answer()
    client.leave()
    return text_of(answer)


async def waiting(gate: Running, job_id: str) -> None:
    """Wait until a run has been claimed, and has found its session busy."""
    await seen(lambda: statuses(gate, job_id), lambda found: found == ["running"])
    # There is one slot: another job runs after this one has looked.
    await mark(gate)


async def test_nothing_is_asked_until_the_session_is_idle() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "to the user", "to the job"), clock=clock) as gate:
        job_id = await add(gate, "the job", schedule=every(HOUR))
        client = await begin(gate, "the user")
        await asked(gate, 1)
        clock.advance(HOUR)
        await waiting(gate, job_id)
        assert len(asked_besides(gate)) == 1
        cue.give()
        assert await finished(client) == "to the user"
        idle = time.monotonic()
        await until(lambda: len(asked_besides(gate)) == 2)
        # Ten milliseconds between two looks, and the rest for a slow machine.
        assert time.monotonic() - idle < 1
        cue.give()
        (run,) = await ran(gate, job_id, "ok")
        assert run["result"] == "to the job"
        assert [text for _, text in told(gate.requests[-1])][1:] == [
            "the user",
            "to the user",
            "the job",
        ]


async def test_a_session_that_is_busy_for_too_long_is_skipped() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock, settings=SLOW) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        client = await begin(gate, "the user")
        clock.advance(HOUR)
        (run,) = await ran(gate, job_id, "skipped")
        assert "busy (chat) for 150 ms" in run["error"]
        job = await job_of(gate, job_id)
        assert (job["last_status"], job["consecutive_failures"]) == ("skipped", 0)
        assert ms_of(job["next_run_at"]) == NOW + 2 * HOUR
        cue.give()
        await finished(client)
        clock.advance(HOUR)
        await asked(gate, 2)
        cue.give()
        await ran(gate, job_id, "skipped", "ok")


async def test_many_who_wait_keep_nobody_waiting() -> None:
    cue = Cue()
    async with house(cued(cue, "done", only="somebody asks")) as gate:
        for n in range(4):
            await begin(gate, "somebody asks", sessionId=f"busy {n}")
            await run_now(gate, await add(gate, session_id=f"busy {n}"))
        job_id = await add(gate, session_id="idle")
        # Each of those who wait looks at its session in the only slot there is.
        async with within(0.25):
            await run_now(gate, job_id)
            await ran(gate, job_id, "ok")


async def test_who_waits_holds_no_slot() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done", only="somebody asks"), clock=clock) as gate:
        busy = await add(gate, "waits", schedule=every(HOUR))
        client = await begin(gate, "somebody asks")
        await asked(gate, 1)
        clock.advance(HOUR)
        await waiting(gate, busy)
        for n in range(3):
            job_id = await add(gate, f"{n}", session_id=f"s{n}")
            await run_now(gate, job_id)
            await ran(gate, job_id, "ok")
        assert await statuses(gate, busy) == ["running"]
        for _ in range(2):
            # The second is for the job, in whose history these words are.
            cue.give()
        assert await finished(client) == "done"
        await ran(gate, busy, "ok")


async def test_two_jobs_of_one_session_take_turns() -> None:
    clock, cue = ManualClock(NOW), Cue()
    settings = {"cron__max_concurrent_runs": 2}
    async with house(cued(cue, "one", "two"), clock=clock, settings=settings) as gate:
        jobs = [await add(gate, message, schedule=every(HOUR)) for message in ("first", "second")]
        clock.advance(HOUR)
        await asked(gate, 1)
        # One slot is left: the marker has it after the second job has looked.
        await mark(gate)
        assert len(asked_besides(gate)) == 1
        cue.give()
        await until(lambda: len(asked_besides(gate)) == 2)
        cue.give()
        for job_id in jobs:
            await ran(gate, job_id, "ok")
        texts = [message["content"] for message in await messages_of(gate)]
        assert texts == ["first", "one", "second", "two"]


async def test_a_chat_is_told_that_a_job_is_at_work() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate)
        await run_now(gate, job_id)
        await asked(gate, 1)
        answer = await said(gate, "hello")
        assert answer.status == 429
        assert answer.error["busy_reason"] == "job"
        cue.give()
        await ran(gate, job_id, "ok")
        cue.give()
        assert text_of(await said(gate, "hello")) == "done"


async def test_a_hold_makes_no_session_busy() -> None:
    clock = ManualClock(NOW)
    story = acting(schedules(30 * SECOND), tells("I wait."), tells("from the job"))
    settings = {"clock__time_tag": "always", "clock__due_window_ms": 0}
    async with house(story, clock=clock, settings=settings) as gate:
        job_id = await add(gate, "the job")
        client = await begin(gate, "remind me")
        await held(gate)
        await run_now(gate, job_id)
        assert await finished(client) == "I wait."
        (run,) = await ran(gate, job_id, "ok")
        assert run["result"] == "from the job"


async def test_a_relay_session_is_never_busy() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, agent="", session_id="s")
        client = await gate.start(None, "x-session-id: s")
        await asked(gate, 1)
        await run_now(gate, job_id)
        await asked(gate, 2)
        for _ in range(2):
            cue.give()
        await ran(gate, job_id, "ok")
        assert (await client.answer()).text == "done"


async def test_what_waits_when_the_gateway_is_stopped_is_given_back() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock, settings={"server__drain_ms": 2000}) as gate:
        jobs = [
            await add(gate, schedule=every(HOUR)),
            await add(gate, schedule=at(NOW + HOUR)),
        ]
        client = await begin(gate, "the user")
        await asked(gate, 1)
        clock.advance(HOUR)
        for job_id in jobs:
            await waiting(gate, job_id)
        gate.gateway.leave(lambda: None)
        for job_id in jobs:
            await seen(partial(statuses, gate, job_id), lambda found: found == [])
            job = await job_of(gate, job_id)
            assert (job["enabled"], ms_of(job["next_run_at"])) == (True, NOW + HOUR)
        assert (await cron(gate, "run", {"job_id": jobs[0]}))["reason"] == "shutting down"
        cue.give()
        assert await finished(client) == "done"
        assert len(asked_besides(gate)) == 1


async def test_what_was_given_back_runs_at_the_next_start(tmp_path: Path) -> None:
    clock, cue = ManualClock(NOW), Cue()
    settings = {**kept(tmp_path), "server__drain_ms": 2000}
    async with house(cued(cue, "done"), clock=clock, settings=settings) as gate:
        job_id = await add(gate, "the job", schedule=at(NOW + HOUR))
        client = await begin(gate, "the user")
        await asked(gate, 1)
        clock.advance(HOUR)
        await waiting(gate, job_id)
        gate.gateway.leave(lambda: None)
        await until(lambda: bool(notes_of(gate, "run_given_back")))
        cue.give()
        await finished(client)
    later = ManualClock(NOW + HOUR + MINUTE)
    async with house(model("done"), clock=later, settings=settings) as gate:
        (run,) = await ran(gate, job_id, "ok")
        assert ms_of(run["due_at"]) == NOW + HOUR


CHANGES = {"removed": "remove", "disabled": "disable"}


@pytest.mark.parametrize("trigger", ["timer", "manual"])
@pytest.mark.parametrize("action", CHANGES.values(), ids=CHANGES)
async def test_a_job_that_is_taken_away_while_its_run_waits_asks_nothing(
    action: str, trigger: str
) -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, "the job", schedule=at(NOW + HOUR))
        client = await begin(gate, "the user")
        await asked(gate, 1)
        if trigger == "timer":
            clock.advance(HOUR)
        else:
            await run_now(gate, job_id)
        await waiting(gate, job_id)
        await cron(gate, action, {"job_id": job_id})
        cue.give()
        await finished(client)
        ends = "run_dropped" if action == "remove" else "run_ended"
        await until(lambda: any(note["job"] == job_id for note in notes_of(gate, ends)))
        assert len(asked_besides(gate)) == 1
        if action == "disable":
            (run,) = await ran(gate, job_id, "skipped")
            assert "disabled" in run["error"]
        assert await inbox(gate, "helper") == []
