"""Two whole gateways on one PostgreSQL, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.clock import SystemClock
from tests.run import Running, in_process
from tests.wire.fake import Story

from .server import make_schema_name, shared_server


@asynccontextmanager
async def on_postgres(story: Story, schema: str, **settings: Any) -> AsyncIterator[Running]:
    """Run a gateway on a schema of the server."""
    where = {"store__url": shared_server().url, "store__schema": schema}
    settings = {"clock__due_window_ms": 0, **where, **settings}
    async with in_process(story, clock=SystemClock(), **settings) as running:
        yield running


@asynccontextmanager
async def pair(story: Story, **settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    """Run two gateways whose models answer so, each on its own connections."""
    schema = make_schema_name()
    async with (
        on_postgres(story, schema, **settings) as one,
        on_postgres(story, schema, **settings) as two,
    ):
        yield one, two
