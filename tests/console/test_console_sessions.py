"""The list of sessions: all of which anything is kept or under way, for their owner and an admin."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.agents.talking import says
from tests.clock.holding import acting, held_for, remind, remove
from tests.clock.holding import room as holding_room
from tests.clock.holding import says as tells
from tests.gateway.wire import ask_of, get, request
from tests.jobs.words import DAY, HELPER, NOW, SECOND, add, cron, house, inbox, key, keys, seen
from tests.run import Running, until
from tests.sessions.talk import GO_ON, look, model, reply, talk
from tests.wire.fake import Peer, Story

OWNERS = {"keys": keys("ann", "bob", "root", admin="root"), "agents": [HELPER]}
NOTHING = {
    "owner": "local",
    "agentId": None,
    "state": None,
    "live": 0,
    "reminders": 0,
    "nextDueAt": None,
    "jobs": 0,
    "deliveries": 0,
    "stopMessage": None,
}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The URL of a store of each kind."""
    url = {"memory": "memory:", "sqlite": f"sqlite://{tmp_path}/kept.sqlite3"}[request.param]
    return {"store__url": url, "server__session_dir": str(tmp_path)}


async def list_page(gate: Running, query: str = "", *headers: str) -> Any:
    answer = await gate.fetch(get(f"/api/sessions?{query}", *headers))
    assert answer.status == 200, bytes(answer.body)
    return answer.json


async def list_rows(gate: Running, query: str = "", *headers: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await list_page(gate, query, *headers))["sessions"]
    return rows


async def walk(gate: Running, query: str, limit: int, *headers: str) -> list[tuple[str, str]]:
    """Walk through all pages; return owners and sessions."""
    found: list[tuple[str, str]] = []
    after: str | None = ""
    while after is not None:
        page = await list_page(gate, f"{query}&limit={limit}&after={quote(after)}", *headers)
        assert len(page["sessions"]) <= limit
        found += [(row["owner"], row["sessionId"]) for row in page["sessions"]]
        after = page["next"]
    return found


