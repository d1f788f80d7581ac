"""Documents in one SQLite file: one thread writes, many changes a transaction; another reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from anyio.to_thread import run_sync

from gateway.stores.base import (
    LOCAL_OWNER,
    Conflict,
    Draft,
    InUse,
    Key,
    Listed,
    Stored,
    StoreUnavailable,
)
from gateway.stores.database import SHARED_SINCE, Database, rollback, unavailable
from gateway.stores.disk import make_directory
from gateway.stores.lock import Lock, lost
from gateway.stores.waiting import Turns, Unsubscribe, Watchers
from gateway.stores.worker import Worker

R = TypeVar("R")

Query = Callable[[sqlite3.Connection], object]
Reported = Callable[[str, str], None]

READ = "SELECT document, revision FROM documents WHERE kind = ? AND owner = ? AND session = ?"
REVISION = "SELECT revision FROM documents WHERE kind = ? AND owner = ? AND session = ?"
WRITE = """INSERT OR REPLACE INTO documents (kind, owner, session, due_ms, updated_ms, document)
    VALUES (?, ?, ?, ?, ?, ?)"""
DELETE = "DELETE FROM documents WHERE kind = ? AND owner = ? AND session = ?"
SET_ASIDE = """INSERT INTO corrupt_documents (kind, owner, session, at_ms, reason, document)
    VALUES (?, ?, ?, ?, ?, ?)"""
DUE = """SELECT kind, owner, session FROM documents
    WHERE kind = ? AND due_ms < ? ORDER BY due_ms, owner, session LIMIT ?"""
NEWEST = """SELECT updated_ms, session FROM documents
    WHERE kind = ? AND owner = ? ORDER BY updated_ms DESC, session DESC LIMIT ?"""
NEXT = """SELECT updated_ms, session FROM documents
    WHERE kind = ? AND owner = ? AND (updated_ms, session) < (?, ?)
    ORDER BY updated_ms DESC, session DESC LIMIT ?"""


async def open_sqlite(path: Path, now_ms: Callable[[], int], on_quarantine: Reported) -> Sqlite:
    """Open a database file, making it if there is none; raise `InUse` if it cannot be shared."""
    lock = await run_sync(_prepare, path)
    return Sqlite(path, lock, now_ms, on_quarantine)


def _prepare(path: Path) -> Lock:
    shared = sqlite3.sqlite_version_info >= SHARED_SINCE
    lock = Lock(path.with_name(f"{path.name}.lock"), f'The database "{path}"', shared=shared)
    database = Database(path)
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        make_directory(path.parent)
        lock.hold()
        database.connection()
    except (sqlite3.Error, OSError) as error:
        lock.release()
        raise StoreUnavailable(f'The database "{path}" cannot be used: {error}.') from error
    except BaseException:
        lock.release()
        raise
    finally:
        database.close()
    return lock


class Sqlite:
    """A store of one host; of one process, where SQLite is too old to be shared."""

    def __init__(
        self, path: Path, lock: Lock, now_ms: Callable[[], int], on_quarantine: Reported
    ) -> None:
        self.now_ms = now_ms
        self.turns = Turns()
        self._path = path
        self._lock = lock
        self._on_quarantine = on_quarantine
        self._watchers = Watchers()
        self._write_base = Database(path)
        self._read_base = Database(path)
        self._writer: Worker[Query, object] = Worker("holdgate-sqlite-write", self._commit)
        self._reader: Worker[Query, object] = Worker("holdgate-sqlite-read", self._look)

    def __repr__(self) -> str:
        return f"<Sqlite {self._path}>"

    def absent(self, key: Key) -> bool:
        """Tell nothing: another process may have written it."""
        return False

    async def read(self, key: Key) -> Stored | None:
        """Return the document, or None if there is none."""
        return await self._asked(partial(_read, key))

    async def write(self, key: Key, draft: Draft, revision: int) -> int:
        """Replace the document of this revision; return the new one."""
        return await self._changed(key, partial(_write, key, draft, revision))

    async def delete(self, key: Key, revision: int | None = None) -> None:
        """Remove the document."""
        await self._changed(key, partial(_delete, key, revision))

    async def set_aside(self, key: Key, revision: int, reason: str) -> None:
        """Move a corrupt document to the table of such, if it still has this revision."""
        query = partial(_set_aside, key, revision, reason, self.now_ms())
        if await self._changed(key, query):
            self._on_quarantine("/".join(key), reason)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[Key]:
        """Return the keys that have something due before a time, the earliest first."""
        return await self._asked(partial(_due, kind, before_ms, limit))

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        return await self._asked(partial(_listing, kind, owner, after, limit))

    def watch(self, key: Key, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called after each change of this key by this process."""
        return self._watchers.watch(key, callback)

    async def check(self) -> None:
        """See whether the database answers."""
        await self.read(Key("session", LOCAL_OWNER, "check"))

    async def aclose(self) -> None:
        """Write what was submitted, end the threads, and close the file."""
        await self._reader.aclose()
        await self._writer.aclose()
        self._read_base.close()
        self._write_base.close()
        self._lock.release()

    async def _asked(self, query: Callable[[sqlite3.Connection], R]) -> R:
        return cast(R, await self._reader.submit(query, _nothing))

    async def _changed(self, key: Key, query: Callable[[sqlite3.Connection], R]) -> R:
        def settle(outcome: object) -> None:
            if outcome and not isinstance(outcome, Exception):
                self._watchers.changed(key)

        return cast(R, await self._writer.submit(query, settle))

    def _look(self, batch: list[Query]) -> list[object]:
        try:
            connection = self._read_base.connection()
        except (sqlite3.Error, OSError) as error:
            return [unavailable(error) for _ in batch]
        return [_attempt(query, connection) for query in batch]

    def _commit(self, batch: list[Query]) -> list[object]:
        try:
            self._lock.hold()
            connection = self._write_base.connection()
            return _transaction(batch, connection)
        except (sqlite3.Error, OSError) as error:
            return [unavailable(error) for _ in batch]
        except InUse:
            return [lost() for _ in batch]


