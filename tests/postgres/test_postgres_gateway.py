"""Whole gateways on one PostgreSQL: what is set through one is seen through another."""

from __future__ import annotations

from tests.sessions.talk import GO_ON, SESSION, model, stop_message, talk, text_of

from .gateways import instance
from .server import make_schema_name


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
