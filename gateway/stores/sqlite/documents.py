"""Documents in one SQLite file, which also contains rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from anyio.to_thread import run_sync

from gateway.stores.chores import Chores, LoneChores
from gateway.stores.disk import DIRECTORY_LOCK, ROWS_FILE, ProcessLock, WriteProbe, make_directory
from gateway.stores.documents import (
    LOCAL_OWNER,
    Conflict,
    DocumentKey,
    Listed,
    OnQuarantine,
    SealedDocument,
    Stored,
    StoreUnavailable,
)
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import SessionHints
from gateway.stores.instance import Instance, LoneInstance
from gateway.stores.sqlite.database import prove
from gateway.stores.sqlite.engine import file_engine
from gateway.stores.waiting import KeyLocks, Unsubscribe, Watchers

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
UPDATED = "SELECT updated_ms FROM documents WHERE kind = ? AND owner = ? AND session = ?"
OWNERS = "SELECT DISTINCT owner FROM documents WHERE kind = ?"


async def open_sqlite(
    path: Path,
    now_ms: Callable[[], int],
    on_quarantine: OnQuarantine,
    *,
    shared: bool = False,
) -> Sqlite:
    """Open a database file, and create it if needed; raise `InUse` if another process uses it.

    Reminders, holds and queues are partly in memory, so a second process would deliver them again.
    """
    # The same lock, even if the file is named by a link.
    path = await run_sync(path.resolve)
    lock = ProcessLock(_lock_path(path), f'The database "{path}"', shared=shared)
    await run_sync(_prepare, path, lock)
    return Sqlite(path, lock, now_ms, on_quarantine)


def _lock_path(path: Path) -> Path:
    """Return the lock file of a database; for the rows of a session directory, the directory's."""
    if path.name == ROWS_FILE:
        return path.with_name(DIRECTORY_LOCK)
    return path.with_name(f"{path.name}.lock")


def _prepare(path: Path, lock: ProcessLock) -> None:
    try:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        make_directory(path.parent)
        lock.hold()
        prove(path)
    except OSError as error:
        lock.release()
        raise StoreUnavailable(f'The database "{path}" cannot be used: {error}.') from error
    except BaseException:
        lock.release()
        raise


