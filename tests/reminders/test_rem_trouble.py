"""A store that fails, hangs or is gone: what was delivered stays delivered, and is written later."""

from __future__ import annotations

import anyio
import pytest

from gateway.clock.manual import ManualClock
from gateway.outbox.ledger import Claim
from gateway.reminders.model import Reminder, ReminderList
from gateway.reminders.records import ReminderCounts
from gateway.stores import StoreUnavailable

from .conftest import LATER, LATEST, MINUTE, NOW, OWNER, SESSION, TEA, Desk, Place, Troubled, key_of


async def carried(desk: Desk, session: str = SESSION) -> Claim[Reminder]:
    """Schedule one that is due, and reserve it."""
    await desk.add(TEA, session=session)
    reservation = await desk.reminders.reserve(OWNER, session, "c")
    assert reservation is not None
    return reservation


async def test_nothing_is_half_written(shaky: Desk, troubled: Troubled) -> None:
    (tea,) = await shaky.add(TEA)
    troubled.writes_fail = True
    with pytest.raises(StoreUnavailable):
        await shaky.add(LATER)
    with pytest.raises(StoreUnavailable):
        await shaky.reminders.cancel(OWNER, SESSION, tea)
    with pytest.raises(StoreUnavailable):
        await shaky.reminders.clear(OWNER, SESSION)
    assert [task.id for task in await shaky.kept()] == [tea]
    assert shaky.reminders.counts == ReminderCounts(scheduled=1)
    assert shaky.outcomes() == {}
    who = {"owner": OWNER, "session": SESSION}
    assert (
        shaky.noted("reminders_not_stored")
        == [{**who, "store": "failed", "why": "The disk is full."}] * 3
    )


async def test_without_a_store_nothing_is_due(shaky: Desk, troubled: Troubled) -> None:
    await shaky.add(TEA)
    troubled.reads_fail = True
    assert not await shaky.reminders.idle(OWNER, SESSION)
    assert await shaky.reminders.reserve(OWNER, SESSION, "c") is None
    assert await shaky.reminders.next_ready(OWNER, SESSION, "c") is None
    with pytest.raises(StoreUnavailable):
        await shaky.reminders.list_reminders(OWNER, SESSION)
    assert len(shaky.noted("reminders_not_read")) == 3
    troubled.reads_fail = False
    assert await shaky.reminders.reserve(OWNER, SESSION, "c") is not None


async def test_a_commit_that_cannot_be_written_is_written_by_the_next_sweep(
    shaky: Desk, troubled: Troubled, clock: ManualClock
) -> None:
    reservation = await carried(shaky)
    troubled.writes_fail = True
    clock.advance(1)
    await shaky.reminders.commit(reservation)
    shaky.reminders.release(reservation)
    assert await shaky.reminders.reserve(OWNER, SESSION, "d") is None
    assert await shaky.reminders.next_ready(OWNER, SESSION, "d") is None
    (task,) = (await shaky.reminders.list_reminders(OWNER, SESSION)).items
    assert (task.delivered_ms, task.deliveries) == (NOW + 1, 1)
    assert [task.delivered_ms for task in await shaky.kept()] == [None]
    assert len(shaky.noted("reminders_owed")) == 1
    assert repr(shaky.reminders) == "<Reminders <Ledger 0 sessions reserved, 1 owed>>"
    assert await shaky.reminders.sweep() == 0
    assert [task.delivered_ms for task in await shaky.kept()] == [None]
    troubled.writes_fail = False
    clock.advance(1)
    assert await shaky.reminders.sweep() == 0
    assert await shaky.kept() == (task,)
    assert repr(shaky.reminders) == "<Reminders <Ledger 0 sessions reserved, 0 owed>>"
    assert shaky.reminders.counts == ReminderCounts(scheduled=1, reserved=1, committed=1)
    written = troubled.written
    await shaky.reminders.sweep()
    assert troubled.written == written


