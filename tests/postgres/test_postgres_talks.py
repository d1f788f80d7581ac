"""Conversations with agents through several gateways on one PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.agents.conversations import TalkRecord
from gateway.clock import SystemClock
from gateway.stores.conversation_rows import LONGEST, TalkAddition
from tests.agents.talking import begin, messages_of, noted, roles, room, said, text_of
from tests.gateway.wire import hanging
from tests.jobs.words import add, ran, run_now, seen
from tests.run import Running
from tests.sessions.talk import messages, model, user
from tests.wire.fake import Story

from .rows import PostgresRowBackend
from .server import make_schema_name, shared_server


@asynccontextmanager
async def agent_room(story: Story, schema: str) -> AsyncIterator[Running]:
    """Run a gateway with agents on a schema."""
    where = {"store__url": shared_server().url, "store__schema": schema}
    async with room(story, clock=SystemClock(), settings=where) as gate:
        yield gate


async def test_a_conversation_goes_on_through_another_gateway() -> None:
    schema = make_schema_name()
    async with agent_room(model("a", "c"), schema) as one, agent_room(model("b"), schema) as two:
        assert text_of(await said(one, "first")) == "a"
        assert text_of(await said(two, "second")) == "b"
        assert text_of(await said(one, "third")) == "c"
        asked = [message["content"] for message in messages(one.requests[-1])]
        assert asked[-6:-1] == ["first", "a", "second", "b", "third"]
        assert roles(await messages_of(two)) == ["user", "assistant"] * 3
        # The lock was released with the exchange, and nobody missed it.
        for gate in (one, two):
            assert noted(gate, "lock_lost", "lock_not_released") == []
        assert len(noted(one, "lock_released")) == 2


async def test_a_busy_session_is_busy_at_every_gateway() -> None:
    schema = make_schema_name()
    async with agent_room(hanging(), schema) as one, agent_room(model("b"), schema) as two:
        client = await begin(one, "first")
        assert (await said(two, "second")).status == 429
        client.leave()
        await one.quiet()
        assert text_of(await said(two, "second")) == "b"


async def test_an_owed_result_is_told_and_paid_at_once() -> None:
    schema = make_schema_name()
    async with agent_room(model("result", "I see"), schema) as gate:
        job_id = await add(gate, agent="helper", session="isolated")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await seen(lambda: messages_of(gate), lambda found: len(found) == 2)
        rows = gate.gateway.parts.rows.jobs
        assert await rows.list_owed() == []
        [run] = await rows.runs(job_id, 9)
        assert not run.owed


@pytest.mark.parametrize("size", [LONGEST // 3, LONGEST + 1])
async def test_a_long_conversation_loses_its_oldest_exchanges(size: int) -> None:
    async with PostgresRowBackend().opened() as rows:
        for number in range(6):
            found = await rows.conversations.get("ann", "agent", "s")
            text = f"{number}" + "x" * size
            if found is None:
                said = TalkAddition("ann", "agent", "s", b'["' + text.encode() + b'"]')
                await rows.appender.append(said)
                continue
            await TalkRecord(rows.appender, found, lambda: 1).add([user(text)])
        found = await rows.conversations.get("ann", "agent", "s")
        assert found is not None
        assert len(found.messages) <= max(LONGEST, size + 100)
        assert b'"5xx' in found.messages
        (kept,) = await rows.database.ask("SELECT count(*) AS rows FROM @talks")
        assert kept["rows"] <= 4
