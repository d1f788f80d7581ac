"""Exchanges of one process, ended by hand at another: the console over several instances."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from tests.clock.holding import SECOND, acting, says, schedules
from tests.gateway.client import Answer, Client
from tests.gateway.wire import DONE, ask_of, get, hanging, request, text
from tests.jobs.words import key, keys
from tests.run import GatewayProcess, as_process, upstreams_of
from tests.sessions.talk import JSON, SESSION, talk
from tests.wire.fake import CHUNKED, Story, chunk, fake_upstream

from .server import make_schema_name, shared_server

EXCHANGES = "/api/console/exchanges"
ANN, ROOT = key("ann"), key("root")


@asynccontextmanager
async def two_processes(
    story: Story, home: Path
) -> AsyncIterator[tuple[GatewayProcess, GatewayProcess]]:
    async with fake_upstream(story) as fake:
        tables = {"keys": keys("ann", "root", admin="root"), **upstreams_of(fake.port)}
        where = {"store": {"url": shared_server().url, "schema": make_schema_name()}}
        settings = {
            **{f"HOLDGATE_{name.upper()}": json.dumps(one) for name, one in tables.items()},
            **{f"HOLDGATE_STORE__{name.upper()}": one for name, one in where["store"].items()},
            "HOLDGATE_CLOCK__DUE_WINDOW_MS": "0",
            "HOLDGATE_CLOCK__HOLD_MAX_MS": "60000",
            "ROUTECODEX_CLOCK_NTP": "off",
        }
        processes = []
        for name in ("one", "two"):
            home.joinpath(name).mkdir()
            processes.append(as_process(home / name, settings))
        one, two = processes

        def start() -> None:
            for process in processes:
                process.__enter__()

        await to_thread.run_sync(start)
        try:
            with anyio.fail_after(60):
                yield one, two
        finally:
            for process in processes:
                process.__exit__(None, None, None)


async def fetch(gate: GatewayProcess, written: bytes) -> Answer:
    client = await gate.connect()
    await client.send(written)
    answer = await client.answer()
    client.leave()
    return answer


async def post(gate: GatewayProcess, path: str, *headers: str) -> Answer:
    return await fetch(gate, request("POST", f"{EXCHANGES}/{path}", JSON, *headers, body=b""))


async def begin(gate: GatewayProcess, body: bytes, *headers: str) -> tuple[Client, str]:
    """Begin to ask as ann; return her client, and the id of the exchange once it has begun."""
    client = await gate.connect()
    await client.send(ask_of(body, ANN, *headers))
    await client.head()
    (row,) = (await fetch(gate, get(EXCHANGES, ANN))).json["exchanges"]
    return client, row["id"]


async def test_an_exchange_is_cut_where_it_runs(tmp_path: Path) -> None:
    async with two_processes(hanging(CHUNKED, chunk(text("hel"))), tmp_path) as (one, two):
        client, name = await begin(one, talk("hi"))
        absent = await fetch(two, get(f"{EXCHANGES}/{name}", ANN))
        assert absent.status == 404
        assert name[4:20] in absent.json["error"]["message"]

        refused = await post(two, f"{name}/end_hold", ROOT)
        assert (refused.status, refused.json["error"]["code"]) == (409, "not_holding")
        cut = await post(two, f"{name}/cut", ANN)
        assert (cut.status, cut.json) == (200, {"cut": True})
        await client.saw(b"cut_off")
        again = await post(two, f"{name}/cut", ANN)
        assert (again.status, again.json["error"]["code"]) == (409, "has_ended")
        # An exchange that nobody had, and one of a process that nobody knows.
        for unknown in (f"{name[:20]}ffffffff", f"req_{'0' * 16}00000001"):
            missing = await post(two, f"{unknown}/cut", ANN)
            assert missing.status == 404


async def test_a_hold_is_ended_by_an_admin_at_another(tmp_path: Path) -> None:
    story = acting(schedules(30 * SECOND), says("I will."), says("Tea."))
    async with two_processes(story, tmp_path) as (one, two):
        client, name = await begin(one, talk("hi"), SESSION)
        await client.saw(text("I will."))
        while (await fetch(one, get(f"{EXCHANGES}/{name}", ANN))).json["state"] != "holding":
            pass
        ended = await post(two, f"{name}/end_hold", ROOT)
        assert (ended.status, ended.json) == (200, {"ended": True})
        await client.saw(DONE)