class Sqlite:
    """A store of documents in one SQLite file; one process owns it."""

    def __init__(
        self, path: Path, lock: ProcessLock, now_ms: Callable[[], int], on_quarantine: OnQuarantine
    ) -> None:
        self.now_ms = now_ms
        self.key_locks = KeyLocks()
        self.hints = SessionHints()
        self.instance: Instance = LoneInstance(now_ms)
        self.chores: Chores = LoneChores()
        self.announcements = None
        self.entries: SessionEntries | None = None
        self.engine = file_engine(path, lock.hold)
        self._path = path
        self._lock = lock
        self._on_quarantine = on_quarantine
        self._watchers = Watchers()
        self._probe = WriteProbe(path.parent)

    def __repr__(self) -> str:
        return f"<Sqlite {self._path}>"

    @property
    def shared(self) -> bool:
        """Whether other processes may use the file too; only tests allow that."""
        return self._lock.shared

    def absent(self, key: DocumentKey) -> bool:
        """Return False: another process may have written it."""
        return False

    def recall(self, key: DocumentKey) -> Stored | None:
        """Return None: reading is as quick."""
        return None

    async def read(self, key: DocumentKey) -> Stored | None:
        """Return the document, or None if there is none."""
        return await self.engine.ask(partial(_read, key))

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        """Replace the document of this revision; return the new one."""
        query = partial(_write, key, draft, revision)
        return await self.engine.change(query, partial(self._notify, key))

    async def delete(self, key: DocumentKey, revision: int | None = None) -> None:
        """Remove the document."""
        await self.engine.mend(partial(_delete, key, revision), partial(self._notify, key))

    async def set_aside(self, key: DocumentKey, revision: int, reason: str) -> None:
        """Move a corrupt document to its own table, if it still has this revision."""
        query = partial(_set_aside, key, revision, reason, self.now_ms())
        if await self.engine.mend(query, partial(self._notify, key)):
            self._on_quarantine("/".join(key), reason)

    async def due(self, kind: str, before_ms: int, limit: int) -> list[DocumentKey]:
        """Return the keys that have something due before a time, the earliest first."""
        return await self.engine.ask(partial(_due, kind, before_ms, limit))

    async def listing(
        self, kind: str, owner: str, after: Listed | None, limit: int
    ) -> list[Listed]:
        """Return a page of an owner's sessions, the one written last first."""
        return await self.engine.ask(partial(_listing, kind, owner, after, limit))

    async def find_updated(self, kind: str, owner: str, sessions: Sequence[str]) -> dict[str, int]:
        """Return when the documents of these sessions were written."""
        return await self.engine.ask(partial(_find_updated, kind, owner, sessions))

    async def list_owners(self, kind: str) -> list[str]:
        """Return the owners of all documents of a kind."""
        return await self.engine.ask(partial(_list_owners, kind))

    def watch(self, key: DocumentKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of this key by this process."""
        return self._watchers.watch(key, callback)

    async def check(self) -> None:
        """Check that the database answers and its disk is writable."""
        await self.read(DocumentKey("session", LOCAL_OWNER, "check"))
        await self._probe.check()

    async def aclose(self) -> None:
        """Write what was submitted, end the threads, and unlock the file."""
        await self.engine.aclose()
        self._lock.release()

    def _notify(self, key: DocumentKey, outcome: object) -> None:
        if outcome and not isinstance(outcome, Exception):
            self._watchers.notify(key)


def _read(key: DocumentKey, connection: sqlite3.Connection) -> Stored | None:
    row = connection.execute(READ, key).fetchone()
    return None if row is None else Stored(*row)


def _write(
    key: DocumentKey, draft: SealedDocument, revision: int, connection: sqlite3.Connection
) -> int:
    _expect(key, revision, connection)
    row = (*key, draft.due_ms, draft.updated_ms, draft.document)
    return connection.execute(WRITE, row).lastrowid or 0


def _delete(key: DocumentKey, revision: int | None, connection: sqlite3.Connection) -> bool:
    if revision is not None:
        _expect(key, revision, connection)
    return connection.execute(DELETE, key).rowcount > 0


def _set_aside(
    key: DocumentKey, revision: int, reason: str, at_ms: int, connection: sqlite3.Connection
) -> bool:
    stored = _read(key, connection)
    if stored is None or stored.revision != revision:
        return False
    connection.execute(SET_ASIDE, (*key, at_ms, reason, stored.document))
    return _delete(key, None, connection)


def _expect(key: DocumentKey, revision: int, connection: sqlite3.Connection) -> None:
    row = connection.execute(REVISION, key).fetchone()
    if (row[0] if row else 0) != revision:
        raise Conflict("The document was changed by somebody else.")


def _due(
    kind: str, before_ms: int, limit: int, connection: sqlite3.Connection
) -> list[DocumentKey]:
    return [DocumentKey(*row) for row in connection.execute(DUE, (kind, before_ms, limit))]


def _listing(
    kind: str, owner: str, after: Listed | None, limit: int, connection: sqlite3.Connection
) -> list[Listed]:
    if after is None:
        rows = connection.execute(NEWEST, (kind, owner, limit))
    else:
        rows = connection.execute(NEXT, (kind, owner, *after, limit))
    return [Listed(*row) for row in rows]


def _find_updated(
    kind: str, owner: str, sessions: Sequence[str], connection: sqlite3.Connection
) -> dict[str, int]:
    # One after another: a list of names as JSON would end each at its first zero byte.
    rows = {one: connection.execute(UPDATED, (kind, owner, one)).fetchone() for one in sessions}
    return {session: row[0] for session, row in rows.items() if row is not None}


def _list_owners(kind: str, connection: sqlite3.Connection) -> list[str]:
    return [owner for (owner,) in connection.execute(OWNERS, (kind,))]
