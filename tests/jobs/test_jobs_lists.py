"""Lists of jobs and runs over REST, several jobs at once, and whoever hears of changes."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.clock import ManualClock
from gateway.jobs.model import Job
from gateway.jobs.schedule.model import Cron, Every, next_due
from gateway.timestamps import iso
from tests.gateway.wire import get
from tests.jobs.models import failing
from tests.jobs.words import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    add,
    ask,
    cron,
    every,
    house,
    job_of,
    key,
    keys,
    ms_of,
    ran,
    refused,
    run_now,
)
from tests.run import Running, until
from tests.sessions.talk import model, notes_of

PATHS = ["/api/cron", "/wunder/cron"]


def clock() -> ManualClock:
    return ManualClock(NOW)


def names(found: Any) -> list[str]:
    return [job["name"] for job in found["jobs"]]


@pytest.mark.parametrize("path", PATHS)
async def test_jobs_come_page_by_page(path: str) -> None:
    async with house(model(), clock=clock()) as gate:
        for name in ("pear", "Apple", "fig"):
            await add(gate, name=name)
        whole = await cron(gate, "list", path=path)
        assert (names(whole), whole["next"]) == (["pear", "Apple", "fig"], None)
        first = await cron(gate, "list", path=path, limit=2, sort="name")
        assert names(first) == ["Apple", "fig"]
        last = await cron(gate, "list", path=path, limit=2, sort="name", after=first["next"])
        assert (names(last), last["next"]) == (["pear"], None)
        assert names(await cron(gate, "list", path=path, sort="-name")) == ["pear", "fig", "Apple"]
        assert names(await cron(gate, "list", path=path, q="APP")) == ["Apple"]


async def test_states_and_totals() -> None:
    async with house(model(), clock=clock()) as gate:
        for name in ("a", "b"):
            await add(gate, name=name)
        off = await add(gate, name="c")
        await cron(gate, "disable", {"job_id": off})
        found = await cron(gate, "list", state="off", limit=9)
        assert names(found) == ["c"]
        assert found["jobs"][0]["state"] == "off"
        assert found["jobs"][0]["next_times"] == []
        assert found["totals"] == {"all": 3, "on": 2, "failing": 0, "running": 0, "off": 1}
        assert names(await cron(gate, "list", state="on")) == ["a", "b"]
        assert names(await cron(gate, "list", state="failing")) == []


@pytest.mark.parametrize(
    "query", [{"state": "odd"}, {"sort": "odd"}, {"limit": "0"}, {"limit": "5", "after": "odd"}]
)
async def test_a_list_that_cannot_be(query: dict[str, str]) -> None:
    async with house(model(), clock=clock()) as gate:
        status, code, sentence = refused(await ask(gate, "list", **query))
        assert (status, code) == (400, "bad_request")
        assert next(reversed(query)) in sentence


async def test_what_a_job_shows_of_its_runs_and_its_schedule() -> None:
    async with house(failing("fine"), clock=clock()) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        job = await job_of(gate, job_id)
        assert job["words"] == {"en": "every hour", "zh": "每小时"}
        assert job["next_times"] == [iso(NOW + hours * HOUR) for hours in range(1, 6)]
        assert (job["state"], job["last_runs"], job["retry_at"]) == ("on", [], None)
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok", "error")
        job = await job_of(gate, job_id)
        assert (job["state"], job["last_runs"]) == ("failing", ["ok", "error"])
        (listed,) = (await cron(gate, "list", limit=1))["jobs"]
        assert listed == job


async def test_a_job_that_waits_after_failures_says_until_when() -> None:
    at = clock()
    async with house(failing(), clock=at) as gate:
        job_id = await add(gate, schedule=every(10_000))
        at.advance(10_000)
        await ran(gate, job_id, "error")
        job = await job_of(gate, job_id)
        assert (job["state"], job["waits_ms"]) == ("failing", 30_000)
        assert job["retry_at"] == job["next_run_at"] == job["next_times"][0]
        assert ms_of(job["retry_at"]) == NOW + 40_000


@pytest.mark.parametrize("path", PATHS)
async def test_runs_over_all_jobs_page_by_page_without_results(path: str) -> None:
    async with house(model("one", "two", "three"), clock=clock()) as gate:
        jobs = [await add(gate, name=name) for name in ("a", "b")]
        for count, job_id in enumerate((*jobs, jobs[0])):
            await run_now(gate, job_id)
            await ran(gate, job_id, *["ok"] * (1 + count // 2))
        whole = await cron(gate, "runs", path=path)
        assert whole["job_id"] is None
        assert [run["job_id"] for run in whole["runs"]] == [jobs[0], jobs[1], jobs[0]]
        first = await cron(gate, "runs", path=path, limit=2, results=0)
        assert [run["summary"] for run in first["runs"]] == ["three", "two"]
        assert not any("result" in run for run in first["runs"])
        last = await cron(gate, "runs", path=path, limit=2, after=first["next"])
        assert ([run["result"] for run in last["runs"]], last["next"]) == (["one"], None)
        of_job = await cron(gate, "runs", path=path, job_id=jobs[0], limit=1)
        assert of_job["job_id"] == jobs[0]
        rest = await cron(gate, "runs", path=path, job_id=jobs[0], after=of_job["next"])
        assert [run["result"] for run in rest["runs"]] == ["one"]
        (run,) = rest["runs"]
        found = (await gate.fetch(get(f"{path}/run?run_id={run['run_id']}"))).json["data"]
        assert found == {"run": run}


async def test_a_run_that_nobody_knows() -> None:
    async with house(model(), clock=clock()) as gate:
        unknown = refused(await gate.fetch(get("/api/cron/run?run_id=run_x")))
        assert unknown == (404, "not_found", "No run has the id 'run_x'.")
        assert refused(await gate.fetch(get("/api/cron/run")))[0] == 400
        assert "after" in refused(await ask(gate, "runs", after="odd"))[2]


@pytest.mark.parametrize("agent", ["", "helper"])
async def test_the_exchange_of_a_run_is_the_one_in_the_log(agent: str) -> None:
    at = clock()
    async with house(model("fine"), clock=at) as gate:
        job_id = await add(gate, agent=agent, session_id="s", schedule=every(HOUR))
        at.advance(HOUR + 1500)
        (run,) = await ran(gate, job_id, "ok")
        assert (run["exchange_id"], run["late_ms"]) == (run["run_id"], 1500)
        await until(lambda: bool(notes_of(gate, "exchange")))
        assert [line["exchange"] for line in notes_of(gate, "exchange")] == [run["exchange_id"]]


async def test_a_run_that_asked_no_model_has_no_exchange() -> None:
    async with house(model(), clock=clock()) as gate:
        rows = gate.gateway.parts.rows.jobs
        job_id = await add(gate, agent="")
        stored = await rows.get(job_id)
        assert stored is not None
        await rows.change(job_id, None, lambda job: (replace(job, model="gone"), job))
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert run["exchange_id"] is None


# Changes.


@pytest.mark.parametrize("path", PATHS)
async def test_a_job_that_changed_meanwhile_is_not_changed(path: str) -> None:
    at = clock()
    async with house(model(), clock=at) as gate:
        seen = await job_of(gate, await add(gate, name="mine"))
        at.advance(MINUTE)
        wish = {"job_id": seen["job_id"], "name": "yours"}
        changed = (await cron(gate, "update", wish, path=path))["job"]
        late = {"job_id": seen["job_id"], "name": "late", "if_updated_at": seen["updated_at"]}
        answer = await ask(gate, "update", late, path=path)
        error = answer.json["error"]
        assert (answer.status, answer.json["ok"], error["code"]) == (409, False, "conflict")
        assert error["job"] == changed == await job_of(gate, seen["job_id"])
        again = {"job": {**late, "if_updated_at": changed["updated_at"]}}
        assert (await cron(gate, "update", again, path=path))["job"]["name"] == "late"


async def test_an_admin_who_is_late() -> None:
    at = clock()
    tables = {"keys": keys("ann", "root", admin="root")}
    async with house(model(), clock=at, tables=tables) as gate:
        job_id = await add(gate, "one", key("ann"))
        late = {"job_id": job_id, "name": "x", "if_updated_at": iso(NOW - 1)}
        answer = await ask(gate, "update", late, key("root"), path="/api/admin/cron")
        assert (answer.status, answer.json["error"]["job"]["job_id"]) == (409, job_id)


async def test_a_new_job_has_not_changed_meanwhile() -> None:
    async with house(model(), clock=clock()) as gate:
        wish = {"message": "x", "schedule_text": "hourly", "session_id": "s"}
        answer = await ask(gate, "add", {**wish, "if_updated_at": iso(NOW)})
        assert "no member 'if_updated_at'" in refused(answer)[2]


@pytest.mark.parametrize("path", PATHS)
async def test_several_jobs_at_once(path: str) -> None:
    async with house(model("fine"), clock=clock()) as gate:
        jobs = [await add(gate, name=name) for name in "abc"]

        async def bulk(action: str, *job_ids: str) -> Any:
            return await cron(gate, "bulk", {"action": action, "job_ids": job_ids}, path=path)

        found = await bulk("disable", jobs[1], "job_x", jobs[0], jobs[1])
        unknown = {"job_id": "job_x", "code": "not_found", "message": "No job has the id 'job_x'."}
        assert found == {"done": [jobs[1], jobs[0]], "failed": [unknown]}
        assert names(await cron(gate, "list", state="off")) == ["a", "b"]
        assert await bulk("enable", *jobs) == {"done": jobs, "failed": []}
        assert names(await cron(gate, "list", state="off")) == []
        assert await bulk("run", jobs[2]) == {"done": [jobs[2]], "failed": []}
        await ran(gate, jobs[2], "ok")
        assert await bulk("remove", *jobs[:2]) == {"done": jobs[:2], "failed": []}
        assert names(await cron(gate, "list")) == ["c"]
        assert await bulk("run") == {"done": [], "failed": []}


async def test_what_cannot_be_done_with_several_says_why() -> None:
    async with house(model(), clock=clock(), settings={"cron__enabled": False}) as gate:
        job_id = await add(gate, schedule={"kind": "at", "at": iso(NOW + HOUR)})
        found = await cron(gate, "bulk", {"action": "run", "job_ids": [job_id]})
        (failed,) = found["failed"]
        assert (found["done"], failed["code"]) == ([], "not_queued")
        assert failed["message"] == "It was not started: switched off."


async def test_a_past_time_cannot_be_enabled_with_others() -> None:
    at = clock()
    async with house(model(), clock=at) as gate:
        past = await add(gate, schedule={"kind": "at", "at": iso(NOW + HOUR)})
        other = await add(gate)
        await cron(gate, "bulk", {"action": "disable", "job_ids": [past, other]})
        at.advance(2 * HOUR)
        found = await cron(gate, "bulk", {"action": "enable", "job_ids": [past, other]})
        assert found["done"] == [other]
        assert [one["code"] for one in found["failed"]] == ["bad_request"]
        assert "in the past" in found["failed"][0]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"action": "explode", "job_ids": []},
        {"job_ids": []},
        {"action": "run"},
        {"action": "run", "job_ids": "job_x"},
        {"action": "run", "job_ids": ["x"] * 501},
        {"action": "run", "job_ids": [""]},
        {"action": "run", "job_ids": [], "more": 1},
    ],
)
async def test_what_is_not_said_well_about_several(body: Any) -> None:
    async with house(model(), clock=clock()) as gate:
        assert refused(await ask(gate, "bulk", body))[:2] == (400, "bad_request")


# Planned runs.


@pytest.mark.parametrize("path", PATHS)
async def test_the_calendar_of_the_next_day(path: str) -> None:
    async with house(model(), clock=clock()) as gate:
        await add(gate, schedule=every(HOUR))
        await add(gate, schedule={"kind": "at", "at": iso(NOW + 30 * MINUTE)})
        off = await add(gate, schedule=every(MINUTE))
        await cron(gate, "disable", {"job_id": off})
        found = await cron(gate, "calendar", path=path, bucket_ms=HOUR)
        # The first run is an hour ahead, so it falls into the second span.
        assert found == {
            "from": iso(NOW),
            "bucket_ms": HOUR,
            "counts": [1, *[1] * 23],
            "total": 24,
        }
        half = {"from": iso(NOW + HOUR), "to": NOW + 2 * HOUR, "bucket_ms": 30 * MINUTE}
        assert (await cron(gate, "calendar", path=path, **half))["counts"] == [1, 0]


@pytest.mark.parametrize(
    "query, names_it",
    [
        ({"from": "x"}, "from"),
        ({"from": "999999999999999"}, "from"),
        ({"to": iso(NOW - 1)}, "to"),
        ({"to": iso(NOW + 400 * DAY)}, "to"),
        ({"bucket_ms": "1"}, "bucket_ms"),
        ({"bucket_ms": "0"}, "bucket_ms"),
    ],
)
async def test_a_calendar_that_cannot_be(query: dict[str, str], names_it: str) -> None:
    async with house(model(), clock=clock()) as gate:
        status, _, sentence = refused(await ask(gate, "calendar", **query))
        assert (status, sentence.split()[0]) == (400, names_it)


# Who hears of changes.


async def test_whoever_listens_hears_of_each_change() -> None:
    async with house(model("fine"), clock=clock()) as gate:
        heard: list[tuple[str, str]] = []
        stop = gate.gateway.serving.jobs.subscribe(lambda owner, job: heard.append((owner, job)))
        job_id = await add(gate)
        one = ("local", job_id)
        assert heard == [one]
        for action in ("disable", "enable"):
            await cron(gate, action, {"job_id": job_id})
        assert heard == [one] * 3
        await run_now(gate, job_id)
        # It begins, and ends.
        await until(lambda: len(heard) == 5)
        await ran(gate, job_id, "ok")
        await cron(gate, "remove", {"job_id": job_id})
        assert heard == [one] * 6
        stop()
        await add(gate)
        assert len(heard) == 6


# Many jobs.


async def fill(gate: Running, count: int) -> None:
    """Store many jobs of all kinds."""
    rows = gate.gateway.parts.rows.jobs
    for number in range(count):
        minute, hour = number % 60, number // 60 % 24
        cron_job = Cron(f"{minute} {hour} * * 1-5", "America/New_York")
        schedule = cron_job if number % 2 else Every(HOUR + number, NOW)
        due_ms = next_due(schedule, NOW)
        made = Job(
            job_id=f"job_{number:05}",
            user_id="local",
            session_id=f"s{number}",
            name=f"Job {number * 7919 % count}",
            schedule=schedule,
            message="Look at the disk. " * 20,
            due_ms=due_ms,
            next_run_ms=due_ms,
            created_ms=NOW + number,
        )
        await rows.add(made, lambda known: known, count)


@pytest.mark.parametrize("sort", ["name", "-next"])
async def test_a_page_of_thousands_is_small_and_quick(sort: str) -> None:
    async with house(model(), clock=clock(), settings={"cron__enabled": False}) as gate:
        await fill(gate, 2000)
        took = []
        for _ in range(3):
            begun = time.perf_counter()
            answer = await ask(gate, "list", limit=50, sort=sort)
            took.append(time.perf_counter() - begun)
        assert answer.json["data"]["totals"]["all"] == 2000
        assert len(answer.body) < 100_000
        # Measured: 15 ms, and 35 ms of 5,000 jobs. Many times that would be a run read for each job.
        assert min(took) < 0.5
