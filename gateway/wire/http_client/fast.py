"""The relay's own HTTP client: httpx's interface outside, one short way for bytes inside."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping

import httpx

from gateway.errors import Headers, UpstreamError
from gateway.wire.http_client.body import Body
from gateway.wire.http_client.connection import ClientConnection, RequestTimeouts
from gateway.wire.http_client.decode import is_plain
from gateway.wire.http_client.failures import upstream_error
from gateway.wire.http_client.head import RequestHead, encode
from gateway.wire.http_client.pool import Pool, UpstreamOrigin
from gateway.wire.http_client.responses import accept
from gateway.wire.http_client.upstream import Endpoint, Turn
from gateway.wire.tls import default_context

# In the place of a limit that is not set.
_FOREVER = 1e9
_PORTS = {"http": 80, "https": 443}


class FastTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 without a proxy, over pools of kept-alive connections, one an origin."""

    def __init__(
        self, *, max_connections: int = 1000, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._max_connections = max_connections
        self._tls: Callable[[], ssl.SSLContext] = (
            default_context if ssl_context is None else lambda: ssl_context
        )
        self._pools: dict[tuple[str, str, int], Pool] = {}

    def pool(self, url: httpx.URL) -> Pool:
        """Return the connections to this URL's origin."""
        if url.scheme not in _PORTS:
            raise httpx.UnsupportedProtocol("Only http and https are spoken.")
        key = (url.scheme, url.host, url.port or _PORTS[url.scheme])
        if key not in self._pools:
            tls = self._tls if url.scheme == "https" else None
            self._pools[key] = Pool(UpstreamOrigin(key[1], key[2], tls), self._max_connections)
        return self._pools[key]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request of httpx's and return the answer, its body still to be read."""
        pool = self.pool(request.url)
        body = await request.aread()
        connection = await pool.exchange(
            encode(request, len(body)),
            body,
            _limits(request.extensions.get("timeout", {})),
            bodyless=request.method == "HEAD",
        )
        return httpx.Response(
            connection.status,
            headers=connection.headers,
            stream=_ResponseStream(pool, connection),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def aclose(self) -> None:
        """Close every connection."""
        for pool in self._pools.values():
            pool.close()


class FastUpstream:
    """One upstream, asked without httpx's layers."""

    def __init__(self, endpoint: Endpoint, ssl_context: ssl.SSLContext | None = None) -> None:
        timeouts = endpoint.timeouts
        self.endpoint = endpoint
        self._head = RequestHead(endpoint)
        self._transport = FastTransport(
            max_connections=endpoint.max_connections, ssl_context=ssl_context
        )
        self._pool = self._transport.pool(self._head.url)
        self._limits = RequestTimeouts(
            slot=timeouts.connect,
            connect=timeouts.connect,
            send=timeouts.first_byte,
            first_byte=timeouts.first_byte,
            idle=timeouts.idle,
        )

    def __repr__(self) -> str:
        return f"<FastUpstream {self.endpoint.id} busy {self.busy}>"

    async def open(self, body: bytes, headers: Headers, query: bytes = b"") -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        head = self._head.encode(headers, len(body), query)
        try:
            connection = await self._pool.exchange(head, body, self._limits)
        except httpx.TransportError as error:
            raise upstream_error(error) from None
        turn = FastTurn(self._pool, connection)
        if 200 <= connection.status < 300 and is_plain(turn.headers):
            return turn
        return await accept(connection.status, turn)

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._pool.busy

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        await self._transport.aclose()


class FastTurn(Body):
    """One answer for the relay."""

    __slots__ = ("headers",)

    def __init__(self, pool: Pool, connection: ClientConnection) -> None:
        self._pool = pool
        self._connection = connection
        self.headers: Headers = tuple(connection.headers)

    def _error(self, failure: httpx.TransportError) -> UpstreamError:
        return upstream_error(failure)


class _ResponseStream(Body, httpx.AsyncByteStream):
    """One answer for httpx."""


def _limits(timeout: Mapping[str, float | None]) -> RequestTimeouts:
    def limit(name: str) -> float:
        seconds = timeout.get(name)
        return _FOREVER if seconds is None else seconds

    read = limit("read")
    return RequestTimeouts(
        slot=limit("pool"),
        connect=limit("connect"),
        send=limit("write"),
        first_byte=read,
        idle=read,
    )
