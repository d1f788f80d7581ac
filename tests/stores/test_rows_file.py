"""The file of rows: when it is made, its schema, what is wrong with it, what is found by index."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
from pathlib import Path

import anyio
import pytest

from gateway.jobs.model import Job
from gateway.stores import (
    StoreUnavailable,
    fetch,
    open_documents,
    open_rows,
    update,
)
from gateway.stores.conversation_rows import Snapshot
from gateway.stores.documents import Documents
from gateway.stores.sqlite import (
    conversations,
    deliveries,
    job_table,
    jobs,
    usage,
)
from gateway.stores.sqlite.database import FileDatabase, migrate
from gateway.stores.sqlite.documents import Sqlite
from gateway.stores.sqlite.schema import MIGRATIONS

from .row_backends import (
    DURABLE,
    RowBackend,
    claim_one,
    cut,
    due,
    ended,
    idle,
    job,
    same,
)
from .shapes import CLOCK, SHAPES, clock, plus_one


@pytest.fixture
def embedded(tmp_path: Path) -> RowBackend:
    return RowBackend("embedded", tmp_path)


@pytest.fixture
def sqlite(tmp_path: Path) -> RowBackend:
    return RowBackend("sqlite", tmp_path)


@pytest.fixture(params=DURABLE)
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> RowBackend:
    return RowBackend(request.param, tmp_path)


def test_closed_it_leaves_nothing_open_in_place_of_a_missing_file(tmp_path: Path) -> None:
    database = FileDatabase(tmp_path / "kept.sqlite3")
    nothing = database.connection(make=False)
    assert database.connection(make=False) is nothing
    database.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        nothing.execute("select 1")


async def test_nothing_is_made_before_something_is_kept(embedded: RowBackend) -> None:
    async with embedded.opened() as rows:
        assert await rows.jobs.end_lapsed(2**63 - 1, cut) == []
        assert await claim_one(rows.jobs, 10, "me", 1, due) is None
        assert await rows.deliveries.waiting() == []
        assert await rows.deliveries.prune(10) == 0
        assert await rows.conversations.forget("ann", "s") == 0
        await rows.locks.take("ann", "s", "one", "chat", 100)
        await rows.check()
        assert not embedded.path.exists()
        await rows.jobs.add(job(), same, 9)
        assert embedded.path.exists()
        assert await rows.jobs.listing(None) == [job()]


async def test_a_store_that_is_not_used_has_no_threads(embedded: RowBackend) -> None:
    async with embedded.opened():
        names = {thread.name for thread in threading.enumerate()}
    assert not {name for name in names if name.startswith("holdgate-sqlite")}


async def test_the_file_is_private(embedded: RowBackend) -> None:
    before = os.umask(0)
    try:
        async with embedded.opened() as rows:
            await rows.jobs.add(job(), same, 9)
            found = {
                file.name: stat.S_IMODE(file.stat().st_mode)
                for file in embedded.root.glob("holdgate*")
            }
    finally:
        os.umask(before)
    assert found == {f"holdgate.sqlite3{end}": 0o600 for end in ("", "-wal", "-shm")}


async def test_rows_and_documents_share_one_engine(sqlite: RowBackend) -> None:
    """Two who change one file could lose a commit."""
    documents = await sqlite.documents()
    rows = await sqlite.rows(documents)
    assert isinstance(documents, Sqlite)
    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(rows.jobs.add, job(str(number)), same, 100)
            tasks.start_soon(update, documents, clock(str(number)), plus_one, CLOCK)
    await rows.aclose()
    # Closed are the rows, not what they share.
    assert (await update(documents, clock("1"), plus_one, CLOCK)).count == 2
    await documents.aclose()
    connection = sqlite3.connect(sqlite.path)
    counts = [
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("jobs", "documents")
    ]
    connection.close()
    assert counts == [50, 50]


async def test_a_store_nobody_knows(tmp_path: Path) -> None:
    class Strange:
        """Documents of some other kind."""

    documents: Documents = Strange()  # type: ignore[assignment]
    with pytest.raises(StoreUnavailable, match='No store of rows is known for "mysql:"'):
        await open_rows("mysql://x", tmp_path, documents)


def made_by_schema(path: Path, version: int) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MIGRATIONS[:version])
    return connection


async def test_documents_of_schema_1_come_to_schema_2_whole(sqlite: RowBackend) -> None:
    connection = made_by_schema(sqlite.path, 1)
    content = b'{"version":1,"owner":"%s","sessionId":"s","count":%d,"text":"","dueMs":5}'
    for number, owner in enumerate((b"ann", b"bob"), 7):
        connection.execute(
            "INSERT INTO documents (kind, owner, session, due_ms, updated_ms, document)"
            " VALUES ('clock', ?, 's', 5, 1, ?)",
            (owner.decode(), content % (owner, number)),
        )
    connection.execute("INSERT INTO corrupt_documents VALUES ('clock', 'o', 's', 1, 'why', 'x')")
    before = connection.execute("SELECT * FROM documents ORDER BY revision").fetchall()
    connection.close()

    documents = await sqlite.documents()
    rows = await sqlite.rows(documents)
    assert (await fetch(documents, clock("s", "ann"), CLOCK)).count == 7
    assert len(await documents.due("clock", 6, 10)) == 2
    await rows.jobs.add(job(), same, 9)
    await rows.aclose()
    await documents.aclose()

    connection = sqlite3.connect(sqlite.path)
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("SELECT * FROM documents ORDER BY revision").fetchall() == before
    assert connection.execute("SELECT count(*) FROM corrupt_documents").fetchone() == (1,)
    assert connection.execute("SELECT job_id FROM jobs").fetchall() == [("j",)]
    connection.close()


def schema_of(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
    connection.close()
    return found


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
async def test_every_earlier_schema_becomes_the_same(durable: RowBackend, version: int) -> None:
    made_by_schema(durable.path, version).close()
    async with durable.opened() as rows:
        await rows.jobs.add(job(), same, 9)
        assert rows.event_log is not None
        await rows.event_log.move("hook", 1)
    fresh = durable.path.with_name("fresh")
    made_by_schema(fresh, len(MIGRATIONS)).close()
    assert schema_of(durable.path) == schema_of(fresh)


async def test_a_newer_schema_is_refused_at_start(durable: RowBackend) -> None:
    connection = made_by_schema(durable.path, len(MIGRATIONS))
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = durable.path.read_bytes()
    with pytest.raises(StoreUnavailable, match=r"newer Holdgate \(schema 6, known up to 5\)"):
        async with durable.opened():
            pass
    assert durable.path.read_bytes() == before


@pytest.mark.parametrize("name", ["sqlite", "shared"])
async def test_a_file_that_is_no_database_is_refused_at_start(tmp_path: Path, name: str) -> None:
    """All that is kept would be in it."""
    durable = RowBackend(name, tmp_path)
    durable.path.write_text("by far not a database" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be used: file is not a database"):
        async with durable.opened():
            pass


async def test_a_file_that_was_removed_is_made_again(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        await rows.jobs.add(job("a"), same, 9)
        for file in durable.path.parent.glob(f"{durable.path.name}*"):
            file.unlink()
        assert await rows.jobs.listing(None) == []
        assert await claim_one(rows.jobs, 9_999, "me", 1, due) is None
        assert not durable.path.exists()
        await rows.jobs.add(job("b"), same, 9)
    async with durable.opened() as rows:
        assert await rows.jobs.listing(None) == [job("b")]


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_a_job_that_cannot_be_read_hurts_only_itself(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        for name in "abc":
            await rows.jobs.add(job(name), same, 9)
        await rows.jobs.claim_now("a", None, "me", 1, due)
        tamper(durable.path, "UPDATE jobs SET job = '{\"job_id\":7}' WHERE job_id = 'a'")
        assert [one.job_id for one in await rows.jobs.listing(None)] == ["b", "c"]
        assert await rows.jobs.runs("a", 9) == []
        tamper(durable.path, "UPDATE jobs SET job = x'ff' WHERE job_id = 'b'")
        claimed = await claim_one(rows.jobs, 9_999, "me", 1, due)
        assert claimed is not None
        assert claimed.job.job_id == "c"
        assert await rows.jobs.get("b") is None
    reason = "It is not a valid row of jobs."
    assert durable.quarantined == [("jobs/a", reason), ("jobs/b", reason)]
    connection = sqlite3.connect(durable.path)
    found = connection.execute("SELECT kind, id, at_ms, reason, content FROM corrupt_rows")
    [job_a, run_a, job_b] = found.fetchall()
    connection.close()
    assert job_a == ("jobs", "a", durable.now_ms, reason, '{"job_id":7}')
    assert run_a[:4] == ("runs", "a-1000", durable.now_ms, "Its job cannot be read.")
    assert job_b[-1] == b"\xff"


async def test_many_who_find_the_same_bad_job(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        for name in "abc":
            await rows.jobs.add(job(name), same, 9)
        tamper(durable.path, "UPDATE jobs SET job = 'x' WHERE job_id < 'c'")
        found: list[list[Job]] = []

        async def look() -> None:
            found.append(await rows.jobs.listing(None))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(look)
        assert found == [[job("c")]] * 10
    assert sorted(name for name, _ in durable.quarantined) == ["jobs/a", "jobs/b"]


async def test_a_database_of_nothing_but_bad_jobs(
    embedded: RowBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_CORRUPT", 2)
    async with embedded.opened() as rows:
        for name in "abc":
            await rows.jobs.add(job(name), same, 9)
        tamper(embedded.path, "UPDATE jobs SET job = 'x'")
        with pytest.raises(StoreUnavailable, match="Too many rows"):
            await rows.jobs.listing(None)
        assert await rows.jobs.listing(None) == []


async def test_a_job_in_anothers_row_is_not_shown(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        await rows.jobs.add(job("a", "ann"), same, 9)
        await rows.jobs.add(job("b", "bob"), same, 9)
        tamper(
            durable.path,
            "UPDATE jobs SET job = (SELECT job FROM jobs WHERE job_id = 'b') WHERE job_id = 'a'",
        )
        assert await rows.jobs.listing("ann") == []
        assert await rows.jobs.listing("bob") == [job("b", "bob")]


async def test_a_run_that_cannot_be_read_does_not_stop_its_job(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        await rows.jobs.add(job(), same, 9)
        await claim_one(rows.jobs, 1_000, "me", 1, due)
        tamper(durable.path, "UPDATE runs SET run = '[]'")
        assert await claim_one(rows.jobs, 2_000, "me", 1, due) is None
        assert await rows.jobs.end_lapsed(2**63 - 1, cut) == []
        assert await claim_one(rows.jobs, 2_000, "me", 1, due) is not None
    assert [name for name, _ in durable.quarantined] == ["runs/j-1000"]


async def test_a_debt_that_cannot_be_read(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        for name in "ab":
            await rows.jobs.add(job(name), same, 9)
            claimed = await rows.jobs.claim_now(name, None, "me", 1, due)
            assert claimed is not None
            await rows.jobs.finish(ended(claimed.runs[0], owed=True), idle, 9)
        tamper(durable.path, "UPDATE owed SET job = '[' WHERE job_id = 'a'")
        assert [one.job_id for one, _ in await rows.jobs.list_owed()] == ["b"]
    assert [name for name, _ in durable.quarantined] == ["owed/a-1000"]


async def test_a_snapshot_that_cannot_be_read_is_none(durable: RowBackend) -> None:
    async with durable.opened() as rows:
        seen = Snapshot("chat", "m", b"{}", "")
        await rows.conversations.keep_snapshot("ann", "s", seen)
        tamper(durable.path, "UPDATE snapshots SET headers = '{'")
        assert await rows.conversations.snapshot("ann", "s") is None


SCANNED_ON_PURPOSE = {
    jobs.OWED,
    job_table.LIST,
    deliveries.INTERESTS,
    deliveries.LAST,
    deliveries.PRUNE[2],
    # Only after a row was set aside.
    job_table.IDLE,
    # Everything undelivered, and that is what the index holds.
    deliveries.WAITING,
    deliveries.COUNT_WAITING,
    # All owners are in the index.
    conversations.OWNERS,
}


def statements() -> list[str]:
    modules = (conversations, deliveries, job_table, jobs, usage)
    values = [value for module in modules for value in vars(module).values()]
    flat = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
    return sorted(
        {one for one in flat if isinstance(one, str) and re.match(r"SELECT|UPDATE|DELETE", one)}
        - SCANNED_ON_PURPOSE
    )


def test_everything_is_found_by_index(tmp_path: Path) -> None:
    database = FileDatabase(tmp_path / "kept.sqlite3")
    connection = database.connection()
    assert len(statements()) > 35
    for statement in statements():
        names = re.findall(r":(\w+)", statement)
        numbered = len(set(re.findall(r"\?\d", statement)))
        values = dict.fromkeys(names, 1) if names else (1,) * (numbered or statement.count("?"))
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
        steps = [row[3] for row in plan]
        assert not [step for step in steps if "SCAN" in step or "TEMP" in step], statement
    database.close()


async def test_rows_closed_after_their_documents(tmp_path: Path) -> None:
    documents = await open_documents("", tmp_path, SHAPES)
    rows = await open_rows("", tmp_path, documents)
    await rows.jobs.add(job(), same, 9)
    await documents.aclose()
    assert await rows.jobs.listing(None) == [job()]
    await rows.aclose()
    for call in (rows.jobs.listing(None), rows.jobs.forget("ann", "s")):
        with pytest.raises(StoreUnavailable, match="The store is closed"):
            await call
