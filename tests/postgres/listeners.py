"""Instances in one process, each with its listener, bus and hints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from gateway.stores.hints import SessionHints
from gateway.stores.postgres.bus import PostgresBus
from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.documents import PostgresDocuments
from gateway.stores.postgres.instances import BURY, SharedInstance, read_boot_ms
from gateway.stores.postgres.listener import Listener
from gateway.stores.postgres.migrations import FIRST

from .conftest import Notes
from .server import make_schema_name, shared_server

# Short, but not so short that a slow machine misses a beat.
LEASE_MS = 3000


@dataclass
class Node:
    """One instance."""

    instance: SharedInstance
    bus: PostgresBus
    hints: SessionHints
    listener: Listener
    documents: PostgresDocuments


@dataclass
class Schema:
    """A schema with the table of instances."""

    name: str
    database: Database
    notes: Notes

    @asynccontextmanager
    async def join(
        self,
        url: str = "",
        lease_ms: int = LEASE_MS,
        boot_ms: Callable[[], float] = read_boot_ms,
        poll_ms: int = 60_000,
    ) -> AsyncIterator[Node]:
        """Start an instance."""
        instance = SharedInstance(lease_ms, "test", "1", self.notes, boot_ms)
        bus = PostgresBus()
        hints = SessionHints(bus)
        connector = Connector(url or shared_server().url, self.name)
        listener = Listener(connector, f"{self.name}_wake", instance, bus, self.notes)
        await listener.start()
        try:
            documents = PostgresDocuments(self.database, instance, hints, lambda *_: None)
            documents.watches.start(lambda: poll_ms)
            bus.on_lost(documents.watches.compare_soon)
            yield Node(instance, bus, hints, listener, documents)
        finally:
            await listener.aclose()
            await documents.watches.aclose()

    async def lapse(self, instance: SharedInstance) -> None:
        """Let the lease of an instance be over, as if it had not beaten for long."""
        await self.database.run(
            "UPDATE @instances SET until = clock_timestamp() - interval '1 s' WHERE id = $1",
            instance.id,
        )

    async def bury(self) -> list[str]:
        """Bury the lapsed."""
        return [row["id"] for row in await self.database.ask(BURY)]

    async def list_living(self) -> list[str]:
        """Return the instances that are not buried."""
        rows = await self.database.ask("SELECT id FROM @instances WHERE NOT buried")
        return [row["id"] for row in rows]

    async def list_lasting(self) -> list[str]:
        """Return the instances that have not lapsed."""
        rows = await self.database.ask("SELECT id FROM @instances WHERE until > clock_timestamp()")
        return [row["id"] for row in rows]


@asynccontextmanager
async def schema(notes: Notes) -> AsyncIterator[Schema]:
    """Make a schema with the table of instances on the server that all tests share."""
    name = make_schema_name()
    database = Database(Connector(shared_server().url, name), 3, notes)
    await database.start()
    try:
        await database.run(f"CREATE SCHEMA {name}")
        for statement in FIRST.statements:
            await database.run(statement)
        yield Schema(name, database, notes)
    finally:
        await database.aclose()
