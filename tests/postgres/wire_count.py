"""Counts the round trips of a gateway to PostgreSQL, by a proxy that reads what clients send.

A client waits for the server after each Sync, and after each simple query: one round trip. What is
sent on a connection that listens is counted apart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from .server import USER, PostgresServer

QUERY, PARSE, BIND, SYNC = b"Q", b"P", b"B", b"S"


class CountedConnection:
    """One connection of a client: what it sends is read message by message."""

    def __init__(self, counts: RoundTrips) -> None:
        self._counts = counts
        self._buffer = b""
        self._begun = False
        self._statements: dict[bytes, str] = {}
        self._sent: list[str] = []
        self.listens = False

    def feed(self, data: bytes) -> None:
        """Read what the client sent; parts of messages are kept for the next time."""
        self._buffer += data
        while True:
            # The first message of a connection has no type.
            head = 1 if self._begun else 0
            if len(self._buffer) < head + 4:
                return
            size = head + int.from_bytes(self._buffer[head : head + 4], "big")
            if len(self._buffer) < size:
                return
            message, self._buffer = self._buffer[:size], self._buffer[size:]
            if self._begun:
                self._read(message[:1], message[5:])
            self._begun = True

    def _read(self, kind: bytes, content: bytes) -> None:
        if kind == QUERY:
            text = content[:-1].decode()
            self.listens |= text.startswith("LISTEN")
            self._sent.append(text)
            self._end()
        elif kind == PARSE:
            name, statement, _ = content.split(b"\0", 2)
            self._statements[name] = statement.decode()
        elif kind == BIND:
            self._sent.append(self._statements[content.split(b"\0", 2)[1]])
        elif kind == SYNC:
            self._end()

    def _end(self) -> None:
        sent, self._sent = self._sent, []
        if not self.listens and sent:
            self._counts.sent.append(" / ".join(" ".join(one.split()) for one in sent))


class RoundTrips:
    """What was sent, one text for each round trip that ran a statement."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        """The URL by which the server is reached through the proxy."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def take(self) -> list[str]:
        """Return what was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent


@asynccontextmanager
async def counting(server: PostgresServer) -> AsyncIterator[RoundTrips]:
    """Run a proxy before a server that counts."""
    counts = RoundTrips()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _forward(server.socket, CountedConnection(counts), reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    counts.port = listening.sockets[0].getsockname()[1]
    try:
        yield counts
    finally:
        listening.close()


async def _forward(
    target: Path,
    counted: CountedConnection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    from_server, to_server = await asyncio.open_unix_connection(str(target))

    async def there() -> None:
        while data := await reader.read(65536):
            counted.feed(data)
            to_server.write(data)

    async def back() -> None:
        while data := await from_server.read(65536):
            writer.write(data)

    ways = [asyncio.ensure_future(there()), asyncio.ensure_future(back())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for one in (writer, to_server):
            one.transport.abort()


def count_kinds(sent: list[str]) -> Counter[str]:
    """Count what was sent by its first word."""
    return Counter(text.partition(" ")[0] for text in sent)
