"""One HTTP/1.1 connection to an upstream: bytes in, the parts of one answer out.

    dialing → busy ⇄ resting         one request at a time, the next when the answer is complete
               ↓        ↑
            draining ───┘            the end of the answer is awaited with nobody reading

and from everywhere to closed.

The way of a byte is short on purpose: `data_received` feeds the parser, the parser appends to a
list, one future is woken. There is no task, queue, lock or timer a read. What always holds:

- `parts` is what was parsed and not taken; `_size` counts all bytes since the last take, framing
  too, so that one number bounds a body nobody reads and a head without end.
- There is one reader, and so one waiter at most.
- A complete answer stays good, whatever the connection does later: `failure` is only set before.
- `refused` means that the peer closed a kept-alive connection without taking the request. Only
  then may the pool send it again: nobody has acted on it.
- The keeper is told once of each connection that is closed, from `connection_lost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from itertools import chain
from math import inf
from typing import Protocol, cast

import httptools
import httpx

from gateway.wire.http_client.upstream import Timeouts
from gateway.wire.tcp import probe, tune, was_acknowledged

# What an answer may have unread, and cost while its client does not read: the peer is made to wait
# when a quarter of it is there, since one more read may bring more than as much again.
HIGH_WATER = 256 * 1024
PAUSE_ABOVE = HIGH_WATER // 4
# Bytes that are not body, in a row: a head, a chunk's extension, trailers.
MAX_HEAD = 64 * 1024
# A longer request is sent piece by piece, as it is taken.
PIECE = 256 * 1024
# What may come, and how long it may take, after the reader has seen enough.
DRAIN_BYTES = 64 * 1024
DRAIN_SECONDS = 1.0

_UNREADABLE = (httptools.HttpParserError, httptools.HttpParserUpgrade)
_FRAMED = frozenset({b"content-length", b"transfer-encoding"})


class Phase(Enum):
    """What a connection is there for now."""

    DIALING = "dialing"
    BUSY = "busy"
    DRAINING = "draining"
    RESTING = "resting"
    CLOSED = "closed"


_BUSY = Phase.BUSY


class ConnectionKeeper(Protocol):
    """Who keeps connections while nobody uses them."""

    def settle_drained(self, connection: ClientConnection) -> None:
        """Take back a connection whose answer ended after its reader had left."""

    def forget(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""


class ReadTimer:
    """Rings when nothing has happened for too long.

    What happens sets `since` and leaves the loop's timer alone; the timer looks at it when it
    fires, and is set anew for the rest. So there is one timer, however many bytes come.
    """

    __slots__ = ("_at", "_limit", "_loop", "_ring", "_timer", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self.since = 0.0
        self._loop = loop
        self._ring = ring
        self._limit = self._at = inf
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, limit: float) -> None:
        """Begin to wait for something that must happen within so many seconds."""
        self.since = self._loop.time()
        self._limit = limit
        if self.since + limit < self._at:
            self._set(self.since + limit)

    def snooze(self) -> None:
        """Begin the same wait again."""
        self.expect(self._limit)

    def stop(self) -> None:
        """Never ring again, unless something is expected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._at = inf

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = self._loop.call_at(at, self._check)

    def _check(self) -> None:
        self._timer = None
        self._at = inf
        due = self.since + self._limit
        if due <= self._loop.time():
            self._ring()
        else:
            self._set(due)


