"""Whole gateways on one PostgreSQL: what is set through one is seen through another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.clock import SystemClock
from tests.run import Running, in_process
from tests.sessions.talk import GO_ON, SESSION, model, stop_message, talk, text_of
from tests.wire.fake import Story

from .server import make_schema_name, shared_server


@asynccontextmanager
async def instance(story: Story, schema: str, **settings: object) -> AsyncIterator[Running]:
    where = {"store__url": shared_server().url, "store__schema": schema, **settings}
    async with in_process(story, clock=SystemClock(), settings=where) as running:
        yield running


async def test_what_is_set_through_one_is_in_force_at_the_other() -> None:
    schema = make_schema_name()
    async with instance(model("a", "b"), schema) as one, instance(model("c"), schema) as two:
        assert text_of(await one.ask(talk("hello"), SESSION)) == "a"
        await one.ask(talk(GO_ON), SESSION)
        assert (await stop_message(two))["text"] == "go on"
        # Each tells who it is.
        names = [
            (await gate.ask(talk("hello"))).headers["x-holdgate-instance"] for gate in (one, two)
        ]
        assert names[0] != names[1]
