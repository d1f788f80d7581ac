"""Whole gateways on one PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gateway.clock import SystemClock
from tests.run import Running, in_process
from tests.wire.fake import Story

from .server import shared_server


@asynccontextmanager
async def instance(
    story: Story | None,
    schema: str,
    *others: Story,
    tables: Mapping[str, Any] | None = None,
    patience: float = 30,
    **settings: Any,
) -> AsyncIterator[Running]:
    """Start a gateway; those with the same schema share everything."""
    where = {"store__url": shared_server().url, "store__schema": schema, **settings}
    clock = SystemClock()
    async with in_process(
        story, *others, clock=clock, tables=tables, settings=where, patience=patience
    ) as running:
        yield running
