"""The bytes of one answer, read from its connection."""

from __future__ import annotations

from typing import Self

import httpx

from gateway.wire.http_client.connection import ClientConnection
from gateway.wire.http_client.pool import Pool


class Body:
    """An iterator over all that has arrived since the last read; it gives its connection back."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: Pool, connection: ClientConnection) -> None:
        self._pool = pool
        self._connection: ClientConnection | None = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        connection = self._connection
        if connection is None:
            raise StopAsyncIteration
        while not connection.parts:
            if connection.complete or connection.failure is not None:
                self._over(connection)
                raise StopAsyncIteration
            await connection.news()
        data = connection.take()
        if connection.complete and not connection.parts:
            # The next one to ask need not wait until the end is read as well.
            self._over(connection)
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

    def _over(self, connection: ClientConnection) -> None:
        self._connection = None
        self._pool.settle(connection)
        if connection.failure is not None:
            raise self._error(connection.failure)

    def _error(self, failure: httpx.TransportError) -> Exception:
        """Choose the words for a failure; httpx's own, unless a subclass has others."""
        return failure
