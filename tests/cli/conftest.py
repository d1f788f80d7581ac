"""A scripted gate, and a person at a terminal before it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .gate import Gate, opened
from .seat import Seat, seated


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    async with opened() as gate:
        yield gate


@pytest.fixture
async def seat(gate: Gate) -> AsyncIterator[Seat]:
    async with seated("chat", "--url", gate.url, "--session", "tea-time") as seat:
        await seat.prompted()
        yield seat