async def test_what_is_owed_goes_with_the_next_change(shaky: Desk, troubled: Troubled) -> None:
    """Else one that is asked for again would be taken for the one that was delivered."""
    reservation = await carried(shaky)
    troubled.writes_fail = True
    await shaky.reminders.commit(reservation)
    troubled.writes_fail = False
    (again,) = await shaky.add(TEA)
    delivered, waiting = await shaky.kept()
    assert (delivered.id, delivered.deliveries) == (reservation.items[0].id, 1)
    assert (waiting.id, waiting.deliveries) == (again, 0)


async def test_what_is_owed_is_not_said_to_expire(
    shaky: Desk, troubled: Troubled, clock: ManualClock
) -> None:
    reservation = await carried(shaky)
    troubled.writes_fail = True
    await shaky.reminders.commit(reservation)
    clock.advance(LATEST)
    troubled.writes_fail = False
    assert await shaky.reminders.sweep() == 0
    assert await shaky.kept() == ()
    assert shaky.outcomes() == {reservation.items[0].id: ["delivered"]}


async def test_what_is_owed_of_a_session_that_is_gone(shaky: Desk, troubled: Troubled) -> None:
    reservation = await carried(shaky)
    troubled.writes_fail = True
    await shaky.reminders.commit(reservation)
    troubled.writes_fail = False
    await troubled.delete(key_of())
    await shaky.reminders.sweep()
    assert repr(shaky.reminders) == "<Reminders <Ledger 0 sessions reserved, 1 owed>>"
    shaky.clock.advance(MINUTE + LATEST)
    await shaky.reminders.sweep()
    assert repr(shaky.reminders) == "<Reminders <Ledger 0 sessions reserved, 0 owed>>"


async def test_a_second_delivery_is_owed_while_the_first_is_being_written(
    shaky: Desk, troubled: Troubled
) -> None:
    first = await carried(shaky)
    await shaky.reminders.schedule(OWNER, SESSION, (LATER,))
    shaky.clock.set(LATER.due_ms)
    second = await shaky.reminders.reserve(OWNER, SESSION, "d")
    assert second is not None
    troubled.open_for_writes = anyio.Event()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(shaky.reminders.commit, first)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(shaky.reminders.commit, second)
            await anyio.wait_all_tasks_blocked()
            troubled.open_for_writes.set()
    assert [task.deliveries for task in await shaky.kept()] == [1, 1]
    assert repr(shaky.reminders) == "<Reminders <Ledger 0 sessions reserved, 0 owed>>"


async def test_a_store_that_hangs_is_not_waited_for_for_ever(
    troubled: Troubled, clock: ManualClock
) -> None:
    desk = Desk(troubled, clock, patience=0.02)
    reservation = await carried(desk)
    troubled.open_for_writes = anyio.Event()
    with anyio.fail_after(10):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await desk.add(LATER)
        await desk.reminders.commit(reservation)
    assert await desk.reminders.reserve(OWNER, SESSION, "d") is None
    troubled.open_for_writes.set()
    await desk.reminders.sweep()
    assert [task.deliveries for task in await desk.kept()] == [1]


async def test_a_disk_that_is_gone_for_a_while(files: Place) -> None:
    async with files.desk() as desk:
        reservation = await carried(desk)
        elsewhere = files.root.with_name("elsewhere")
        files.root.rename(elsewhere)
        with pytest.raises(StoreUnavailable):
            await desk.add(LATER)
        await desk.reminders.commit(reservation)
        elsewhere.rename(files.root)
        assert await desk.reminders.reserve(OWNER, SESSION, "d") is None
        await desk.reminders.sweep()
        assert [task.deliveries for task in await desk.kept()] == [1]
        await desk.add(LATER)


async def test_one_written_by_a_newer_version_is_left_alone(files: Place) -> None:
    async with files.desk() as desk:
        await desk.add(TEA)
        newer = files.file().read_text().replace('"version":1', '"version":2')
        files.file().write_text(newer)
        assert await desk.reminders.reserve(OWNER, SESSION, "c") is None
        with pytest.raises(StoreUnavailable):
            await desk.add(LATER)
        files.clock.advance(LATEST)
        await desk.reminders.sweep()
        assert files.file().read_text() == newer
        assert await desk.reminders.list_reminders(OWNER, "other") == ReminderList()