class ClientConnection(asyncio.Protocol):
    """A socket with a parser, and the part of the answer nobody has read yet."""

    __slots__ = (
        "_choked",
        "_feed",
        "_flowing",
        "_idle_limit",
        "_keep_alive",
        "_keeper",
        "_loop",
        "_parser",
        "_paused",
        "_readable",
        "_sending",
        "_size",
        "_socket",
        "_time",
        "_timer",
        "_transport",
        "_used",
        "_waiter",
        "_write",
        "_written",
        "complete",
        "failure",
        "headers",
        "on_body",
        "parts",
        "phase",
        "refused",
        "status",
    )

    def __init__(self, keeper: ConnectionKeeper) -> None:
        self.phase = Phase.DIALING
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.parts: list[bytes] = []
        self.complete = False
        self.failure: httpx.TransportError | None = None
        self.refused = False
        # The parser appends to the list itself: no Python frame for a chunk of the body.
        self.on_body = self.parts.append
        self._keeper = keeper
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._timer = ReadTimer(self._loop, self._overdue)
        self._parser = httptools.HttpResponseParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes | memoryview], None]
        self._waiter: asyncio.Future[None] | None = None
        self._size = self._written = 0
        self._idle_limit = 0.0
        self._used = self._sending = False
        self._keep_alive = self._flowing = self._paused = self._choked = False

    def __repr__(self) -> str:
        return f"<ClientConnection {self.phase.value}>"

    # -- what its user does

    async def request(self, head: bytes, body: bytes, timeouts: Timeouts) -> None:
        """Send one request and wait for the head of its answer."""
        if self.failure is not None:
            raise self.failure
        self.phase = _BUSY
        self.status = self._size = 0
        # A new list: the last answer's may still be in the hands of its reader.
        self.headers = []
        self.complete = self._flowing = self._sending = False
        self._idle_limit = timeouts.idle
        self._written += len(head) + len(body)
        if len(body) <= PIECE:
            # One write is one packet for most requests, and one system call.
            self._write(head + body)
        else:
            await self._send(head, body, timeouts.first_byte)
        if not self._flowing:
            # An answer may have begun while a long body was still being sent.
            self._timer.expect(timeouts.first_byte)
        while not self.status:
            if self.failure is not None:
                raise self.failure
            await self.news()

    def news(self) -> asyncio.Future[None]:
        """Return what to await for the next part, the end or the failure of the answer."""
        if self._paused:
            self._resume()
        self._waiter = waiter = self._loop.create_future()
        return waiter

    def take(self) -> bytes:
        """Return what has arrived, of much of it a piece: more comes only when all is taken."""
        if self._size > PAUSE_ABOVE:
            return self._take_piece()
        parts = self.parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return data

    def _take_piece(self) -> bytes:
        # What is taken is copied several times on its way; what a blocked client waits for is not.
        data = b"".join(self.parts)
        self.parts[:] = [data[PAUSE_ABOVE:]] if len(data) > PAUSE_ABOVE else []
        self._size = len(data) - PAUSE_ABOVE if self.parts else 0
        return data[:PAUSE_ABOVE]

    def pause(self) -> None:
        """Let nothing more come until more is wanted."""
        if self.phase is _BUSY and not self.complete:
            self._pause()

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent after this answer."""
        is_open = self.phase is not Phase.CLOSED
        return self.complete and self._keep_alive and not self._sending and is_open

    @property
    def can_drain(self) -> bool:
        """Whether the end of the answer may still come and leave the connection reusable."""
        return not self.complete and self._keep_alive and self.phase is _BUSY

    @property
    def fresh(self) -> bool:
        """Whether a resting connection still looks alive."""
        return self.phase is Phase.RESTING and not self._readable()

    def rest(self, seconds: float) -> None:
        """Wait for the next request, but not for ever."""
        self.phase = Phase.RESTING
        # From now on the peer may close it in the very moment a request is sent.
        self._used = True
        if self.parts or self._paused:
            self._discard()
        self._timer.expect(seconds)

    def drain(self) -> None:
        """Read on to the end of the answer with nobody interested in it, within bounds."""
        self.phase = Phase.DRAINING
        self._discard()
        self._timer.expect(DRAIN_SECONDS)

    def abort(self) -> None:
        """Close the socket now."""
        self.phase = Phase.CLOSED
        self._timer.stop()
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: httpx.TransportError) -> None:
        """Close the socket and tell the reader why, unless the answer is complete."""
        if self.failure is None and not self.complete:
            self.failure = error
        # The first reason stays: what follows from closing says less.
        self.abort()
        self._wake()

    # -- what the loop reports

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; a dial that was given up in the meantime ends here."""
        self._transport = cast(asyncio.Transport, transport)
        if self.phase is Phase.CLOSED:
            self._transport.abort()
            return
        self._write = self._transport.write
        self._socket = transport.get_extra_info("socket")
        tune(self._socket)
        self._readable = probe(self._socket)

    def data_received(self, data: bytes) -> None:
        """Parse what came and wake the reader."""
        self._size += len(data)
        try:
            self._feed(data)
        except _UNREADABLE:
            # A complete answer stays good; what follows it is nobody's.
            self._keep_alive = False
            if not self.complete:
                self.fail(httpx.RemoteProtocolError("The answer is not HTTP."))
        if self.phase is not _BUSY:
            self._handle_stray_data()
        elif self.parts and not self.complete:
            if self._flowing:
                # No call into the timer: it looks at the time when it fires.
                self._timer.since = self._time()
            else:
                self._flowing = True
                self._timer.expect(self._idle_limit)
            if self._size > PAUSE_ABOVE:
                self._pause()
            self._wake()
        elif self._size > MAX_HEAD and not self.complete:
            self.fail(httpx.RemoteProtocolError("There is no end to the answer's head."))

    def eof_received(self) -> None:
        """Judge the end of the stream: it may be the end of the answer."""
        self._note_refusal()
        if self.status and _FRAMED.isdisjoint([name for name, _ in self.headers]):
            # Without a length only the end of the connection ends the answer.
            self.complete = True
        self.fail(httpx.RemoteProtocolError("The connection ended before the answer."))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader and the keeper that this connection is over."""
        if self.phase is not Phase.CLOSED:
            self._note_refusal()
            self.fail(httpx.ReadError("The connection was reset."))
        self._keeper.forget(self)

    def pause_writing(self) -> None:
        """Stop sending: the peer is slower than we are."""
        self._choked = True

    def resume_writing(self) -> None:
        """Go on sending."""
        self._choked = False
        self._wake()

    # -- what the parser reports

    def on_message_begin(self) -> None:
        """Refuse a second answer: nobody asked for it."""
        if self.complete:
            raise ValueError("data after the end of the answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; trailers are of no use to anybody."""
        if not self.status:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Let the request return, unless this was only an informational answer."""
        status = self._parser.get_status_code()
        if status < 200:
            return
        # The head may have come with much of the body in one read: count it alone.
        if self._size > MAX_HEAD and sum(map(len, chain.from_iterable(self.headers))) > MAX_HEAD:
            raise ValueError("the answer's head is too long")
        self._keep_alive = self._parser.should_keep_alive()
        self.status = status
        self._wake()

    def on_message_complete(self) -> None:
        """Note the end of the answer."""
        if self.status:
            self.complete = True
            self._wake()
        else:
            # Only an informational answer ended; the real one has headers of its own.
            self.headers.clear()

    # -- inside

    async def _send(self, head: bytes, body: bytes, limit: float) -> None:
        """Send a long body as fast as it is taken; stop when the answer is already an error."""
        self._sending = True
        self._write(head)
        rest = memoryview(body)
        while rest and self.failure is None and self.status < 300:
            self._timer.expect(limit)
            self._write(rest[:PIECE])
            rest = rest[PIECE:]
            while self._choked and self.failure is None and self.status < 300:
                await self.news()
        self._sending = bool(rest)

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            cast(asyncio.Transport, self._transport).pause_reading()

    def _resume(self) -> None:
        self._paused = False
        if self.phase is not Phase.CLOSED:
            # The silence so far was ours, not the peer's.
            self._timer.since = self._time()
            cast(asyncio.Transport, self._transport).resume_reading()

    def _discard(self) -> None:
        self.parts.clear()
        self._size = 0
        if self._paused:
            self._resume()

    def _handle_stray_data(self) -> None:
        """Handle bytes that arrive while nobody reads."""
        if self.phase is not Phase.DRAINING:
            self.fail(httpx.RemoteProtocolError("Something was said that nobody asked for."))
        elif self._size > DRAIN_BYTES:
            self.abort()
        elif self.complete:
            self._keeper.settle_drained(self)
        else:
            self.parts.clear()

    def _overdue(self) -> None:
        """Judge a silence; it is ours if there is something to read."""
        if self._paused or (self.phase is _BUSY and self.complete):
            self._timer.snooze()
        elif self.phase is not _BUSY:
            self.abort()
        elif self._sending:
            self.fail(httpx.WriteTimeout("The request was not taken in time."))
        else:
            self.fail(httpx.ReadTimeout("Nothing was answered in time."))

    def _note_refusal(self) -> None:
        """Note whether a connection that was kept alive died without taking the request."""
        if self._used and self.phase is _BUSY and self._size == 0:
            self.refused = not was_acknowledged(self._socket, self._written)
