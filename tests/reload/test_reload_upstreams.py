"""Upstreams over a reload: who did not change keeps its connections, others end with the last answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.holding import NOW, SECOND, acting, held, remind, says
from tests.gateway.wire import DONE, Cue, ask_of, chat, event, get, request, streaming, text, turn
from tests.reload.words import model, upstream
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON, talk
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, head, sized

ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE
CHANGED = {"headers": {"x-version": "2"}}


def on_cue(cue: Cue) -> Story:
    """Begin every answer; end it on cue, unless it is a short one."""

    async def story(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            await peer.send(CHUNKED, chunk(ROLE + text("one ")))
            if b"short" not in asked.body:
                await cue.wait()
            await peer.send(chunk(text("two") + END) + LAST)

    return story


def ports(gate: Running) -> list[int]:
    return [fake.port for fake in gate.fakes]


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_a_changed_upstream_ends_with_its_last_answer(transport: str) -> None:
    cue = Cue()
    async with in_process(on_cue(cue), upstream={"transport": transport}) as gate:
        (fake,) = gate.fakes
        running = [await gate.start() for _ in range(2)]
        for client in running:
            await client.saw(b"one ")
        changed = upstream("a", fake.port, transport=transport, **CHANGED)
        await gate.reload(upstreams=[changed])
        assert (await gate.ask(chat("short"))).text == "one two"
        assert fake.requests[-1].headers[b"x-version"] == b"2"
        # The new one has a connection of its own, and nobody has lost any.
        assert fake.connections == [1, 2, 3]
        assert fake.open == 3
        for client in running:
            cue.give()
            assert (await client.answer()).text == "one two"
        await until(lambda: fake.open == 1)
        assert (await gate.ask(chat("short"))).text == "one two"
        assert fake.connections == [1, 2, 3, 3]


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_connections_of_a_removed_upstream_do_not_rest(transport: str) -> None:
    keys = {"transport": transport}
    async with in_process(streaming(turn("a")), streaming(turn("b")), upstream=keys) as gate:
        one, other = gate.fakes
        assert (await gate.ask()).text == "a"
        await until(lambda: one.open == 1)
        left = upstream("b", other.port, **keys)
        await gate.reload(upstreams=[left], models=[model("m", "b")])
        assert (await gate.ask()).text == "b"
        await until(lambda: one.open == 0)


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_an_unchanged_upstream_keeps_its_connections(transport: str) -> None:
    keys = {"transport": transport}
    async with in_process(streaming(turn("a")), streaming(turn("b")), upstream=keys) as gate:
        one, other = gate.fakes
        assert (await gate.ask()).text == "a"
        # Which models it serves, and all else that changes, is no matter of its connections.
        same = upstream("a", one.port, models=["m", "n"], **keys)
        another = upstream("b", other.port, idle_ms=5000, **keys)
        await gate.reload(upstreams=[same, another], models=[model("new", "a")])
        assert (await gate.ask(chat(model="new"))).text == "a"
        assert one.connections == [1, 1]


async def test_what_is_remembered_of_an_upstream_stays_with_it() -> None:
    async with in_process(None, None, streaming(turn("c"))) as gate:
        assert (await gate.ask()).text == "c"
        assert await read_health(gate) == {"a": "cooling", "b": "cooling", "c": "ok"}
        tables = gate.gateway.config.upstreams
        a, b, c = (upstream(one.id, int(one.base_url.split(":")[2][:-3])) for one in tables)
        await gate.reload(models=[model("m", "a", "b", "c"), model("n", "c")])
        assert await read_health(gate) == {"a": "cooling", "b": "cooling", "c": "ok"}
        await gate.reload(upstreams=[a, {**b, **CHANGED}, c])
        assert await read_health(gate) == {"a": "cooling", "b": "ok", "c": "ok"}


async def read_health(gate: Running) -> dict[str, str]:
    status = (await gate.fetch(get("/api/status"))).json
    return {one["id"]: one["health"] for one in status["upstreams"]}


async def test_metrics_and_status_name_the_upstreams_there_are() -> None:
    async with in_process(streaming(turn("a"))) as gate:
        (port,) = ports(gate)
        await gate.reload(upstreams=[upstream("z", port)], models=[model("m", "z")])
        assert (await gate.ask()).headers["x-holdgate-upstream"] == "z"
        shown = bytes((await gate.fetch(get("/metrics"))).body).decode()
        assert 'holdgate_upstream_connections_busy{upstream="z"} 0.0' in shown
        assert 'connections_busy{upstream="a"}' not in shown
        assert 'holdgate_config_reloads_total{result="applied"} 1.0' in shown
        assert await read_health(gate) == {"z": "ok"}


async def test_an_exchange_fails_over_to_the_routes_it_began_with() -> None:
    cue = Cue()

    async def late_error(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(sized(b"{}", JSON, status="500 No"))

    async with in_process(late_error, streaming(turn("b"))) as gate:
        client = await gate.start()
        await until(lambda: len(gate.requests) == 1)
        await gate.reload(upstreams=[upstream("a", 1)], models=[model("m", "a")])
        cue.give()
        assert (await client.answer()).text == "b"


async def test_a_request_that_is_still_coming_is_answered_by_what_it_came_to() -> None:
    async with in_process(streaming(turn("a")), streaming(turn("b"))) as gate:
        asked = ask_of(chat())
        late = await gate.send(asked[:-5])
        assert (await gate.fetch(get("/healthz"))).status == 200
        left = upstream("b", gate.fakes[1].port)
        await gate.reload(upstreams=[left], models=[model("n", "b")])
        await late.send(asked[-5:])
        assert (await late.answer()).text == "a"
        assert (await gate.ask()).status == 404


async def test_a_held_answer_goes_on_with_the_upstream_it_began_with() -> None:
    clock = ManualClock(NOW)
    story = acting(says("one "), says("two"))
    settings = {"clock__due_window_ms": 0}
    async with in_process(story, streaming(turn("b")), clock=clock, settings=settings) as gate:
        one, other = gate.fakes
        await remind(gate, SECOND)
        client = await gate.start(talk("hi"), "x-session-id: s")
        await held(gate)
        left = upstream("b", other.port)
        await gate.reload(upstreams=[left], models=[{"name": "m", "routes": ["b/m"]}])
        await until(lambda: one.open == 0)
        clock.advance(SECOND)
        assert "two" in (await client.answer()).text
        assert len(one.requests) == 2
        await until(lambda: one.open == 0)
        assert other.requests == []


COUNT_PATH = "/v1/messages/count_tokens"


async def test_a_token_count_under_way_is_not_cut() -> None:
    cue = Cue()

    async def count(peer: Peer) -> None:
        while True:
            await peer.request()
            await cue.wait()
            await peer.send(sized(b'{"input_tokens": 7}', JSON))

    keys = {"dialect": "anthropic-messages"}
    async with in_process(count, upstream=keys) as gate:
        (fake,) = gate.fakes
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        counting = request("POST", COUNT_PATH, JSON, body=json.dumps(body).encode())
        first = await gate.send(counting)
        await until(lambda: len(fake.requests) == 1)
        await gate.reload(upstreams=[upstream("a", fake.port, **keys, **CHANGED)])
        cue.give()
        assert (await first.answer()).json == {"input_tokens": 7}
        await until(lambda: fake.open == 0)
        cue.give()
        assert (await gate.fetch(counting)).json == {"input_tokens": 7}
        versions = [asked.headers.get(b"x-version") for asked in fake.requests]
        assert versions == [None, b"2"]
        assert all(b"anthropic-version" in asked.headers for asked in fake.requests)


PRINTING = """
import json, pathlib, sys
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write("x")
print(json.dumps({"token": "key", "expires_in": 0.5}))
"""


async def test_the_key_command_of_a_removed_upstream_stops(tmp_path: Path) -> None:
    script = tmp_path / "print_key.py"
    script.write_text(PRINTING)

    def runs(name: str) -> int:
        log = tmp_path / name
        return len(log.read_text()) if log.exists() else 0

    def keyed(name: str, port: int) -> dict[str, Any]:
        command = [sys.executable, str(script), str(tmp_path / name)]
        return upstream(name, port, api_key_command=command)

    async with in_process(streaming(turn("a")), streaming(turn("b"))) as gate:
        one, other = ports(gate)
        await gate.reload(upstreams=[keyed("a", one), keyed("b", other)])
        await until(lambda: runs("a") >= 2 and runs("b") >= 2, 20)
        await gate.reload(upstreams=[keyed("b", other)], models=[model("m", "b")])
        before, later = runs("a"), runs("b") + 3
        # One may have been about to end as it was stopped; the other goes on.
        await until(lambda: runs("b") >= later, 20)
        assert runs("a") <= before + 1
        assert (await gate.ask()).text == "b"


async def test_an_answer_without_an_end_holds_up_no_reload() -> None:
    endless = head("content-type: text/event-stream", "transfer-encoding: chunked")

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(endless, chunk(ROLE))
        await peer.gone()

    async with in_process(story) as gate:
        (fake,) = gate.fakes
        client = await gate.start()
        await client.saw(ROLE)
        for number in range(3):
            keys = {"headers": {"x-version": str(number)}}
            await gate.reload(upstreams=[upstream("a", fake.port, **keys)])
        assert fake.open == 1
        client.leave()
        await until(lambda: fake.open == 0)
