"""Servers for the tests of this directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.database import Database

from .server import PostgresServer, make_schema_name, shared_pooler, shared_server


class Notes:
    """What was noted for the log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def __call__(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    @property
    def events(self) -> list[str]:
        """The names of what was noted, in order."""
        return [event for event, _ in self.lines]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture(params=["plain", "pooled"])
async def database(request: pytest.FixtureRequest, notes: Notes) -> AsyncIterator[Database]:
    """A database with a schema of its own, plain and through PgBouncer in transaction mode."""
    url = shared_server().url if request.param == "plain" else shared_pooler().url
    schema = make_schema_name()
    opened = Database(Connector(url, schema), 6, notes)
    await opened.start()
    await opened.run(f"CREATE SCHEMA {schema}")
    yield opened
    await opened.aclose()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that a test may kill or freeze."""
    own = PostgresServer()
    own.start()
    yield own
    own.thaw()
    own.remove()
