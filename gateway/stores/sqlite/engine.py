"""The threads of a database: one writes, with many changes in a transaction; another reads.

All documents and rows of one file go through one engine. Nothing else changes the file: it belongs
to one process, by the lock that `hold` checks before each transaction. The writing thread takes all
waiting changes and makes them in one `BEGIN IMMEDIATE` transaction, each behind its own savepoint:
a change that fails is undone alone, and its caller gets the error. No caller is told of success
before COMMIT returned, so acknowledged changes survive a crash; a crash before it undoes the whole
batch, and no caller was told anything. If the disk fails, the whole batch fails. The reader has its
own connection and sees only committed data. Queries run in these threads: they must not touch the
event loop, and may be run again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast

from gateway.stores.disk import other_owner
from gateway.stores.documents import InUse, StoreUnavailable
from gateway.stores.group_commit import BatchWorker
from gateway.stores.sqlite.database import (
    DamageCheck,
    FileDatabase,
    MemoryDatabase,
    is_damage,
    rollback,
    unavailable,
)

R = TypeVar("R")

Query = Callable[[sqlite3.Connection], object]
Settle = Callable[[object], None]

# Errors of one change, not of the disk.
OF_ONE_CHANGE = (sqlite3.IntegrityError, sqlite3.ProgrammingError)


class ConnectionSource(Protocol):
    """Provides a connection."""

    def connection(self, *, make: bool = True) -> sqlite3.Connection:
        """Return the connection; without `make`, to an empty database if there is no file."""

    def close(self) -> None:
        """Close the connection."""


class _Change(NamedTuple):
    query: Query
    makes: bool


def _ignore(_: object) -> None:
    pass


def _hold_nothing() -> None:
    pass


class Engine:
    """Reads and changes a database; a change that fails is undone alone."""

    def __init__(
        self,
        writing: ConnectionSource,
        reading: ConnectionSource | None = None,
        hold: Callable[[], None] = _hold_nothing,
        damage: DamageCheck | None = None,
    ) -> None:
        self._damage = damage
        self._writing = writing
        self._reading = reading
        self._hold = hold
        self._writer: BatchWorker[_Change, object] = BatchWorker(
            "holdgate-sqlite-write", self._commit
        )
        self._reader: BatchWorker[Query, object] = BatchWorker("holdgate-sqlite-read", self._look)

    async def ask(self, query: Callable[[sqlite3.Connection], R]) -> R:
        """Run a query on committed data, and return its result."""
        if self._reading is None:
            return await self.mend(query)
        return cast(R, await self._reader.submit(query, _ignore))

    async def change(self, query: Callable[[sqlite3.Connection], R], settle: Settle = _ignore) -> R:
        """Make a change, and create the file if needed; it is durable on return.

        `settle` gets the outcome even if the caller was cancelled.
        """
        return cast(R, await self._writer.submit(_Change(query, makes=True), settle))

    async def mend(self, query: Callable[[sqlite3.Connection], R], settle: Settle = _ignore) -> R:
        """Change only what exists; if there is no file, none is created."""
        return cast(R, await self._writer.submit(_Change(query, makes=False), settle))

    def examine(self) -> None:
        """Check at the start whether the file is damaged; raise if its schema is newer."""
        if self._damage is not None:
            self._damage.examine()

    async def aclose(self) -> None:
        """Write what was submitted, end the threads, and close the file."""
        await self._reader.aclose()
        await self._writer.aclose()
        for base in (self._reading, self._writing):
            if base is not None:
                base.close()

    def _look(self, batch: list[Query]) -> list[object]:
        assert self._reading is not None
        try:
            self._refuse_damaged()
            connection = self._reading.connection(make=False)
        except (sqlite3.Error, OSError) as error:
            return self._fail_all(unavailable(error), self._reading, len(batch))
        except StoreUnavailable as error:
            return [error for _ in batch]
        found = [_attempt(query, connection) for query in batch]
        for outcome in found:
            if isinstance(outcome, StoreUnavailable):
                self._fail_all(outcome, self._reading, 0)
        return found

    def _commit(self, batch: list[_Change]) -> list[object]:
        try:
            self._refuse_damaged()
            self._hold()
            connection = self._writing.connection(make=any(change.makes for change in batch))
            return _transaction(batch, connection)
        except (sqlite3.Error, OSError) as error:
            return self._fail_all(unavailable(error), self._writing, len(batch))
        except InUse:
            return [other_owner() for _ in batch]
        except StoreUnavailable as error:
            return [error for _ in batch]

    def _refuse_damaged(self) -> None:
        if self._damage is not None:
            self._damage.refuse()

    def _fail_all(
        self, error: StoreUnavailable, base: ConnectionSource, count: int
    ) -> list[object]:
        """Return the error `count` times; close a damaged file, to open it again later."""
        if self._damage is not None and is_damage(error):
            self._damage.note(error)
            with suppress(sqlite3.Error):
                base.close()
        return [error for _ in range(count)]


def file_engine(path: Path, hold: Callable[[], None], marker: Path | None = None) -> Engine:
    """Return the engine of a file; the file is opened at first use, and created by `change`.

    By the marker file, an empty file is known to have had content.
    """
    opened = partial(FileDatabase, path, marker=marker)
    return Engine(opened(), opened(read_only=True), hold, DamageCheck(path, opened))


def memory_engine() -> Engine:
    """Return an engine with a database in memory."""
    return Engine(MemoryDatabase())


def _transaction(batch: list[_Change], connection: sqlite3.Connection) -> list[object]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        outcomes = [_judge(change.query, connection) for change in batch]
        connection.execute("COMMIT")
    except BaseException:
        rollback(connection)
        raise
    return outcomes


def _judge(query: Query, connection: sqlite3.Connection) -> object:
    connection.execute("SAVEPOINT change")
    try:
        outcome = query(connection)
    except sqlite3.Error as error:
        if not isinstance(error, OF_ONE_CHANGE):
            raise
        outcome = _undo(unavailable(error), connection)
    except Exception as error:  # noqa: BLE001 - whoever asked for this change hears of it
        outcome = _undo(error, connection)
    connection.execute("RELEASE change")
    return outcome


def _undo(error: Exception, connection: sqlite3.Connection) -> Exception:
    connection.execute("ROLLBACK TO change")
    return error


def _attempt(query: Query, connection: sqlite3.Connection) -> object:
    try:
        return query(connection)
    except sqlite3.Error as error:
        return unavailable(error)
    except Exception as error:  # noqa: BLE001 - whoever asked hears of it, and nobody else
        return error
