"""Disks that are full, read-only or gone: a reason is given, nothing is torn, and it heals."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import anyio
import pytest

from gateway.jobs.model import Job
from gateway.stores import Rows, StoreUnavailable
from gateway.stores.conversation_rows import AgentConversation
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.disk import ProcessLock

from .mounts import read_only, small_disk
from .row_backends import (
    DURABLE,
    STEP,
    RowBackend,
    claim_one,
    due,
    ended,
    idle,
    job,
    same,
    tells,
)

LARGE = "x" * 200_000


@pytest.fixture
def embedded(tmp_path: Path) -> RowBackend:
    return RowBackend("embedded", tmp_path)


async def refused(rows: Rows, reason: str) -> None:
    """See that all kinds of changes are refused with a reason, and that what was there is."""
    before = await rows.jobs.listing(None)
    for call in (
        rows.jobs.add(job("large", message=LARGE), same, 99),
        rows.conversations.put(AgentConversation("ann", "agent", "s", LARGE.encode())),
        rows.deliveries.add(OutboxItem("large", "ann", "s", 1, LARGE)),
    ):
        with pytest.raises(StoreUnavailable, match=reason):
            await call
    assert await rows.jobs.listing(None) == before


@pytest.mark.parametrize("name", DURABLE)
async def test_a_full_disk(tmp_path: Path, name: str) -> None:
    with small_disk(tmp_path / "disk", 1024) as disk:
        backend = RowBackend(name, disk.place)
        async with backend.opened() as rows:
            await rows.jobs.add(job("a"), same, 99)
            disk.fill()
            for _ in range(3):
                await refused(rows, "the disk is full")
            disk.free()
            await rows.jobs.add(job("b"), same, 99)
        async with backend.opened() as rows:
            assert await rows.jobs.listing(None) == [job("a"), job("b")]


async def test_a_run_that_ends_on_a_full_disk_can_end_later(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024) as disk:
        async with RowBackend("embedded", disk.place).opened() as rows:
            await rows.jobs.add(job(), same, 99)
            claimed = await claim_one(rows.jobs, STEP, "me", 1, due)
            assert claimed is not None
            [run] = claimed.runs
            done = ended(run, result=LARGE)
            item = OutboxItem("run", "ann", "s", 1, LARGE)
            disk.fill()
            with pytest.raises(StoreUnavailable, match="the disk is full"):
                await rows.jobs.finish(done, idle, 9, tells(item))
            assert await rows.jobs.runs("j", 9) == [run]
            assert await rows.deliveries.pending("ann", "s") == []
            disk.free()
            assert await rows.jobs.finish(done, idle, 9, tells(item)) is not None
            assert len(await rows.deliveries.pending("ann", "s")) == 1


async def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1024) as disk:
        async with RowBackend("embedded", disk.place).opened() as rows:
            disk.fill()
            for _ in range(2):
                await refused(rows, "the disk is full")
            disk.free()
            await rows.jobs.add(job(), same, 99)
            assert await rows.jobs.listing(None) == [job()]


async def test_a_read_only_disk(embedded: RowBackend) -> None:
    async with embedded.opened() as rows:
        with read_only(embedded.root):
            await refused(rows, "the disk is read-only")
            assert await claim_one(rows.jobs, STEP, "me", 1, due) is None
        await rows.jobs.add(job(), same, 99)
        assert await rows.jobs.listing(None) == [job()]


async def test_a_directory_that_goes_and_comes_back(tmp_path: Path) -> None:
    backend = RowBackend("embedded", tmp_path)
    async with backend.opened() as rows:
        await rows.jobs.add(job(), same, 99)
        away = backend.root.rename(tmp_path / "away")
        for call in (rows.jobs.listing(None), rows.jobs.forget("ann", "s"), rows.check()):
            with pytest.raises(StoreUnavailable, match="its directory is gone"):
                await call
        assert not backend.root.exists()
        away.rename(backend.root)
        await rows.check()
        assert await rows.jobs.listing(None) == [job()]
        assert await rows.jobs.forget("ann", "s") == 1


async def test_a_directory_that_another_holdgate_took(embedded: RowBackend) -> None:
    async with embedded.opened() as rows:
        await rows.jobs.add(job(), same, 99)
        embedded.root.joinpath(".lock").unlink()
        another = ProcessLock(embedded.root / ".lock", "The directory")
        another.hold()
        with pytest.raises(StoreUnavailable, match="another Holdgate uses the same store"):
            await rows.jobs.add(job("b"), same, 99)
        another.release()
        await rows.jobs.add(job("b"), same, 99)
        assert await rows.jobs.listing(None) == [job(), job("b")]


@pytest.mark.parametrize("name", DURABLE)
async def test_a_table_somebody_took_away(tmp_path: Path, name: str) -> None:
    backend = RowBackend(name, tmp_path)
    async with backend.opened() as rows:
        await rows.jobs.add(job(), same, 99)
        other = sqlite3.connect(backend.path, isolation_level=None)
        other.execute("ALTER TABLE jobs RENAME TO elsewhere")
        for call in (rows.jobs.listing(None), rows.jobs.forget("ann", "s"), rows.check()):
            with pytest.raises(StoreUnavailable, match="the database reports an error"):
                await call
        other.execute("ALTER TABLE elsewhere RENAME TO jobs")
        other.close()
        assert await rows.jobs.listing(None) == [job()]


async def test_one_that_fails_takes_nobody_with_it(embedded: RowBackend) -> None:
    """Also among those that share a transaction, whatever goes wrong with it."""

    def fail(_: Job) -> Job:
        raise LookupError("a bug")

    outcomes: dict[int, str] = {}
    async with embedded.opened() as rows:
        await rows.jobs.add(job("first", dedupe_key="key"), same, 99)
        broken = OutboxItem("broken", "ann", "s", 1, ["not", "text"])  # type: ignore[arg-type]

        async def change(number: int) -> None:
            try:
                if number % 3 == 0:
                    await rows.jobs.add(job(str(number)), same, 99)
                elif number % 3 == 1:
                    await rows.jobs.add(job(str(number), dedupe_key="key"), fail, 99)
                else:
                    await rows.deliveries.add(broken)
                outcomes[number] = "kept"
            except (StoreUnavailable, LookupError) as error:
                outcomes[number] = type(error).__name__

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(change, number)
        words = ("kept", "LookupError", "StoreUnavailable")
        assert outcomes == {number: words[number % 3] for number in range(60)}
        assert len(await rows.jobs.listing(None)) == 21
