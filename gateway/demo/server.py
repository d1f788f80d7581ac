"""The demo upstream as a server: start it, look at what it received, close it."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count

from gateway.demo.connection import ModelConnection
from gateway.demo.journal import ReceivedRequest, RequestJournal


class DemoServer:
    """A scripted model behind a real HTTP server."""

    def __init__(self, journal: RequestJournal | None = None) -> None:
        self.journal = journal or RequestJournal()
        self.url = ""
        self._connections: set[ModelConnection] = set()
        self._server: asyncio.Server | None = None
        self._connection_numbers = count(1)
        self._request_numbers = count(1)

    @property
    def requests(self) -> deque[ReceivedRequest]:
        """The requests received last, oldest first."""
        return self.journal.requests

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port, backlog=2048)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
        return bound

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.cut()
        await self._server.wait_closed()
        self._server = None

    def _connection(self) -> ModelConnection:
        number = next(self._connection_numbers)
        return ModelConnection(number, self._request_numbers, self.journal, self._connections)
