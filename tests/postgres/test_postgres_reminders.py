"""Reminders that several instances share: each is carried by one turn, and handed over safely."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from gateway.clock.manual import ManualClock
from gateway.outbox.ledger import Claim
from gateway.reminders.model import Reminder, ReminderRequest, Rules
from gateway.reminders.service import ReminderService
from gateway.sessions.identity import Requester
from tests.run import until

from .conftest import Notes
from .listeners import Node, Schema, schema
from .proxy import cut_proxy
from .server import shared_pooler, shared_server

OWNER, SESSION = "ann", "s"
NOW_MS = 1_800_000_000_000
RULES = Rules(due_window_ms=0)
CONVERSATION = Requester(tools=True, system="main")
SIDE_CALL = Requester(tools=False, system="title")


@dataclass
class House:
    """An instance with its reminders."""

    node: Node
    reminders: ReminderService
    clock: ManualClock

    async def schedule(self, text: str = "tea", due_ms: int = NOW_MS, exchange: str = "") -> str:
        wanted = (ReminderRequest(due_ms, text),)
        (found,) = await self.reminders.schedule(OWNER, SESSION, wanted, exchange)
        return found.id

    async def reserve(
        self, exchange: str, requester: Requester = CONVERSATION
    ) -> Claim[Reminder] | None:
        return await self.reminders.reserve(OWNER, SESSION, exchange, requester)

    async def claim(self, exchange: str, requester: Requester = CONVERSATION) -> Claim[Reminder]:
        claim = await self.reserve(exchange, requester)
        assert claim is not None
        return claim

    async def commit(self, claim: Claim[Reminder]) -> None:
        await self.reminders.commit(claim)
        await self.reminders.settle(OWNER, SESSION)

    async def read(self) -> Reminder:
        (found,) = (await self.reminders.list_reminders(OWNER, SESSION)).items
        return found


@asynccontextmanager
async def house(here: Schema, url: str = "", poll_ms: int = 60_000) -> AsyncIterator[House]:
    """Start an instance whose lease is long: only tests let it lapse."""
    clock = ManualClock(NOW_MS)
    async with here.join(url, lease_ms=60_000, poll_ms=poll_ms) as node:
        service = ReminderService(node.documents, clock, RULES, here.notes)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.run_settling)
            yield House(node, service, clock)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def two_houses(notes: Notes) -> AsyncIterator[tuple[Schema, House, House]]:
    async with schema(notes) as here, house(here) as one, house(here) as other:
        yield here, one, other


async def bury(here: Schema, house: House) -> None:
    """Bury an instance, and let it not know that."""
    await here.lapse(house.node.instance)
    assert await here.bury() == [house.node.instance.id]


async def test_200_turns_of_several_instances_and_one_carries_it(notes: Notes) -> None:
    async with schema(notes) as here, house(here) as a, house(here) as b, house(here) as c:
        await a.schedule()
        claims: list[tuple[int, Claim[Reminder]]] = []

        async def ask(number: int) -> None:
            claim = await (a, b, c)[number % 3].reserve(f"x{number}")
            if claim is not None:
                claims.append((number, claim))

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(ask, number)

        ((number, claim),) = claims
        await (a, b, c)[number % 3].commit(claim)
        assert (await b.read()).deliveries == 1
        assert (await c.read()).delivered_ms == NOW_MS


async def test_what_was_released_is_carried_by_another_instance(notes: Notes) -> None:
    async with two_houses(notes) as (_, one, other):
        await one.schedule()
        claim = await one.claim("x1")
        assert await other.reserve("x2") is None

        one.reminders.release(claim)
        await one.reminders.settle(OWNER, SESSION)

        claim = await other.claim("x3")
        await other.commit(claim)
        assert (await one.read()).deliveries == 1
        assert await one.reserve("x4") is None


async def test_what_a_buried_instance_held_is_carried_by_another(notes: Notes) -> None:
    async with two_houses(notes) as (here, one, other):
        await one.schedule()
        claim = await one.claim("x1")
        await here.lapse(one.node.instance)
        # Lapsed and not buried: it may come back and still holds it.
        other.node.instance.living = frozenset()
        assert await other.reserve("x2") is None
        assert one.node.instance.id in other.node.instance.living

        await here.bury()
        other.node.instance.living = frozenset({other.node.instance.id})
        taken = await other.claim("x3")

        # What the first one still does finds its token no more.
        assert not await one.reminders.is_held(claim)
        await one.commit(claim)
        assert (await other.read()).delivered_ms is None
        assert await other.reminders.is_held(taken)
        await other.commit(taken)
        assert (await one.read()).deliveries == 1


async def test_a_release_after_a_take_over_does_nothing(notes: Notes) -> None:
    async with two_houses(notes) as (here, one, other):
        await one.schedule()
        claim = await one.claim("x1")
        await bury(here, one)
        other.node.instance.living = frozenset({other.node.instance.id})
        taken = await other.claim("x2")

        one.reminders.release(claim)
        await one.reminders.settle(OWNER, SESSION)

        assert await other.reminders.is_held(taken)
        assert await one.reserve("x3") is None


async def test_a_conversation_takes_over_what_a_side_call_elsewhere_holds(notes: Notes) -> None:
    async with two_houses(notes) as (_, one, other):
        await one.schedule()
        side_call = await one.claim("x1", SIDE_CALL)
        assert await other.reserve("x2", SIDE_CALL) is None

        taken = await other.claim("x3", CONVERSATION)

        await one.commit(side_call)
        assert (await one.read()).delivered_ms is None
        await other.commit(taken)
        assert (await one.read()).deliveries == 1


@pytest.mark.parametrize("is_told", [True, False])
async def test_who_waits_at_another_instance_hears_of_a_change(notes: Notes, is_told: bool) -> None:
    async with two_houses(notes) as (_, one, other):
        woken: list[None] = []
        other.reminders.watch(OWNER, SESSION, lambda: woken.append(None))
        mark = other.node.hints.mark()
        # A turn that sets the first reminder of its session holds its own answer.
        reminder = await one.schedule(exchange="" if is_told else "x1", due_ms=NOW_MS + 60_000)
        if is_told:
            await until(lambda: bool(woken))
            assert other.node.hints.has_changed("c", (OWNER, SESSION), mark)
        before = len(woken)
        await one.reminders.cancel(OWNER, SESSION, reminder)
        await until(lambda: len(woken) > before)


async def test_who_waits_hears_of_a_change_by_polling(notes: Notes) -> None:
    async with (
        schema(notes) as here,
        house(here) as one,
        house(here, shared_pooler().url, poll_ms=100) as other,
    ):
        # Through a pooler no hint arrives.
        assert other.node.listener.is_deaf
        woken: list[None] = []
        other.reminders.watch(OWNER, SESSION, lambda: woken.append(None))
        reminder = await one.schedule(due_ms=NOW_MS + 60_000)
        await until(lambda: bool(woken), 20)
        assert len(await other.reminders.list_undelivered(OWNER, SESSION)) == 1

        woken.clear()
        await one.reminders.cancel(OWNER, SESSION, reminder)
        await until(lambda: bool(woken), 20)
        assert not await other.reminders.list_undelivered(OWNER, SESSION)

        # It was seen, so it is not told again.
        woken.clear()
        await other.node.documents.watches.compare()
        await anyio.lowlevel.checkpoint()
        assert not woken


async def test_a_reconnect_finds_what_changed_meanwhile(notes: Notes) -> None:
    async with (
        schema(notes) as here,
        cut_proxy(shared_server()) as proxy,
        house(here) as one,
        house(here, proxy.url) as other,
    ):
        woken: list[None] = []
        other.reminders.watch(OWNER, SESSION, lambda: woken.append(None))
        proxy.is_closed = True
        proxy.reset()
        await one.schedule(due_ms=NOW_MS + 60_000)
        assert not woken
        proxy.is_closed = False
        await until(lambda: bool(woken), 20)


async def test_a_plain_hold_tells_nobody(notes: Notes) -> None:
    async with two_houses(notes) as (_, one, other):
        mark = other.node.hints.mark()
        await one.schedule(exchange="x1", due_ms=NOW_MS + 1000)
        one.clock.advance(1000)
        claim = await one.claim("x1")
        await one.commit(claim)
        # What is told now comes after all that was told before.
        one.node.hints.tell("e", ("ann", "last"))
        await until(lambda: other.node.hints.has_changed("e", ("ann", "last"), mark))
        assert not other.node.hints.has_changed("cs", (OWNER, SESSION), mark)


async def test_a_delivery_of_what_was_removed_meanwhile_is_not_waited_for(notes: Notes) -> None:
    async with two_houses(notes) as (_, one, other):
        await one.schedule()
        claim = await one.claim("x1")
        await other.reminders.clear(OWNER, SESSION)
        await one.commit(claim)
        assert "0 owed" in repr(one.reminders)
        assert await other.reminders.idle(OWNER, SESSION)


async def test_many_sets_and_cancels_at_several_instances(notes: Notes) -> None:
    async with schema(notes) as here, house(here) as a, house(here) as b:
        kept: set[str] = set()

        async def work(at: House, number: int) -> None:
            reminder = await at.schedule(f"task {number}", NOW_MS + 60_000)
            if number % 2:
                assert await (a, b)[number % 4 // 2].reminders.cancel(OWNER, SESSION, reminder)
            else:
                kept.add(reminder)

        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(partial(work, (a, b)[number % 2], number))
        found = await b.reminders.list_reminders(OWNER, SESSION)
        assert Counter(one.id for one in found.items) == Counter(kept)
