"""Locks by themselves: leases, tokens, and what happens when they end."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gateway.agents.locks import LEASE_MS, Lease, Locks
from gateway.clock import ManualClock
from gateway.clock.timer_queue import TimerQueue
from gateway.reminders.holds import Holds
from gateway.stores.documents import StoreUnavailable
from gateway.stores.sqlite.conversations import MemoryLocks


class Place:
    """A store of locks that several processes share, and its time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.rows = MemoryLocks(lambda: self.now_ms)
        self.holds = Holds(TimerQueue(ManualClock(0)), lambda: 0.0)
        self.log: list[tuple[str, Any]] = []

    def process(self, rows: Any = None) -> Locks:
        return Locks(rows or self.rows, self.holds, self._note)

    def _note(self, event: str, **fields: Any) -> None:
        self.log.append((event, fields.get("why")))


async def taken(locks: Locks, reason: str = "chat") -> Lease:
    lease = await locks.take("o", "s", reason)
    assert isinstance(lease, Lease)
    return lease


async def test_one_at_a_time_and_what_for() -> None:
    place = Place()
    locks = place.process()
    lease = await taken(locks, "job")
    assert await locks.take("o", "s", "chat") == "job"
    assert await place.process().take("o", "s", "chat") == "job"
    await lease.release("completed")
    await taken(locks)
    assert place.log == [
        ("lock_taken", "job"),
        ("lock_released", "completed"),
        ("lock_taken", "chat"),
    ]


async def test_whoever_finds_the_session_busy_is_told_at_once() -> None:
    locks = Place().process()
    await taken(locks, "chat")
    with anyio.fail_after(30):
        assert await locks.take("o", "s", "chat", grace=3600) == "chat"


async def test_an_end_that_is_near_is_waited_for_only_so_long() -> None:
    locks = Place().process()
    lease = await taken(locks, "chat")
    lease.closing.set()
    assert await locks.take("o", "s", "chat", grace=0.05) == "chat"


async def test_released_while_somebody_waits_a_moment() -> None:
    locks = Place().process()
    lease = await taken(locks)
    lease.closing.set()
    found: list[Lease] = []

    async def wait() -> None:
        found.append(await taken(locks))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await lease.release()
    assert not found[0].freed.is_set()


async def test_a_late_release_does_not_free_anothers_lock() -> None:
    place = Place()
    one, two = place.process(), place.process()
    first = await taken(one)
    place.now_ms += LEASE_MS
    second = await taken(two)
    await first.release("late")
    await first.release("later")
    assert await place.process().take("o", "s", "chat") == "chat"
    assert place.log[-1] == ("lock_lost", "late")
    await second.release()
    await taken(place.process())


async def test_a_killed_process_frees_its_locks_when_the_lease_ends() -> None:
    place = Place()
    await taken(place.process())
    place.now_ms += LEASE_MS - 1
    assert await place.process().take("o", "s", "chat") == "chat"
    place.now_ms += 1
    await taken(place.process())


async def test_a_lease_lasts_as_long_as_it_is_renewed() -> None:
    place = Place()
    locks = place.process()
    lease = await taken(locks)
    for _ in range(5):
        place.now_ms += LEASE_MS - 1
        await locks.renew()
    assert await place.process().take("o", "s", "chat") == "chat"
    place.now_ms += LEASE_MS
    await taken(place.process())
    await locks.renew()
    assert place.log[-1][0] == "lock_not_renewed"
    await lease.release()
    await locks.renew()
    assert len(locks) == 0


class Moody(MemoryLocks):
    """A store that fails, or takes its time, when it is told to."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.fails = False
        self.go = anyio.Event()
        self.go.set()

    async def _mood(self) -> None:
        await self.go.wait()
        if self.fails:
            raise StoreUnavailable("The disk is full.")

    async def take(self, *args: Any) -> str | None:
        await self._mood()
        return await super().take(*args)

    async def extend(self, *args: Any) -> bool:
        await self._mood()
        return await super().extend(*args)

    async def release(self, *args: Any) -> bool:
        await self._mood()
        return await super().release(*args)


async def test_a_store_that_fails() -> None:
    place, rows = Place(), Moody()
    locks = place.process(rows)
    lease = await taken(locks)
    rows.fails = True
    await locks.renew()
    await lease.release("completed")
    with pytest.raises(StoreUnavailable):
        await locks.take("o", "s", "chat")
    assert place.log[1:] == [
        ("lock_not_renewed", "The disk is full."),
        ("lock_not_released", "The disk is full."),
    ]
    assert len(locks) == 0


async def test_whoever_leaves_while_the_lock_is_taken_leaves_nothing_behind() -> None:
    place, rows = Place(), Moody()
    locks = place.process(rows)
    rows.go = anyio.Event()

    async def take_and_leave() -> None:
        lease = await taken(locks)
        assert group.cancel_scope.cancel_called
        await lease.release("cancelled")

    async with anyio.create_task_group() as group:
        group.start_soon(take_and_leave)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        rows.go.set()
    assert len(locks) == 0
    await taken(locks)


async def test_a_hold_is_ended_and_waited_for() -> None:
    place = Place()
    locks = place.process()
    lease = await taken(locks)
    hold = place.holds.begin("o", "s")

    async def held() -> None:
        await hold.sleep(2**40, 60)
        await anyio.sleep(0.2)
        await lease.release("taken_over")

    async with anyio.create_task_group() as group:
        group.start_soon(held)
        await anyio.wait_all_tasks_blocked()
        await taken(locks)
    assert hold.reason == "taken_over"
