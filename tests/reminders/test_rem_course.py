"""The life of a reminder: scheduled, listed, reserved, and ended, on every store."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from gateway.errors import InvalidInput
from gateway.outbox.ledger import Claim
from gateway.reminders.model import Reminder, ReminderList, ReminderRequest, Rules
from gateway.reminders.records import ReminderCounts
from gateway.timestamps import iso

from .conftest import LATER, LATEST, MINUTE, NOW, OWNER, SESSION, TEA, Desk, Place, key_of


async def reserved(desk: Desk, chain: str = "c", session: str = SESSION) -> Claim[Reminder]:
    reservation = await desk.reminders.reserve(OWNER, session, chain)
    assert reservation is not None
    return reservation


async def test_scheduled_and_listed(desk: Desk) -> None:
    scheduled = await desk.reminders.schedule(OWNER, SESSION, (LATER, TEA))
    assert [task.text for task in scheduled] == ["water the plants", "drink tea"]
    assert (await desk.reminders.list_reminders(OWNER, SESSION)).items == scheduled
    assert await desk.add(TEA) == [scheduled[1].id]
    assert (await desk.reminders.list_reminders(OWNER, "other")) == ReminderList()
    assert (await desk.reminders.list_reminders("ann", SESSION)) == ReminderList()
    assert desk.reminders.counts == ReminderCounts(scheduled=2)


async def test_what_is_scheduled_outlives_the_process(durable: Place) -> None:
    async with durable.desk() as desk:
        scheduled = await desk.reminders.schedule(OWNER, SESSION, (TEA, LATER), "c")
    async with durable.desk() as desk:
        assert (await desk.reminders.list_reminders(OWNER, SESSION)).items == scheduled


async def test_all_or_nothing(desk: Desk) -> None:
    desk.reminders.rules = Rules(most=2)
    await desk.add(TEA)
    with pytest.raises(InvalidInput):
        await desk.add(LATER, ReminderRequest(NOW, "one too many"))
    assert [task.text for task in await desk.kept()] == ["drink tea"]
    assert desk.reminders.counts.scheduled == 1


async def test_cancelled(desk: Desk) -> None:
    tea, plants = await desk.add(TEA, LATER)
    assert await desk.reminders.cancel(OWNER, SESSION, tea)
    assert not await desk.reminders.cancel(OWNER, SESSION, tea)
    assert not await desk.reminders.cancel("ann", SESSION, plants)
    assert [task.id for task in await desk.kept()] == [plants]
    assert desk.outcomes() == {tea: ["cancelled"]}
    assert desk.reminders.counts == ReminderCounts(scheduled=2, cancelled=1)


async def test_cleared(desk: Desk) -> None:
    tea, plants = await desk.add(TEA, LATER)
    await desk.reminders.commit(await reserved(desk))
    assert await desk.reminders.clear(OWNER, SESSION) == 2
    assert await desk.reminders.clear(OWNER, SESSION) == 0
    assert await desk.store.read(key_of()) is None
    assert desk.outcomes() == {tea: ["delivered"], plants: ["cancelled"]}


async def test_delivered(desk: Desk) -> None:
    tea, _ = await desk.add(TEA, LATER)
    reservation = await reserved(desk, "chain")
    assert (reservation.id, reservation.key) == ("chain:clock", (OWNER, SESSION))
    assert [task.id for task in reservation.items] == [tea]
    assert await desk.reminders.reserve(OWNER, SESSION, "d") is None
    assert [task.delivered_ms for task in await desk.kept()] == [None, None]
    desk.clock.advance(5)
    await desk.reminders.commit(reservation)
    assert [(t.delivered_ms, t.deliveries) for t in await desk.kept()] == [(NOW + 5, 1), (None, 0)]
    assert await desk.reminders.reserve(OWNER, SESSION, "d") is None
    assert desk.reminders.counts == ReminderCounts(scheduled=2, reserved=1, committed=1)
    assert desk.outcomes() == {tea: ["delivered"]}


async def test_a_delivery_outlives_the_process_and_a_reservation_does_not(durable: Place) -> None:
    async with durable.desk() as desk:
        await desk.add(TEA, session="delivered")
        await desk.add(TEA, session="reserved")
        await desk.reminders.commit(await reserved(desk, session="delivered"))
        await reserved(desk, session="reserved")
    async with durable.desk() as desk:
        assert await desk.reminders.reserve(OWNER, "delivered", "c") is None
        assert await desk.reminders.reserve(OWNER, "reserved", "c") is not None


async def test_released(desk: Desk) -> None:
    await desk.add(TEA)
    first = await reserved(desk)
    desk.reminders.release(first)
    desk.reminders.release(first)
    second = await reserved(desk, "d")
    # What was given back is somebody else's now.
    desk.reminders.release(first)
    await desk.reminders.commit(first)
    assert await desk.reminders.reserve(OWNER, SESSION, "e") is None
    await desk.reminders.commit(second)
    await desk.reminders.commit(second)
    desk.reminders.release(second)
    assert [task.deliveries for task in await desk.kept()] == [1]
    assert desk.reminders.counts == ReminderCounts(scheduled=1, reserved=2, committed=1, released=1)


async def test_not_within_the_exchange_that_asked_for_it(desk: Desk) -> None:
    await desk.add(TEA, chain="c")
    assert await desk.reminders.reserve(OWNER, SESSION, "c") is None
    assert await desk.reminders.next_ready(OWNER, SESSION, "c") is None
    assert await desk.reminders.next_ready(OWNER, SESSION, "d") == NOW - MINUTE
    assert await desk.reminders.reserve(OWNER, SESSION, "d") is not None


async def test_when_the_next_one_is_ready(desk: Desk) -> None:
    async def ready() -> int | None:
        return await desk.reminders.next_ready(OWNER, SESSION, "c")

    assert await ready() is None
    await desk.add(TEA, LATER)
    assert await ready() == NOW - MINUTE
    reservation = await reserved(desk)
    assert await ready() == LATER.due_ms - MINUTE
    desk.reminders.release(reservation)
    assert await ready() == NOW - MINUTE
    await desk.reminders.commit(await reserved(desk))
    assert await ready() == LATER.due_ms - MINUTE
    desk.clock.advance(10 * MINUTE + LATEST)
    assert await ready() is None


async def test_whether_there_are_any_at_all(desk: Desk) -> None:
    assert await desk.reminders.idle(OWNER, SESSION)
    (plants,) = await desk.add(LATER)
    assert not await desk.reminders.idle(OWNER, SESSION)
    assert await desk.reminders.idle("ann", SESSION)
    await desk.reminders.cancel(OWNER, SESSION, plants)
    assert await desk.reminders.idle(OWNER, SESSION)


async def test_what_expired_is_neither_listed_nor_due(desk: Desk) -> None:
    (tea,) = await desk.add(TEA)
    desk.clock.advance(LATEST)
    assert await desk.reminders.list_reminders(OWNER, SESSION) == ReminderList()
    assert await desk.reminders.reserve(OWNER, SESSION, "c") is None
    assert not await desk.reminders.cancel(OWNER, SESSION, tea)
    assert desk.outcomes() == {tea: ["expired"]}
    assert desk.reminders.counts == ReminderCounts(scheduled=1, expired=1)


async def test_what_ended_is_told_for_a_day_and_not_at_length(desk: Desk) -> None:
    (tea,) = await desk.add(ReminderRequest(NOW + 1, "tea " * 1000))
    await desk.reminders.cancel(OWNER, SESSION, tea)
    (end,) = desk.reminders.recent(OWNER, SESSION)
    assert (end.id, end.due_ms, end.outcome, end.at_ms) == (tea, NOW + 1, "cancelled", NOW)
    assert len(end.text) == 200
    assert desk.reminders.recent("ann", SESSION) == ()
    desk.clock.advance(24 * 60 * MINUTE - 1)
    assert len(desk.reminders.recent(OWNER, SESSION)) == 1
    desk.clock.advance(1)
    assert desk.reminders.recent(OWNER, SESSION) == ()


async def test_what_is_logged(desk: Desk) -> None:
    who = {"owner": OWNER, "session": SESSION}
    stored = {**who, "store": "ok"}
    tea, plants, birds = await desk.add(
        TEA, LATER, ReminderRequest(NOW + 5 * MINUTE, "feed the birds")
    )
    assert desk.notes.pop() == (
        "reminders_scheduled",
        {**stored, "count": 3, "earliest_due": iso(NOW)},
    )
    await desk.reminders.list_reminders(OWNER, SESSION)
    assert desk.notes.pop() == (
        "reminders_listed",
        {**stored, "count": 3, "earliest_due": iso(NOW)},
    )
    carried = {**who, "reservation": "c:clock", "count": 1, "tasks": tea}
    reservation = await reserved(desk)
    assert desk.notes.pop() == ("reminders_reserved", carried)
    desk.reminders.release(reservation)
    assert desk.notes.pop() == ("reminders_released", carried)
    await desk.reminders.commit(await reserved(desk))
    assert desk.notes.pop() == ("reminders_committed", {**carried, "delivery_counts": "1"})
    await desk.reminders.cancel(OWNER, SESSION, plants)
    assert desk.notes.pop() == (
        "reminders_cancelled",
        {**stored, "count": 1, "earliest_due": iso(LATER.due_ms)},
    )
    desk.clock.advance(5 * MINUTE + LATEST)
    assert await desk.reminders.clear(OWNER, SESSION) == 0
    assert desk.notes[-2:] == [
        (
            "reminders_expired",
            {**stored, "count": 1, "earliest_due": iso(NOW + 5 * MINUTE), "tasks": birds},
        ),
        ("reminders_cleared", {**stored, "count": 0, "earliest_due": None}),
    ]
    said = repr(desk.notes)
    assert not any(text in said for text in ("drink tea", "water", "birds"))


async def test_it_says_its_state(desk: Desk) -> None:
    await desk.add(TEA)
    reservation = await reserved(desk)
    assert repr(desk.reminders) == "<Reminders <Ledger 1 sessions reserved, 0 owed>>"
    await desk.reminders.commit(reservation)
    assert repr(desk.reminders) == "<Reminders <Ledger 0 sessions reserved, 0 owed>>"


# Files


async def test_the_file_of_a_session(files: Place) -> None:
    async with files.desk() as desk:
        wanted = ReminderRequest(NOW, "drink tea", "kettle", '{"sugar":1}')
        tea, plants = await desk.add(wanted, LATER, chain="chain")
        reservation = await reserved(desk, "another")
        files.clock.advance(7)
        await desk.reminders.commit(reservation)
    shared = {"sessionId": SESSION, "createdAtMs": NOW}
    assert msgspec.json.decode(files.file().read_bytes()) == {
        "version": 1,
        "owner": OWNER,
        "sessionId": SESSION,
        "tasks": [
            {
                **shared,
                "taskId": tea,
                "dueAtMs": NOW,
                "updatedAtMs": NOW + 7,
                "task": "drink tea",
                "tool": "kettle",
                "arguments": {"sugar": 1},
                "deliveredAtMs": NOW + 7,
                "deliveryCount": 1,
                "notBeforeRequestId": "chain",
            },
            {
                **shared,
                "taskId": plants,
                "dueAtMs": LATER.due_ms,
                "updatedAtMs": NOW,
                "task": "water the plants",
                "deliveryCount": 0,
            },
        ],
        "updatedAtMs": NOW + 7,
    }


async def test_the_largest_session_there_can_be(files: Place) -> None:
    """Every limit reached at once, with text that JSON writes six times as long."""
    rules = Rules()
    arguments = msgspec.json.encode({"a": "\x01" * ((rules.arguments_bytes - 8) // 6)}).decode()
    wanted = tuple(
        ReminderRequest(NOW + n, "\x01" * rules.text_bytes, "\x01" * 256, arguments)
        for n in range(100)
    )
    async with files.desk() as desk:
        desk.reminders.rules = rules
        await desk.add(*wanted, chain="c" * 64)
        assert len(await desk.kept()) == 100


async def test_a_file_changed_by_hand(files: Place) -> None:
    async with files.desk() as desk:
        await desk.add(TEA)
        text = files.file().read_text().replace("drink tea", "make coffee")
        files.file().write_text(text)
        assert [t.text for t in (await desk.reminders.list_reminders(OWNER, SESSION)).items] == [
            "make coffee"
        ]
        files.file().unlink()
        assert await desk.reminders.reserve(OWNER, SESSION, "c") is None


@pytest.mark.parametrize(
    "text", ["", "{", '{"version":1,"sessionId":"s","tasks":[{"taskId":"u"}]}', '{"version":1}']
)
async def test_a_broken_file_is_set_aside_and_hurts_only_its_session(
    files: Place, text: str
) -> None:
    async with files.desk() as desk:
        await desk.add(TEA)
        await desk.add(TEA, session="other")
        files.file().write_text(text)
        assert await desk.reminders.reserve(OWNER, SESSION, "c") is None
        assert len(files.quarantined) == 1
        await desk.add(LATER)
        assert [task.text for task in await desk.kept()] == ["water the plants"]
        assert await desk.reminders.reserve(OWNER, "other", "c") is not None


async def test_who_is_surely_idle_is_idle(desk: Desk) -> None:
    """The fast twin may say less than the general form, and never anything else."""
    sessions, draw = [f"s{number}" for number in range(5)], Random(7)
    for _ in range(60):
        session = draw.choice(sessions)
        if draw.random() < 0.5:
            await desk.add(draw.choice((TEA, LATER)), session=session)
        else:
            await desk.reminders.clear(OWNER, session)
        for name in sessions:
            is_surely_idle = desk.reminders.surely_idle(OWNER, name)
            is_idle = await desk.reminders.idle(OWNER, name)
            assert is_idle == (not await desk.kept(name))
            assert is_idle or not is_surely_idle
