"""An SQLite file: how it is opened, brought to the newest schema, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from gateway.stores import disk
from gateway.stores.base import StoreUnavailable

BUSY_MS = 5000
# Before this one, two processes that write and check-point at once can lose a commit.
SHARED_SINCE = (3, 51, 3)

# One entry a schema version, each a list of statements. What is published is never changed.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # The row number is the revision: AUTOINCREMENT never gives one twice, not even after a
        # deletion.
        """CREATE TABLE documents (
            revision INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL,
            owner TEXT NOT NULL,
            session TEXT NOT NULL,
            due_ms INTEGER,
            updated_ms INTEGER NOT NULL,
            document BLOB NOT NULL,
            UNIQUE (kind, owner, session)
        )""",
        "CREATE INDEX documents_due ON documents (kind, due_ms) WHERE due_ms IS NOT NULL",
        "CREATE INDEX documents_newest ON documents (kind, owner, updated_ms, session)",
        """CREATE TABLE corrupt_documents (
            kind TEXT NOT NULL,
            owner TEXT NOT NULL,
            session TEXT NOT NULL,
            at_ms INTEGER NOT NULL,
            reason TEXT NOT NULL,
            document BLOB NOT NULL
        )""",
    ),
)

REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the database is read-only",
    "SQLITE_IOERR": "the disk reports an input/output error",
    "SQLITE_BUSY": "the database is busy",
    "SQLITE_CANTOPEN": "the database cannot be opened",
    "SQLITE_CORRUPT": "the database is damaged",
    "SQLITE_NOTADB": "the file is not a database",
}


def unavailable(error: sqlite3.Error | OSError) -> StoreUnavailable:
    """Say in a sentence why state is unavailable, without naming paths."""
    if isinstance(error, OSError):
        return disk.unavailable(error)
    # Only errors of the library itself carry a code, and codes of one family share their first
    # two words: SQLITE_IOERR_FSYNC.
    code = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    reason = REASONS.get(code, "the database reports an error")
    failure = StoreUnavailable(f"The session's state is unavailable: {reason}.")
    failure.__cause__ = error
    return failure


class Database:
    """A connection to the file that is now in its place; used by one thread at a time."""

    def __init__(self, path: Path, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS) -> None:
        self._path = path
        self._migrations = migrations
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)

    def connection(self) -> sqlite3.Connection:
        """Return the connection; a file that was replaced or removed is opened anew.

        SQLite would go on writing into a file that nobody can find any more.
        """
        if self._connection is None or self._found() != self._file:
            self.close()
            self._connection = self._open()
        return self._connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _found(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return 0, 0
        return status.st_dev, status.st_ino

    def _open(self) -> sqlite3.Connection:
        # Made by us first, for its mode; SQLite gives the same to the files beside it.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = self._found()
        connection = sqlite3.connect(
            self._path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            _known(connection, self._migrations)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection, self._migrations)
        except BaseException:
            connection.close()
            raise
        return connection


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> None:
    """Bring the schema to the newest version, one process at a time; refuse a newer one."""
    if _known(connection, migrations) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been quicker.
        version = _known(connection, migrations)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise


def rollback(connection: sqlite3.Connection) -> None:
    """End a transaction without effect, unless the error that led here did."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _known(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise StoreUnavailable(
            f"The database was made by a newer Holdgate (schema {version}, "
            f"known up to {len(migrations)}); it is left as it is."
        )
    return version
