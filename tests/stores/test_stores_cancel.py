"""Callers that leave: a change happens whole or not at all, and what is read is what is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint

from gateway.stores import Documents, fetch, update
from gateway.stores.waiting import KeyLocks

from .conftest import Backend
from .shapes import CLOCK, Notes, clock, plus_one


async def leave_by_scope(store: Documents, patience: float) -> None:
    with anyio.move_on_after(patience):
        await update(store, clock("a"), plus_one, CLOCK)


async def leave_natively(store: Documents, patience: float) -> None:
    task = asyncio.ensure_future(update(store, clock("a"), plus_one, CLOCK))
    await asyncio.wait([task], timeout=patience)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize("leave", [leave_by_scope, leave_natively])
async def test_leaving_at_any_moment(durable: Backend, leave: object) -> None:
    assert callable(leave)
    random = Random(5)
    async with durable.opened() as store:
        count = 0
        for _ in range(100):
            await leave(store, random.choice((0, 1e-5, 1e-4, 5e-4, 1e-3, 5e-3)))
            now = (await fetch(store, clock("a"), CLOCK)).count
            # What is under way may come later, but nothing that was seen goes away.
            assert 0 <= now - count <= 2
            count = now
        count = (await update(store, clock("a"), plus_one, CLOCK)).count
        assert count <= 101
        assert len(store.key_locks) == 0
    async with durable.opened() as store:
        assert (await fetch(store, clock("a"), CLOCK)).count == count


def on_disk(path: Path) -> int:
    count = msgspec.json.decode(path.read_bytes())["count"]
    assert isinstance(count, int)
    return count


async def test_a_write_goes_on_without_its_caller(files: Backend) -> None:
    """And until it is durable nobody reads the old or the new."""
    changed = anyio.Event()
    async with files.opened() as store:
        for expected in range(1, 20):
            task = asyncio.ensure_future(update(store, clock("a"), plus_one, CLOCK))
            await checkpoint()
            task.cancel()
            assert (await fetch(store, clock("a"), CLOCK)).count == expected
            assert on_disk(files.root / "clock/a.json") == expected
            assert task.cancelled()
        store.watch(clock("a"), changed.set)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await update(store, clock("a"), plus_one, CLOCK)
        await changed.wait()
        assert on_disk(files.root / "clock/a.json") == 20


async def test_closing_waits_for_what_was_begun(durable: Backend) -> None:
    async with durable.opened() as store:
        tasks = [
            asyncio.ensure_future(update(store, clock(f"s{number}"), plus_one, CLOCK))
            for number in range(30)
        ]
        while not any(task.done() for task in tasks):
            await checkpoint()
        await store.aclose()
        kept = [number for number, task in enumerate(tasks) if not (await outcome(task))]
    assert kept
    async with durable.opened() as store:
        for number in kept:
            assert (await fetch(store, clock(f"s{number}"), CLOCK)).count == 1


async def outcome(task: asyncio.Future[Notes]) -> BaseException | None:
    await asyncio.wait([task])
    return task.exception()


async def test_turns_come_in_order_and_survive_those_who_leave() -> None:
    locks = KeyLocks()
    had: list[int] = []

    async def have(number: int) -> None:
        await locks.acquire("thing")
        had.append(number)
        await checkpoint()
        locks.release("thing")

    await locks.acquire("thing")
    await locks.acquire("another")
    locks.release("another")
    tasks = [asyncio.ensure_future(have(number)) for number in range(6)]
    await anyio.wait_all_tasks_blocked()
    tasks[1].cancel()
    locks.release("thing")
    # The first has been called, but does not know it yet.
    tasks[0].cancel()
    await asyncio.wait(tasks)
    assert had == [2, 3, 4, 5]
    assert len(locks) == 0
