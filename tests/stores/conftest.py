"""Stores of every kind, opened the way the gateway opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import pytest

from gateway.stores import Documents, open_documents

from .shapes import SHAPES


class Backend:
    """Where a store is, how it is opened again, and what it reported."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.root = directory / "sessions"
        self.url = {
            "memory": "memory:",
            "files": "",
            "sqlite": f"sqlite://{directory}/kept.sqlite3",
        }[name]
        self.quarantined: list[tuple[str, str]] = []
        self._ticks = count(1_770_000_000_000)

    async def open(self) -> Documents:
        """Open the store."""
        return await open_documents(
            self.url,
            self.root,
            SHAPES,
            now_ms=lambda: next(self._ticks),
            on_quarantine=lambda name, reason: self.quarantined.append((name, reason)),
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Documents]:
        """Open the store, and close it in the end."""
        store = await self.open()
        try:
            with anyio.fail_after(30):
                yield store
        finally:
            await store.aclose()


@pytest.fixture(params=["memory", "files", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """A store of each kind."""
    return Backend(request.param, tmp_path)


@pytest.fixture(params=["files", "sqlite"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
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
