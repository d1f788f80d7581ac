"""Metrics, health and tools over HTTP, of a gateway that answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock
from gateway.version import __version__
from tests.clock.holding import acting, fails, held, schedules
from tests.clock.holding import room as holding_room
from tests.clock.holding import says as tells
from tests.console.test_console_sessions import OWNERS, silent
from tests.gateway.wire import get
from tests.jobs.words import HELPER, MINUTE, NOW, SECOND, house, key
from tests.run import Running, in_process, until
from tests.sessions.talk import model, talk
from tests.wire.fake import CHUNKED, LAST, Peer, chunk

PATHS = ("/api/console/metrics", "/api/console/health", "/api/console/tools")


async def fetch(gate: Running, path: str, *headers: str) -> Any:
    answer = await gate.fetch(get(path, *headers))
    assert answer.status == 200, bytes(answer.body)
    assert answer.headers["cache-control"] == "no-store"
    return answer.json


async def sample(gate: Running, window: str = "hour") -> Any:
    """End the step that is being counted; return all series."""
    gate.gateway.sampler.take_sample()
    return (await fetch(gate, f"/api/console/metrics?window={window}"))["series"]


async def breaks(peer: Peer) -> None:
    """Begin to answer, and break off."""
    await peer.request()
    await peer.send(CHUNKED, chunk(b'data: {"id":"a","choices":[{"delta":{"content":"x"}}]}\n\n'))
    peer.close()


async def test_what_was_answered_is_counted_in_its_step() -> None:
    clock = ManualClock(NOW)
    async with in_process(model("one", "two", "three"), clock=clock) as gate:
        for number in range(3):
            await gate.ask(talk(f"question {number}"))
        first = await sample(gate)
        clock.advance(10 * SECOND)
        await gate.ask(talk("one more"))
        series = await sample(gate)
        report = await fetch(gate, "/api/console/metrics")
        assert first["turns"] == [3]
        assert (series["turns"], series["reported_turns"]) == ([3, 1], [3, 1])
        # The n-th answer costs 10 n and n tokens.
        assert (series["tokens_in"], series["tokens_out"]) == ([60, 40], [6, 4])
        assert series["exchanges"][0] > 0 < series["bytes"][0]
        assert series["failed"] == [0, 0]
        assert series["first_p50"][1] is not None
        assert report["times"] == [NOW, NOW + 10 * SECOND]
        assert (report["since"], report["step_ms"], report["window"]) == (NOW, 10_000, "hour")
        day = await fetch(gate, "/api/console/metrics?window=day")
        assert (day["window"], day["step_ms"], day["times"]) == ("day", 60_000, [])


async def test_an_answer_is_counted_while_it_comes_and_once(store_url: str) -> None:
    """Its bytes in the step in which they came, and the answer when it ends."""
    sent: list[int] = []

    async def story(peer: Peer) -> None:
        await peer.request()
        for part in (b"x" * 1000, b"y" * 500):
            data = b'data: {"id":"a","choices":[{"delta":{"content":"' + part + b'"}}]}\n\n'
            sent.append(len(data))
            await peer.send(*(() if len(sent) > 1 else (CHUNKED,)), chunk(data))
            if len(sent) == 1:
                await gate_open.wait()
        await peer.send(chunk(b"data: [DONE]\n\n"), LAST)

    gate_open = anyio.Event()
    async with in_process(story, store__url=store_url) as gate:
        client = await gate.start(talk("hi"))
        await client.saw(b"x" * 1000)
        counted = gate.gateway.sampler.history
        gate.gateway.sampler.take_sample()
        assert counted.hour[-1].counts.bytes == sent[0]
        assert counted.hour[-1].gauges.live == {"relaying": 1}
        gate_open.set()
        await client.answer()
        await until(lambda: not gate.gateway.exchanges.live)
        gate.gateway.sampler.take_sample()
        whole = sum(sent) + len(b"data: [DONE]\n\n")
        assert sum(one.counts.bytes for one in counted.hour) == whole
        assert [one.counts.exchanges for one in counted.hour] == [0, 1]


@pytest.fixture(params=["memory", "sqlite"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of each kind."""
    return {"memory": "memory:", "sqlite": f"sqlite://{tmp_path}/kept.sqlite3"}[request.param]


async def test_holds_by_outcome_and_who_is_held() -> None:
    clock = ManualClock(NOW)
    async with holding_room(
        clock, acting(schedules(30 * SECOND), tells("set"), tells("tea"))
    ) as gate:
        client = await gate.start(talk("hi"), "x-session-id: s")
        await held(gate)
        series = await sample(gate)
        assert (series["live"]["holding"], series["holds"]) == ([1], {})
        clock.advance(MINUTE)
        await client.answer()
        await until(lambda: not gate.gateway.exchanges.live)
        series = await sample(gate)
        assert (series["live"]["holding"], series["holds"]) == ([1, 0], {"due": [0, 1]})
        (tool, _) = (await fetch(gate, "/api/console/tools"))["tools"]
        assert (tool["name"], tool["calls"], tool["errors"]) == ("clock", 1, 0)


