"""What becomes of requests while the database is away, and once it is back."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.timestamps import iso
from tests.clock.holding import HOUR, acting, listed, path_of, remind, says
from tests.gateway.wire import get, request
from tests.run import Running, until
from tests.sessions.talk import JSON, SESSION, messages, notes_of, talk, text_of

from .gateways import instance
from .server import PostgresServer

ENTRY_SECONDS = 0.25
# Beyond what a request may wait for the database; the machine of the tests may be slow.
SLACK = 3.0


@asynccontextmanager
async def gateway(server: PostgresServer, **settings: Any) -> AsyncIterator[Running]:
    async with instance(acting(says("hi")), "holdgate", store__url=server.url, **settings) as gate:
        yield gate


async def take_away(gate: Running, server: PostgresServer, how: str) -> None:
    """Have the database vanish, and wait until requests have noticed it."""
    getattr(server, how)()
    while not notes_of(gate, "sessions_away"):
        await gate.ask(talk("hello"), SESSION)


async def bring_back(gate: Running, server: PostgresServer, how: str) -> None:
    if how == "freeze":
        server.thaw()
    else:
        server.start()
    await until(lambda: notes_of(gate, "sessions_back") != [])


@pytest.mark.parametrize("how", ["freeze", "kill"])
async def test_models_answer_without_the_state_of_the_session(
    server: PostgresServer, how: str
) -> None:
    async with gateway(server) as gate:
        await remind(gate, 1)
        getattr(server, how)()
        while not notes_of(gate, "sessions_away"):
            begun = time.monotonic()
            answer = await gate.ask(talk("hello"), SESSION)
            assert (text_of(answer), answer.headers["x-holdgate-state"]) == ("hi", "away")
            assert time.monotonic() - begun < ENTRY_SECONDS + SLACK
        assert answer.headers["x-holdgate-session"] == "s"
        # One without a session does not notice.
        answer = await gate.ask(talk("hello"))
        assert (text_of(answer), "x-holdgate-state" in answer.headers) == ("hi", False)
        ready = await gate.fetch(get("/readyz"))
        assert (ready.status, ready.json["status"]) == (200, "degraded")
        await bring_back(gate, server, how)
        # The reminder that nobody could deliver meanwhile comes now.
        while "[Clock Reminder]" not in str(messages(gate.requests[-1])):
            answer = await gate.ask(talk("hello"), SESSION)
        assert "x-holdgate-state" not in answer.headers
        assert "[Clock Reminder]" not in str([messages(asked) for asked in gate.requests[:-1]])


async def test_the_last_known_routing_is_obeyed(server: PostgresServer) -> None:
    one, other = acting(says("from a")), acting(says("from b"))
    async with instance(one, "holdgate", other, store__url=server.url) as gate:
        assert text_of(await gate.ask(talk("hello"), SESSION)) == "from a"
        assert text_of(await gate.ask(talk("<**!b**> hello"), SESSION)) == "from b"
        await take_away(gate, server, "kill")
        answer = await gate.ask(talk("hello"), SESSION)
        assert (text_of(answer), answer.headers["x-holdgate-state"]) == ("from b", "away")


async def test_what_needs_the_database_says_so(server: PostgresServer) -> None:
    async with gateway(server) as gate:
        await take_away(gate, server, "kill")
        due = iso(gate.gateway.clock.now_ms() + HOUR)
        body = json.dumps({"dueAt": due, "task": "tea"}).encode()
        answer = await gate.fetch(request("POST", path_of("s"), JSON, body=body))
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "Errno" not in str(answer.json)
        await bring_back(gate, server, "kill")
        await remind(gate, HOUR)
        assert len(await listed(gate)) == 1


async def test_requests_of_sessions_are_refused_if_so_configured(server: PostgresServer) -> None:
    async with gateway(server, store__outage="refuse") as gate:
        server.kill()
        answer = await gate.ask(talk("hello"), SESSION)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.json["error"]["code"] == "store_unavailable"
        assert text_of(await gate.ask(talk("hello"))) == "hi"
        ready = await gate.fetch(get("/readyz"))
        assert (ready.status, ready.json["status"]) == (503, "unavailable")
        server.start()
        while (await gate.ask(talk("hello"), SESSION)).status != 200:
            await until(lambda: True)
        assert (await gate.fetch(get("/readyz"))).status == 200
