"""The threads of a database: one changes it, many changes a transaction; another reads.

All that is kept in one file, documents and rows, goes through one engine, and nobody else changes
the file: it belongs to one process, by the lock that `hold` looks at before each transaction. The
writing thread takes all changes that wait, and makes them in one `BEGIN IMMEDIATE` transaction,
each behind a savepoint of its own: a change that fails is undone alone, and its error goes to
whoever asked for it. Nobody hears of success before COMMIT returned, so what was answered survives
a crash; a crash before it undoes the whole batch, of which nobody was told anything. If the disk
fails, the whole batch fails. The reader has a connection of its own and sees only what is
committed. Queries run in these threads: they must not touch the event loop, and may be run again.
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
    Database,
    MemoryDatabase,
    is_damage,
    rollback,
    unavailable,
)

R = TypeVar("R")

Query = Callable[[sqlite3.Connection], object]
Settle = Callable[[object], None]

# What one change did wrong, and not the disk.
OF_ONE_CHANGE = (sqlite3.IntegrityError, sqlite3.ProgrammingError)


class ConnectionSource(Protocol):
    """Where a connection comes from."""

    def connection(self, *, make: bool = True) -> sqlite3.Connection:
        """Return the connection; without `make`, that of an empty database if there is no file."""

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
    """Asks and changes a database; a change that fails undoes itself, and nothing beside it."""

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
        """Return what a query finds among what is durable."""
        if self._reading is None:
            return await self.mend(query)
        return cast(R, await self._reader.submit(query, _ignore))

    async def change(self, query: Callable[[sqlite3.Connection], R], settle: Settle = _ignore) -> R:
        """Have a change made, making the file if there is none; it is durable on return.

        `settle` is given the outcome even if nobody waits for it any more.
        """
        return cast(R, await self._writer.submit(_Change(query, makes=True), settle))

    async def mend(self, query: Callable[[sqlite3.Connection], R], settle: Settle = _ignore) -> R:
        """Have a change made of what is there already; where nothing is, no file is made."""
        return cast(R, await self._writer.submit(_Change(query, makes=False), settle))

    def examine(self) -> None:
        """Look at the start whether the file is whole; raises if it is of a newer schema."""
        if self._damage is not None:
            self._damage.examine()

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
        """Say to so many what is wrong; a damaged file is opened anew when it was put right."""
        if self._damage is not None and is_damage(error):
            self._damage.note(error)
            with suppress(sqlite3.Error):
                base.close()
        return [error for _ in range(count)]


def file_engine(path: Path, hold: Callable[[], None], marker: Path | None = None) -> Engine:
    """Return the engine of a file; it is opened when it is first used, and made by a change.

    With a marker beside it, a file without content is known to have had some.
    """
    opened = partial(Database, path, marker=marker)
    return Engine(opened(), opened(read_only=True), hold, DamageCheck(path, opened))


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
