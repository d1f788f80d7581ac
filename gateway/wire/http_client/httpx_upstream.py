"""The same upstream over httpx's own transport, for whatever is unusual.

Two things are worse than on our own: a stale connection is not asked again, and bytes an upstream
sends after the end of an answer are taken for the beginning of the next one.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import cast

import anyio
import httpx

from gateway.errors import Headers, UpstreamError
from gateway.wire.http_client.failures import upstream_error
from gateway.wire.http_client.fast import KEEP_ALIVE_SECONDS, ConnectionSlots
from gateway.wire.http_client.headers import RequestHead
from gateway.wire.http_client.responses import accept
from gateway.wire.http_client.upstream import Endpoint, Timeouts, Turn
from gateway.wire.tls import default_context

# The rest of a released answer is read while the caller waits: httpx has no background.
RELEASE_SECONDS = 0.25
RELEASE_BYTES = 64 * 1024
CLOSE_SECONDS = 1.0


class HttpxConnections:
    """Connections of httpx's, and the places for them; several URLs of an upstream share them."""

    __slots__ = ("_retired", "slots", "transport")

    def __init__(self, slots: ConnectionSlots, transport: httpx.AsyncHTTPTransport) -> None:
        self.slots = slots
        self.transport = transport
        self._retired = False

    async def settle(self) -> None:
        """Free the place of an answer that has ended."""
        self.slots.free()
        if self._retired:
            await self._close_idle()

    async def retire(self) -> None:
        """Close connections that are not in use, and the others when none is."""
        self._retired = True
        await self._close_idle()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self.slots.close()
        await self.transport.aclose()

    async def _close_idle(self) -> None:
        # httpx closes all connections or none; it makes new ones if it is asked again.
        if not self.slots.busy:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(httpx.TransportError):
                await self.transport.aclose()


class HttpxUpstream:
    """One upstream, asked through httpx."""

    def __init__(
        self,
        endpoint: Endpoint,
        ssl_context: ssl.SSLContext | None = None,
        connections: HttpxConnections | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._head = RequestHead(endpoint)
        self._connections = connections or HttpxConnections(
            ConnectionSlots(endpoint.max_connections),
            httpx.AsyncHTTPTransport(
                verify=ssl_context or _context(self._head.url),
                trust_env=False,
                limits=httpx.Limits(
                    max_connections=endpoint.max_connections, keepalive_expiry=KEEP_ALIVE_SECONDS
                ),
            ),
        )

    def __repr__(self) -> str:
        return f"<HttpxUpstream {self.endpoint.id} busy {self.busy}>"

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        timeouts = self.endpoint.timeouts
        limits: dict[str, float | None] = dict.fromkeys(("pool", "connect"), timeouts.connect)
        limits |= dict.fromkeys(("write", "read"), timeouts.first_byte)
        request = httpx.Request(
            "POST",
            self._head.url_with(query, model),
            headers=self._head.pairs(headers, len(body)),
            content=body,
            extensions={"timeout": limits},
        )
        try:
            response = await self._send(request)
        except httpx.TransportError as error:
            raise upstream_error(error) from None
        # From here on a silence is measured by the turn, which knows the first byte from others.
        limits["read"] = None
        turn = HttpxTurn(response, self._connections.settle, timeouts)
        return await accept(response.status_code, turn)

    def copy_with_url(self, url: str) -> HttpxUpstream:
        """Return the same upstream at another URL of its host; both share their connections."""
        return HttpxUpstream(replace(self.endpoint, url=url), connections=self._connections)

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._connections.slots.busy

    async def retire(self) -> None:
        """Close connections that are not in use, and the others when none is."""
        await self._connections.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        await self._connections.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        # httpx's own pool does not serve those who wait in the order they came.
        if not self._connections.slots.grab():
            await self._connections.slots.wait(self.endpoint.timeouts.connect)
        try:
            return await self._connections.transport.handle_async_request(request)
        except BaseException:
            await self._connections.settle()
            raise


class HttpxTurn:
    """One answer of httpx's."""

    __slots__ = ("_idle", "_limit", "_open", "_pieces", "_response", "_settle", "headers")

    def __init__(
        self, response: httpx.Response, settle: Callable[[], Awaitable[None]], timeouts: Timeouts
    ) -> None:
        self.headers: Headers = tuple(
            [(name.lower(), value) for name, value in response.headers.raw]
        )
        self._settle = settle
        self._response = response
        stream = cast(httpx.AsyncByteStream, response.stream)
        self._pieces = cast(AsyncGenerator[bytes, None], aiter(stream))
        self._limit = timeouts.first_byte
        self._idle = timeouts.idle
        self._open = True

    def __aiter__(self) -> HttpxTurn:
        return self

    async def __anext__(self) -> bytes:
        if not self._open:
            raise StopAsyncIteration
        try:
            with anyio.fail_after(self._limit):
                piece = await anext(self._pieces)
        except StopAsyncIteration:
            await self.aclose()
            raise
        except TimeoutError:
            await self.aclose()
            raise upstream_error(httpx.ReadTimeout("")) from None
        except httpx.TransportError as error:
            await self.aclose()
            raise upstream_error(error) from None
        self._limit = self._idle
        return piece

    @property
    def over(self) -> bool:
        """Whether all of it was read, or given up."""
        return not self._open

    def pause(self) -> None:
        """Do nothing: nothing is read that was not asked for."""

    async def release(self) -> None:
        """Read what is left, if it comes soon, so that the connection can be used again."""
        left = RELEASE_BYTES
        try:
            with anyio.move_on_after(RELEASE_SECONDS), suppress(UpstreamError):
                async for piece in self:
                    left -= len(piece)
                    if left < 0:
                        break
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        if not self._open:
            return
        self._open = False
        try:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(httpx.TransportError):
                await self._pieces.aclose()
                await self._response.aclose()
        finally:
            await self._settle()


def _context(url: httpx.URL) -> ssl.SSLContext:
    """Load certificates only if there is something to check; the bare context trusts nobody."""
    if url.scheme == "https":
        return default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