async def test_upstreams_that_fail() -> None:
    """One refuses and its model has another route, one breaks off."""
    tables = {
        "models": [
            {"name": "two", "routes": ["a/m", "b/m"]},
            {"name": "broken", "routes": ["c/m"]},
        ]
    }
    async with in_process(acting(fails("503 Busy")), model("fine"), breaks, tables=tables) as gate:
        await gate.ask(talk("hi", model="two"))
        await gate.ask(talk("hi", model="broken"))
        series = await sample(gate)
        assert series["failed"][0] > 0
        health = await fetch(gate, "/api/console/health")
        found = {one["id"]: one for one in health["upstreams"]}
        assert {name: (one["turns"], one["failed"]) for name, one in found.items()} == {
            "a": (0, 1.0),
            "b": (1, 0.0),
            "c": (1, 1.0),
        }
        now = gate.gateway.clock.now_ms()
        assert (found["a"]["state"], found["b"]["state"]) == ("cooling", "ok")
        assert now < found["a"]["until"] <= now + MINUTE
        assert found["b"]["until"] is found["a"]["p50"] is None
        assert found["b"]["p50"] <= found["b"]["p95"]


async def test_health_of_all_the_rest(store_url: str) -> None:
    async with house(silent, settings={"store__url": store_url}) as gate:
        client = await gate.start(talk("hi"))
        await until(lambda: len(gate.requests) == 1)
        gate.gateway.sampler.take_sample()
        health = await fetch(gate, "/api/console/health")
        assert health["store"]["kind"] == store_url.partition(":")[0]
        assert (health["store"]["ok"], health["store"]["message"]) == (True, "")
        assert health["ntp"] == (await gate.fetch(get("/api/status"))).json["clock"]["ntp"]
        assert health["scheduler"]["state"] == "running"
        assert (health["webhooks"], health["draining"]) == (0, False)
        assert health["holds"] == {"used": 0, "max": gate.gateway.holds.most}
        most = {name: use["max"] for name, use in health["streams"].items()}
        assert most == {"console": 20, "events": 20, "inbox": 100}
        assert [use["used"] for use in health["streams"].values()] == [0, 0, 0]
        assert health["version"] == __version__
        assert health["rss"] > 1_000_000 < health["started_at"]
        assert health["descriptors"] > 3
        assert health["upstreams"][0]["busy"] == 1
        client.leave()


async def test_a_store_in_trouble(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    settings = {"store__url": "", "server__session_dir": str(directory)}
    async with house(model("x"), settings=settings) as gate:
        directory.rename(tmp_path / "elsewhere")
        store = (await fetch(gate, "/api/console/health"))["store"]
        assert (store["kind"], store["ok"]) == ("files", False)
        assert "gone" in store["message"]
        (tmp_path / "elsewhere").rename(directory)


async def test_tools_and_who_has_them() -> None:
    tables = {
        "agents": [
            HELPER,
            {"id": "plain", "model": "n"},
            {"id": "timely", "model": "n", "tools": ["clock"]},
        ],
        "models": [
            {"name": "m", "routes": ["a/m"]},
            {"name": "n", "routes": ["a/m"], "clock": False},
        ],
    }
    look = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    settings = {"cron__offer_to_clients": False, "clock__standard_tools": [look]}
    clock = ManualClock(NOW)
    async with house(model("x"), clock=clock, tables=tables, settings=settings) as gate:
        shown = await fetch(gate, "/api/console/tools")
        assert [agent["id"] for agent in shown["agents"]] == ["helper", "plain", "timely"]
        assert shown["agents"][0]["tools"] == ["schedule_task"]
        time, schedule, standard = shown["tools"]
        assert time["schema"]["properties"]["action"]["enum"][0] == "get"
        assert schedule["schema"]["type"] == standard["schema"]["type"] == "object"
        for tool in (time, schedule, standard):
            del tool["schema"]
        for_clock = {"agents": ["helper", "timely"], "models": 1, "of_models": 2, "relay": True}
        assert time == {"name": "clock", **for_clock, "calls": 0, "errors": 0}
        assert standard == {"name": "look", **for_clock, "calls": None, "errors": None}
        for_jobs = {"agents": ["helper"], "models": 0, "of_models": 2, "relay": False}
        assert schedule == {"name": "schedule_task", **for_jobs, "calls": 0, "errors": 0}


async def test_figures_of_all_are_for_an_admin() -> None:
    async with house(model("x"), tables=OWNERS) as gate:
        for path in PATHS:
            assert (await gate.fetch(get(path))).status == 401
            assert (await gate.fetch(get(path, key("root")))).status == 200
        for path in PATHS[:2]:
            assert (await gate.fetch(get(path, key("ann")))).status == 403
        tools = (await fetch(gate, PATHS[2], key("ann")))["tools"]
        assert {(tool["calls"], tool["errors"]) for tool in tools} == {(None, None)}
        answer = await gate.fetch(get("/api/console/metrics?window=week", key("root")))
        assert answer.status == 400
