"""The SQLite file: its schema, its modes, who may share it."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import anyio
import pytest

from gateway.stores import InUse, SealedDocument, StoreUnavailable, fetch, open_documents, update
from gateway.stores.disk import ProcessLock
from gateway.stores.sqlite.database import MIGRATIONS, FileDatabase, migrate
from gateway.stores.urls import sqlite_path

from .conftest import Backend
from .shapes import CLOCK, SHAPES, Notes, clock, plus_one


@pytest.fixture
def sqlite(tmp_path: Path) -> Backend:
    return Backend("sqlite", tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.sqlite3"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///var/lib/kept.db", "/var/lib/kept.db"),
        ("sqlite:////var/lib/kept.db", "/var/lib/kept.db"),
        ("sqlite:///var/with%20space.db", "/var/with space.db"),
        ("sqlite:///~/kept.db", str(Path.home() / "kept.db")),
    ],
)
def test_urls(url: str, path: str) -> None:
    assert str(sqlite_path(url)) == path


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "mysql://x", "files"])
async def test_urls_nobody_knows(url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No store is known"):
        await open_documents(url, tmp_path, SHAPES)


async def test_the_file_is_private_and_durable(sqlite: Backend, path: Path) -> None:
    before = os.umask(0)
    try:
        async with sqlite.opened() as store:
            await update(store, clock("a"), plus_one, CLOCK)
            names = {file.name for file in path.parent.iterdir()}
            modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert names == {path.name + end for end in ("", "-wal", "-shm", ".lock")}
    assert modes == {0o600}
    database = FileDatabase(path)
    settings = [
        database.connection().execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "busy_timeout", "user_version")
    ]
    database.close()
    assert settings == ["wal", 2, 5000, len(MIGRATIONS)]


async def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    store = await open_documents(f"sqlite://{tmp_path}/a/b/kept.db", tmp_path, SHAPES)
    await update(store, clock("a"), plus_one, CLOCK)
    await store.aclose()
    assert stat.S_IMODE(tmp_path.joinpath("a/b").stat().st_mode) == 0o700


@pytest.mark.parametrize("version", range(len(MIGRATIONS) + 1))
async def test_every_earlier_schema_is_brought_up(
    sqlite: Backend, path: Path, version: int
) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MIGRATIONS[:version])
    assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    connection.close()
    async with sqlite.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        assert (await fetch(store, clock("a"), CLOCK)).count == 1


def test_a_migration_happens_whole_or_not_at_all(path: Path) -> None:
    broken = (*MIGRATIONS, ("CREATE TABLE more (a)", "CREATE TABLE more (a)"))
    with pytest.raises(sqlite3.OperationalError):
        FileDatabase(path, broken).connection()
    connection = FileDatabase(path).connection()
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'more'").fetchall()
    assert tables == []
    connection.close()


async def test_processes_that_migrate_at_once(path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(
                anyio.to_thread.run_sync, lambda: FileDatabase(path).connection().close()
            )


async def test_a_newer_schema_is_refused(sqlite: Backend, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="newer Holdgate"):
        async with sqlite.opened():
            pass
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database(sqlite: Backend, path: Path) -> None:
    path.write_text("not a database, by far" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be used: file is not a database"):
        async with sqlite.opened():
            pass


async def test_a_corrupt_document_is_kept_for_people(sqlite: Backend, path: Path) -> None:
    async with sqlite.opened() as store:
        await update(store, clock("a", "ann"), plus_one, CLOCK)
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE documents SET document = 'bad'")
        connection.close()
        assert await fetch(store, clock("a", "ann"), CLOCK) == Notes()
    [(name, reason)] = sqlite.quarantined
    assert name == "clock/ann/a"
    connection = sqlite3.connect(path)
    [row] = connection.execute(
        "SELECT kind, owner, session, reason, document FROM corrupt_documents"
    )
    connection.close()
    assert row == ("clock", "ann", "a", reason, "bad")


async def test_somebody_elses_transaction_is_waited_for(sqlite: Backend, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    async with sqlite.opened() as store:
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(update, store, clock("a"), plus_one, CLOCK)
            # Reading goes on meanwhile.
            assert await fetch(store, clock("b"), CLOCK) == Notes()
            other.execute("COMMIT")
        assert (await fetch(store, clock("a"), CLOCK)).count == 1
    other.close()


async def test_what_is_due_and_new_is_found_by_index(path: Path) -> None:
    database = FileDatabase(path)
    connection = database.connection()
    for query, values in (
        ("WHERE kind = ? AND due_ms < ? ORDER BY due_ms", ("clock", 1)),
        ("WHERE kind = ? AND owner = ? ORDER BY updated_ms DESC, session DESC", ("clock", "ann")),
    ):
        plan = connection.execute(
            f"EXPLAIN QUERY PLAN SELECT session FROM documents {query}", values
        )
        steps = " ".join(row[3] for row in plan)
        assert "INDEX documents_" in steps
        assert "SCAN" not in steps
        assert "TEMP B-TREE" not in steps
    database.close()


def test_a_shared_lock_is_shared_with_its_like_only(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    first, second = (ProcessLock(place, "The place", shared=True) for _ in range(2))
    first.hold()
    second.hold()
    alone = ProcessLock(place, "The place")
    with pytest.raises(InUse):
        alone.hold()
    first.release()
    second.release()
    alone.hold()
    with pytest.raises(
        InUse, match=rf"The place is used by another Holdgate \(process {os.getpid()}\)"
    ):
        first.hold()
    alone.release()


def test_a_lock_whose_holder_is_not_named(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    holder = ProcessLock(place, "The place")
    holder.hold()
    place.write_text("")
    with pytest.raises(InUse, match="another process"):
        ProcessLock(place, "The place").hold()
    holder.release()


async def test_a_batch_is_judged_one_by_one(sqlite: Backend) -> None:
    """A conflict in a transaction does not undo the others of it."""
    async with sqlite.opened() as store:
        results: dict[int, str] = {}

        async def write(number: int) -> None:
            from_nothing = 0 if number % 2 else 99
            try:
                await store.write(clock(str(number)), SealedDocument(b"x", 1), from_nothing)
                results[number] = "kept"
            except StoreUnavailable as error:
                results[number] = type(error).__name__

        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(write, number)
        assert results == {n: "kept" if n % 2 else "Conflict" for n in range(60)}
        listed = await store.listing("clock", "local", None, 100)
        assert {int(entry.session) for entry in listed} == set(range(1, 60, 2))
