"""Jobs that fail for good or miss their times: they are tried again, and somebody is told."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import begin, messages_of
from tests.agents.talking import said as says
from tests.gateway.wire import Cue, get, hanging
from tests.jobs.models import cued, failing
from tests.jobs.test_jobs_crash import Door, settings
from tests.jobs.words import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add,
    at,
    cron,
    events_of,
    every,
    house,
    inbox,
    job_of,
    ms_of,
    ran,
    run_now,
    said,
    seen,
    statuses,
)
from tests.run import Running, until
from tests.sessions.process import process
from tests.sessions.talk import kept, model
from tests.wire.fake import fake_upstream

RETRIES = [30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE]
PLACES = {
    "agent": {"agent": "helper"},
    "agent, isolated": {"agent": "helper", "session": "isolated"},
    "relay": {"agent": ""},
    "relay, isolated": {"agent": "", "session": "isolated"},
}
SESSIONS = {"helper": "helper", "": "s"}


async def all_tries(gate: Running, clock: ManualClock, job_id: str, status: str) -> list[int]:
    """Let a job be tried until it is given up; return how long it waited each time."""
    waits = []
    for count in range(1, len(RETRIES) + 1):
        await ran(gate, job_id, *[status] * count)
        due = ms_of((await job_of(gate, job_id))["next_run_at"])
        waits.append(due - clock.now_ms())
        clock.set(due)
    runs = await ran(gate, job_id, *[status] * 5)
    # Each is a run of its own.
    assert [ms_of(run["due_at"]) for run in runs][1:] == [
        NOW + SECOND + sum(waits[:n]) for n in range(1, 5)
    ]
    return waits


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_one_time_job_is_tried_again_and_its_failure_told_once(place: Any) -> None:
    clock = ManualClock(NOW)
    session = SESSIONS[place["agent"]]
    async with house(failing(says="no luck"), clock=clock) as gate:
        job_id = await add(
            gate, **place, name="tea", schedule=at(NOW + SECOND), delete_after_run=True
        )
        clock.advance(SECOND)
        assert await all_tries(gate, clock, job_id, "error") == RETRIES
        (item,) = await seen(lambda: inbox(gate, session), lambda found: len(found) > 0)
        assert (item["name"], item["status"]) == ("tea", "failed")
        assert (
            item["text"]
            == "It was tried 5 times and is not tried again; the last try failed: no luck"
        )
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["next_run_at"]) == (False, None)
        assert "5" in job["disabled_reason"]
        clock.advance(DAY)
        await run_now(gate, job_id)
        await ran(gate, job_id, *["error"] * 6)
        # Who asks by hand sees it.
        assert len(await inbox(gate, session)) == 1


async def test_a_retry_that_goes_well_is_the_last() -> None:
    clock = ManualClock(NOW)
    async with house(failing("", "", "done"), clock=clock) as gate:
        job_id = await add(gate, schedule=at(NOW + SECOND), delete_after_run=True)
        clock.advance(SECOND)
        for count, wait in enumerate(RETRIES[:2], 1):
            await ran(gate, job_id, *["error"] * count)
            clock.advance(wait)
        await seen(lambda: cron(gate, "list"), lambda found: not found["jobs"])
        assert await inbox(gate, "helper") == []


async def test_retries_stay_within_the_grace() -> None:
    clock = ManualClock(NOW)
    grace = {"cron__misfire_grace_ms": 40 * SECOND}
    async with house(failing(), clock=clock, settings=grace) as gate:
        job_id = await add(gate, schedule=at(NOW + SECOND))
        clock.advance(SECOND)
        await ran(gate, job_id, "error")
        clock.advance(30 * SECOND)
        await ran(gate, job_id, "error", "error")
        assert (await job_of(gate, job_id))["enabled"] is False
        (item,) = await inbox(gate, "helper")
        assert "tried 2 times" in item["text"]


async def test_a_one_time_job_of_a_busy_session_is_tried_again() -> None:
    clock, cue = ManualClock(NOW), Cue()
    quick = {"cron__idle_retry_ms": 10, "cron__max_busy_wait_ms": 30}
    async with house(cued(cue, "to the user", "to the job"), clock=clock, settings=quick) as gate:
        job_id = await add(gate, schedule=at(NOW + SECOND))
        client = await begin(gate, "the user")
        await until(lambda: len(gate.requests) == 1)
        clock.advance(SECOND)
        await ran(gate, job_id, "skipped")
        assert (await job_of(gate, job_id))["enabled"] is True
        cue.give()
        await client.answer()
        client.leave()
        clock.advance(30 * SECOND)
        await until(lambda: len(gate.requests) == 2)
        cue.give()
        await ran(gate, job_id, "skipped", "ok")
        assert (await job_of(gate, job_id))["enabled"] is False


async def test_a_restart_between_two_tries(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    async with house(failing(), clock=clock, settings=kept(tmp_path)) as gate:
        job_id = await add(gate, schedule=at(NOW + SECOND))
        clock.advance(SECOND)
        await ran(gate, job_id, "error")
    clock = ManualClock(NOW + SECOND + 30 * SECOND + MINUTE)
    async with house(failing(), clock=clock, settings=kept(tmp_path)) as gate:
        await ran(gate, job_id, "error", "error")
        assert ms_of((await job_of(gate, job_id))["next_run_at"]) == clock.now_ms() + MINUTE
    async with house(model(), clock=ManualClock(NOW + DAY), settings=kept(tmp_path)) as gate:
        await ran(gate, job_id, "error", "error", "missed")
        (item,) = await inbox(gate, "helper")
        assert (item["status"], item["text"][:16]) == ("missed", "1 run was missed")
        assert (await job_of(gate, job_id))["enabled"] is False


async def test_a_kill_in_the_only_try(tmp_path: Path) -> None:
    """It is interrupted, and tried again; with no grace left for that, the session is told once."""
    async with fake_upstream(hanging()) as fake:
        short = settings(fake, cron__misfire_grace_ms=20 * SECOND)
        async with process(tmp_path, short) as gate:
            job = {"schedule_text": "in 1 second", "message": "go", "agent_id": "helper"}
            job_id = (await cron(Door(gate.port), "add", job))["job"]["job_id"]
            await until(lambda: len(fake.requests) == 1, patience=30)
            await gate.kill()
        for _ in range(2):
            async with process(tmp_path, short) as gate:
                door = Door(gate.port)
                await seen(partial(statuses, door, job_id), lambda f: f == ["interrupted"])
                found = await door.fetch(get("/api/sessions/helper/inbox?wait_ms=5000"))
                (item,) = found.json["items"]
                assert item["text"].startswith("It was tried once and is not tried again")
                await gate.kill()


async def test_a_job_that_is_disabled_by_failures_is_told_of() -> None:
    clock = ManualClock(NOW)
    limit = {"cron__max_consecutive_failures": 2}
    async with house(failing(says="no luck"), clock=clock, settings=limit) as gate:
        job_id = await add(gate, name="news", schedule=every(DAY))
        for count in (1, 2):
            clock.advance(DAY)
            await ran(gate, job_id, *["error"] * count)
        (item,) = await seen(lambda: inbox(gate, "helper"), lambda found: len(found) > 0)
        assert item["text"] == (
            "It failed 2 times in a row and is disabled now; the last error: no luck"
        )


def begins_with(text: str, items: list[dict[str, Any]]) -> bool:
    """Tell whether there is one item, and its text begins so."""
    return [item["text"][: len(text)] for item in items] == [text]


async def test_missed_times_are_told_with_their_count(tmp_path: Path) -> None:
    grace = {**kept(tmp_path), "cron__misfire_grace_ms": MINUTE}
    async with house(model(), clock=ManualClock(NOW), settings=grace) as gate:
        await add(gate, agent="", name="news", schedule=every(HOUR))
    for hours, count in ((3, 3), (5, 5)):
        clock = ManualClock(NOW + hours * HOUR + 2 * MINUTE)
        async with house(model(), clock=clock, settings=grace) as gate:
            says_all = f"{count} runs were missed, the last at "
            (item,) = await seen(
                partial(inbox, gate),
                partial(begins_with, says_all),
            )
            assert item["status"] == "missed"


WAYS = {
    "relay": ("", "s"),
    "agent": ("helper", "helper"),
    "agent without tools": ("aside", "aside"),
}


@pytest.mark.parametrize("agent, session", WAYS.values(), ids=WAYS)
async def test_the_next_message_of_the_session_brings_it(
    agent: str, session: str, tmp_path: Path
) -> None:
    grace = {**kept(tmp_path), "clock__enabled": agent != "aside"}
    async with house(model(), clock=ManualClock(NOW), settings=grace) as gate:
        await add(gate, agent=agent, name="news", schedule=at(NOW + HOUR))
    async with house(model("I see"), clock=ManualClock(NOW + DAY), settings=grace) as gate:
        await seen(lambda: inbox(gate, session), lambda found: len(found) > 0)
        if agent:
            await says(gate, "hello", agent=agent)
            (told,) = [m for m in await messages_of(gate, session) if "missed" in m["content"]]
            assert told["role"] == "user"
        else:
            await gate.ask(None, "x-session-id: s")
        texts = [text for _, text in said(gate.requests[-1])]
        line = '[Scheduled task "news" missed]: 1 run was missed at '
        assert sum(str(text).startswith(line) for text in texts) == 1
        assert await inbox(gate, session) == []


async def test_subscribers_read_of_it_in_the_last_event() -> None:
    clock = ManualClock(NOW)
    none = {"cron__misfire_grace_ms": SECOND}
    async with house(failing(says="no luck"), clock=clock, settings=none) as gate:
        job_id = await add(gate, agent="", schedule=at(NOW + SECOND))
        clock.advance(SECOND)
        await ran(gate, job_id, "error")
        _, (_, told) = await events_of(gate, "s", "run.finished")
        (item,) = await inbox(gate)
        assert told["data"]["notice"] == item["text"]
