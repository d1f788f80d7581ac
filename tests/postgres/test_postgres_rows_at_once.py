"""Instances that do the same at once: each thing happens once, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from gateway.errors import TooMany
from gateway.jobs.model import Run
from gateway.stores.conversation_rows import TalkAddition
from gateway.stores.delivery_rows import ItemReservation, OutboxItem, SessionEvent
from gateway.stores.documents import Conflict
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.news import NewsWriter
from gateway.usage.model import RowKey, UsageBatch, UsageCounts, UsageQuery
from tests.stores.row_backends import STEP, cut, due, ended, idle, job, same, tells

from .row_child import TIMES
from .rows import OpenedRows, PostgresRowBackend

PROJECT = Path(__file__).parents[2]
INSTANCES = 4


@pytest.fixture(params=["postgres", "pooled"])
def backend(request: pytest.FixtureRequest) -> PostgresRowBackend:
    return PostgresRowBackend(request.param)


@pytest.fixture
async def instances(backend: PostgresRowBackend) -> AsyncIterator[list[OpenedRows]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(backend.opened()) for _ in range(INSTANCES)]


async def together(
    instances: list[OpenedRows],
    do: Callable[[OpenedRows, int], Coroutine[Any, Any, None]],
    times: int = 1,
) -> None:
    """Have each instance do something several times at once, with a number for each time."""
    async with anyio.create_task_group() as tasks:
        for number in range(times * len(instances)):
            tasks.start_soon(do, instances[number % len(instances)], number)


def item(item_id: str) -> OutboxItem:
    return OutboxItem(item_id, "ann", "s", 1, "Done.", "j", "r", "name")


def event(key: str) -> SessionEvent:
    return SessionEvent("ann", "s", "run.finished", key, 1, b"{}")


# Jobs.


async def test_no_time_is_claimed_twice_and_no_job_runs_twice(instances: list[OpenedRows]) -> None:
    jobs = [job(str(number)) for number in range(20)]
    for one in jobs:
        await instances[0].jobs.add(one, same, 99)
    claimed: Counter[str] = Counter()
    running: set[str] = set()

    async def work(rows: OpenedRows, number: int) -> None:
        random = Random(number)
        while claims := await rows.jobs.claim(4 * STEP, "", 0, due, random.randint(1, 6)):
            runs = [run for one in claims for run in one.runs]
            for run in runs:
                assert run.job_id not in running
                running.add(run.job_id)
                claimed[run.run_id] += 1
            for run in runs:
                running.discard(run.job_id)
                assert await rows.jobs.finish(ended(run), idle, 9, tells(item(run.run_id)))

    await together(instances, work, 2)
    assert claimed == {f"{one.job_id}-{at * STEP}": 1 for one in jobs for at in range(1, 5)}
    waiting = await instances[1].deliveries.pending("ann", "s")
    assert {one.id for one in waiting} == set(claimed)
    assert len({one.seq for one in waiting}) == len(waiting)


async def test_adds_that_come_together_make_one_job_of_a_key(instances: list[OpenedRows]) -> None:
    found: list[tuple[str, bool]] = []

    async def add(rows: OpenedRows, number: int) -> None:
        one, was_known = await rows.jobs.add(job(str(number), dedupe_key="key"), same, 100)
        found.append((one.job_id, was_known))

    await together(instances, add, 8)
    [only] = await instances[0].jobs.listing(None)
    assert {job_id for job_id, _ in found} == {only.job_id}
    assert [was_known for _, was_known in found].count(False) == 1


async def test_no_owner_gets_a_job_too_many(instances: list[OpenedRows]) -> None:
    outcomes: Counter[str] = Counter()

    async def add(rows: OpenedRows, number: int) -> None:
        try:
            await rows.jobs.add(job(str(number), dedupe_key=f"k{number // 2}"), same, 5)
            outcomes["added"] += 1
        except TooMany:
            outcomes["refused"] += 1

    await together(instances, add, 6)
    kept = await instances[0].jobs.listing("ann")
    assert len(kept) == 5
    assert len({one.dedupe_key for one in kept}) == 5
    assert await instances[0].jobs.forget("ann", "s") == 5
    assert await instances[0].jobs.add(job("last"), same, 1) == (job("last"), False)


async def test_a_key_is_given_to_one_of_those_who_want_it(instances: list[OpenedRows]) -> None:
    for number in range(8):
        await instances[0].jobs.add(job(str(number)), same, 99)
    outcomes: Counter[str] = Counter()

    async def take(rows: OpenedRows, number: int) -> None:
        try:
            await rows.jobs.change(
                str(number), "ann", lambda one: (replace(one, dedupe_key="key"), None)
            )
            outcomes["changed"] += 1
        except Conflict:
            outcomes["refused"] += 1

    await together(instances, take, 2)
    assert outcomes == {"changed": 1, "refused": 7}


async def test_changes_removals_and_ends_do_not_hinder_each_other(
    instances: list[OpenedRows],
) -> None:
    for number in range(6):
        await instances[0].jobs.add(job(str(number)), same, 99)

    async def work(rows: OpenedRows, number: int) -> None:
        random, jobs = Random(number), rows.jobs
        for _ in range(4):
            for claimed in await jobs.claim(99 * STEP, "", 0, due, 2):
                told = tells(item(f"{number}"), events=(event(f"{number}-{random.random()}"),))
                await jobs.finish(ended(claimed.runs[0], owed=True), idle, 3, told)
            job_id = str(random.randrange(6))
            await jobs.change(job_id, "ann", lambda one: (replace(one, retries=0), None))
            await rows.deliveries.deliver("ann", "s", (str(number),), event)
            if random.random() < 0.2:
                await jobs.change(job_id, "ann", lambda one: (None, None))
                with suppress(Conflict):
                    await jobs.add(job(job_id), same, 99)
            for _, run in await jobs.take_owed():
                await jobs.settle_owed(run.run_id, item(f"owed-{run.run_id}"))

    await together(instances, work, 2)
    (row,) = await instances[0].database.ask("SELECT jobs FROM @owners")
    assert row["jobs"] == len(await instances[0].jobs.listing("ann"))


async def test_each_owed_result_is_returned_once(instances: list[OpenedRows]) -> None:
    for number in range(12):
        one = job(str(number), session_id=f"s{number % 3}")
        await instances[0].jobs.add(one, same, 99)
    for claimed in await instances[0].jobs.claim(STEP, "", 0, due, 20):
        await instances[0].jobs.finish(ended(claimed.runs[0], owed=True), idle, 9)
    returned: Counter[str] = Counter()
    under_way: set[str] = set()

    async def work(rows: OpenedRows, number: int) -> None:
        while await rows.jobs.list_owed():
            for one, run in await rows.jobs.take_owed():
                assert one.session_id not in under_way
                under_way.add(one.session_id)
                await anyio.lowlevel.checkpoint()
                under_way.discard(one.session_id)
                returned[run.run_id] += await rows.jobs.settle_owed(run.run_id)

    # One look of an instance at a time, as its `ResultReturner` has.
    await together(instances, work)
    assert len(returned) == 12
    assert set(returned.values()) == {1}


# Sessions.


async def test_the_order_of_events_is_the_order_of_their_commits(
    instances: list[OpenedRows],
) -> None:
    """Eight write in transactions of different length, eight read on meanwhile: none is missed."""
    news, each, writers = NewsWriter(), 12, 8
    read: list[list[str]] = []

    async def write(rows: OpenedRows, number: int) -> None:
        random = Random(number)
        for at in range(each):

            async def work(connection: Connection, key: str = f"{number}-{at}") -> None:
                await connection.ask("SELECT pg_sleep($1)", random.random() * 0.003)
                await news.add_event(event(key), connection)
                await connection.ask("SELECT pg_sleep($1)", random.random() * 0.003)

            await rows.database.change(work)

    async def follow(rows: OpenedRows, number: int) -> None:
        keys: list[str] = []
        after = 0
        while len(keys) < each * writers:
            for found in await rows.deliveries.events("ann", "s", after, 7):
                assert found.seq > after
                after = found.seq
                keys.append(found.key)
        read.append(keys)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(together, instances, write, writers // INSTANCES)
        tasks.start_soon(together, instances, follow, 2)
    written = {f"{number}-{at}" for number in range(writers) for at in range(each)}
    assert set(read[0]) == written
    assert all(keys == read[0] for keys in read)


async def test_a_lock_is_held_by_one(instances: list[OpenedRows]) -> None:
    holders: set[int] = set()
    turns: Counter[int] = Counter()

    async def work(rows: OpenedRows, number: int) -> None:
        while turns[number] < 5:
            token = f"{number}-{turns[number]}"
            if await rows.locks.take("ann", "s", token, "chat", 0) is not None:
                continue
            holders.add(number)
            assert holders == {number}
            holders.discard(number)
            turns[number] += 1
            assert await rows.locks.release("ann", "s", token)

    await together(instances, work, 2)
    assert turns == dict.fromkeys(range(8), 5)


async def test_a_conversation_loses_no_exchange(instances: list[OpenedRows]) -> None:
    appended: list[str] = []

    async def work(rows: OpenedRows, number: int) -> None:
        for at in range(4):
            token = f"{number}-{at}"
            while await rows.locks.take("ann", "s", token, "chat", 0) is not None:
                pass
            said = TalkAddition("ann", "agent", "s", b'["%s"]' % token.encode(), token)
            appended.append(token)
            await rows.appender.append(said)

    await together(instances, work, 2)
    found = await instances[0].conversations.get("ann", "agent", "s")
    assert found is not None
    assert found.messages == b"[%s]" % ",".join(f'"{one}"' for one in appended).encode()


async def test_an_item_is_reserved_and_delivered_once(instances: list[OpenedRows]) -> None:
    ids = tuple(str(number) for number in range(10))
    for one in ids:
        await instances[0].deliveries.add(item(one))
    reserved: Counter[str] = Counter()
    delivered: Counter[str] = Counter()

    async def work(rows: OpenedRows, number: int) -> None:
        wanted = tuple(Random(number).sample(ids, 6))
        reserved.update(
            await rows.deliveries.reserve(ItemReservation("ann", "s", wanted, f"t{number}"))
        )
        delivered.update(await rows.deliveries.deliver("ann", "s", wanted, event))

    await together(instances, work, 4)
    assert set(reserved.values()) <= {1}
    assert delivered == dict.fromkeys(ids, 1)
    told = await instances[0].deliveries.events("ann", "s", 0, 99)
    assert sorted(one.key for one in told) == sorted(ids)


async def test_items_that_are_added_at_once_have_an_order(instances: list[OpenedRows]) -> None:
    async def add(rows: OpenedRows, number: int) -> None:
        await rows.deliveries.add(item(str(number // 2)))

    await together(instances, add, 10)
    found = await instances[0].deliveries.pending("ann", "s")
    assert sorted(int(one.id) for one in found) == list(range(20))
    assert len({one.seq for one in found}) == 20


async def test_posts_go_out_once_and_in_order(instances: list[OpenedRows]) -> None:
    posted: dict[str, list[str]] = {"s": [], "t": []}
    for rows in instances:
        assert rows.posts is not None
        rows.posts.use_hooks({"ann": ["one"]})
    for number in range(16):
        session = "st"[number % 2]
        await instances[0].deliveries.note(replace(event(f"{number:02}"), session=session))

    async def work(rows: OpenedRows, number: int) -> None:
        assert rows.posts is not None
        while sum(map(len, posted.values())) < 16:
            for post in await rows.posts.take_posts(["one"], 9, 3):
                posted[post.event.session].append(post.event.key)
                await anyio.lowlevel.checkpoint()
                assert await rows.posts.settle_post(post)

    await together(instances, work)
    assert posted["s"] == [f"{number:02}" for number in range(0, 16, 2)]
    assert posted["t"] == [f"{number:02}" for number in range(1, 16, 2)]


async def test_usage_of_several_writers_adds_up(instances: list[OpenedRows]) -> None:
    keys: list[RowKey] = [("ann", 0, model, "a") for model in "mnop"]

    async def add(rows: OpenedRows, number: int) -> None:
        for batch in range(1, 5):
            used = dict.fromkeys(Random(number).sample(keys, 4), UsageCounts(turns=1))
            assert await rows.usage.add(UsageBatch(str(number), batch, used))

    await together(instances, add, 2)
    total = await instances[0].usage.sum_up(UsageQuery(0, 2**62))
    assert [one.turns for one in total.values()] == [8 * 4 * 4]


# Processes.


def start_child(backend: PostgresRowBackend) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.row_child", backend.url, backend.schema],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_children(backend: PostgresRowBackend, count: int) -> tuple[list[list[str]], str]:
    """Have processes claim runs, and kill the first in the middle; return what they said.

    Also return the instance of the one that was killed.
    """
    children = [start_child(backend) for _ in range(count)]
    ids: list[str] = []
    for child in children:
        assert child.stdout
        ids.append(child.stdout.readline().split()[1])
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()
    first = children[0]
    assert first.stdout
    said = [first.stdout.readline().split() for _ in range(3)]
    first.kill()
    for child in children:
        with child:
            assert child.stdout
            said += [line.split() for line in child.stdout if line.endswith("\n")]
    return said, ids[0]


async def test_a_process_that_is_killed_leaves_each_time_to_one_other() -> None:
    backend = PostgresRowBackend()
    jobs = [job(str(number)) for number in range(30)]
    async with backend.opened() as rows:
        for one in jobs:
            await rows.jobs.add(one, same, 99)
        said, killed = await anyio.to_thread.run_sync(run_children, backend, 3)
        bury = "UPDATE @instances SET buried = true WHERE id = $1"
        await rows.database.run(bury, killed)
        interrupted = await rows.jobs.end_lapsed(0, cut)
        while claims := await rows.jobs.claim(TIMES * STEP, "", 0, due, 9):
            for claimed in claims:
                await rows.jobs.finish(ended(claimed.runs[0]), idle, 99)
        times = Counter((line[0], line[1]) for line in said if len(line) == 2)
        # What was acknowledged is there, and nobody was told of a run that another one had.
        assert set(times.values()) == {1}
        runs: dict[str, Run] = {}
        for one in jobs:
            found = await rows.jobs.runs(one.job_id, 99)
            assert sorted(run.due_ms for run in found) == [at * STEP for at in range(1, TIMES + 1)]
            runs |= {run.run_id: run for run in found}
        assert {run.run_id for run in interrupted} <= set(runs)
        for line in said:
            if line[0] == "ended":
                assert runs[line[1]].status == "ok"
            if line[0] == "claimed":
                assert line[1] in runs
        told = {one.key for one in await rows.deliveries.events("ann", "s", 0, 999)}
        assert {line[1] for line in said if line[0] == "ended"} <= told
        assert told <= {run_id for run_id, run in runs.items() if run.status == "ok"}
