"""The connections to one origin: at most so many, the last used first."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import httpx

from gateway.wire.http_client.connection import ClientConnection, RequestTimeouts
from gateway.wire.http_client.slots import ConnectionSlots

KEEP_ALIVE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class UpstreamOrigin:
    """Who is called."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None


class Pool:
    """Lends connections; each holds a slot from before it is dialled until its answer is over."""

    __slots__ = ("_closed", "_draining", "_keep_alive", "_open", "_origin", "_resting", "_slots")

    def __init__(
        self, origin: UpstreamOrigin, size: int, keep_alive: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._origin = origin
        self._keep_alive = keep_alive
        self._slots = ConnectionSlots(size)
        self._closed = False
        self._open: set[ClientConnection] = set()
        self._resting: dict[ClientConnection, None] = {}
        self._draining: set[ClientConnection] = set()

    def __repr__(self) -> str:
        return f"<Pool {len(self._open)} open, {len(self._resting)} resting, {self._slots!r}>"

    @property
    def busy(self) -> int:
        """How many connections are in use, being made, or on their way back."""
        return self._slots.busy

    async def exchange(
        self, head: bytes, body: bytes, limits: RequestTimeouts, *, bodyless: bool = False
    ) -> ClientConnection:
        """Send a request; return the connection on which its answer has begun."""
        if not self._slots.grab():
            await self._slots.wait(limits.slot)
        connection = self._pop_fresh()
        try:
            if connection is not None:
                try:
                    await connection.request(head, body, limits, bodyless=bodyless)
                    return connection
                except httpx.TransportError:
                    # It was closed while it rested, and the request was not read: that alone
                    # is worth a second try.
                    if not connection.refused:
                        raise
            connection = await self._dial(limits.connect)
            await connection.request(head, body, limits, bodyless=bodyless)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._slots.free()
            raise
        return connection

    def settle(self, connection: ClientConnection) -> None:
        """Take back a connection: keep it if its answer is complete, else close it."""
        if connection.reusable and not self._closed:
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
        if connection in self._draining:
            self._draining.discard(connection)
            self._slots.free()

    def close(self) -> None:
        """Close everything, also what is in use or waited for."""
        self._closed = True
        self._slots.close()
        for connection in tuple(self._open):
            connection.fail(httpx.ReadError("The upstream was closed."))

    def _pop_fresh(self) -> ClientConnection | None:
        while self._resting:
            connection, _ = self._resting.popitem()
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def _dial(self, seconds: float) -> ClientConnection:
        connection = ClientConnection(self)
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

    async def _connect(self, connection: ClientConnection) -> None:
        origin = self._origin
        tls = origin.tls() if origin.tls is not None else None
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            origin.host,
            origin.port,
            ssl=tls,
            server_hostname=origin.host if tls is not None else None,
        )
