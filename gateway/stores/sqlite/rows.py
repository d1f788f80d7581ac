"""A store of rows on SQLite: the embedded one, the one beside documents, the one in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anyio.to_thread import run_sync

from gateway.stores.disk import ROWS_FILE, ROWS_MARKER, ProcessLock
from gateway.stores.documents import OnQuarantine
from gateway.stores.rows import ConversationRows, DeliveryRows, JobRows, LockRows
from gateway.stores.sqlite.conversations import MemoryLocks, SqliteConversations, SqliteLocks
from gateway.stores.sqlite.deliveries import SqliteDeliveries
from gateway.stores.sqlite.documents import Sqlite
from gateway.stores.sqlite.engine import Engine, file_engine, memory_engine
from gateway.stores.sqlite.jobs import SqliteJobs


@dataclass(frozen=True, slots=True)
class RowServices:
    """What rows need to know: the gateway's time, the host's, and who hears of corrupt ones."""

    now_ms: Callable[[], int]
    lease_ms: Callable[[], int]
    on_quarantine: OnQuarantine


class SqliteRows:
    """The `Rows` of a database, whose engine it closes if it is its own."""

    def __init__(
        self, engine: Engine, services: RowServices, *, shares: Sqlite | None = None
    ) -> None:
        self.jobs: JobRows = SqliteJobs(engine, services.now_ms, services.on_quarantine)
        self.conversations: ConversationRows = SqliteConversations(engine, services.now_ms)
        self.deliveries: DeliveryRows = SqliteDeliveries(engine, services.now_ms)
        # Where no other process can be, a lock is not worth a write, and none outlives its holder.
        self.locks: LockRows = (
            SqliteLocks(engine, services.lease_ms)
            if shares is not None and shares.shared
            else MemoryLocks(services.lease_ms)
        )
        self._engine = engine
        self._is_own = shares is None

    async def check(self) -> None:
        """See whether the database answers."""
        await self._engine.ask(_look)

    async def aclose(self) -> None:
        """Write what was submitted, and close the file unless documents are kept in it too."""
        if self._is_own:
            await self._engine.aclose()


def _look(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone()


async def open_embedded_rows(root: Path, lock: ProcessLock, services: RowServices) -> SqliteRows:
    """Keep rows in a file below a directory that is locked; it is made when it is needed."""
    engine = file_engine(root / ROWS_FILE, lock.hold, root / ROWS_MARKER)
    # One that is damaged is told of by whoever asks for what is in it; all else goes on.
    await run_sync(engine.examine)
    return SqliteRows(engine, services)


def open_shared_rows(documents: Sqlite, services: RowServices) -> SqliteRows:
    """Keep rows in the file in which documents are kept."""
    return SqliteRows(documents.engine, services, shares=documents)


def open_memory_rows(services: RowServices) -> SqliteRows:
    """Keep rows for as long as the process lives."""
    return SqliteRows(memory_engine(), services)
