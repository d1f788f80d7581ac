"""The relay's own HTTP client: one short way for bytes, without httpx's layers."""

from __future__ import annotations

import ssl
from typing import Self

import httpx

from gateway.errors import Headers
from gateway.wire.http_client.connection import ClientConnection
from gateway.wire.http_client.failures import upstream_error
from gateway.wire.http_client.headers import RequestHead
from gateway.wire.http_client.pool import Pool, UpstreamOrigin
from gateway.wire.http_client.responses import accept
from gateway.wire.http_client.upstream import Endpoint, Turn
from gateway.wire.tls import default_context

_PORTS = {"http": 80, "https": 443}


class FastUpstream:
    """One upstream: HTTP/1.1 without a proxy, over a pool of kept-alive connections."""

    def __init__(self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None = None) -> None:
        self.endpoint = endpoint
        self._head = RequestHead(endpoint)
        url, tls = self._head.url, None
        if url.scheme == "https":
            # Certificates are loaded by the first connection: a gateway starts without them.
            tls = default_context if ssl_context is None else lambda: ssl_context
        origin = UpstreamOrigin(url.host, url.port or _PORTS[url.scheme], tls)
        self._pool = Pool(origin, endpoint.max_connections)

    def __repr__(self) -> str:
        return f"<FastUpstream {self.endpoint.id} busy {self.busy}>"

    async def open(self, body: bytes, headers: Headers, query: bytes = b"") -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        head = self._head.encode(headers, len(body), query)
        try:
            connection = await self._pool.exchange(head, body, self.endpoint.timeouts)
        except httpx.TransportError as error:
            raise upstream_error(error) from None
        return await accept(connection.status, FastTurn(self._pool, connection))

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._pool.busy

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._pool.close()


class FastTurn:
    """One answer: all that has arrived since the last read; it gives its connection back."""

    __slots__ = ("_connection", "_pool", "headers")

    def __init__(self, pool: Pool, connection: ClientConnection) -> None:
        self._pool = pool
        self._connection: ClientConnection | None = connection
        self.headers: Headers = tuple(connection.headers)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        while not connection.parts:
            if connection.complete or connection.failure is not None:
                self._settle(connection)
                raise StopAsyncIteration
            await connection.news()
        data = connection.take()
        if connection.complete and not connection.parts:
            # The next one to ask need not wait until the end is read as well.
            self._settle(connection)
        return data

    @property
    def over(self) -> bool:
        """Whether all of it was read, or given up."""
        return self._connection is None

    def pause(self) -> None:
        """Read nothing ahead until more is asked for."""
        if self._connection is not None:
            self._connection.pause()

    async def release(self) -> None:
        """Give the connection back though the last bytes, which say nothing, may be under way."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._pool.drain(connection)

    async def aclose(self) -> None:
        """Close the connection, unless the answer has come to its end."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._pool.settle(connection)

    def _settle(self, connection: ClientConnection) -> None:
        """Give the connection back; raise what went wrong, if something did."""
        self._connection = None
        self._pool.settle(connection)
        if connection.failure is not None:
            raise upstream_error(connection.failure)
