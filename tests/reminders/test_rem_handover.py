"""What a sub-agent scheduled passes to the main session: never lost, never twice."""

from __future__ import annotations

import pytest

from gateway.clock.manual import ManualClock
from gateway.reminders.model import ReminderRequest, Rules
from gateway.stores import DocumentKey, Memory, SealedDocument

from .conftest import LATEST, MINUTE, NOW, OWNER, TEA, Desk

MAIN, AGENT = "s", "s/agent:a"


class Killed(Exception):
    """The process ends here."""


class Fragile(Memory):
    """A store whose process is killed at its n-th write, before or after it is done."""

    def __init__(self, kill_at: float) -> None:
        super().__init__(lambda: NOW, lambda key, reason: None)
        self.left = kill_at

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        self._count()
        return await super().write(key, draft, revision)

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        self._count()
        await super().delete(key, revision)

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed


async def delegated(desk: Desk, *wanted: ReminderRequest) -> None:
    await desk.reminders.schedule(OWNER, AGENT, wanted or (TEA,), main=MAIN)


async def taken(desk: Desk, session: str) -> list[str]:
    reservation = await desk.reminders.reserve(OWNER, session, "c")
    return [] if reservation is None else [task.text for task in reservation.items]


@pytest.mark.parametrize("kill_at", [2, 3, 4])
async def test_a_process_that_is_killed_on_the_way_neither_loses_nor_doubles_it(
    kill_at: int,
) -> None:
    """One write schedules; then it is marked, added there, and removed here."""
    store, clock = Fragile(kill_at), ManualClock(NOW)
    desk = Desk(store, clock)
    await delegated(desk)
    clock.advance(MINUTE)
    with pytest.raises(Killed):
        await desk.reminders.hand_over(OWNER, AGENT)
    store.left = -1
    desk = Desk(store, clock)
    # From the moment it is marked it is the main session's.
    assert await taken(desk, AGENT) == (["drink tea"] if kill_at == 2 else [])
    desk = Desk(store, clock)
    assert await desk.reminders.hand_over(OWNER, AGENT) is None
    assert (await taken(desk, MAIN), await taken(desk, AGENT)) == (["drink tea"], [])


async def test_what_a_turn_carries_stays_until_that_ends(desk: Desk) -> None:
    await delegated(desk)
    reservation = await desk.reminders.reserve(OWNER, AGENT, "c")
    assert reservation is not None
    desk.clock.advance(MINUTE)
    assert await desk.reminders.hand_over(OWNER, AGENT) is not None
    assert await taken(desk, MAIN) == []
    desk.reminders.release(reservation)
    assert await desk.reminders.hand_over(OWNER, AGENT) is None
    assert await taken(desk, MAIN) == ["drink tea"]


async def test_where_there_is_no_room_it_waits(desk: Desk) -> None:
    desk.reminders.rules = Rules(most=1)
    await desk.add(ReminderRequest(NOW + MINUTE, "stand up"), session=MAIN)
    await delegated(desk)
    desk.clock.advance(MINUTE)
    assert await desk.reminders.hand_over(OWNER, AGENT) is not None
    assert not desk.noted("reminders_passed_on")
    assert await desk.reminders.clear(OWNER, MAIN) == 1
    assert await desk.reminders.hand_over(OWNER, AGENT) is None
    assert [note["count"] for note in desk.noted("reminders_passed_on")] == [1]
    assert await taken(desk, MAIN) == ["drink tea"]


async def test_what_waits_too_long_expires_and_is_counted(desk: Desk) -> None:
    desk.reminders.rules = Rules(most=1)
    await desk.add(ReminderRequest(NOW + MINUTE, "stand up"), session=MAIN)
    await delegated(desk)
    desk.clock.advance(LATEST)
    assert await desk.reminders.hand_over(OWNER, AGENT) is None
    assert desk.reminders.counts.expired == 1
