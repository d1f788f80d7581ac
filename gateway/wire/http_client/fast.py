"""The relay's own HTTP client: one short way for bytes, without httpx's layers.

An upstream has a pool of connections: at most so many, the last used first.

Who wants to ask takes a slot first, then a resting connection that still looks alive, else a new
one. The slot is what is counted, not the connection: it is held from before the dial until the
answer is over, and freed once:

- by `Pool.exchange` when it fails, by `settle` when the answer was read or given up;
- a connection that drains keeps its slot with nobody reading: `settle_drained` frees it when the
  answer ends, `forget` when the connection is lost before.

So `busy` is 0 again when nothing goes on, whatever was cancelled and whenever. Resting connections
hold no slot; there are never more of them than slots, since each held one before.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import anyio
import httpx

from gateway.errors import Headers
from gateway.wire.http_client.connection import ClientConnection
from gateway.wire.http_client.failures import upstream_error
from gateway.wire.http_client.headers import RequestHead
from gateway.wire.http_client.responses import accept, is_plain
from gateway.wire.http_client.upstream import Endpoint, Timeouts, Turn
from gateway.wire.tls import default_context

_PORTS = {"http": 80, "https": 443}
KEEP_ALIVE_SECONDS = 30.0


class ConnectionSlots:
    """A number of places; who finds none waits in line, each for a limited time."""

    __slots__ = ("_closed", "_queue", "_size", "busy")

    def __init__(self, size: int) -> None:
        self.busy = 0
        self._size = size
        self._closed = False
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<ConnectionSlots {self.busy} of {self._size} busy, {len(self._queue)} waiting>"

    def grab(self) -> bool:
        """Take a place if there is one at once."""
        # Nobody is passed over: a place that is left goes to who waits, and is never free then.
        if self.busy >= self._size or self._closed:
            return False
        self.busy += 1
        return True

    async def wait(self, patience: float) -> None:
        """Take the next place in turn, or raise `PoolTimeout` after so many seconds."""
        if self._closed:
            raise _make_closed_error()
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._queue[place] = None
        # A timer on the future, no cancel scope: a scope would have to tell its timeout from a
        # place that came in the same moment.
        alarm = loop.call_later(patience, _give_up, place)
        try:
            await place
        except BaseException:
            if place.done() and not place.cancelled() and place.exception() is None:
                # It came in the very moment its waiter was cancelled.
                self.free()
            raise
        finally:
            alarm.cancel()
            self._queue.pop(place, None)

    def free(self) -> None:
        """Leave a place: it goes straight to the first who waits, nobody can slip in between."""
        while self._queue:
            place, _ = self._queue.popitem(last=False)
            if not place.done():
                # It passes from hand to hand: `busy` does not change.
                place.set_result(None)
                return
        self.busy -= 1

    def close(self) -> None:
        """Send away who waits or comes later."""
        self._closed = True
        while self._queue:
            place, _ = self._queue.popitem(last=False)
            if not place.done():
                place.set_exception(_make_closed_error())


@dataclass(frozen=True, slots=True)
class UpstreamOrigin:
    """Who is called."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None


