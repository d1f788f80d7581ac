"""The same upstream over httpx's own transport, or that of httpx2, for whatever is unusual.

httpx2 is the maintained continuation of httpx: the same names in another module, so the module is
a value here. Its errors and URLs are other classes than httpx's; both are known by their names.

Two things are worse than on our own: a stale connection is not asked again, and bytes an upstream
sends after the end of an answer are taken for the beginning of the next one.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import suppress
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


class HttpxUpstream:
    """One upstream, asked through httpx or httpx2."""

    def __init__(
        self,
        endpoint: Endpoint,
        ssl_context: ssl.SSLContext | None = None,
        library: ModuleType = httpx,
    ) -> None:
        self.endpoint = endpoint
        self._library = library
        # The wait for a slot is ours, and fails with httpx's error over both libraries.
        self._errors = (httpx.TransportError, library.TransportError)
        self._slots = ConnectionSlots(endpoint.max_connections)
        self._head = RequestHead(endpoint)
        self._transport = library.AsyncHTTPTransport(
            verify=ssl_context or _context(self._head.url),
            trust_env=False,
            limits=library.Limits(
                max_connections=endpoint.max_connections, keepalive_expiry=KEEP_ALIVE_SECONDS
            ),
        )

    def __repr__(self) -> str:
        return f"<HttpxUpstream {self.endpoint.id} {self._library.__name__} busy {self.busy}>"

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        timeouts = self.endpoint.timeouts
        limits: dict[str, float | None] = dict.fromkeys(("pool", "connect"), timeouts.connect)
        limits |= dict.fromkeys(("write", "read"), timeouts.first_byte)
        request = self._library.Request(
            "POST",
            str(self._head.url_with(query, model)),
            headers=self._head.pairs(headers, len(body)),
            content=body,
            extensions={"timeout": limits},
        )
        try:
            response = await self._send(request)
        except self._errors as error:
            raise upstream_error(error) from None
        # From here on a silence is measured by the turn, which knows the first byte from others.
        limits["read"] = None
        turn = HttpxTurn(response, self._slots, timeouts, self._library.TransportError)
        return await accept(response.status_code, turn)

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._slots.busy

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._slots.close()
        await self._transport.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        # httpx's own pool does not serve those who wait in the order they came.
        if not self._slots.grab():
            await self._slots.wait(self.endpoint.timeouts.connect)
        try:
            response: httpx.Response = await self._transport.handle_async_request(request)
            return response
        except BaseException:
            self._slots.free()
            raise


class HttpxTurn:
    """One answer of httpx's."""

    __slots__ = ("_error", "_idle", "_limit", "_open", "_pieces", "_response", "_slots", "headers")

    def __init__(
        self,
        response: httpx.Response,
        slots: ConnectionSlots,
        timeouts: Timeouts,
        error: type[Exception],
    ) -> None:
        self._error = error
        self.headers: Headers = tuple(
            [(name.lower(), value) for name, value in response.headers.raw]
        )
        self._slots = slots
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
            self._slots.free()


def _context(url: httpx.URL) -> ssl.SSLContext:
    """Load certificates only if there is something to check; the bare context trusts nobody."""
    if url.scheme == "https":
        return default_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
