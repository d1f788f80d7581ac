"""How runs end, and what that makes of their jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import messages_of, says
from tests.gateway.wire import Cue, hanging, in_turn, streaming, turn
from tests.jobs.models import cued, failing
from tests.jobs.words import (
    ASIDE,
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add,
    ask,
    asked,
    asked_besides,
    at,
    cron,
    events_of,
    every,
    house,
    inbox,
    job_of,
    let_pass,
    ms_of,
    ran,
    refused,
    run_now,
    runs_of,
    seen,
)
from tests.run import Running, until
from tests.sessions.talk import kept, model, notes_of

BACK_OFF = [30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, HOUR]


async def test_a_run_that_takes_too_long_is_cut_off() -> None:
    clock = ManualClock(NOW)
    settings = {"cron__run_timeout_ms": 50}
    story = in_turn(hanging(), streaming(turn("hi")))
    async with house(story, clock=clock, settings=settings) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        clock.advance(HOUR)
        (run,) = await ran(gate, job_id, "error")
        assert "50 ms" in run["error"]
        await gate.quiet()
        job = await job_of(gate, job_id)
        assert (job["last_status"], job["consecutive_failures"]) == ("error", 1)
        assert ms_of(job["next_run_at"]) == NOW + 2 * HOUR
        # Nobody holds the session any more.
        assert (await gate.fetch(says("hello"))).status == 200


async def test_failures_in_a_row_wait_longer_and_longer() -> None:
    clock = ManualClock(NOW)
    settings = {"cron__max_consecutive_failures": 100}
    async with house(failing(), clock=clock, settings=settings) as gate:
        job_id = await add(gate, schedule=every(SECOND))
        clock.advance(SECOND)
        waits = []
        for count in range(1, len(BACK_OFF) + 1):
            await failed(gate, job_id, count)
            due = ms_of((await job_of(gate, job_id))["next_run_at"])
            waits.append(due - clock.now_ms())
            clock.set(due)
        assert waits == BACK_OFF


async def failed(gate: Running, job_id: str, count: int) -> None:
    """Wait until so many runs have failed."""
    await seen(lambda: job_of(gate, job_id), lambda job: job["consecutive_failures"] == count)


async def test_after_too_many_failures_a_job_rests() -> None:
    clock = ManualClock(NOW)
    async with house(failing(says="no luck"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(DAY))
        for count in range(1, 6):
            clock.advance(DAY)
            await failed(gate, job_id, count)
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["next_run_at"]) == (False, None)
        assert "5" in job["disabled_reason"]
        assert job["last_error"] == "no luck"
        await let_pass(gate, clock, 10 * DAY)
        assert len(asked_besides(gate)) == 5
        job = (await cron(gate, "enable", {"job_id": job_id}))["job"]
        assert (job["consecutive_failures"], job["disabled_reason"]) == (0, None)


async def test_an_answer_forgives_all_failures() -> None:
    clock = ManualClock(NOW)
    async with house(failing("", "", "done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(DAY))
        for wanted in (["error"], ["error"] * 2, ["error", "error", "ok"]):
            clock.advance(DAY)
            await ran(gate, job_id, *wanted)
        job = await job_of(gate, job_id)
        assert (job["consecutive_failures"], job["last_error"]) == (0, None)


@pytest.mark.parametrize("agent", ["helper", ""])
async def test_one_that_is_to_be_deleted_is_gone_after_it_went_well(agent: str) -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, agent=agent, schedule=at(NOW + SECOND), delete_after_run=True)
        clock.advance(SECOND)
        await until(lambda: len(gate.requests) == 1)
        await seen(lambda: cron(gate, "list"), lambda found: not found["jobs"])
        assert refused(await ask(gate, "runs", job_id=job_id))[0] == 404


async def test_a_job_that_is_removed_during_its_run_stays_removed() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        clock.advance(HOUR)
        await asked(gate, 1)
        await cron(gate, "remove", {"job_id": job_id})
        cue.give()
        await until(lambda: bool(notes_of(gate, "run_dropped")))
        assert (await cron(gate, "list"))["jobs"] == []
        assert await inbox(gate) == []


async def test_a_job_that_is_disabled_during_its_run_stays_disabled() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        clock.advance(HOUR)
        await asked(gate, 1)
        await cron(gate, "disable", {"job_id": job_id})
        cue.give()
        await ran(gate, job_id, "ok")
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["next_run_at"], job["last_status"]) == (False, None, "ok")
        assert job["disabled_reason"] is None


async def test_a_job_that_is_changed_during_its_run_keeps_the_change() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, "old", schedule=every(HOUR))
        clock.advance(HOUR)
        await asked(gate, 1)
        await cron(gate, "update", {"job_id": job_id, "message": "new", "schedule": every(MINUTE)})
        cue.give()
        await ran(gate, job_id, "ok")
        job = await job_of(gate, job_id)
        assert job["payload"] == {"message": "new"}
        assert ms_of(job["next_run_at"]) == NOW + HOUR + MINUTE


async def test_only_so_many_runs_are_kept() -> None:
    async with house(model(), clock=ManualClock(NOW), settings={"cron__keep_runs": 3}) as gate:
        job_id = await add(gate)
        for count in range(1, 6):
            await run_now(gate, job_id)
            await ran(gate, job_id, *["ok"] * min(count, 3))
        await asked(gate, 5)
        assert [run["result"] for run in await runs_of(gate, job_id)] == [
            "answer 3",
            "answer 4",
            "answer 5",
        ]


async def test_a_failure_in_the_middle_of_an_answer_is_one() -> None:
    broken = turn("half of")[: -len(b"data: [DONE]\n\n") - 40]
    async with house(streaming(broken), clock=ManualClock(NOW)) as gate:
        for agent in ("helper", ""):
            job_id = await add(gate, agent=agent)
            await run_now(gate, job_id)
            (run,) = await ran(gate, job_id, "error")
            assert run["error"]
        # What an agent said before it broke off is in its conversation.
        assert [m["role"] for m in await messages_of(gate)] == ["user", "assistant"]


async def test_a_model_that_is_gone_from_the_configuration_is_an_error(tmp_path: Path) -> None:
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        job_id = await add(gate, agent="", model="m")
    tables = {"models": [{"name": "n", "routes": ["a/n"]}], "agents": []}
    clock = ManualClock(NOW)
    async with house(model(), clock=clock, settings=kept(tmp_path), tables=tables) as gate:
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "'m'" in run["error"]
        assert gate.requests == []


async def test_an_agent_that_is_gone_from_the_configuration_is_an_error(tmp_path: Path) -> None:
    async with house(model(), clock=ManualClock(NOW), settings=kept(tmp_path)) as gate:
        job_id = await add(gate)
    tables = {"agents": [ASIDE]}
    clock = ManualClock(NOW)
    async with house(model(), clock=clock, settings=kept(tmp_path), tables=tables) as gate:
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "aside" in run["error"]


async def test_events_tell_of_each_run() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        job_id = await add(gate, agent="", name="news")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "ok")
        started, finished = await events_of(gate, "s", "run.finished")
        assert (started[0], finished[0]) == ("run.started", "run.finished")
        assert started[1]["data"]["status"] == "running"
        assert finished[1]["data"] == {"name": "news", **run}
        assert json.dumps(finished[1]["data"])
