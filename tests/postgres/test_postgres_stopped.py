"""A process that is stopped beyond its lease is taken for dead, and shows nothing that it held."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.clock.holding import acting, delivered, remind, reminded, says
from tests.clock.reminding import variables
from tests.gateway.client import Client
from tests.gateway.wire import Cue, ask_of, text
from tests.jobs.words import add, run_now, seen, statuses
from tests.run import GatewayProcess, Running, as_process, until
from tests.sessions.talk import SESSION, talk, text_of
from tests.wire.fake import FakeUpstream, Peer, fake_upstream

from .gateways import instance
from .server import PostgresServer, make_schema_name, shared_server

LEASE_MS = 3000
SPEAKS = says("Drink your tea.")
SHARED: dict[str, Any] = {"clock__due_window_ms": 0, "store__lease_ms": LEASE_MS}


class Stage:
    """A gateway in a process of its own, which is being answered, and another one."""

    def __init__(
        self, process: GatewayProcess, other: Running, upstream: FakeUpstream, cue: Cue
    ) -> None:
        self.process = process
        self.other = other
        self.upstream = upstream
        self.cue = cue

    async def carry(self) -> Client:
        """Have the process carry a due reminder to the model, which does not answer yet."""
        await remind(self.other, 0)
        client = await self.process.connect()
        await client.send(ask_of(talk("hi"), SESSION))
        await until(lambda: bool(self.upstream.requests), 20)
        assert reminded(self.upstream.requests[0]) == ["drink tea"]
        return client

    async def find_taken_over(self) -> None:
        """Ask the other one until it carries the reminder."""
        with anyio.fail_after(60):
            while not any(reminded(asked) for asked in self.other.requests):
                # If it is taken over just then, a turn for it follows.
                answer = await self.other.ask(talk("hi"), SESSION)
                assert "Drink your tea." in text_of(answer)


@asynccontextmanager
async def stage(home: Path) -> AsyncIterator[Stage]:
    cue, schema = Cue(), make_schema_name()

    async def waits(peer: Peer) -> None:
        asked = await peer.request()
        await cue.wait()
        await peer.send(*SPEAKS({"stream": True}, "a"))
        assert asked

    where = {"store__url": shared_server().url, "store__schema": schema, **SHARED}
    async with (
        instance(acting(SPEAKS), schema, patience=100, **SHARED) as other,
        fake_upstream(waits) as upstream,
        as_process(home, variables(upstream.port, **where)) as process,
    ):
        yield Stage(process, other, upstream, cue)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


async def test_what_a_stopped_process_carried_is_carried_by_another_and_shown_once(
    home: Path,
) -> None:
    async with stage(home) as here:
        client = await here.carry()
        assert await delivered(here.other) == []

        here.process.signal(signal.SIGSTOP)
        await here.find_taken_over()
        here.cue.give()
        here.process.signal(signal.SIGCONT)

        answer = await client.answer()
        assert text("Drink") not in answer.body
        assert answer.status == 503
        assert answer.json["error"]["code"] == "reservation_lost"
        assert await delivered(here.other) == ["drink tea"]
        # It goes on under a new name, and is as good as new.
        again = await here.process.connect()
        here.cue.give()
        await again.send(ask_of(talk("hi"), "x-session-id: another"))
        assert text_of(await again.answer()) == "Drink your tea."


async def test_who_is_stopped_for_a_moment_shows_what_it_carried(home: Path) -> None:
    async with stage(home) as here:
        client = await here.carry()
        here.process.signal(signal.SIGSTOP)
        here.cue.give()
        here.process.signal(signal.SIGCONT)
        assert text_of(await client.answer()) == "Drink your tea."
        assert await delivered(here.other) == ["drink tea"]


async def test_runs_are_cut_before_another_instance_may_begin_them_again(
    server: PostgresServer,
) -> None:
    begun, over = anyio.Event(), anyio.Event()

    async def never_ends(peer: Peer) -> None:
        await peer.request()
        begun.set()
        await peer.gone()
        over.set()

    where = {**SHARED, "store__url": server.url, "cron__enabled": True}
    async with instance(never_ends, "holdgate", patience=100, **where) as gate:
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        await begun.wait()
        assert await statuses(gate, job_id) == ["running"]
        # Nobody can bury it now, and it does not know that.
        server.freeze()
        await over.wait()
        assert not gate.gateway.parts.store.instance.is_trusted
        server.thaw()
        await seen(lambda: statuses(gate, job_id), lambda found: found == ["interrupted"], 60)