def _transaction(batch: list[Query], connection: sqlite3.Connection) -> list[object]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [_judge(query, connection) for query in batch]
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise
    return outcomes


def _judge(query: Query, connection: sqlite3.Connection) -> object:
    # A conflict changed nothing, so the others of the transaction can go on.
    try:
        return query(connection)
    except Conflict as conflict:
        return conflict


def _attempt(query: Query, connection: sqlite3.Connection) -> object:
    try:
        return query(connection)
    except sqlite3.Error as error:
        return unavailable(error)


def _read(key: Key, connection: sqlite3.Connection) -> Stored | None:
    row = connection.execute(READ, key).fetchone()
    return None if row is None else Stored(*row)


def _write(key: Key, draft: Draft, revision: int, connection: sqlite3.Connection) -> int:
    _expect(key, revision, connection)
    row = (*key, draft.due_ms, draft.updated_ms, draft.document)
    return connection.execute(WRITE, row).lastrowid or 0


def _delete(key: Key, revision: int | None, connection: sqlite3.Connection) -> bool:
    if revision is not None:
        _expect(key, revision, connection)
    return connection.execute(DELETE, key).rowcount > 0


def _set_aside(
    key: Key, revision: int, reason: str, at_ms: int, connection: sqlite3.Connection
) -> bool:
    stored = _read(key, connection)
    if stored is None or stored.revision != revision:
        return False
    connection.execute(SET_ASIDE, (*key, at_ms, reason, stored.document))
    return _delete(key, None, connection)


def _expect(key: Key, revision: int, connection: sqlite3.Connection) -> None:
    row = connection.execute(REVISION, key).fetchone()
    if (row[0] if row else 0) != revision:
        raise Conflict("The document was changed by somebody else.")


def _due(kind: str, before_ms: int, limit: int, connection: sqlite3.Connection) -> list[Key]:
    return [Key(*row) for row in connection.execute(DUE, (kind, before_ms, limit))]


def _listing(
    kind: str, owner: str, after: Listed | None, limit: int, connection: sqlite3.Connection
) -> list[Listed]:
    if after is None:
        rows = connection.execute(NEWEST, (kind, owner, limit))
    else:
        rows = connection.execute(NEXT, (kind, owner, *after, limit))
    return [Listed(*row) for row in rows]


def _nothing(_: object) -> None:
    pass
