"""The sweep: what expired is removed, counted and told, and nobody is kept waiting."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial

import anyio
import anyio.lowlevel
import msgspec

from gateway.clock.manual import ManualClock
from gateway.reminders.model import Reminder, ReminderList, ReminderRequest
from gateway.reminders.records import (
    MOST_ENDED,
    MOST_ENDED_HERE,
    EndedReminder,
    RecentlyEnded,
    ReminderCounts,
)
from gateway.reminders.reminder_documents import SHAPE
from gateway.stores import SealedDocument
from gateway.stores.documents import AT_ONCE, MOST_LEFT, SessionKey, iterate_due, seal

from .conftest import LATER, LATEST, MINUTE, NOW, OWNER, SESSION, TEA, Desk, Place, Troubled, key_of

MANY = 500
DAY = 24 * 60 * 60 * 1000


async def test_what_expired_is_removed_and_told(desk: Desk) -> None:
    (tea,) = await desk.add(TEA, session="old")
    await desk.add(TEA, session="delivered")
    reservation = await desk.reminders.reserve(OWNER, "delivered", "c")
    assert reservation is not None
    await desk.reminders.commit(reservation)
    mixed, plants = await desk.add(TEA, LATER, session="mixed")
    await desk.add(LATER, session="young")
    assert await desk.reminders.sweep() == 0
    desk.clock.advance(LATEST)
    assert await desk.reminders.sweep() == 2
    assert await desk.store.read(key_of("old")) is None
    assert await desk.store.read(key_of("delivered")) is None
    assert [task.id for task in await desk.kept("mixed")] == [plants]
    assert len(await desk.kept("young")) == 1
    assert desk.outcomes("old") == {tea: ["expired"]}
    assert desk.outcomes("delivered") == {reservation.items[0].id: ["delivered"]}
    assert desk.outcomes("mixed") == {mixed: ["expired"]}
    assert sorted(str(note["tasks"]) for note in desk.noted("reminders_expired")) == sorted(
        [tea, mixed]
    )
    assert desk.reminders.counts == ReminderCounts(scheduled=5, reserved=1, committed=1, expired=2)
    assert await desk.reminders.sweep() == 0


async def test_a_clock_that_is_ahead_for_a_while_expires_nothing(desk: Desk) -> None:
    """Whether it is swept then, listed, or changed."""
    (task_id,) = await desk.add(ReminderRequest(NOW + 5 * MINUTE, "drink tea"))
    assert await desk.reminders.sweep() == 0
    desk.clock.step(60 * MINUTE)
    for _ in range(3):
        assert await desk.reminders.sweep() == 0
        assert [task.id for task in await desk.reminders.list_undelivered(OWNER, SESSION)] == [
            task_id
        ]
        # To the clock it has expired, so nobody delivers it now.
        assert await desk.reminders.reserve(OWNER, SESSION, "chain") is None
        desk.clock.advance(10_000)
    await desk.add(ReminderRequest(desk.clock.now_ms() + MINUTE, "another"))
    desk.clock.step(-60 * MINUTE)
    assert await desk.reminders.sweep() == 0
    desk.clock.advance(5 * MINUTE)
    reservation = await desk.reminders.reserve(OWNER, SESSION, "chain")
    assert reservation is not None
    assert [task.id for task in reservation.items] == [task_id]


async def test_a_clock_that_stays_ahead_expires_at_the_second_look(desk: Desk) -> None:
    (task_id,) = await desk.add(TEA)
    desk.clock.step(LATEST)
    assert await desk.reminders.sweep() == 0
    desk.clock.advance(MINUTE)
    assert await desk.reminders.sweep() == 1
    assert desk.outcomes() == {task_id: ["expired"]}


async def test_more_than_one_handful(desk: Desk) -> None:
    many = 2 * AT_ONCE + 3
    async with anyio.create_task_group() as group:
        for number in range(many):
            group.start_soon(partial(desk.add, TEA, session=f"s{number}"))
    desk.clock.advance(LATEST)
    assert await desk.reminders.sweep() == many
    assert await desk.store.due("clock", 2**60, 10) == []
    assert desk.reminders.counts.expired == many


async def test_no_handful_is_larger_than_the_one_before(desk: Desk) -> None:
    for number in range(5 * AT_ONCE + 1):
        await desk.add(TEA, session=f"s{number}")
    sizes: list[int] = []
    async with aclosing(iterate_due(desk.store, "clock", 2**60)) as handfuls:
        async for keys in handfuls:
            sizes.append(len(keys))
            for key in keys[1:]:
                await desk.reminders.clear(OWNER, key.session)
    # One of each handful stays, and is not handed out again.
    assert sizes == [AT_ONCE] * 5 + [1]


async def test_the_scan_when_a_store_is_opened(durable: Place) -> None:
    async with durable.desk() as desk:
        for number in range(10):
            await desk.add(TEA, session=f"s{number}")
        await desk.add(LATER, session="young")
    durable.clock.advance(LATEST)
    ntp_state = durable.root / "clock" / "ntp-state.json"
    ntp_state.parent.mkdir(parents=True, exist_ok=True)
    ntp_state.write_text('{"status":"synced"}')
    async with durable.desk() as desk:
        assert await desk.reminders.sweep() == 10
        assert len(await desk.kept("young")) == 1
    assert ntp_state.read_text() == '{"status":"synced"}'
    assert durable.quarantined == []


async def test_a_session_that_cannot_be_written_hurts_only_itself(
    shaky: Desk, troubled: Troubled, clock: ManualClock
) -> None:
    for number in range(AT_ONCE + 50):
        await shaky.add(ReminderRequest(NOW + number, "x"), session=f"s{number}")
    troubled.bad = {key_of(f"s{number}") for number in range(AT_ONCE + 10)}
    clock.advance(LATEST + 1000)
    assert await shaky.reminders.sweep() == 40
    (told,) = [note for note in shaky.noted("reminders_not_swept") if note["sessions"] != 10]
    assert told == {"sessions": AT_ONCE, "why": "The disk is full."}
    troubled.bad = set()
    assert await shaky.reminders.sweep() == AT_ONCE + 10
    assert shaky.reminders.counts.expired == AT_ONCE + 50


async def test_a_disk_that_takes_nothing_is_not_tried_for_ever(
    shaky: Desk, troubled: Troubled, clock: ManualClock
) -> None:
    many = MOST_LEFT + 2 * AT_ONCE
    tasks = ReminderList((Reminder("u", NOW, NOW, NOW, "x"),))
    for number in range(many):
        key = key_of(f"s{number}")
        await troubled.write(key, seal(key, tasks, SHAPE, NOW), 0)
    troubled.writes_fail = True
    clock.advance(LATEST)
    assert await shaky.reminders.sweep() == 0
    tried = sum(int(str(note["sessions"])) for note in shaky.noted("reminders_not_swept"))
    assert MOST_LEFT <= tried < many


async def test_an_index_that_says_otherwise_than_the_document(shaky: Desk) -> None:
    """Then there is nothing to remove, and it must not be tried for ever."""
    await shaky.add(LATER)
    stored = await shaky.store.read(key_of())
    assert stored is not None
    await shaky.store.write(key_of(), SealedDocument(stored.document, NOW, 1), stored.revision)
    with anyio.fail_after(10):
        assert await shaky.reminders.sweep() == 0


async def test_it_sweeps_at_once_and_then_at_every_tick(shaky: Desk, clock: ManualClock) -> None:
    await shaky.add(TEA)
    clock.advance(LATEST)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(shaky.reminders.run, 1)
            await shaky.saw("reminders_expired", 1)
            await shaky.add(ReminderRequest(clock.now_ms(), "x"))
            clock.advance(LATEST)
            await shaky.saw("reminders_expired", 2)
            group.cancel_scope.cancel()
    assert shaky.reminders.counts.expired == 2


async def test_it_goes_on_when_the_store_is_down_for_a_while(
    shaky: Desk, troubled: Troubled, clock: ManualClock
) -> None:
    await shaky.add(TEA)
    clock.advance(LATEST)
    troubled.dues_fail = True
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(shaky.reminders.run, 1)
            await shaky.saw("reminders_not_swept", 3)
            troubled.dues_fail = False
            await shaky.saw("reminders_expired", 1)
            group.cancel_scope.cancel()
    assert shaky.noted("reminders_not_swept")[0] == {"why": "The disk is gone."}


async def test_the_others_are_served_meanwhile(files: Place) -> None:
    """Hundreds of files expire at once; nobody waits longer than one slice of that work."""
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    document = {"version": 1, "tasks": [{"taskId": "u", "dueAtMs": NOW, "task": "x"}]}
    for number in range(MANY):
        text = msgspec.json.encode({**document, "sessionId": f"s{number}"})
        (folder / f"s{number}.json").write_bytes(text)
    files.clock.advance(LATEST)
    most = 0

    async def look(counts: ReminderCounts) -> None:
        nonlocal most
        while True:
            before = counts.expired
            await anyio.lowlevel.checkpoint()
            most = max(most, counts.expired - before)

    async with files.desk() as desk:
        async with anyio.create_task_group() as group:
            group.start_soon(look, desk.reminders.counts)
            assert await desk.reminders.sweep() == MANY
            group.cancel_scope.cancel()
    assert list(folder.glob("*.json")) == []
    # The ends of one handful and of the next may be seen at once.
    assert 0 < most <= 2 * AT_ONCE


# What ended lately


def place_of(session: str = SESSION) -> SessionKey:
    return OWNER, session


def ended(number: int, at_ms: int = NOW) -> EndedReminder:
    return EndedReminder(f"id-{number}", "x", NOW, "expired", at_ms)


def test_what_ended_is_bounded_in_a_session() -> None:
    recent = RecentlyEnded()
    for number in range(MOST_ENDED_HERE + 5):
        recent.add(place_of(), [ended(number)])
    assert [end.id for end in recent.of(place_of(), NOW)] == [
        f"id-{number}" for number in range(5, MOST_ENDED_HERE + 5)
    ]
    assert len(recent) == MOST_ENDED_HERE


def test_what_ended_is_bounded_over_all_sessions() -> None:
    recent = RecentlyEnded()
    for number in range(MOST_ENDED + 10):
        recent.add(place_of(f"s{number}"), [ended(number)])
        recent.add(place_of("busy"), [ended(number)])
    assert MOST_ENDED - MOST_ENDED_HERE <= len(recent) <= MOST_ENDED
    assert recent.of(place_of("s0"), NOW) == ()
    assert len(recent.of(place_of("busy"), NOW)) == MOST_ENDED_HERE
    assert len(recent.of(place_of(f"s{MOST_ENDED}"), NOW)) == 1


def test_what_ended_is_forgotten_after_a_day() -> None:
    recent = RecentlyEnded()
    recent.add(place_of("a"), [ended(1)])
    recent.add(place_of("b"), [ended(2)])
    recent.add(place_of("a"), [ended(3, NOW + 5)])
    recent.forget(NOW + DAY)
    assert [len(recent.of(place_of(name), NOW)) for name in "ab"] == [2, 0]
    assert len(recent) == 2
    recent.forget(NOW + DAY + 5)
    assert len(recent) == 0


async def test_the_sweep_forgets_what_ended_long_ago(desk: Desk) -> None:
    (tea,) = await desk.add(TEA)
    await desk.reminders.cancel(OWNER, SESSION, tea)
    desk.clock.advance(DAY)
    await desk.reminders.sweep()
    desk.clock.advance(-DAY)
    assert desk.reminders.recent(OWNER, SESSION) == ()
