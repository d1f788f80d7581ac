"""Jobs over REST: every route and how it says no."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.gateway.wire import hanging, request
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    add,
    ask,
    at,
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
    runs_of,
)
from tests.run import Running
from tests.sessions.talk import JSON, model

DAILY = {"kind": "cron", "cron": "0 9 * * *", "tz": "Asia/Shanghai"}
JOB_MEMBERS = [
    "job_id",
    "user_id",
    "session_id",
    "agent_id",
    "model",
    "name",
    "enabled",
    "delete_after_run",
    "session",
    "schedule",
    "payload",
    "dedupe_key",
    "next_run_at",
    "running_at",
    "run_due_at",
    "last_run_at",
    "last_status",
    "last_error",
    "consecutive_failures",
    "disabled_reason",
    "created_at",
    "updated_at",
    "state",
    "words",
    "next_times",
    "last_runs",
    "retry_at",
    "waits_ms",
]
RUN_MEMBERS = [
    "run_id",
    "job_id",
    "trigger",
    "status",
    "summary",
    "result",
    "error",
    "duration_ms",
    "due_at",
    "started_at",
    "finished_at",
    "missed",
    "late_ms",
    "exchange_id",
]


def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.mark.parametrize("path", ["/api/cron", "/wunder/cron"])
async def test_a_job_is_made_shown_changed_and_removed(path: str) -> None:
    async with house(model(), clock=clock()) as gate:
        given = {"name": "news", "schedule": DAILY, "payload": {"message": " what is new? "}}
        made = await cron(gate, "add", {"job": {**given, "session_id": "s"}}, path=path)
        job = made["job"]
        assert made["deduped"] is False
        assert list(job) == JOB_MEMBERS
        assert job["user_id"] == "local"
        assert (job["session_id"], job["agent_id"], job["session"]) == ("s", "", "main")
        assert job["payload"] == {"message": "what is new?"}
        assert ms_of(job["next_run_at"]) > NOW
        found = await cron(gate, "get", path=path, job_id=job["job_id"])
        assert found == {"job": job}
        assert (await cron(gate, "list", path=path))["jobs"] == [job]
        changed = await cron(gate, "update", {"job_id": job["job_id"], "name": "x"}, path=path)
        assert changed["job"]["name"] == "x"
        assert changed["job"]["schedule"] == job["schedule"]
        gone = await cron(gate, "remove", {"job_id": job["job_id"]}, path=path)
        assert gone == {"removed": True}
        assert (await cron(gate, "list", path=path))["jobs"] == []


async def test_a_job_is_disabled_and_enabled() -> None:
    time = clock()
    async with house(model(), clock=time) as gate:
        job_id = await add(gate)
        job = (await cron(gate, "disable", {"job_id": job_id}))["job"]
        assert (job["enabled"], job["next_run_at"]) == (False, None)
        time.advance(90 * MINUTE)
        job = (await cron(gate, "enable", {"job": {"job_id": job_id}}))["job"]
        assert job["enabled"] is True
        # The grid stands: what came while it rested is not made up for.
        assert ms_of(job["next_run_at"]) == NOW + 2 * HOUR
        assert await runs_of(gate, job_id) == []


async def test_a_job_may_be_sent_back_as_it_was_shown() -> None:
    async with house(model(), clock=clock()) as gate:
        shown = await job_of(gate, await add(gate))
        again = (await cron(gate, "update", {"job": {**shown, "name": "other"}}))["job"]
        assert {**again, "name": shown["name"]} == shown


async def test_runs_are_shown_newest_first() -> None:
    async with house(model("a" * 300, "b"), clock=clock()) as gate:
        job_id = await add(gate)
        for count in (1, 2):
            await run_now(gate, job_id)
            await ran(gate, job_id, *["ok"] * count)
        newest, oldest = (await cron(gate, "runs", job_id=job_id))["runs"]
        assert list(newest) == RUN_MEMBERS
        assert (newest["result"], newest["summary"]) == ("b", "b")
        assert (oldest["result"], oldest["summary"]) == ("a" * 300, "a" * 200)
        assert oldest["trigger"] == "manual"
        (only,) = (await cron(gate, "runs", job_id=job_id, limit=1))["runs"]
        assert only == newest


async def test_the_status_counts_ones_own_jobs() -> None:
    async with house(model(), clock=clock(), tables={"keys": keys("ann", "bob")}) as gate:
        await add(gate, "one", key("ann"), schedule=every(HOUR))
        other = await add(gate, "two", key("ann"), schedule=every(MINUTE))
        await cron(gate, "disable", {"job_id": other}, key("ann"))
        found = await cron(gate, "status", None, key("ann"))
        assert found["jobs"] == {
            "total": 2,
            "enabled": 1,
            "running": 0,
            "next_run_at": "2026-02-02T22:22:38.229Z",
        }
        assert found["scheduler"] == {
            "enabled": True,
            "state": "running",
            "runs": 0,
            "max_concurrent_runs": 1,
        }
        assert (await cron(gate, "status", None, key("bob")))["jobs"]["total"] == 0


async def test_jobs_are_listed_by_session_and_agent() -> None:
    async with house(model(), clock=clock()) as gate:
        first = await add(gate, agent="", session_id="one")
        second = await add(gate, agent="helper", session_id="one")
        third = await add(gate, agent="helper")
        for query, wanted in (
            ({"session_id": "one"}, [first, second]),
            ({"agent_id": "helper"}, [second, third]),
            ({"session_id": "helper", "agent_id": "helper"}, [third]),
            ({"session_id": "", "agent_id": ""}, [first, second, third]),
            ({"session_id": "none"}, []),
        ):
            found = (await cron(gate, "list", **query))["jobs"]
            assert [job["job_id"] for job in found] == wanted


async def test_a_known_dedupe_key_changes_the_job_that_has_it() -> None:
    async with house(model(), clock=clock()) as gate:
        job_id = await add(gate, dedupe_key="k")
        body = {"schedule": every(MINUTE), "message": "new", "session_id": "s", "dedupe_key": "k"}
        again = await cron(gate, "add", body)
        assert again["deduped"] is True
        assert again["job"]["job_id"] == job_id
        assert again["job"]["payload"] == {"message": "new"}
        other = await add(gate, "other", dedupe_key="l")
        answer = await ask(gate, "update", {"job_id": other, "dedupe_key": "k"})
        assert refused(answer)[:2] == (409, "conflict")
        assert len((await cron(gate, "list"))["jobs"]) == 2


@pytest.mark.parametrize(
    "body, says",
    [
        ({}, "message"),
        ({"message": "x"}, "schedule"),
        ({"message": "x", "schedule": every(HOUR)}, "session_id"),
        ({"message": "x", "schedule": every(HOUR), "agent_id": "nobody"}, "helper, aside"),
        ({"message": "x", "schedule": every(HOUR), "session_id": "s", "odd": 1}, "odd"),
        ({"message": "x", "schedule": every(HOUR), "session_id": "ü" * 200}, "session_id"),
        ({"message": "x", "schedule": every(HOUR), "session_id": "s", "job_id": "j"}, "job_id"),
        ({"message": "x", "schedule": every(HOUR), "session_id": "s", "model": "n"}, "'n'"),
        ({"message": "x", "schedule": at(NOW - 1), "session_id": "s"}, "at"),
        ({"job": 7}, "job"),
    ],
)
async def test_a_job_that_cannot_be(body: Any, says: str) -> None:
    async with house(model(), clock=clock()) as gate:
        status, code, message = refused(await ask(gate, "add", body))
        assert (status, code) == (400, "bad_request")
        assert says in message
        assert (await cron(gate, "list"))["jobs"] == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"7", b'{"a":NaN}', b'{"message":"\xff"}'])
async def test_a_body_that_cannot_be_read(body: bytes) -> None:
    async with house(model(), clock=clock()) as gate:
        for action in ("add", "update", "remove", "enable", "disable", "run"):
            assert refused(await ask(gate, action, body))[:2] == (400, "bad_request")


async def test_a_body_of_another_kind() -> None:
    async with house(model(), clock=clock()) as gate:
        plain = request("POST", "/api/cron/add", "content-type: text/plain", body=b"{}")
        assert refused(await gate.fetch(plain))[:2] == (415, "unsupported_media_type")


async def test_a_question_that_names_no_job() -> None:
    async with house(model(), clock=clock()) as gate:
        assert refused(await ask(gate, "get"))[0] == 400
        for action in ("get", "runs"):
            assert refused(await ask(gate, action, job_id="job_x"))[:2] == (404, "not_found")


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5"])
async def test_a_limit_that_is_none(limit: str) -> None:
    async with house(model(), clock=clock()) as gate:
        job_id = await add(gate)
        assert "limit" in refused(await ask(gate, "runs", job_id=job_id, limit=limit))[2]


async def test_other_methods_and_paths() -> None:
    async with house(model(), clock=clock()) as gate:
        for method, action, allowed in (
            ("POST", "list", "GET"),
            ("DELETE", "get", "GET"),
            ("GET", "add", "POST"),
            ("PUT", "update", "POST"),
        ):
            answer = await gate.fetch(request(method, f"/api/cron/{action}", JSON, body=b"{}"))
            assert refused(answer)[:2] == (405, "method_not_allowed")
            assert answer.headers["allow"] == allowed
        for path in ("/api/cron/what", "/wunder/cron/", "/api/admin/cron/add"):
            answer = await gate.fetch(request("POST", path, JSON, body=b"{}"))
            assert refused(answer)[:2] == (404, "not_found")


async def test_ones_own_id_is_taken() -> None:
    async with house(model(), clock=clock(), tables={"keys": keys("ann", "bob")}) as gate:
        job_id = await add(gate, "mine", key("ann"))
        body = {"message": "x", "schedule": every(HOUR), "session_id": "s", "job_id": job_id}
        assert refused(await ask(gate, "add", body, key("ann")))[:2] == (409, "conflict")
        # Of another's job nothing can be told, not even that it is there.
        unknown = refused(await ask(gate, "add", {**body, "job_id": "job_x"}, key("bob")))
        assert refused(await ask(gate, "add", body, key("bob"))) == unknown
        assert unknown[:2] == (400, "bad_request")
        assert (await job_of(gate, job_id, key("ann")))["payload"]["message"] == "mine"


async def test_so_many_jobs_an_owner() -> None:
    limits = {"limits__jobs_per_owner": 2}
    async with house(model(), clock=clock(), settings=limits) as gate:
        await add(gate)
        job_id = await add(gate, dedupe_key="k")
        body = {"message": "x", "schedule": every(HOUR), "session_id": "s"}
        status, _, says = refused(await ask(gate, "add", body))
        assert status == 429
        assert "limits.jobs_per_owner" in says
        assert (await cron(gate, "add", {**body, "dedupe_key": "k"}))["job"]["job_id"] == job_id
        await cron(gate, "remove", {"job_id": job_id})
        await add(gate)


async def test_a_run_that_is_under_way_is_not_started_twice() -> None:
    async with house(hanging(), clock=clock()) as gate:
        job_id = await add(gate)
        first = await cron(gate, "run", {"job_id": job_id})
        assert first["queued"] is True
        assert first["job"]["running_at"] is not None
        second = await cron(gate, "run", {"job_id": job_id})
        assert (second["queued"], second["reason"]) == (False, "running")
        assert len(await runs_of(gate, job_id)) == 1


async def test_a_disabled_job_can_be_run_by_hand() -> None:
    async with house(model("done"), clock=clock()) as gate:
        job_id = await add(gate, enabled=False)
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "ok")
        assert (run["trigger"], run["result"]) == ("manual", "done")
        job = await job_of(gate, job_id)
        assert (job["enabled"], job["last_status"]) == (False, "ok")


async def test_without_a_scheduler_jobs_wait() -> None:
    async with house(model(), clock=clock(), settings={"cron__enabled": False}) as gate:
        job_id = await add(gate)
        found = await cron(gate, "run", {"job_id": job_id})
        assert (found["queued"], found["reason"]) == (False, "switched off")
        assert (await cron(gate, "status"))["scheduler"]["enabled"] is False
        assert await runs_of(gate, job_id) == []


async def test_a_session_that_is_forgotten_has_no_jobs() -> None:
    time = clock()
    async with house(model(), clock=time) as gate:
        gone = await add(gate, agent="", session_id="s")
        stays = await add(gate, agent="", session_id="t")
        assert (await gate.fetch(request("DELETE", "/api/sessions/s"))).status == 200
        assert refused(await ask(gate, "get", job_id=gone))[0] == 404
        assert (await gate.fetch(request("DELETE", "/api/sessions/s"))).status == 404
        time.advance(HOUR)
        await ran(gate, stays, "ok")
        assert len(gate.requests) == 1


OTHERS: list[tuple[str, Any, dict[str, str]]] = [
    ("get", None, {"job_id": "{id}"}),
    ("runs", None, {"job_id": "{id}"}),
    ("update", {"job_id": "{id}", "name": "mine now"}, {}),
    ("remove", {"job_id": "{id}"}, {}),
    ("enable", {"job_id": "{id}"}, {}),
    ("disable", {"job_id": "{id}"}, {}),
    ("run", {"job_id": "{id}"}, {}),
]


def naming(body: Any, job_id: str) -> Any:
    return json.loads(json.dumps(body).replace("{id}", job_id))


async def _told(gate: Running, owner: str, row: tuple[str, Any, dict[str, str]], job: str) -> Any:
    action, body, query = row
    answer = await ask(gate, action, naming(body, job), key(owner), **naming(query, job))
    status, code, says = refused(answer)
    return status, code, says.replace(job, "")


@pytest.mark.parametrize("row", OTHERS, ids=lambda row: row[0])
async def test_somebody_elses_job_is_like_none_at_all(row: tuple[str, Any, Any]) -> None:
    async with house(model(), clock=clock(), tables={"keys": keys("ann", "bob")}) as gate:
        job_id = await add(gate, "mine", key("ann"))
        before = await job_of(gate, job_id, key("ann"))
        unknown = await _told(gate, "bob", row, "job_0000000000000000")
        assert await _told(gate, "bob", row, job_id) == unknown
        assert unknown[:2] == (404, "not_found")
        assert await job_of(gate, job_id, key("ann")) == before
        assert (await cron(gate, "list", None, key("bob")))["jobs"] == []
        assert gate.requests == []


@pytest.mark.parametrize(
    "row", [*OTHERS, ("list", None, {}), ("status", None, {}), ("add", {}, {})]
)
async def test_without_a_key_nothing_is_told(row: tuple[str, Any, Any]) -> None:
    async with house(model(), clock=clock(), tables={"keys": keys("ann")}) as gate:
        action, body, query = row
        assert refused(await ask(gate, action, body, **query))[:2] == (401, "invalid_api_key")


@pytest.mark.parametrize("path", ["/api/admin/cron", "/wunder/admin/cron"])
async def test_an_admin_sees_and_changes_all(path: str) -> None:
    tables = {"keys": keys("ann", "bob", "root", admin="root")}
    async with house(model(), clock=clock(), tables=tables) as gate:
        one, two = await add(gate, "a", key("ann")), await add(gate, "b", key("bob"))
        found = (await cron(gate, "list", None, key("root"), path=path))["jobs"]
        assert [job["job_id"] for job in found] == [one, two]
        found = (await cron(gate, "list", None, key("root"), path=path, user_id="bob"))["jobs"]
        assert [job["job_id"] for job in found] == [two]

        async def change(body: Any) -> Any:
            return await cron(gate, "update", body, key("root"), path=path)

        job = (await change({"job_id": one, "schedule": every(MINUTE)}))["job"]
        assert ms_of(job["next_run_at"]) == NOW + MINUTE
        assert job["user_id"] == "ann"
        job = (await change({"action": "disable", "job_id": one}))["job"]
        assert job["enabled"] is False
        job = (await change({"action": "enable", "job": {"job_id": one}}))["job"]
        assert job["enabled"] is True
        assert await change({"action": "remove", "job_id": one}) == {"removed": True}
        answer = await ask(gate, "update", {"action": "x", "job_id": two}, key("root"), path=path)
        assert "action" in refused(answer)[2]
        answer = await ask(gate, "update", {"job_id": one}, key("root"), path=path)
        assert refused(answer)[:2] == (404, "not_found")
        for action, body in (("list", None), ("update", {"job_id": two})):
            answer = await ask(gate, action, body, key("ann"), path=path)
            assert refused(answer)[:2] == (403, "forbidden")
