"""Every test here runs on both event loops; those that ask for `connected`, on all transports."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

from gateway.wire.http_client.connect import connect
from gateway.wire.http_client.upstream import Endpoint, Timeouts, Upstream

from .fake import FakeUpstream

Connected = Callable[..., AbstractAsyncContextManager[Upstream]]


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    ]
)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


def connecting(transport: str) -> Connected:
    """Make what opens an upstream to a fake, or to any URL, over one of the transports."""

    @asynccontextmanager
    async def connected(
        to: FakeUpstream | str,
        *,
        max_connections: int = 8,
        ssl_context: ssl.SSLContext | None = None,
        **timeouts: float,
    ) -> AsyncIterator[Upstream]:
        endpoint = Endpoint(
            id="fake",
            url=to if isinstance(to, str) else to.url,
            headers=((b"Authorization", b"Bearer canary"),),
            timeouts=Timeouts(**{"connect": 5.0, "first_byte": 5.0, "idle": 5.0, **timeouts}),
            max_connections=max_connections,
            transport=transport,
        )
        upstream = connect(endpoint, ssl_context)
        try:
            with anyio.fail_after(20):
                yield upstream
        finally:
            await upstream.aclose()

    return connected


@pytest.fixture(params=["fast", "httpx", "httpx2"])
def connected(request: pytest.FixtureRequest) -> Connected:
    """Open an upstream over each of the transports."""
    return connecting(request.param)


@pytest.fixture
def fast() -> Connected:
    """Open an upstream over our own transport."""
    return connecting("fast")
