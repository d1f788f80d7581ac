"""The same upstream over httpx's own transport, or that of httpx2, for whatever is unusual.

httpx2 is the maintained continuation of httpx: the same names in another module, so the module is
a value here. Its errors and URLs are other classes than httpx's; both are known by their names.

Two things are worse than on our own: a stale connection is not asked again, and bytes an upstream
sends after the end of an answer are taken for the beginning of the next one.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from types import ModuleType
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

    __slots__ = ("_retired", "errors", "library", "slots", "transport")

    def __init__(self, most: int, context: ssl.SSLContext, library: ModuleType) -> None:
        self.library = library
        # The wait for a slot is ours, and fails with httpx's error over both libraries.
        self.errors = (httpx.TransportError, library.TransportError)
        self.slots = ConnectionSlots(most)
        self.transport = library.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            limits=library.Limits(max_connections=most, keepalive_expiry=KEEP_ALIVE_SECONDS),
        )
        self._retired = False

    async def send(self, request: httpx.Request, patience: float) -> httpx.Response:
        """Send a request as soon as there is a place for it, or raise one of `errors`."""
        # httpx's own pool does not serve those who wait in the order they came.
        if not self.slots.grab():
            await self.slots.wait(patience)
        try:
            response: httpx.Response = await self.transport.handle_async_request(request)
            return response
        except BaseException:
            await self.settle()
            raise

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
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(*self.errors):
                await self.transport.aclose()


class HttpxUpstream:
    """One upstream, asked through httpx or httpx2."""

    def __init__(
        self,
        endpoint: Endpoint,
        ssl_context: ssl.SSLContext | None = None,
        library: ModuleType = httpx,
        connections: HttpxConnections | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._head = RequestHead(endpoint)
        if connections is None:
            context = ssl_context or _context(self._head.url)
            connections = HttpxConnections(endpoint.max_connections, context, library)
        self._connections = connections

    def __repr__(self) -> str:
        library = self._connections.library.__name__
        return f"<HttpxUpstream {self.endpoint.id} {library} busy {self.busy}>"

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        timeouts = self.endpoint.timeouts
        limits: dict[str, float | None] = dict.fromkeys(("pool", "connect"), timeouts.connect)
        limits |= dict.fromkeys(("write", "read"), timeouts.first_byte)
        connections = self._connections
        request = connections.library.Request(
            "POST",
            str(self._head.url_with(query, model)),
            headers=self._head.pairs(headers, len(body)),
            content=body,
            extensions={"timeout": limits},
        )
        try:
            response = await connections.send(request, timeouts.connect)
        except connections.errors as error:
            raise upstream_error(error) from None
        # From here on a silence is measured by the turn, which knows the first byte from others.
        limits["read"] = None
        broken = connections.library.TransportError
        turn = HttpxTurn(response, connections.settle, timeouts, broken)
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


class HttpxTurn:
    """One answer of httpx's."""

    __slots__ = ("_error", "_idle", "_limit", "_open", "_pieces", "_response", "_settle", "headers")

    def __init__(
        self,
        response: httpx.Response,
        settle: Callable[[], Awaitable[None]],
        timeouts: Timeouts,
        error: type[Exception],
    ) -> None:
        self._error = error
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
        except self._error as error:
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
            with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(self._error):
                await self._pieces.aclose()
                await self._response.aclose()
        finally:
            await self._settle()


def _context(url: httpx.URL) -> ssl.SSLContext:
    """Load certificates only if there is something to check; the bare context trusts nobody."""
    if url.scheme == "https":
        return default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
