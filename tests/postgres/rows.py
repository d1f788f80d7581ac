"""Rows on a real PostgreSQL, for tests: one schema, opened by as many instances as are wanted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import anyio

from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.conversations import PostgresConversations
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.instances import SharedInstance
from gateway.stores.postgres.migrations import FIRST
from gateway.stores.postgres.rows import PostgresRows
from gateway.stores.postgres.services import SharedServices

from .server import make_schema_name, shared_pooler, shared_server

NOON = 1_770_000_000_000
LEASE_MS = 600_000
CONNECTIONS = 4


class OpenedRows(PostgresRows):
    """The rows of one instance, and the instance."""

    def __init__(self, services: SharedServices) -> None:
        super().__init__(services)
        self.instance = services.instance
        self.appender = PostgresConversations(services)
        self.database = services.database

    async def bury(self) -> None:
        """Have this instance buried, as others do with one whose lease lapsed."""
        await self.database.run(
            "UPDATE @instances SET buried = true WHERE id = $1", self.instance.id
        )


class RowsSchema:
    """The schema that tests of rows use one after another: to empty it costs less than a new one."""

    def __init__(self) -> None:
        self.name = make_schema_name()
        self._is_made = False

    async def clear(self, database: Database) -> None:
        """Make the schema, or delete whatever an earlier test left in it."""
        made = ";".join(FIRST.statements)
        if self._is_made:
            tables = re.findall(r"CREATE (?:UNLOGGED )?TABLE (@\w+)", made)
            await database.run(";".join(f"DELETE FROM {table}" for table in tables))
        else:
            await database.run(f"CREATE SCHEMA {self.name};{made}")
            self._is_made = True


@cache
def find_schema() -> RowsSchema:
    """Return the schema of this process."""
    return RowsSchema()


class PostgresRowBackend:
    """Where rows are, what was reported and logged, and what time it is."""

    def __init__(self, name: str = "postgres", url: str = "", schema: str = "") -> None:
        self.name = name
        server = shared_server if name == "postgres" else shared_pooler
        self.url = url or server().url
        self.schema = schema or find_schema().name
        self.now_ms = NOON
        self.lease_ms = 0
        self.quarantined: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self._is_ready = bool(schema)

    @asynccontextmanager
    async def opened(
        self, connections: int = CONNECTIONS, kind: type[Database] = Database
    ) -> AsyncIterator[OpenedRows]:
        """Open the rows as one more instance, and close them in the end."""
        rows = await self.connect(connections, kind)
        try:
            with anyio.fail_after(60):
                yield rows
        finally:
            await rows.database.aclose()

    async def connect(
        self, connections: int = CONNECTIONS, kind: type[Database] = Database
    ) -> OpenedRows:
        """Open the rows as one more instance; its database is to be closed in the end."""
        database = kind(Connector(self.url, self.schema), connections, self._note)
        await database.start()
        if not self._is_ready:
            await find_schema().clear(database)
            self._is_ready = True
        instance = SharedInstance(LEASE_MS, "host", "build", self._note)
        await database.use(instance.beat)
        services = SharedServices(database, instance, self._now, self._report, self._note)
        return OpenedRows(services)

    def _now(self) -> int:
        return self.now_ms

    def _report(self, name: str, reason: str) -> None:
        self.quarantined.append((name, reason))

    def _note(self, event: str, **fields: object) -> None:
        self.notes.append(event)