def put_apart(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return by session what its row has beside nothing."""
    parts = [(row, set(row) - {"sessionId", "updatedAt"}) for row in rows]
    return {
        row["sessionId"]: {name: row[name] for name in names if row[name] != NOTHING[name]}
        for row, names in parts
    }


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


def stalls_at(number: int) -> Story:
    """Answer all requests but one, whose client has to leave."""
    numbers = count(1)

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            if next(numbers) == number:
                await peer.gone()
                return
            await peer.send(*reply("result", stream=asked["stream"]))

    return story


async def make_delivery(gate: Running, session: str, *headers: str) -> None:
    """Have a result wait for a session that has nothing else."""
    job = await add(gate, "look", *headers, agent="", session_id=session)
    await cron(gate, "run", {"job_id": job}, *headers)
    await seen(lambda: inbox(gate, session, *headers), lambda items: len(items) == 1)
    await cron(gate, "remove", {"job_id": job}, *headers)


async def test_a_session_is_listed_whatever_it_has(store: dict[str, str]) -> None:
    clock = ManualClock(NOW)
    async with house(model("one"), clock=clock, settings=store) as gate:
        await remind(gate, DAY, "tea", "reminded")
        await remind(gate, 2 * DAY, "more tea", "reminded")
        await add(gate, agent="", session_id="scheduled")
        await make_delivery(gate, "waits")
        await gate.ask(talk(f"{GO_ON} hi"), "x-session-id: stopped")
        await gate.fetch(says("hello", sessionId="talks"))
        assert put_apart(await list_rows(gate)) == {
            "reminded": {"reminders": 2, "nextDueAt": iso(NOW + DAY)},
            "scheduled": {"jobs": 1},
            "waits": {"deliveries": 1},
            "stopped": {"stopMessage": {"used": 3, "max": 3}},
            "talks": {"agentId": "helper"},
        }
        for session in ("reminded", "scheduled", "waits", "stopped", "talks"):
            assert (await look(gate, session)).status == 200, session


async def test_a_session_is_listed_as_long_as_it_is_being_answered() -> None:
    async with house(silent) as gate:
        client = await gate.start(talk("hi"), "x-session-id: asks")
        await until(lambda: len(gate.requests) == 1)
        assert put_apart(await list_rows(gate)) == {"asks": {"live": 1, "state": "opening"}}
        assert (await look(gate, "asks")).json["reminders"] == []
        client.leave()
        await until(lambda: not gate.gateway.exchanges.live)
        assert await list_rows(gate) == []
        assert (await look(gate, "asks")).status == 404


async def test_a_held_answer_is_told_as_such() -> None:
    clock = ManualClock(NOW)
    async with holding_room(clock, acting(tells("fine"))) as gate:
        await held_for(gate, "tea", in_ms=30 * SECOND)
        (row,) = await list_rows(gate)
        assert (row["state"], row["live"], row["reminders"]) == ("holding", 1, 1)
        assert row["nextDueAt"] == iso(NOW + 30 * SECOND)


async def test_sessions_are_found_by_a_part_of_their_name(store: dict[str, str]) -> None:
    async with house(model(), settings=store) as gate:
        for session in ("Tea time", "coffee", "more tea"):
            await remind(gate, DAY, "x", quote(session))
        await add(gate, agent="", session_id="tea jobs")
        found = {row["sessionId"] for row in await list_rows(gate, "q=TEA")}
        assert found == {"Tea time", "more tea", "tea jobs"}
        assert len(await walk(gate, "q=tea", 1)) == 3
        assert await list_rows(gate, "q=water") == []


async def test_an_admin_lists_all_names_and_counts_and_no_text(store: dict[str, str]) -> None:
    """All was used in the same instant, so that only names and owners order it."""
    clock, root = ManualClock(NOW), key("root")
    settings = store
    async with house(model("x"), clock=clock, tables=OWNERS, settings=settings) as gate:
        for owner in ("ann", "bob", "root"):
            await remind(gate, DAY, "canary", "same", key(owner))
            await remind(gate, DAY, "canary", owner, key(owner))
            await gate.fetch(ask_of(talk("<**!a**> canary"), "x-session-id: same", key(owner)))
        await gate.fetch(says("canary", key("ann"), sessionId="same", agent="helper"))
        whole = [(owner, "same") for owner in ("root", "bob", "ann")]
        whole += [("root", "root"), ("bob", "bob"), ("ann", "ann")]
        whole.sort(key=lambda pair: (pair[1], pair[0]), reverse=True)
        for limit in (1, 2, 3, 4, 50):
            assert await walk(gate, "owner=*", limit, root) == whole, limit
        assert await walk(gate, "owner=ann", 1, root) == [("ann", "same"), ("ann", "ann")]
        assert await walk(gate, "", 50, root) == [("root", "same"), ("root", "root")]
        assert "canary" not in repr(await list_rows(gate, "owner=*", root))
        mine = put_apart(await list_rows(gate, "owner=ann", root))["same"]
        assert mine == {
            "owner": "ann",
            "agentId": "helper",
            "reminders": 1,
            "nextDueAt": iso(NOW + DAY),
        }


@pytest.mark.parametrize("owner", ["*", "bob", "nobody"])
async def test_only_an_admin_lists_sessions_of_others(owner: str) -> None:
    async with house(model("x"), tables=OWNERS) as gate:
        await remind(gate, DAY, "x", "s", key("ann"))
        answer = await gate.fetch(get(f"/api/sessions?owner={owner}", key("ann")))
        assert answer.status == 403
        assert await walk(gate, "owner=ann", 50, key("ann")) == [("ann", "s")]


@pytest.mark.parametrize("after", ["x", "-1:s", f"{2**63}:s", ":s"])
async def test_a_cursor_that_is_none(after: str) -> None:
    async with house(model()) as gate:
        for query in (f"after={after}", f"owner=*&after={after}"):
            assert (await gate.fetch(get(f"/api/sessions?{query}"))).status == 400


async def test_the_stop_message_is_cleared(store: dict[str, str]) -> None:
    async with house(model("x"), settings=store) as gate:
        await gate.ask(talk(f"{GO_ON} <**!a**> hi"), "x-session-id: s")
        assert await clear(gate, "stop_message") == (200, True)
        shown = (await look(gate)).json
        assert (shown["stopMessage"], shown["directives"]) == (None, ["<**!a**>"])
        assert await clear(gate, "stop_message") == (200, False)
        before = len(gate.requests)
        await gate.ask(talk(f"{GO_ON} <**!a**> hi", "on"), "x-session-id: s")
        assert len(gate.requests) == before + 1


async def test_directives_are_cleared(store: dict[str, str]) -> None:
    async with house(model("x"), settings=store) as gate:
        await gate.ask(talk(f"{GO_ON} <**!a**> hi"), "x-session-id: s")
        assert await clear(gate, "directives") == (200, True)
        shown = (await look(gate)).json
        assert (shown["stopMessage"]["used"], shown["directives"]) == (3, [])
        assert await clear(gate, "directives") == (200, False)


@pytest.mark.parametrize("part", ["stop_message", "directives"])
async def test_nothing_is_cleared_in_a_session_that_is_unknown(part: str) -> None:
    async with house(model("x"), tables=OWNERS) as gate:
        await gate.fetch(ask_of(talk(f"{GO_ON} <**!a**> hi"), "x-session-id: s", key("ann")))
        before = (await look(gate, "s", key("ann"))).json
        for owner in ("bob", "root"):
            assert (await clear(gate, part, key(owner)))[0] == 404
        assert (await look(gate, "s", key("ann"))).json == before


async def clear(gate: Running, part: str, *headers: str) -> tuple[int, bool | None]:
    answer = await gate.fetch(request("DELETE", f"/api/sessions/s/{part}", *headers))
    return answer.status, answer.json.get("cleared")


async def test_deliveries_by_their_state(store: dict[str, str]) -> None:
    """What waits, what an answer under way carries, and what came."""
    clock = ManualClock(NOW)
    settings = {**store, "clock__due_window_ms": 0}
    async with house(stalls_at(2), clock=clock, settings=settings) as gate:
        await make_delivery(gate, "s")
        await remind(gate, SECOND, "tea")
        assert await deliveries(gate) == [("run", "pending", "result")]
        clock.advance(2 * SECOND)
        waiting = [("run", "pending", "result"), ("reminder", "pending", "tea")]
        assert await deliveries(gate) == waiting
        client = await gate.start(talk("hi"), "x-session-id: s")
        await until(lambda: len(gate.requests) == 2)
        assert {state for _, state, _ in await deliveries(gate)} == {"reserved"}
        assert await deliveries(gate, "pending") == []
        assert len(await deliveries(gate, "reserved")) == 2
        client.leave()
        await until(lambda: not gate.gateway.exchanges.live)
        assert await deliveries(gate, "pending") == waiting
        await gate.ask(talk("hi"), "x-session-id: s")
        assert await deliveries(gate, "pending") == []
        came = [("reminder", "delivered", "tea"), ("run", "delivered", "result")]
        assert sorted(await deliveries(gate)) == came
        assert sorted(await deliveries(gate, "delivered")) == came


async def deliveries(gate: Running, state: str = "", *headers: str) -> list[tuple[str, str, str]]:
    answer = await gate.fetch(get(f"/api/sessions/s/deliveries?state={state}", *headers))
    assert answer.status == 200, bytes(answer.body)
    items = answer.json["deliveries"]
    assert all(("delivered_at" in item) is (item["state"] == "delivered") for item in items)
    return [(item["kind"], item["state"], item["text"]) for item in items]


async def test_deliveries_are_their_owners_alone() -> None:
    async with house(model("canary"), tables=OWNERS) as gate:
        await make_delivery(gate, "s", key("ann"))
        assert len(await deliveries(gate, "", key("ann"))) == 1
        for owner in ("bob", "root"):
            assert await deliveries(gate, "", key(owner)) == []
        answer = await gate.fetch(get("/api/sessions/s/deliveries?state=lost", key("ann")))
        assert answer.status == 400


async def test_reminders_that_ended_are_shown_for_a_day() -> None:
    clock = ManualClock(NOW)
    async with holding_room(clock, model("fine")) as gate:
        await remind(gate, DAY, "keeps the session")
        cancelled = await remind(gate, DAY, "coffee")
        await remove(gate, cancelled)
        await remind(gate, SECOND, "tea")
        clock.advance(2 * SECOND)
        await gate.ask(talk("hi"), "x-session-id: s")
        ended = (await look(gate)).json["endedReminders"]
        assert [(end["task"], end["outcome"]) for end in ended] == [
            ("coffee", "cancelled"),
            ("tea", "delivered"),
        ]
        assert ended[1]["at"] == iso(NOW + 2 * SECOND)
        await remind(gate, 2 * DAY, "keeps it longer")
        clock.advance(DAY)
        assert (await look(gate)).json["endedReminders"] == []
