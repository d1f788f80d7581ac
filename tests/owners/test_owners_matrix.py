"""Whatever somebody asks for, what others own is to them as if it were not there.

One owner tries every route with the ids of another, in a gateway where the other has something of
everything and in one where nobody has anything. Nobody could tell the two apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from gateway.api.openapi import document
from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.agents.talking import says
from tests.gateway.wire import ask_of, get, request
from tests.jobs.words import (
    DAY,
    HELPER,
    NOW,
    add,
    ask,
    cron,
    house,
    inbox,
    key,
    keys,
    refused,
    runs_of,
    seen,
)
from tests.openapi.routes import Way, nameless, ways
from tests.owners.requests import AGENT, DEDUPE_KEY, FEED, SESSION, TRIES, Ids, Try, written
from tests.run import Running
from tests.sessions.talk import JSON, reply, talk
from tests.wire.fake import Peer, Story

SECRET = "canary"
EVENTS: Way = ("GET", "/api/sessions/{}/events")
IN_SESSION = f"x-session-id: {SESSION}"
OPEN = {
    (method.upper(), path)
    for path, methods in json.loads(json.dumps(document()["paths"])).items()
    for method, operation in methods.items()
    if not operation["security"]
}
# What nobody can foretell: ids, how long something took, and numbers that rise with whatever is kept.
CHANCE = re.compile(
    r"\b(job|run|req|resp|msg|rs|fc)_[0-9A-Za-z]+|[0-9a-f]{8}-[0-9a-f-]{27}"
    r'|"(?:uptime_seconds|created|created_at|timestamp|seq|id)": ?"?[0-9.TZ:-]+"?'
    r"|(?m:^id: [0-9]+$)"
)


def steady() -> Story:
    """A model that always says the same."""

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            await peer.send(*reply("fine", stream=asked.get("stream", False)))

    return story


def gateway() -> AbstractAsyncContextManager[Running]:
    tables = {"keys": keys("ann", "bob", "root", admin="root"), "agents": [HELPER]}
    return house(steady(), clock=ManualClock(NOW), tables=tables)


@asynccontextmanager
async def furnished() -> AsyncIterator[tuple[Running, Ids]]:
    """Run a gateway where one owner has something of everything."""
    async with gateway() as gate:
        ann = key("ann")
        await gate.fetch(ask_of(talk(f'<**stopMessage:"{SECRET}",3**> hi'), IN_SESSION, ann))
        await gate.fetch(says(f"{SECRET} talk", ann, agent=AGENT, sessionId=SESSION))
        asked = json.dumps({"model": "m", "input": SECRET}).encode()
        response = await gate.fetch(
            request("POST", "/v1/responses", JSON, IN_SESSION, ann, body=asked)
        )
        later = await remind(gate, iso(NOW + DAY))
        await remind(gate, iso(NOW))
        job = await add(gate, SECRET, ann, session_id=SESSION, dedupe_key=DEDUPE_KEY, name=SECRET)
        aside = await add(gate, SECRET, ann, agent="", name=SECRET)
        for one in (job, aside):
            await cron(gate, "run", {"job_id": one}, ann)
            await ended(gate, one)
        items = await inbox(gate, SESSION, ann)
        assert {item["kind"] for item in items} == {"reminder", "run"}
        (run,) = await runs_of(gate, job, ann)
        exchange = response.headers["x-holdgate-exchange"]
        item, answer = items[0]["id"], response.json["id"]
        yield gate, Ids(job, run["run_id"], later, item, answer, exchange)


async def ended(gate: Running, job: str) -> None:
    await seen(
        lambda: runs_of(gate, job, key("ann")),
        lambda runs: [run["status"] for run in runs] == ["ok"],
    )


async def remind(gate: Running, due_at: str) -> str:
    body = json.dumps({"dueAt": due_at, "task": SECRET}).encode()
    path = f"/api/sessions/{SESSION}/reminders"
    answer = await gate.fetch(request("POST", path, JSON, key("ann"), body=body))
    task: str = answer.json["scheduled"][0]["taskId"]
    return task


async def belongings(gate: Running, ids: Ids) -> list[Any]:
    """Look at all that the one who has things has."""
    here = f"/api/sessions/{SESSION}"
    paths = ("/api/sessions", here, f"{here}/reminders", f"{here}/inbox", "/api/cron/list")
    runs = f"/api/cron/runs?job_id={ids.job}"
    return [(await gate.fetch(get(path, key("ann")))).json for path in (*paths, runs)]


async def answered(gate: Running, way: Way, one: Try, ids: Ids, *headers: str) -> tuple[Any, ...]:
    """Try something; return what came of it, here and at the upstream, but for chance."""
    before = len(gate.requests)
    client = await gate.send(written(way, one, ids, *headers))
    head = await client.head()
    if way == EVENTS and head.status == 200:
        # Whatever was kept for others would come before this.
        await gate.gateway.parts.feed.publish("bob", SESSION, "delivery.acked", "x", {})
        answer = await client.saw(b"\n\n")
    elif way == FEED and head.status == 200:
        # The first state has all rows that there are.
        answer = await client.saw(b"event: state")
        answer = await client.saw(b"}}\n\n")
    else:
        answer = await client.answer(bodyless=head.status == 204)
    client.leave()
    asked = tuple(plain(bytes(request.body)) for request in gate.requests[before:])
    body = plain(bytes(answer.body))
    if "/console/" in way[1]:
        # Times, sizes and versions are chance.
        body = re.sub(r"(?<=\"epoch\":\")\w+|[0-9a-f]{16,}|\d+", "0", body)
    found = (answer.status, answer.headers.get("content-type"), body, asked)
    assert SECRET not in repr(found), way
    return found


def plain(body: bytes) -> str:
    return CHANCE.sub("…", body.decode())


async def test_every_route_is_tried() -> None:
    async with gateway() as gate:
        there = ways(gate.gateway.serving)
    assert there - TRIES.keys() == set()
    assert TRIES.keys() - there == set()


async def test_without_a_key_nothing_is_told_but_what_is_open_to_all() -> None:
    nobody = Ids("job_x", "run_x", "x", "x", "resp_x", "req_x")
    is_open = {(method, nameless(path)) for method, path in OPEN}
    async with gateway() as gate:
        for way, tries in TRIES.items():
            client = await gate.send(written(way, tries[0], nobody))
            answer = await client.answer()
            assert (answer.status == 401) is (way not in is_open), way
            client.leave()


async def test_what_others_own_is_as_if_it_were_not_there() -> None:
    headers = (key("bob"), IN_SESSION)
    async with furnished() as (full, ids), gateway() as empty:
        before = await belongings(full, ids)
        assert repr(before).count(SECRET) > 9
        for way, tries in TRIES.items():
            for number, one in enumerate(tries):
                there = await answered(full, way, one, ids, *headers)
                assert there == await answered(empty, way, one, ids, *headers), (way, number)
        assert await belongings(full, ids) == before


async def test_an_admin_sees_and_changes_all() -> None:
    root = key("root")
    async with furnished() as (gate, ids):
        for path in ("/api/admin/cron", "/wunder/admin/cron"):
            found = (await cron(gate, "list", None, root, path=path))["jobs"]
            assert ids.job in [job["job_id"] for job in found]
            assert {job["user_id"] for job in found} == {"ann"}
            of_bob = await cron(gate, "list", None, root, path=path, user_id="bob")
            assert of_bob["jobs"] == []
            (run, *_) = (await cron(gate, "runs", None, root, path=path))["runs"]
            assert {one["job_id"] for one in found} >= {run["job_id"]}
            of_job = await cron(gate, "runs", None, root, path=path, job_id=ids.job)
            assert [one["run_id"] for one in of_job["runs"]][-1:] == [ids.run]
            assert (await cron(gate, "runs", None, root, path=path, user_id="bob"))["runs"] == []
            asked = get(f"{path}/run?run_id={ids.run}", root)
            assert (await gate.fetch(asked)).json["data"]["run"]["result"] == "fine"
            assert (await cron(gate, "run", {"job_id": ids.job}, root, path=path))["queued"]
            await seen(
                lambda: runs_of(gate, ids.job, key("ann")),
                lambda runs: all(run["status"] == "ok" for run in runs),
            )
            shown = await cron(gate, "get", None, root, path=path, job_id=ids.job)
            assert (shown["job"]["job_id"], shown["job"]["user_id"]) == (ids.job, "ann")
            planned = await cron(gate, "calendar", None, root, path=path)
            assert planned["counts"] == (await cron(gate, "calendar", None, key("ann")))["counts"]
            nobodys = await cron(gate, "calendar", None, root, path=path, user_id="bob")
            assert (planned["total"] > 0, nobodys["total"]) == (True, 0)
            for action, enabled in (("disable", False), ("enable", True)):
                several = {"action": action, "job_ids": [ids.job, "job_x"]}
                changed = await cron(gate, "bulk", several, root, path=path)
                assert changed["done"] == [ids.job]
                assert [one["code"] for one in changed["failed"]] == ["not_found"]
                assert (await cron(gate, "get", None, key("ann"), job_id=ids.job))["job"][
                    "enabled"
                ] is enabled
            named = {"job_id": ids.job, "name": path}
            assert (await cron(gate, "update", named, root, path=path))["job"]["name"] == path
        # Beside that an admin is an owner like others.
        assert (await cron(gate, "list", None, root))["jobs"] == []
        assert (await cron(gate, "runs", None, root))["runs"] == []
        assert (await gate.fetch(get(f"/api/cron/run?run_id={ids.run}", root))).status == 404
        answer = await ask(gate, "get", None, root, job_id=ids.job)
        assert refused(answer)[0] == 404
        gone = {"job_id": ids.job, "action": "remove"}
        assert await cron(gate, "update", gone, root, path="/api/admin/cron") == {"removed": True}
        assert ids.job not in repr(await cron(gate, "list", None, key("ann")))


@pytest.mark.parametrize(("owner", "status"), [("ann", 409), ("bob", 400)])
async def test_a_job_cannot_be_given_an_id(owner: str, status: int) -> None:
    async with furnished() as (gate, ids):
        before = await belongings(gate, ids)
        wish = {"job_id": ids.job, "message": "x", "schedule_text": "hourly", "session_id": "s"}
        answer = await ask(gate, "add", wish, key(owner))
        assert refused(answer)[0] == status
        assert await belongings(gate, ids) == before
