"""Holds of two gateways on one PostgreSQL: what one is told or asked moves the answer of the other.

Both have the time of the database, so these tests run in real time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tests.clock.holding import (
    SECOND,
    acting,
    delivered,
    held,
    metrics,
    remind,
    reminded,
    remove,
    says,
    suffixes,
)
from tests.gateway.wire import text
from tests.run import Running, until
from tests.sessions.talk import SESSION, talk, text_of

from .gateways import instance
from .server import make_schema_name

HELD = acting(says("I will."), says("Drink your tea."))
BOTH = "I will.\n\nDrink your tea."
# Of a slow machine: on a quiet one it is 10 ms.
SLACK_MS = 1500


@asynccontextmanager
async def two(**settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    schema = make_schema_name()
    settings = {"clock__due_window_ms": 0, **settings}
    async with (
        instance(HELD, schema, **settings) as one,
        instance(HELD, schema, **settings) as other,
    ):
        yield one, other


async def test_what_is_set_through_one_wakes_the_hold_of_the_other() -> None:
    async with two() as (one, other):
        await remind(one, 30 * SECOND, "late")
        client = await other.start(talk("hi"), SESSION)
        await client.saw(text("I will."))
        await held(other)

        await remind(one, 1 * SECOND, "drink tea")
        due_ms = one.gateway.clock.now_ms() + SECOND
        await client.saw(b"Drink")
        late_ms = other.gateway.clock.now_ms() - due_ms
        assert -SECOND / 4 < late_ms < SLACK_MS

        await until(lambda: reminded(other.requests[-1]) == ["drink tea"])
        while await delivered(one) != ["drink tea"]:
            pass
        await remove(one)
        assert text_of(await client.answer()) == BOTH


async def test_what_is_cancelled_through_one_ends_the_hold_of_the_other() -> None:
    async with two() as (one, other):
        task_id = await remind(one, 30 * SECOND)
        client = await other.start(talk("hi"), SESSION)
        await held(other)
        await remove(one, task_id)
        with anyio.fail_after(SLACK_MS / 1000):
            answer = await client.answer()
        assert text_of(answer) == "I will."
        assert await metrics(other, "holds_ended_total") == {'outcome="reminder_gone"': 1}


async def test_a_request_at_one_ends_the_hold_of_the_other_and_is_held_in_its_place() -> None:
    async with two() as (one, other):
        await remind(one, 30 * SECOND)
        client = await other.start(talk("hi"), SESSION)
        await held(other)
        newer = await one.start(talk("hi"), SESSION)
        with anyio.fail_after(SLACK_MS / 1000):
            answer = await client.answer()
        assert text_of(answer) == "I will."
        assert await metrics(other, "holds_ended_total") == {'outcome="taken_over"': 1}
        await held(one)
        await remove(other)
        assert text_of(await newer.answer()) == "I will."


async def test_200_requests_over_both_and_one_carries_what_is_due() -> None:
    async with two() as (one, other):
        await remind(one, 0)
        carrying: list[str] = []

        async def ask(gate: Running) -> None:
            answer = await gate.ask(talk("hi"), SESSION)
            assert answer.status == 200
            assert text_of(answer) == "I will."

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(ask, one)
                tasks.start_soon(ask, other)
        for gate in (one, other):
            assert not any(suffixes(gate))
            carrying += [task for asked in gate.requests for task in reminded(asked)]
        assert carrying == ["drink tea"]
        assert await delivered(other) == ["drink tea"]
