"""Stores of every kind, opened the way the gateway opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import pytest

from gateway.stores import Documents, open_documents
from gateway.stores.hints import SessionHints
from gateway.stores.instance import LoneInstance
from gateway.stores.postgres.connection import Connector
from gateway.stores.postgres.database import Database
from gateway.stores.postgres.documents import PostgresDocuments
from tests.postgres.rows import find_schema
from tests.postgres.server import (
    Pooler,
    PostgresServer,
    shared_pooler,
    shared_server,
)

from .shapes import SHAPES

SHARED: dict[str, Callable[[], PostgresServer | Pooler]] = {
    "postgres": shared_server,
    "pooled": shared_pooler,
}
"""The stores that many instances share: PostgreSQL plain, and through PgBouncer."""


class Backend:
    """Where a store is, how it is opened again, and what it reported."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.root = directory / "sessions"
        self.url = {
            "memory": "memory:",
            "files": "",
            "sqlite": f"sqlite://{directory}/kept.sqlite3",
        }.get(name, "")
        self._is_clear = False
        """Whether what an earlier test left in a shared store is gone."""
        self.quarantined: list[tuple[str, str]] = []
        self._ticks = count(1_770_000_000_000)

    def may_hold(self, session: str) -> bool:
        """Return whether there can be a session of this id: PostgreSQL knows no zero bytes."""
        return self.name not in SHARED or "\0" not in session

    async def open(self) -> Documents:
        """Open the store."""
        if self.name in SHARED:
            return await self._open_shared(SHARED[self.name]().url)
        return await open_documents(
            self.url,
            self.root,
            SHAPES,
            now_ms=lambda: next(self._ticks),
            on_quarantine=self._note_quarantined,
        )

    async def _open_shared(self, url: str) -> Documents:
        schema = find_schema()
        database = Database(Connector(url, schema.name), 6, _note_nothing)
        await database.start()
        if not self._is_clear:
            await schema.clear(database)
            self._is_clear = True
        ticks = self._ticks
        alone = LoneInstance(lambda: next(ticks))
        return PostgresDocuments(database, alone, SessionHints(), self._note_quarantined)

    def _note_quarantined(self, name: str, reason: str) -> None:
        self.quarantined.append((name, reason))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Documents]:
        """Open the store, and close it in the end."""
        store = await self.open()
        try:
            with anyio.fail_after(30):
                yield store
        finally:
            await store.aclose()


def _note_nothing(event: str, **fields: object) -> None:
    pass


@pytest.fixture(params=["memory", "files", "sqlite", *SHARED])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=["files", "sqlite"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind that belongs to one process and outlives it."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=["files", "sqlite", *SHARED])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind that outlives its process."""
    return Backend(request.param, tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> Backend:
    """A store of files."""
    return Backend("files", tmp_path)


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[Documents]:
    """An open store of each kind."""
    async with backend.opened() as opened:
        yield opened
