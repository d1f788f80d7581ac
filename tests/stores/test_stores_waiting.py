"""Turns go round in order, and who watches is told until they stop watching."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from gateway.stores.waiting import KeyLocks, Watchers


async def told(watchers: Watchers, thing: str) -> None:
    """Change a thing, and let its watchers hear of it."""
    watchers.notify(thing)
    await anyio.lowlevel.checkpoint()


async def test_turns_are_taken_in_order_and_leave_nothing_behind() -> None:
    locks, order = KeyLocks(), list[int]()

    async def go(number: int) -> None:
        await locks.acquire("tea")
        order.append(number)
        await anyio.lowlevel.checkpoint()
        locks.release("tea")

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(go, number)
    assert order == [0, 1, 2, 3, 4]
    assert len(locks) == 0


def test_a_turn_is_grabbed_only_if_it_is_nobodys() -> None:
    locks = KeyLocks()
    assert locks.try_acquire("tea")
    assert not locks.try_acquire("tea")
    locks.release("tea")
    assert locks.try_acquire("tea")


async def test_things_do_not_wait_for_each_other() -> None:
    locks = KeyLocks()
    await locks.acquire("tea")
    with anyio.fail_after(1):
        await locks.acquire("soup")
    assert len(locks) == 2


async def test_who_leaves_the_line_does_not_stop_it() -> None:
    locks = KeyLocks()
    await locks.acquire("tea")
    async with anyio.create_task_group() as group:
        with anyio.move_on_after(0.01):
            await locks.acquire("tea")
        group.start_soon(locks.acquire, "tea")
        await anyio.wait_all_tasks_blocked()
        locks.release("tea")
    locks.release("tea")
    assert len(locks) == 0


async def test_all_who_watch_are_told() -> None:
    watchers, heard = Watchers(), list[str]()
    watchers.watch("tea", lambda: heard.append("one"))
    watchers.watch("tea", lambda: heard.append("two"))
    watchers.watch("soup", lambda: heard.append("another"))
    await told(watchers, "tea")
    assert heard == ["one", "two"]


async def test_whoever_changed_it_knows_already() -> None:
    watchers, heard = Watchers(), list[str]()

    class Reader:
        def __init__(self, name: str) -> None:
            self.name = name

        def hear(self) -> None:
            heard.append(self.name)

    one, two = Reader("one"), Reader("two")
    for reader in (one, two):
        watchers.watch("tea", reader.hear)
    watchers.notify("tea", by=one.hear)
    await anyio.lowlevel.checkpoint()
    assert heard == ["two"]


async def test_who_stops_watching_is_told_no_more() -> None:
    watchers, heard = Watchers(), list[str]()

    def hear() -> None:
        heard.append("tea")

    stop, other = watchers.watch("tea", hear), watchers.watch("tea", hear)
    stop()
    stop()
    await told(watchers, "tea")
    assert heard == ["tea"]
    other()
    other()
    await told(watchers, "tea")
    assert heard == ["tea"]
    assert len(watchers) == 0
