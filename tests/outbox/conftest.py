"""The parts on a store of rows in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.outbox.house import House, living


@pytest.fixture
async def house() -> AsyncIterator[House]:
    """All parts of delivery, at work."""
    async with living() as found:
        yield found
