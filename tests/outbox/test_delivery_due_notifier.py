"""The due notifier: each reminder that comes due is told of once, where somebody wants to hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.outbox.webhooks import Hook
from gateway.reminders.model import ReminderRequest, Rules
from gateway.stores import DocumentKey, Memory, Stored, StoreUnavailable
from tests.outbox.house import MINUTE, NOW, OWNER, SESSION, WEEK, House, living
from tests.outbox.ledger import Ledger
from tests.run import until

ANNS = Hook("ann", "http://127.0.0.1:9/", b"secret")


async def told(house: House, *ids: str, session: str = SESSION, owner: str = OWNER) -> None:
    """Wait until just these reminders were told of."""

    async def is_so() -> bool:
        return len(await house.published(session, owner)) >= len(ids)

    await house.come_to(is_so)
    assert await house.published(session, owner) == [("reminder.due", one) for one in ids]


async def settled(house: House) -> None:
    """Wait until the notifier has looked at all it was told of."""
    await house.due_notifier.attend("marker", "marker")
    await house.reminders.schedule(
        "marker", "marker", (ReminderRequest(house.clock.now_ms(), "now"),)
    )

    async def is_so() -> bool:
        return bool(await house.published("marker", "marker"))

    await house.come_to(is_so)


async def test_a_reminder_is_told_of_when_it_comes_due(house: House) -> None:
    await house.due_notifier.attend(OWNER, SESSION)
    tea = await house.remind("drink tea", MINUTE)
    await settled(house)
    assert await house.published() == []
    house.clock.advance(MINUTE)
    await told(house, tea)
    (event,) = await house.rows.events(OWNER, SESSION, 0, 10)
    assert event.at_ms == NOW + MINUTE
    assert b'"text":"drink tea"' in event.data
    assert f'"id":"{tea}"'.encode() in event.data


async def test_it_is_due_as_early_as_a_request_would_carry_it() -> None:
    async with living(rules=Rules(due_window_ms=MINUTE)) as house:
        await house.due_notifier.attend(OWNER, SESSION)
        tea = await house.remind("drink tea", 2 * MINUTE)
        house.clock.advance(MINUTE - 1)
        await settled(house)
        assert await house.published() == []
        house.clock.advance(1)
        await told(house, tea)


async def test_what_is_due_already_is_told_of_at_once(house: House) -> None:
    tea = await house.remind("drink tea")
    await house.due_notifier.attend(OWNER, SESSION)
    await told(house, tea)


async def test_each_in_its_time_and_once(house: House) -> None:
    await house.due_notifier.attend(OWNER, SESSION)
    late = await house.remind("late", 3 * MINUTE)
    soon = await house.remind("soon", MINUTE)
    house.clock.advance(MINUTE)
    await told(house, soon)
    house.clock.advance(MINUTE)
    between = await house.remind("between")
    await told(house, soon, between)
    house.clock.advance(MINUTE)
    await told(house, soon, between, late)


async def test_one_that_is_cancelled_or_delivered_is_not_told_of(house: House) -> None:
    await house.due_notifier.attend(OWNER, SESSION)
    cancelled = await house.remind("cancelled", MINUTE)
    acked = await house.remind("acknowledged", MINUTE)
    tea = await house.remind("drink tea", 2 * MINUTE)
    await house.reminders.cancel(OWNER, SESSION, cancelled)
    await house.reminders.acknowledge(OWNER, SESSION, (acked,))
    house.clock.advance(2 * MINUTE)
    await told(house, tea)


async def test_a_clock_that_is_stepped_neither_loses_nor_doubles(house: House) -> None:
    await house.due_notifier.attend(OWNER, SESSION)
    tea = await house.remind("drink tea", MINUTE)
    house.clock.advance(-60 * MINUTE)
    await settled(house)
    assert await house.published() == []
    house.clock.advance(61 * MINUTE)
    await told(house, tea)
    house.clock.advance(-2 * MINUTE)
    more = await house.remind("more", MINUTE)
    house.clock.advance(2 * MINUTE)
    await told(house, tea, more)


async def test_nobody_asked_so_nothing_is_done(house: House) -> None:
    await house.remind("drink tea")
    await house.remind("later", MINUTE)
    await settled(house)
    assert await house.published() == []
    assert repr(house.due_notifier) == "<DueNotifier of 1 sessions>"
    assert len(house.timers) == 0


async def test_a_new_process_tells_of_what_came_due_meanwhile_and_nothing_twice() -> None:
    rows = Ledger()
    async with living(rows) as before:
        store = before.reminders.store
        assert isinstance(store, Memory)
        await before.due_notifier.attend(OWNER, SESSION)
        first = await before.remind("first")
        await told(before, first)
        second = await before.remind("second", MINUTE)
    before.clock.advance(2 * MINUTE)
    async with living(rows, store=store, clock=before.clock) as after:
        await told(after, first, second)


async def test_whoever_has_a_webhook_hears_of_all_sessions() -> None:
    async with living(hooks=[ANNS]) as house:
        tea = await house.remind("drink tea", MINUTE, owner="ann", session="new")
        await house.remind("bob's", MINUTE, owner="bob")
        house.clock.advance(MINUTE)
        await told(house, tea, owner="ann", session="new")
        assert await house.published(owner="bob") == []


async def test_with_a_webhook_old_sessions_are_found_at_the_start() -> None:
    rows = Ledger()
    async with living(rows) as before:
        store = before.reminders.store
        assert isinstance(store, Memory)
        ids = [
            await before.remind("x", MINUTE, owner="ann", session=str(number))
            for number in range(3)
        ]
    before.clock.advance(MINUTE)
    async with living(rows, store=store, clock=before.clock, hooks=[ANNS]) as after:
        for number, one in enumerate(ids):
            await told(after, one, owner="ann", session=str(number))


async def test_with_a_webhook_a_session_without_reminders_costs_nothing() -> None:
    async with living(hooks=[ANNS]) as house:
        tea = await house.remind("drink tea", MINUTE, owner="ann")
        await settled(house)
        assert repr(house.due_notifier) == "<DueNotifier of 2 sessions>"
        await house.reminders.cancel("ann", SESSION, tea)
        await settled(house)
        assert repr(house.due_notifier) == "<DueNotifier of 1 sessions>"
        again = await house.remind("again", owner="ann")
        await told(house, again, owner="ann")


async def test_interest_ends_after_a_week_unless_somebody_listens(house: House) -> None:
    await house.due_notifier.attend(OWNER, "left")
    with house.feed.subscribe(OWNER, "listens"):
        await house.due_notifier.attend(OWNER, "listens")
        house.clock.advance(WEEK + 1)
        await house.due_notifier.refresh()
        tea = await house.remind("drink tea", session="listens")
        await house.remind("drink tea", session="left")
        await told(house, tea, session="listens")
        assert await house.published("left") == []
    assert await house.rows.interests() == [(OWNER, "listens")]


class Shaky(Memory):
    """A store of reminders that can be told to fail."""

    fails = False

    async def read(self, key: DocumentKey) -> Stored | None:
        if self.fails:
            raise StoreUnavailable("The disk is gone.")
        return await super().read(key)


@pytest.mark.parametrize("broken", ["rows", "documents"])
async def test_after_trouble_with_a_store_it_is_told_of_late(broken: str) -> None:
    rows, store = Ledger(), Shaky(lambda: NOW, lambda name, reason: None)
    faulty: Any = rows if broken == "rows" else store
    event = "event_not_kept" if broken == "rows" else "reminders_not_read"
    async with living(rows, store=store) as house:
        await house.due_notifier.attend(OWNER, SESSION)
        tea = await house.remind("drink tea", MINUTE)
        faulty.fails = True
        house.clock.advance(MINUTE)
        await until(lambda: bool(house.notes.of(event)))
        faulty.fails = False
        house.clock.advance(MINUTE)
        await told(house, tea)


async def test_hundreds_due_at_once(house: House) -> None:
    ids = {}
    for number in range(300):
        session = str(number)
        await house.due_notifier.attend(OWNER, session)
        ids[session] = await house.remind("x", MINUTE, session=session)
    house.clock.advance(MINUTE)
    for session, one in ids.items():
        await told(house, one, session=session)
