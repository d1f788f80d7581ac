"""The threads of a database: one changes it, many changes a transaction; another reads.

Nobody else changes the file: it belongs to one process, whatever the version of SQLite. All that
is kept in one file, documents and rows, goes through one engine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar, cast

from gateway.stores.base import InUse
from gateway.stores.database import Database, MemoryDatabase, rollback, unavailable
from gateway.stores.lock import lost
from gateway.stores.worker import Worker

R = TypeVar("R")

Query = Callable[[sqlite3.Connection], object]
Settle = Callable[[object], None]

# What one change did wrong, and not the disk.
OF_ONE_CHANGE = (sqlite3.IntegrityError, sqlite3.ProgrammingError)


class Base(Protocol):
    """Where a connection comes from."""

    def connection(self, *, make: bool = True) -> sqlite3.Connection:
        """Return the connection; without `make`, that of an empty database if there is no file."""

    def close(self) -> None:
        """Close the connection."""


class _Change(NamedTuple):
    query: Query
    makes: bool


def _settled(_: object) -> None:
    pass


def _held() -> None:
    pass


class Engine:
    """Asks and changes a database; a change that fails undoes itself, and nothing beside it."""

    def __init__(
        self, writing: Base, reading: Base | None = None, hold: Callable[[], None] = _held
    ) -> None:
        self._writing = writing
        self._reading = reading
        self._hold = hold
        self._writer: Worker[_Change, object] = Worker("holdgate-sqlite-write", self._commit)
        self._reader: Worker[Query, object] = Worker("holdgate-sqlite-read", self._look)

    async def ask(self, query: Callable[[sqlite3.Connection], R]) -> R:
        """Return what a query finds among what is durable."""
        if self._reading is None:
            return await self.mend(query)
        return cast(R, await self._reader.submit(query, _settled))

    async def change(
        self, query: Callable[[sqlite3.Connection], R], settle: Settle = _settled
    ) -> R:
        """Have a change made, making the file if there is none; it is durable on return.

        `settle` is given the outcome even if nobody waits for it any more.
        """
        return cast(R, await self._writer.submit(_Change(query, makes=True), settle))

    async def mend(self, query: Callable[[sqlite3.Connection], R], settle: Settle = _settled) -> R:
        """Have a change made of what is there already; where nothing is, no file is made."""
        return cast(R, await self._writer.submit(_Change(query, makes=False), settle))

    async def aclose(self) -> None:
        """Do what was submitted, end the threads, and close the file."""
        await self._reader.aclose()
        await self._writer.aclose()
        for base in (self._reading, self._writing):
            if base is not None:
                base.close()

    def _look(self, batch: list[Query]) -> list[object]:
        assert self._reading is not None
        try:
            connection = self._reading.connection(make=False)
        except (sqlite3.Error, OSError) as error:
            return [unavailable(error) for _ in batch]
        return [_attempt(query, connection) for query in batch]

    def _commit(self, batch: list[_Change]) -> list[object]:
        try:
            self._hold()
            connection = self._writing.connection(make=any(change.makes for change in batch))
            return _transaction(batch, connection)
        except (sqlite3.Error, OSError) as error:
            return [unavailable(error) for _ in batch]
        except InUse:
            return [lost() for _ in batch]


def file_engine(path: Path, hold: Callable[[], None]) -> Engine:
    """Return the engine of a file; it is opened when it is first used, and made by a change."""
    return Engine(Database(path), Database(path, read_only=True), hold)


def memory_engine() -> Engine:
    """Return an engine whose database is gone with it."""
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
        outcome = _undone(unavailable(error), connection)
    except Exception as error:  # noqa: BLE001 - whoever asked for this change hears of it
        outcome = _undone(error, connection)
    connection.execute("RELEASE change")
    return outcome


def _undone(error: Exception, connection: sqlite3.Connection) -> Exception:
    connection.execute("ROLLBACK TO change")
    return error


def _attempt(query: Query, connection: sqlite3.Connection) -> object:
    try:
        return query(connection)
    except sqlite3.Error as error:
        return unavailable(error)
    except Exception as error:  # noqa: BLE001 - whoever asked hears of it, and nobody else
        return error
