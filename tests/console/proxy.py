"""A reverse proxy that a test breaks: it passes, answers 502 or 503, stalls, or cuts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

PIECE = 65536
PASSES, STALLS = 0, -1


@dataclass(eq=False)
class ProxiedConnection:
    """One connection of the browser's, and what it asked for last."""

    writer: asyncio.StreamWriter
    path: str = ""


@dataclass
class LineProxy:
    """Stands between a browser and a gateway, which may be another one after a while."""

    target: int
    """The port that connections go to."""
    port: int = 0
    mode: int = PASSES
    """PASSES, STALLS (nothing moves, nothing is closed), or a status for all new requests."""
    _moves: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[ProxiedConnection] = field(default_factory=set)
    _left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        """Where browsers find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def feeds(self) -> int:
        """How many open connections carry a feed."""
        return sum("/api/console/feed" in one.path for one in self._open)

    async def wait_until_no_feed(self) -> None:
        """Wait until no connection carries a feed any more."""
        while self.feeds:
            self._left.clear()
            await self._left.wait()

    def pass_on(self) -> None:
        """Pass all bytes on, also those that were held back."""
        self.mode = PASSES
        self._moves.set()

    def stall(self) -> None:
        """Move nothing any more, and close nothing."""
        self.mode = STALLS
        self._moves.clear()

    def fail(self, status: int) -> None:
        """Answer with a status, and cut what is open."""
        self.mode = status
        self.cut()

    def cut(self) -> None:
        """Cut all connections."""
        for one in tuple(self._open):
            one.writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        connection = ProxiedConnection(writer)
        self._open.add(connection)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._serve(connection, reader)
        finally:
            self._open.discard(connection)
            self._left.set()
            writer.transport.abort()

    async def _serve(self, connection: ProxiedConnection, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if self.mode > 0:
            page = b"<html>The proxy has nobody to ask.</html>"
            start = f"HTTP/1.1 {self.mode} Bad\r\ncontent-type: text/html\r\nconnection: close\r\n"
            length = f"content-length: {len(page)}\r\n\r\n"
            connection.writer.write((start + length).encode() + page)
            await connection.writer.drain()
            return
        await self._moves.wait()
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            note_path(connection, head)
            upstream_writer.write(head)
            sends = asyncio.create_task(self._send(connection, reader, upstream_writer))
            try:
                await self._answer(upstream_reader, connection.writer)
            finally:
                sends.cancel()
        finally:
            upstream_writer.transport.abort()

    async def _send(
        self,
        connection: ProxiedConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        while piece := await reader.read(PIECE):
            await self._moves.wait()
            if writer.is_closing():
                return
            note_path(connection, piece)
            writer.write(piece)
        # The browser has left.
        writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            await self._moves.wait()
            if writer.is_closing():
                return
            writer.write(piece)
            await writer.drain()


def note_path(connection: ProxiedConnection, request: bytes) -> None:
    """Take note of what a connection is used for."""
    first = request.partition(b"\r\n")[0].split(b" ")
    if first[-1:] == [b"HTTP/1.1"]:
        connection.path = first[1].decode()


@asynccontextmanager
async def start_proxy(target: int) -> AsyncIterator[LineProxy]:
    """Start a proxy on a free port."""
    proxy = LineProxy(target)
    proxy.pass_on()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.pass_on()
        proxy.cut()