class Pool:
    """Lends connections; each holds a slot from before it is dialled until its answer is over."""

    __slots__ = ("_draining", "_keep_alive", "_open", "_origin", "_resting", "_retired", "_slots")

    def __init__(
        self, origin: UpstreamOrigin, size: int, keep_alive: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._origin = origin
        self._keep_alive = keep_alive
        self._slots = ConnectionSlots(size)
        self._retired = False
        self._open: set[ClientConnection] = set()
        # A stack with removal from the middle: the one used last is the one most likely alive,
        # and the others come of age and are closed.
        self._resting: dict[ClientConnection, None] = {}
        self._draining: set[ClientConnection] = set()

    def __repr__(self) -> str:
        return f"<Pool {len(self._open)} open, {len(self._resting)} resting, {self._slots!r}>"

    @property
    def busy(self) -> int:
        """How many connections are in use, being made, or on their way back."""
        return self._slots.busy

    async def exchange(self, head: bytes, body: bytes, timeouts: Timeouts) -> ClientConnection:
        """Send a request; return the connection on which its answer has begun."""
        if not self._slots.grab():
            await self._slots.wait(timeouts.connect)
        connection = self._pop_fresh()
        try:
            if connection is not None:
                try:
                    await connection.request(head, body, timeouts)
                    return connection
                except httpx.TransportError:
                    # It was closed while it rested, and the request was not read: that alone
                    # is worth a second try.
                    if not connection.refused:
                        raise
            connection = await self._dial(timeouts.connect)
            await connection.request(head, body, timeouts)
        except BaseException:
            # Also when cancelled: half a request on a connection makes it good for nothing.
            if connection is not None:
                connection.abort()
            self._slots.free()
            raise
        return connection

    def settle(self, connection: ClientConnection) -> None:
        """Take back a connection: keep it if its answer is complete, else close it."""
        if connection.reusable and not self._retired:
            connection.rest(self._keep_alive)
            self._resting[connection] = None
        else:
            connection.abort()
        self._slots.free()

    def drain(self, connection: ClientConnection) -> None:
        """Take back a connection whose reader has seen enough, before the answer's last bytes."""
        if connection.can_drain:
            self._draining.add(connection)
            connection.drain()
        else:
            self.settle(connection)

    def settle_drained(self, connection: ClientConnection) -> None:
        """Keep a connection whose answer ended in the background."""
        self._draining.discard(connection)
        self.settle(connection)

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self._resting.pop(connection, None)
        # Whoever reads an answer settles by itself; of a draining one nobody else would.
        if connection in self._draining:
            self._draining.discard(connection)
            self._slots.free()

    def retire(self) -> None:
        """Keep no connection longer than its answer; close those that rest."""
        self._retired = True
        for connection in tuple(self._resting):
            connection.abort()

    def close(self) -> None:
        """Close everything, also what is in use or waited for."""
        self._retired = True
        self._slots.close()
        for connection in tuple(self._open):
            # Readers are told, and give their slots back.
            connection.fail(httpx.ReadError("The upstream was closed."))

    def _pop_fresh(self) -> ClientConnection | None:
        while self._resting:
            connection, _ = self._resting.popitem()
            # One poll of the socket: cheaper than a request that has to be sent again.
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def _dial(self, seconds: float) -> ClientConnection:
        connection, origin = ClientConnection(self), self._origin
        self._open.add(connection)
        try:
            with anyio.fail_after(seconds):
                tls = origin.tls() if origin.tls is not None else None
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    origin.host,
                    origin.port,
                    ssl=tls,
                    server_hostname=origin.host if tls is not None else None,
                )
        except BaseException as error:
            connection.abort()
            self._open.discard(connection)
            if isinstance(error, TimeoutError):
                raise httpx.ConnectTimeout("No connection in time.") from error
            if isinstance(error, OSError):
                raise httpx.ConnectError("No connection.") from error
            raise
        return connection


def _give_up(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_exception(httpx.PoolTimeout("No connection became free in time."))


def _make_closed_error() -> httpx.ConnectError:
    return httpx.ConnectError("The upstream was closed.")


class FastUpstream:
    """One upstream: HTTP/1.1 without a proxy, over a pool of kept-alive connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        ssl_context: ssl.SSLContext | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._head = RequestHead(endpoint)
        self._pool = pool or _make_pool(endpoint, self._head.url, ssl_context)

    def __repr__(self) -> str:
        return f"<FastUpstream {self.endpoint.id} busy {self.busy}>"

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`."""
        head = self._head.encode(headers, len(body), query, model)
        try:
            connection = await self._pool.exchange(head, body, self.endpoint.timeouts)
        except httpx.TransportError as error:
            raise upstream_error(error) from None
        turn = FastTurn(self._pool, connection)
        # As `accept` does; for nearly all answers it saves its coroutine.
        return turn if is_plain(connection.status, turn) else await accept(connection.status, turn)

    def copy_with_url(self, url: str) -> FastUpstream:
        """Return the same upstream at another URL of its host; both share their connections."""
        return FastUpstream(replace(self.endpoint, url=url), pool=self._pool)

    @property
    def busy(self) -> int:
        """How many connections are in use now."""
        return self._pool.busy

    async def retire(self) -> None:
        """Close connections that are not in use, and each other one after its answer."""
        self._pool.retire()

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._pool.close()


def _make_pool(endpoint: Endpoint, url: httpx.URL, ssl_context: ssl.SSLContext | None) -> Pool:
    tls = None
    if url.scheme == "https":
        # Certificates are loaded by the first connection: a gateway starts without them.
        tls = default_context if ssl_context is None else lambda: ssl_context
    origin = UpstreamOrigin(url.host, url.port or _PORTS[url.scheme], tls)
    return Pool(origin, endpoint.max_connections)


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
