"""What owners used: one contract for every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import anyio
import pytest

from gateway.stores import Rows, StoreUnavailable
from gateway.stores.rows import UsageRows
from gateway.stores.sqlite import usage as module
from gateway.timestamps import HOUR_MS
from gateway.usage.model import (
    GROUPS,
    Group,
    RowKey,
    UsageBatch,
    UsageCounts,
    UsageQuery,
    UsageTable,
    add_up,
)

from .mounts import small_disk
from .row_backends import (
    ALL,
    DURABLE,
    AnyBackend,
    RowBackend,
    find_backend,
)
from .row_child import USED
from .test_rows_processes import killed

WEEK = 7 * 24 * HOUR_MS
NINE = 491_000 * HOUR_MS
EVERYTHING = UsageQuery(0, 2**63 - 1, None, GROUPS, 10_000)
ONE = UsageCounts(1, 2, 2, 30, 4, 5, 6, 7)


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AnyBackend:
    return find_backend(request.param, tmp_path)


@pytest.fixture
async def rows(backend: AnyBackend) -> AsyncIterator[Rows]:
    async with backend.opened() as opened:
        yield opened


@pytest.fixture
def usage(rows: Rows) -> UsageRows:
    return rows.usage


def key(owner: str = "ann", hour: int = 0, model: str = "m", upstream: str = "a") -> RowKey:
    return owner, NINE + hour * HOUR_MS, model, upstream


def batch(number: int, *keys: RowKey, counts: UsageCounts = ONE, writer: str = "w") -> UsageBatch:
    return UsageBatch(writer, number, dict.fromkeys(keys or (key(),), counts))


async def test_where_nothing_was_used(usage: UsageRows) -> None:
    assert await usage.sum_up(EVERYTHING) == {}
    assert await usage.sum_up(UsageQuery(0, 1)) == {}
    assert await usage.last_batch("w") == 0
    assert await usage.prune(2**62) == 0


async def test_counts_are_added_to_those_of_their_hour(usage: UsageRows) -> None:
    assert await usage.add(batch(1, key(), key("bob")))
    assert await usage.add(batch(2, key(), key(hour=1)))
    assert await usage.sum_up(EVERYTHING) == {
        key(): ONE + ONE,
        key("bob"): ONE,
        key(hour=1): ONE,
    }


async def test_rows_differ_by_each_part_of_their_key(usage: UsageRows) -> None:
    keys = (key(), key("bob"), key(hour=1), key(model="n"), key(upstream="b"))
    await usage.add(batch(1, *keys))
    assert await usage.sum_up(EVERYTHING) == dict.fromkeys(keys, ONE)


@pytest.mark.parametrize(
    ("first", "second", "sum_"), [(None, None, None), (None, 3, 3), (3, None, 3), (3, 4, 7)]
)
async def test_costs_that_are_not_known(
    usage: UsageRows, first: int | None, second: int | None, sum_: int | None
) -> None:
    await usage.add(batch(1, counts=UsageCounts(turns=1, cost_micros=first)))
    await usage.add(batch(2, counts=UsageCounts(turns=1, cost_micros=second)))
    assert await usage.sum_up(EVERYTHING) == {key(): UsageCounts(turns=2, cost_micros=sum_)}


async def test_a_batch_that_is_sent_again_changes_nothing(usage: UsageRows) -> None:
    assert await usage.add(batch(1))
    assert await usage.add(batch(2))
    for number in (2, 1, 2):
        assert not await usage.add(batch(number))
    assert await usage.last_batch("w") == 2
    # Another writer has numbers of its own.
    assert await usage.add(batch(1, writer="other"))
    assert await usage.sum_up(EVERYTHING) == {key(): ONE + ONE + ONE}


async def test_of_many_who_send_one_batch_one_does(usage: UsageRows) -> None:
    done: list[bool] = []

    async def add() -> None:
        done.append(await usage.add(batch(1)))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(add)
    assert sorted(done) == [False] * 19 + [True]
    assert await usage.sum_up(EVERYTHING) == {key(): ONE}


def make_rows(random: Random) -> dict[RowKey, UsageCounts]:
    """Make rows of some weeks, owners, models and upstreams."""
    names = UsageCounts.__struct_fields__[:-1]
    return {
        (owner, NINE + hour * HOUR_MS, model, upstream): UsageCounts(
            **{name: random.randrange(100) for name in names},
            cost_micros=random.choice((None, random.randrange(9))),
        )
        for owner in ("ann", "bob")
        for hour in random.sample(range(900), 12)
        for model in ("m", "n")
        for upstream in ("a", "b")
    }


@pytest.mark.parametrize("owner", [None, "ann", "nobody"])
@pytest.mark.parametrize(
    "group_by", [(), ("owner",), ("hour",), ("model", "upstream"), ("hour", "owner"), GROUPS]
)
async def test_sums_are_those_of_the_rows(
    usage: UsageRows, owner: str | None, group_by: tuple[Group, ...]
) -> None:
    random = Random(repr((owner, group_by)))
    rows = make_rows(random)
    await usage.add(UsageBatch("w", 1, rows))
    hours = sorted({hour for _, hour, _, _ in rows})
    for from_ms, until_ms in ((0, 2**63 - 1), (hours[3], hours[-3]), (hours[5], hours[5] + 1)):
        query = UsageQuery(from_ms, until_ms, owner, group_by, 10_000)
        covered = [(one, counts) for one, counts in rows.items() if query.covers(one)]
        assert await usage.sum_up(query) == add_up(covered, group_by)


async def test_of_too_many_groups_it_is_said_that_they_are_too_many(usage: UsageRows) -> None:
    weeks = [key(hour=number * 24 * 7) for number in range(5)]
    await usage.add(batch(1, *weeks))
    for most, found in ((4, 5), (5, 5), (2, 3)):
        query = UsageQuery(0, 2**63 - 1, "ann", ("hour",), most)
        assert len(await usage.sum_up(query)) == found


async def test_the_old_goes_some_at_a_time(
    backend: AnyBackend, usage: UsageRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRUNED_AT_ONCE", 3)
    await usage.add(batch(1, *(key(hour=hour) for hour in range(10)), writer="old"))
    backend.now_ms += WEEK
    await usage.add(batch(1, key(hour=10), writer="new"))
    assert await usage.prune(NINE + 9 * HOUR_MS) == 9
    assert await usage.sum_up(EVERYTHING) == {key(hour=9): ONE, key(hour=10): ONE}
    # Who was silent for so long sends nothing again.
    await usage.prune(backend.now_ms)
    assert (await usage.last_batch("old"), await usage.last_batch("new")) == (0, 1)


async def test_what_was_used_stays_when_its_session_is_forgotten(rows: Rows) -> None:
    await rows.usage.add(batch(1))
    for kind in (rows.jobs, rows.conversations, rows.deliveries):
        await kind.forget("ann", "s")
    assert await rows.usage.sum_up(EVERYTHING) == {key(): ONE}


async def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    backend = RowBackend("embedded", tmp_path)
    async with backend.opened() as rows:
        await rows.usage.sum_up(EVERYTHING)
        await rows.usage.prune(1)
        await rows.usage.last_batch("w")
        assert not backend.path.exists()


@pytest.mark.parametrize("name", DURABLE)
async def test_what_was_used_is_found_again(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        await rows.usage.add(batch(1))
    async with backend.opened() as rows:
        assert await rows.usage.sum_up(EVERYTHING) == {key(): ONE}
        assert not await rows.usage.add(batch(1))


@pytest.mark.parametrize("name", DURABLE)
async def test_a_full_disk_counts_nothing_and_forgets_nothing(tmp_path: Path, name: str) -> None:
    many = [key(model=f"{number:0>150}") for number in range(2000)]
    with small_disk(tmp_path / "disk", 1024) as disk:
        async with RowBackend(name, disk.place).opened() as rows:
            await rows.usage.add(batch(1))
            disk.fill()
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="the disk is full"):
                    await rows.usage.add(batch(2, *many))
            assert await rows.usage.last_batch("w") == 1
            assert await rows.usage.sum_up(EVERYTHING) == {key(): ONE}
            disk.free()
            assert await rows.usage.add(batch(2, key(hour=1)))
            assert len(await rows.usage.sum_up(EVERYTHING)) == 2


@pytest.mark.parametrize("name", ["embedded", "sqlite"])
async def test_a_kill_leaves_all_of_a_batch_or_nothing(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    random = Random(name)
    stored: UsageTable = {}
    for _ in range(2):
        said = await anyio.to_thread.run_sync(
            killed, backend, random.randint(1, 40), "use-for-ever"
        )
        (writer,) = {line[1] for line in said}
        acknowledged = int(said[-1][2])
        async with backend.opened() as rows:
            last = await rows.usage.last_batch(writer)
            assert last - acknowledged in (0, 1)
            found = await rows.usage.sum_up(EVERYTHING)
            # Every batch adds the same to each row.
            assert {one: counts.turns - turns_of(stored, one) for one, counts in found.items()} == (
                dict.fromkeys(USED, last)
            )
            stored = found
            # What was not acknowledged may be sent again.
            again = UsageBatch(writer, acknowledged + 1, dict.fromkeys(USED, UsageCounts(turns=1)))
            assert await rows.usage.add(again) is (last == acknowledged)
            stored = await rows.usage.sum_up(EVERYTHING)


def turns_of(rows: UsageTable, one: RowKey) -> int:
    return rows[one].turns if one in rows else 0
