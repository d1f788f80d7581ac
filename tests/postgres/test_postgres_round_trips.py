"""How many round trips to PostgreSQL each kind of request takes, counted by a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gateway.stores.postgres.lanes import LOOK
from tests.clock.holding import HOUR, Act, acting, remind, says, schedules
from tests.run import Running, until
from tests.sessions.talk import SESSION, talk, text_of

from .gateways import instance
from .server import make_schema_name, shared_server
from .wire_count import RoundTrips, counting

ENTRY = "SELECT w.n"
# What requests ask for; beside that the gateway beats, sweeps, prunes and counts.
ASKED = (".documents WHERE owner", ".documents SET", ".documents AS", ".items", ".locks", ".talks")
READ, INSERT, UPDATE = "SELECT revision,", "INSERT INTO", "UPDATE"


@asynccontextmanager
async def counted(*acts: Act) -> AsyncIterator[tuple[Running, RoundTrips]]:
    """Run a gateway whose round trips are counted; what it does by itself has no place here."""
    settings: dict[str, Any] = {"clock__due_window_ms": 0, "cron__enabled": False}
    async with counting(shared_server()) as trips:
        schema = make_schema_name()
        async with instance(acting(*acts), schema, store__url=trips.url, **settings) as gate:
            # The first statement on each of the two lanes is prepared as well.
            for _ in range(2):
                await gate.ask(talk("hello"), "x-session-id: other")
            yield gate, trips


async def ask(gate: Running, trips: RoundTrips, words: str, *headers: str) -> list[str]:
    """Ask a model, and return what was sent to the database for that."""
    trips.take()
    assert text_of(await gate.ask(talk(words), *headers)) is not None
    await gate.quiet()
    await gate.gateway.parts.store.check()
    sent = [one for one in trips.take() if any(word in one for word in ASKED)]
    return [one for one in sent if "ctid" not in one]


def kinds(sent: list[str]) -> list[str]:
    """Return what each round trip was for."""
    return [next((k for k in (ENTRY, READ, INSERT, UPDATE) if s.startswith(k)), s) for s in sent]


def test_an_entry_is_known_when_it_is_seen() -> None:
    assert " ".join(LOOK.split()).startswith(ENTRY)


async def test_a_request_without_a_session_makes_none() -> None:
    async with counted(says("hi")) as (gate, trips):
        assert await ask(gate, trips, "hello") == []


async def test_a_session_of_which_nothing_is_kept_makes_one() -> None:
    async with counted(says("hi")) as (gate, trips):
        assert kinds(await ask(gate, trips, "hello", SESSION)) == [ENTRY]
        assert kinds(await ask(gate, trips, "hello", SESSION)) == [ENTRY]


async def test_reminders_that_are_not_due_cost_one_more_at_the_end() -> None:
    async with counted(says("hi")) as (gate, trips):
        await remind(gate, HOUR)
        assert kinds(await ask(gate, trips, "hello", SESSION)) == [ENTRY, READ]


async def test_a_reminder_that_is_due_is_reserved_and_committed() -> None:
    async with counted(says("hi")) as (gate, trips):
        await remind(gate, 1)
        await until(lambda: gate.gateway.parts.store.now_ms() % 1000 > 5)
        sent = kinds(await ask(gate, trips, "hello", SESSION))
        assert sent[:2] == [ENTRY, UPDATE]
        # The delivery is written beside the stream.
        assert sorted(sent[2:]) == sorted([UPDATE, READ])


async def test_a_directive_costs_one_more() -> None:
    async with counted(says("hi")) as (gate, trips):
        sent = kinds(await ask(gate, trips, "<**clock:{clear}**> hello", SESSION))
        assert sent[0] == ENTRY
        sent = kinds(await ask(gate, trips, '<**stopMessage:"go on",1**> hello', SESSION))
        # The follow-up is counted durably before it is sent, and the end of the exchange is noted.
        assert sent[:3] == [ENTRY, INSERT, UPDATE]


async def test_scheduling_costs_one_more() -> None:
    async with counted(schedules(HOUR), says("hi")) as (gate, trips):
        assert kinds(await ask(gate, trips, "hello", SESSION)) == [ENTRY, INSERT, READ]


async def test_requests_that_wait_at_the_same_time_share_a_round_trip() -> None:
    async with counted(says("hi")) as (gate, trips):
        entries = gate.gateway.parts.store.entries
        assert entries is not None
        trips.take()
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(entries.look, ("local", f"s{number}"))
        assert kinds(trips.take()).count(ENTRY) <= 2
