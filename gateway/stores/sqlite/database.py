"""An SQLite file: how it is opened and migrated, and what its errors mean.

`FileDatabase` opens the file at its path, and opens it again when it was replaced or removed, since
SQLite would go on writing into a file that nobody can find any more. The file is not made before
the first write: until then an empty database in memory answers. `DamageCheck` remembers that a file
is damaged until somebody replaces it: nothing is written to such a file, so that no more is lost.
With `synchronous = FULL` in WAL mode a transaction is durable when COMMIT returns, and a crash
before that leaves all of it or nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gateway.stores import disk
from gateway.stores.disk import Signature, peek
from gateway.stores.documents import StoreUnavailable
from gateway.stores.sqlite.schema import MIGRATIONS as MIGRATIONS

BUSY_MS = 5000
BUSY_LOOK_SECONDS = 0.005

REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "the database is read-only",
    "SQLITE_IOERR": "the disk reports an input/output error",
    "SQLITE_BUSY": "the database is busy",
    "SQLITE_CANTOPEN": "the database cannot be opened",
    "SQLITE_CORRUPT": "the database is damaged",
    "SQLITE_NOTADB": "the file is not a database",
}


DAMAGE_CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# A larger database is not checked completely: that would take seconds.
LARGEST_EXAMINED = 64 * 1024 * 1024
WHOLE = "ok"


class NotWhole(sqlite3.DatabaseError):
    """A file that SQLite accepts as a database, although something of it is missing."""


EMPTIED = "the database file is empty, but it had content before"


def unavailable(error: sqlite3.Error | OSError) -> StoreUnavailable:
    """Return an error that says why state is unavailable, without naming paths."""
    if isinstance(error, OSError):
        return disk.unavailable(error)
    if isinstance(error, NotWhole):
        return _unavailable(str(error), error)
    # Only errors of the library itself carry a code, and codes of one family share their first
    # two words: SQLITE_IOERR_FSYNC.
    code = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
    reason = REASONS.get(code, "the database reports an error")
    return _unavailable(reason, error)


def _unavailable(reason: str, error: sqlite3.Error) -> StoreUnavailable:
    failure = StoreUnavailable(f"The session's state is unavailable: {reason}.")
    failure.__cause__ = error
    return failure


class MemoryDatabase:
    """A database in memory, empty at first."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None

    def connection(self, *, make: bool = True) -> sqlite3.Connection:
        """Return the connection."""
        if self._connection is None:
            self._connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False
            )
            migrate(self._connection, MIGRATIONS)
        return self._connection

    def close(self) -> None:
        """Forget everything."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class FileDatabase:
    """A connection to the file at a path; used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        migrations: tuple[tuple[str, ...], ...] = MIGRATIONS,
        *,
        read_only: bool = False,
        marker: Path | None = None,
    ) -> None:
        """Open nothing yet; the marker file is written when the database is first opened."""
        self._path = path
        self._marker = marker
        self._migrations = migrations
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        self._nothing = MemoryDatabase()
        self._file: tuple[int, int] | None = None

    def connection(self, *, make: bool = True) -> sqlite3.Connection:
        """Return the connection; a file that was replaced or removed is opened again.

        Without `make`, an empty database in memory replaces a file that does not exist.
        """
        if self._connection is not None and self._identify() == self._file:
            return self._connection
        self._close_file()
        self._refuse_emptied()
        if not make and self._is_nothing():
            return self._nothing.connection()
        self._connection = self._open()
        self._nothing.close()
        return self._connection

    def close(self) -> None:
        """Close the connection, and what replaces a file that does not exist."""
        self._close_file()
        self._nothing.close()

    def _close_file(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _identify(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        # A file that was emptied is not the file that was opened.
        return status.st_dev, status.st_ino if status.st_size else 0

    def _refuse_emptied(self) -> None:
        """Raise `NotWhole` if the file is empty but the marker says that it had content."""
        if self._marker is None or not self._marker.exists():
            return
        with suppress(FileNotFoundError):
            if self._path.stat().st_size == 0:
                raise NotWhole(EMPTIED)

    def _mark(self) -> None:
        # If the disk is full, it is written the next time.
        if self._marker is not None and not self._marker.exists():
            content = json.dumps({"version": 1, "rows": self._path.name})
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                with os.fdopen(os.open(self._marker, flags, 0o600), "w") as file:
                    file.write(f"{content}\n")

    def _is_nothing(self) -> bool:
        # A missing directory is an error; a missing file only means that nothing was stored yet.
        self._path.parent.stat()
        try:
            # A file whose creation has not finished is empty.
            return self._path.stat().st_size == 0
        except FileNotFoundError:
            return True

    def _open(self) -> sqlite3.Connection:
        if self._marker is not None and self._identify() is None:
            # The marker of a removed file does not apply to the new one.
            self._marker.unlink(missing_ok=True)
        # Created here for its mode; SQLite uses the same mode for the files beside it.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._file = self._identify()
        connection = sqlite3.connect(
            self._path, timeout=BUSY_MS / 1000, isolation_level=None, check_same_thread=False
        )
        try:
            _check_version(connection, self._migrations)
            _to_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            migrate(connection, self._migrations)
            connection.execute(f"PRAGMA query_only = {int(self._read_only)}")
            self._mark()
            self._file = self._identify()
        except BaseException:
            connection.close()
            raise
        return connection


def _to_wal(connection: sqlite3.Connection) -> None:
    # Another process may do the same now, and SQLite does not wait for that by itself.
    patience = time.monotonic() + BUSY_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > patience:
                raise
            time.sleep(BUSY_LOOK_SECONDS)
        else:
            return


def prove(path: Path) -> None:
    """Open a file once, and create it if needed, to report at the start what is wrong with it."""
    database = FileDatabase(path)
    try:
        database.connection()
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(f'The database "{path}" cannot be used: {error}.') from error
    finally:
        database.close()


def migrate(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> None:
    """Migrate the schema to the newest version, one process at a time; refuse a newer one."""
    if _check_version(connection, migrations) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated it meanwhile.
        version = _check_version(connection, migrations)
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise


def rollback(connection: sqlite3.Connection) -> None:
    """Roll back the transaction, unless the error has ended it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def _check_version(connection: sqlite3.Connection, migrations: tuple[tuple[str, ...], ...]) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrations):
        raise StoreUnavailable(
            f"The database was made by a newer Holdgate (schema {version}, "
            f"known up to {len(migrations)}); it is left as it is."
        )
    return version


def is_damage(error: BaseException | None) -> bool:
    """Whether an error says that a database file is damaged."""
    if isinstance(error, StoreUnavailable):
        error = error.__cause__
    code = getattr(error, "sqlite_errorname", "")
    return isinstance(error, NotWhole) or code.startswith(DAMAGE_CODES)


class DamageCheck:
    """Remembers that a file is damaged until somebody repairs or replaces it.

    Nothing is written to such a file, so that no more is lost.
    """

    def __init__(self, path: Path, open_database: Callable[[], FileDatabase]) -> None:
        self._path = path
        self._open = open_database
        self._trouble: StoreUnavailable | None = None
        self._seen: Signature | None = None

    def __repr__(self) -> str:
        return f"<DamageCheck {self._trouble.message if self._trouble else 'none'}>"

    def refuse(self) -> None:
        """Raise `StoreUnavailable` while the file is damaged; a changed file is checked again."""
        if self._trouble is not None and peek(str(self._path)) != self._seen:
            self.examine()
        if self._trouble is not None:
            raise self._trouble

    def note(self, error: object) -> None:
        """Remember an error, if it says that the file is damaged."""
        if isinstance(error, StoreUnavailable) and is_damage(error):
            self._trouble, self._seen = error, peek(str(self._path))

    def examine(self) -> None:
        """Check the file; one that only cannot be opened now does not count as damaged."""
        self._trouble = None
        database = self._open()
        try:
            if self._path.exists():
                _read_whole(database.connection(), self._path.stat().st_size)
        except (sqlite3.Error, OSError) as error:
            self.note(unavailable(error))
        finally:
            database.close()


def _read_whole(connection: sqlite3.Connection, size: int) -> None:
    if size > LARGEST_EXAMINED:
        return
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != WHOLE:
        raise NotWhole("the database is damaged")
