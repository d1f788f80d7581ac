"""A proxy between a gateway and PostgreSQL that can be cut: reset, frozen, or closed to all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .server import USER, PostgresServer


class CutProxy:
    """Forwards connections on a loopback port to the Unix socket of a server."""

    def __init__(self, target: Path) -> None:
        self.port = 0
        self.is_closed = False
        """Whether new connections are refused."""
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def url(self) -> str:
        """The URL by which the server is reached through this proxy."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def reset(self) -> None:
        """Break all connections."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def freeze(self) -> None:
        """Pass nothing on, and keep all connections open."""
        self._open.clear()

    def thaw(self) -> None:
        """Pass everything on, also what came meanwhile."""
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection both ways."""
        if self.is_closed:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_unix_connection(str(self._target))
        self._writers |= {writer, to_server}
        try:
            there = asyncio.ensure_future(self._pass_on(reader, to_server))
            back = asyncio.ensure_future(self._pass_on(from_server, writer))
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
        finally:
            for one in (writer, to_server):
                self._writers.discard(one)
                one.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def cut_proxy(server: PostgresServer) -> AsyncIterator[CutProxy]:
    """Run a proxy before a server."""
    proxy = CutProxy(server.socket)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        proxy.thaw()
        proxy.reset()
