"""Many at once: no reminder is carried twice, none is lost, and all of them end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from gateway.outbox.ledger import Claim
from gateway.reminders.model import Reminder, ReminderRequest
from gateway.reminders.records import ReminderCounts

from .conftest import LATEST, MINUTE, NOW, OWNER, SESSION, TEA, Desk, Troubled, opened

CROWD = 200
Call = Callable[[], Coroutine[Any, Any, object]]


async def at_once(*calls: Call) -> None:
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call)


async def test_one_due_reminder_and_two_hundred_requests(desk: Desk) -> None:
    await desk.add(TEA)
    found: list[Claim[Reminder] | None] = []

    async def ask() -> None:
        found.append(await desk.reminders.reserve(OWNER, SESSION, f"c{len(found)}"))

    await at_once(*[ask] * CROWD)
    assert len(found) == CROWD
    assert sum(reservation is not None for reservation in found) == 1
    assert desk.reminders.counts.reserved == 1


async def test_requests_that_come_while_it_is_committed(desk: Desk) -> None:
    """Each looks again and again, across the commit of whoever was first."""
    await desk.add(TEA)
    won = 0

    async def ask() -> None:
        nonlocal won
        for _ in range(5):
            reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
            if reservation is not None:
                won += 1
                await anyio.lowlevel.checkpoint()
                await desk.reminders.commit(reservation)

    await at_once(*[ask] * 40)
    assert won == 1
    assert [task.deliveries for task in await desk.kept()] == [1]


async def test_a_hundred_schedules_and_a_hundred_cancels(desk: Desk) -> None:
    old = await desk.add(*(ReminderRequest(NOW + n, f"old {n}") for n in range(100)))
    gone: list[bool] = []
    new: set[str] = set()

    async def cancel(id_: str) -> None:
        gone.append(await desk.reminders.cancel(OWNER, SESSION, id_))

    async def add(number: int) -> None:
        new.update(await desk.add(ReminderRequest(NOW + number, f"new {number}")))

    calls: list[Call] = [partial(cancel, id_) for id_ in (*old[:80], *old[:20])]
    calls += [partial(add, number) for number in range(100)]
    Random(4).shuffle(calls)
    await at_once(*calls)
    assert Counter(gone) == {True: 80, False: 20}
    assert {task.id for task in await desk.kept()} == new | set(old[80:])
    assert len(new) == 100
    assert desk.reminders.counts == ReminderCounts(scheduled=200, cancelled=80)


@pytest.mark.parametrize("seed", range(3))
async def test_commits_releases_cancels_and_sweeps_against_each_other(
    desk: Desk, seed: int
) -> None:
    """A storm of requests that succeed, fail or leave, while time passes and people cancel."""
    random = Random(seed)
    ids = await desk.add(
        *(ReminderRequest(NOW + random.randrange(30) * MINUTE, f"{n}") for n in range(60))
    )
    carried: Counter[str] = Counter()
    committed: Counter[str] = Counter()
    cancelled: set[str] = set()

    async def request(number: int) -> None:
        reservation = await desk.reminders.reserve(OWNER, SESSION, f"c{number}")
        if reservation is None:
            return
        names = [task.id for task in reservation.items]
        carried.update(names)
        assert max(carried.values()) == 1, "two turns carry the same reminder"
        for _ in range(random.randrange(4)):
            await anyio.lowlevel.checkpoint()
        carried.subtract(names)
        if random.random() < 0.5:
            committed.update(names)
            await desk.reminders.commit(reservation)
        desk.reminders.release(reservation)

    async def client(number: int) -> None:
        for _ in range(6):
            await request(number)
            if random.random() < 0.2:
                id_ = random.choice(ids)
                if await desk.reminders.cancel(OWNER, SESSION, id_):
                    cancelled.add(id_)

    async def time() -> None:
        for _ in range(20):
            desk.clock.advance(2 * MINUTE)
            await desk.reminders.sweep()
            await anyio.lowlevel.checkpoint()

    await at_once(time, *(partial(client, number) for number in range(20)))
    desk.clock.advance(60 * MINUTE)
    await desk.reminders.sweep()
    assert await desk.kept() == ()
    counts, outcomes = desk.reminders.counts, desk.outcomes()
    assert max(committed.values(), default=1) == 1
    assert counts.committed == sum(committed.values())
    assert counts.reserved == counts.committed + counts.released
    assert set(outcomes) == set(ids)
    for id_, ends in outcomes.items():
        assert ("delivered" in ends) == (id_ in committed)
        assert ("cancelled" in ends) <= (id_ in cancelled)
        assert ("expired" in ends) == (id_ not in committed and id_ not in cancelled)


@pytest.mark.parametrize("before", range(2))
async def test_a_read_that_comes_back_after_the_commit(
    shaky: Desk, troubled: Troubled, before: int
) -> None:
    """It saw the reminder undelivered, and when it is back nothing holds it any more."""
    await shaky.add(TEA)
    first = await shaky.reminders.reserve(OWNER, SESSION, "c")
    assert first is not None
    found: list[Claim[Reminder] | None] = []

    async def late() -> None:
        found.append(await shaky.reminders.reserve(OWNER, SESSION, "d"))

    gate = anyio.Event()
    troubled.read_gates.extend([*(opened() for _ in range(before)), gate])
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(late)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(shaky.reminders.commit, first)
            await anyio.wait_all_tasks_blocked()
            gate.set()
    assert found == [None]
    assert [task.deliveries for task in await shaky.kept()] == [1]


async def test_cancelled_by_hand_while_it_is_on_its_way(desk: Desk) -> None:
    (tea,) = await desk.add(TEA)
    reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
    assert reservation is not None
    assert await desk.reminders.cancel(OWNER, SESSION, tea)
    await desk.reminders.commit(reservation)
    assert await desk.kept() == ()
    assert desk.outcomes() == {tea: ["cancelled", "delivered"]}
    desk.clock.advance(LATEST + MINUTE)
    await desk.reminders.sweep()
    assert repr(desk.reminders) == "<Reminders <Ledger 0 sessions reserved, 0 owed>>"


async def test_it_does_not_expire_on_its_way(desk: Desk) -> None:
    tea, soup = await desk.add(TEA, ReminderRequest(NOW, "stir the soup"))
    reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
    assert reservation is not None
    desk.clock.advance(LATEST)
    assert await desk.reminders.sweep() == 0
    assert [task.id for task in await desk.kept()] == [tea, soup]
    await desk.reminders.commit(reservation)
    assert desk.outcomes() == {tea: ["delivered"], soup: ["delivered"]}
    assert await desk.kept() == ()


async def test_given_back_too_late_it_expires(desk: Desk) -> None:
    (tea,) = await desk.add(TEA)
    reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
    assert reservation is not None
    desk.clock.advance(LATEST)
    desk.reminders.release(reservation)
    assert await desk.reminders.reserve(OWNER, SESSION, "d") is None
    assert await desk.reminders.sweep() == 1
    assert desk.outcomes() == {tea: ["expired"]}


async def test_a_commit_is_finished_when_the_client_leaves(desk: Desk) -> None:
    await desk.add(TEA)
    reservation = await desk.reminders.reserve(OWNER, SESSION, "c")
    assert reservation is not None
    with anyio.CancelScope() as scope:
        scope.cancel()
        await desk.reminders.commit(reservation)
    assert [task.deliveries for task in await desk.kept()] == [1]
    assert desk.noted("reminders_committed")


async def test_whoever_leaves_before_the_answer_holds_nothing(
    shaky: Desk, troubled: Troubled
) -> None:
    await shaky.add(TEA)
    troubled.read_gates.append(anyio.Event())
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(shaky.reminders.reserve, OWNER, SESSION, "c")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert await shaky.reminders.reserve(OWNER, SESSION, "d") is not None
