"""Every test of sockets runs on both event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gateway.demo.server import DemoServer


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


@pytest.fixture
async def server() -> AsyncIterator[DemoServer]:
    server = DemoServer()
    await server.start()
    yield server
    await server.aclose()
