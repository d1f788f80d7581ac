"""The demo upstream as a server: start it, look at what it received, close it."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import count
from typing import cast

from uvicorn.server import ServerState

from gateway.demo.app import DemoApp
from gateway.demo.connection import DemoConnection
from gateway.demo.journal import ReceivedRequest, RequestJournal
from gateway.wire.http_server.server import server_config


class DemoServer:
    """A scripted model behind a real HTTP server."""

    def __init__(self, journal: RequestJournal | None = None) -> None:
        self.journal = journal or RequestJournal()
        self.url = ""
        self._config = server_config(DemoApp(), DemoConnection, grace=1, lifespan="off")
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._numbers = count(1)

    @property
    def requests(self) -> deque[ReceivedRequest]:
        """The requests received last, oldest first."""
        return self.journal.requests

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._state.connections)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen, and return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connect, host, port, backlog=2048)
        bound: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
        return bound

    async def aclose(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._state.connections):
            cast(DemoConnection, connection).cut()
        await self._server.wait_closed()
        self._server = None

    def _connect(self) -> DemoConnection:
        return DemoConnection(next(self._numbers), self.journal, self._config, self._state)
