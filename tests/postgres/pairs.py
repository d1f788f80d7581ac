"""Two whole gateways on one PostgreSQL, in the test's own event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.run import Running
from tests.wire.fake import Story

from .gateways import instance
from .server import make_schema_name


@asynccontextmanager
async def pair(story: Story, **settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    """Run two gateways whose models answer so."""
    schema = make_schema_name()
    settings = {"clock__due_window_ms": 0, **settings}
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(instance(story, schema, **settings))
        two = await stack.enter_async_context(instance(story, schema, **settings))
        yield one, two
