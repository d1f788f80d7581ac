"""Stores of rows on SQLite: in a session directory, beside documents, or in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from anyio.to_thread import run_sync

from gateway.stores.conversation_rows import ConversationRows, LockRows, TalkRows
from gateway.stores.delivery_rows import DeliveryRows, EventLogRows, PostRows
from gateway.stores.disk import ROWS_FILE, ROWS_MARKER, ProcessLock
from gateway.stores.documents import OnQuarantine
from gateway.stores.job_rows import JobRows
from gateway.stores.rows import UsageRows
from gateway.stores.shared_rows import SharedRows
from gateway.stores.sqlite.conversations import MemoryLocks, SqliteConversations, SqliteLocks
from gateway.stores.sqlite.deliveries import SqliteDeliveries
from gateway.stores.sqlite.documents import Sqlite
from gateway.stores.sqlite.engine import Engine, file_engine, memory_engine
from gateway.stores.sqlite.jobs import SqliteJobs
from gateway.stores.sqlite.usage import SqliteUsage


@dataclass(frozen=True, slots=True)
class RowServices:
    """What rows use: the gateway's time, the host's time, and the callback for corrupt rows."""

    now_ms: Callable[[], int]
    lease_ms: Callable[[], int]
    on_quarantine: OnQuarantine


class SqliteRows:
    """The `Rows` of a database; it closes the engine unless documents share it."""

    def __init__(
        self, engine: Engine, services: RowServices, *, shares: Sqlite | None = None
    ) -> None:
        self.jobs: JobRows = SqliteJobs(engine, services.now_ms, services.on_quarantine)
        self.conversations: ConversationRows = SqliteConversations(engine, services.now_ms)
        deliveries = SqliteDeliveries(engine, services.now_ms)
        self.deliveries: DeliveryRows = deliveries
        self.event_log: EventLogRows | None = deliveries
        self.posts: PostRows | None = None
        self.shared_locks = None
        self.operators: SharedRows | None = None
        self.talks: TalkRows | None = None
        self.usage: UsageRows = SqliteUsage(engine, services.now_ms)
        # If no other process can use the store, locks are in memory and need no write.
        self.locks: LockRows = (
            SqliteLocks(engine, services.lease_ms)
            if shares is not None and shares.shared
            else MemoryLocks(services.lease_ms)
        )
        self._engine = engine
        self._is_own = shares is None

    async def check(self) -> None:
        """Check that the database answers."""
        await self._engine.ask(_look)

    async def aclose(self) -> None:
        """Write what was submitted, and close the file unless documents share it."""
        if self._is_own:
            await self._engine.aclose()


def _look(connection: sqlite3.Connection) -> None:
    connection.execute("SELECT 1 FROM jobs LIMIT 1").fetchone()


async def open_embedded_rows(root: Path, lock: ProcessLock, services: RowServices) -> SqliteRows:
    """Open the rows in a file of a locked directory; the file is created at the first write."""
    engine = file_engine(root / ROWS_FILE, lock.hold, root / ROWS_MARKER)
    # If it is damaged, only requests for its rows fail; everything else works.
    await run_sync(engine.examine)
    return SqliteRows(engine, services)


def open_shared_rows(documents: Sqlite, services: RowServices) -> SqliteRows:
    """Open the rows in the file of the documents."""
    return SqliteRows(documents.engine, services, shares=documents)


def open_memory_rows(services: RowServices) -> SqliteRows:
    """Open rows in memory, which end with the process."""
    return SqliteRows(memory_engine(), services)
