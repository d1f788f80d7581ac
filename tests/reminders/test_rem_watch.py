"""Whoever watches a session hears of every change, whichever way it came about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.outbox.ledger import Claim
from gateway.reminders.model import Reminder

from .conftest import LATER, LATEST, OWNER, SESSION, TEA, Desk, Place, Troubled


class Ear:
    """Hears when it is called, and counts."""

    def __init__(self) -> None:
        self.calls = 0
        self._heard = anyio.Event()

    def __call__(self) -> None:
        self.calls += 1
        self._heard.set()

    @asynccontextmanager
    async def hears(self) -> AsyncIterator[None]:
        """Wait until it was called for what happens inside."""
        await anyio.wait_all_tasks_blocked()
        self._heard = anyio.Event()
        yield
        with anyio.fail_after(10):
            await self._heard.wait()


async def claim(desk: Desk) -> Claim[Reminder]:
    reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
    assert reservation is not None
    return reservation


async def test_every_way_to_change_it(desk: Desk) -> None:
    ear, other = Ear(), Ear()
    desk.reminders.watch(OWNER, SESSION, ear)
    desk.reminders.watch("ann", SESSION, other)
    async with ear.hears():
        _, plants = await desk.add(TEA, LATER)
    async with ear.hears():
        reservation = await claim(desk)
    async with ear.hears():
        desk.reminders.release(reservation)
    reservation = await claim(desk)
    async with ear.hears():
        await desk.reminders.commit(reservation)
    async with ear.hears():
        await desk.reminders.cancel(OWNER, SESSION, plants)
    async with ear.hears():
        await desk.reminders.clear(OWNER, SESSION)
    await desk.add(TEA)
    desk.clock.advance(LATEST)
    async with ear.hears():
        await desk.reminders.sweep()
    assert other.calls == 0


QUIET: dict[str, Callable[[Desk], Awaitable[object]]] = {
    "list": lambda desk: desk.reminders.list_reminders(OWNER, SESSION),
    "the same again": lambda desk: desk.add(LATER),
    "unknown": lambda desk: desk.reminders.cancel(OWNER, SESSION, "unknown"),
    "nothing due": lambda desk: desk.reminders.reserve(OWNER, SESSION, "c"),
    "next": lambda desk: desk.reminders.next_ready(OWNER, SESSION, "c"),
    "sweep": lambda desk: desk.reminders.sweep(),
    "other session": lambda desk: desk.add(TEA, session="other"),
}


@pytest.mark.parametrize("call", QUIET.values(), ids=QUIET)
async def test_what_changes_nothing_is_not_told(
    desk: Desk, call: Callable[[Desk], Awaitable[object]]
) -> None:
    await desk.add(LATER)
    await anyio.wait_all_tasks_blocked()
    ear = Ear()
    desk.reminders.watch(OWNER, SESSION, ear)
    await call(desk)
    await anyio.wait_all_tasks_blocked()
    assert ear.calls == 0


async def test_a_delivery_that_is_owed_is_told_too(shaky: Desk, troubled: Troubled) -> None:
    await shaky.add(TEA)
    reservation = await claim(shaky)
    ear = Ear()
    shaky.reminders.watch(OWNER, SESSION, ear)
    troubled.writes_fail = True
    async with ear.hears():
        await shaky.reminders.commit(reservation)
    troubled.writes_fail = False
    async with ear.hears():
        await shaky.reminders.sweep()


async def test_a_change_by_hand_is_told_when_it_is_noticed(files: Place) -> None:
    async with files.desk() as desk:
        await desk.add(TEA)
        ear = Ear()
        desk.reminders.watch(OWNER, SESSION, ear)
        async with ear.hears():
            text = files.file().read_text()
            files.file().write_text(text.replace("drink tea", "make coffee"))
            await desk.reminders.next_ready(OWNER, SESSION, "c")


async def test_whoever_stops_watching_hears_no_more(desk: Desk) -> None:
    ear, faithful = Ear(), Ear()
    stop = desk.reminders.watch(OWNER, SESSION, ear)
    desk.reminders.watch(OWNER, SESSION, faithful)
    stop()
    stop()
    async with faithful.hears():
        await desk.add(TEA)
    async with faithful.hears():
        await claim(desk)
    assert ear.calls == 0
