"""One client's connection to the demo upstream: the gateway's own, noted and breakable."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import uvicorn
from uvicorn.server import ServerState

from gateway.demo.journal import EventKind, ReceivedRequest, RequestJournal
from gateway.demo.orders import Break
from gateway.wire.http_server.connection import ServerConnection
from gateway.wire.http_server.limits import ConnectionLimits
from gateway.wire.http_server.slow_readers import count_unread, reset

# Clients are not hurried: how they treat an upstream is what is tested.
DAY = 86_400.0
FLUSH_POLL = 0.001


class DemoConnection(ServerConnection):
    """A connection whose events are noted, and that an answer may break off at any byte."""

    limits = ConnectionLimits(header_bytes=256 * 1024, receive_idle=DAY, slow_reader=DAY)
    header_bytes = limits.header_bytes
    nap = keep_alive = DAY

    def __init__(
        self, number: int, journal: RequestJournal, config: uvicorn.Config, state: ServerState
    ) -> None:
        super().__init__(config, state, {"connection": self})
        self.number = number
        self.received: ReceivedRequest | None = None
        """The request that is answered now."""
        self._journal = journal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Meet the client."""
        super().connection_made(transport)
        self.note(EventKind.OPENED)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the client left, and whether it should have stayed."""
        if not self._closed and (self.received or self._is_receiving()):
            self.note(EventKind.CLOSED_BY_CLIENT)
        self.received = None
        self.note(EventKind.CLOSED)
        super().connection_lost(exc)

    def note(self, kind: EventKind) -> None:
        """Note something that happened here."""
        self._journal.note(kind, self.number, self.received)

    def cut(self) -> None:
        """End the connection, whatever it is doing."""
        self._closed = True
        self._transport.abort()

    async def break_off(self, how: Break) -> None:
        """Leave the answer as it is; the caller is cancelled when the connection is gone."""
        self.note(EventKind.BROKE)
        # A head that nothing followed is written in the next round of the loop.
        await anyio.lowlevel.checkpoint()
        if how.how == "close":
            self._closed = True
            self._transport.close()
        elif how.how == "reset":
            await self._reset()
        await anyio.sleep_forever()

    async def _reset(self) -> None:
        # A reset throws away what the client's host does not have yet, so wait until it has all.
        while not self.is_closing() and count_unread(self._transport):  # noqa: ASYNC110 - the kernel tells nobody
            await anyio.sleep(FLUSH_POLL)
        if not self.is_closing():
            self._closed = True
            reset(self._transport)
