"""The connections to one origin: at most so many, the last used first, waiters in order."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import httpx

from gateway.upstream.connection import Connection, Limits

KEEP_ALIVE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Who is called."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None


class Pool:
    """Lends connections: a slot is held from the wait for it until the answer is over."""

    __slots__ = (
        "_closed",
        "_draining",
        "_keep_alive",
        "_open",
        "_origin",
        "_queue",
        "_resting",
        "_size",
        "busy",
    )

    def __init__(self, origin: Origin, size: int, keep_alive: float = KEEP_ALIVE_SECONDS) -> None:
        self.busy = 0
        self._origin = origin
        self._size = size
        self._keep_alive = keep_alive
        self._closed = False
        self._open: set[Connection] = set()
        self._resting: dict[Connection, None] = {}
        self._draining: set[Connection] = set()
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Pool busy {self.busy} resting {len(self._resting)} waiting {len(self._queue)}>"

    async def exchange(
        self, head: bytes, body: bytes, limits: Limits, *, bodyless: bool = False
    ) -> Connection:
        """Send a request; return the connection on which its answer has begun."""
        if self._closed:
            raise _closed()
        if self.busy < self._size:
            self.busy += 1
        else:
            await self._wait(limits.slot)
        try:
            connection = self._rested()
            if connection is not None:
                try:
                    return await self._ask(connection, head, body, limits, bodyless)
                except httpx.TransportError:
                    # It was closed while it rested, and the request was not read: that alone
                    # is worth a second try.
                    if not connection.refused:
                        raise
            connection = await self._dial(limits.connect)
            return await self._ask(connection, head, body, limits, bodyless)
        except BaseException:
            self._free()
            raise

    def settle(self, connection: Connection) -> None:
        """Take back a connection: keep it if its answer is complete, else close it."""
        if connection.reusable and not self._closed:
            connection.rest(self._keep_alive)
            self._resting[connection] = None
        else:
            connection.abort()
        self._free()

    def drain(self, connection: Connection) -> None:
        """Take back a connection whose reader has seen enough, before the answer's last bytes."""
        if connection.can_drain:
            self._draining.add(connection)
            connection.drain()
        else:
            self.settle(connection)

    def drained(self, connection: Connection) -> None:
        """Keep a connection whose answer ended in the background."""
        self._draining.discard(connection)
        self.settle(connection)

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        self._resting.pop(connection, None)
        if connection in self._draining:
            self._draining.discard(connection)
            self._free()

    def close(self) -> None:
        """Close everything, also what is in use or waited for."""
        self._closed = True
        for connection in tuple(self._open):
            connection.fail(httpx.ReadError("The pool was closed."))
        while self._queue:
            waiter, _ = self._queue.popitem(last=False)
            if not waiter.done():
                waiter.set_exception(_closed())

    def _rested(self) -> Connection | None:
        while self._resting:
            connection, _ = self._resting.popitem()
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def _ask(
        self, connection: Connection, head: bytes, body: bytes, limits: Limits, bodyless: bool
    ) -> Connection:
        try:
            await connection.request(head, body, limits, bodyless=bodyless)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _dial(self, seconds: float) -> Connection:
        connection = Connection(self)
        self._open.add(connection)
        try:
            with anyio.fail_after(seconds):
                await self._connect(connection)
        except BaseException as error:
            connection.abort()
            self._open.discard(connection)
            if isinstance(error, TimeoutError):
                raise httpx.ConnectTimeout("No connection in time.") from error
            if isinstance(error, OSError):
                raise httpx.ConnectError("No connection.") from error
            raise
        return connection

    async def _connect(self, connection: Connection) -> None:
        origin = self._origin
        tls = origin.tls() if origin.tls is not None else None
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            origin.host,
            origin.port,
            ssl=tls,
            server_hostname=origin.host if tls is not None else None,
        )

    async def _wait(self, seconds: float) -> None:
        """Wait for a slot, first come, first served."""
        loop = asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()
        self._queue[slot] = None
        alarm = loop.call_later(seconds, _give_up, slot)
        try:
            await slot
        except BaseException:
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                # The slot came in the moment its waiter was cancelled.
                self._free()
            raise
        finally:
            alarm.cancel()
            self._queue.pop(slot, None)

    def _free(self) -> None:
        """Hand the slot to the first who waits; it is not free in between."""
        while self._queue:
            slot, _ = self._queue.popitem(last=False)
            if not slot.done():
                slot.set_result(None)
                return
        self.busy -= 1


def _give_up(slot: asyncio.Future[None]) -> None:
    if not slot.done():
        slot.set_exception(httpx.PoolTimeout("No connection became free in time."))


def _closed() -> httpx.ConnectError:
    return httpx.ConnectError("The pool is closed.")
