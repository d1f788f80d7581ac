"""One client's connection: HTTP in within our limits, answers out in their order.

It is run by uvicorn's server in the place of uvicorn's own protocol, which has no limits on what
comes in, writes the head of an answer apart from its body, and costs a request twice as much.

The parser (request_parser.py) makes a `RequestCycle` of each request; this class says when it is
answered, and when the connection ends. What always holds:

- One request is answered at a time, by one task a connection, in the order they came. `_cycle` is
  the one under way or the last; cycles parsed behind it stand in `_waiting`; bytes that come while
  a whole request is unanswered stay unparsed in `_ahead`.
- Memory is bounded: heads by `header_bytes`, an unread body and `_ahead` by no longer reading from
  the socket, unread answers by the transport's marks and `blocked`.
- Time is bounded: one timer (`_look`) closes a connection on which nothing more comes, a
  `ReaderWatch` one whose client does not read. Neither runs while a long answer rests.
- Whoever is refused reads why: the connection lingers a moment before it is closed. Who answers
  the request logs it, or the `listener` if nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import anyio
import httptools
import uvicorn
from uvicorn.server import ServerState

from gateway.errors import Headers, HoldgateError
from gateway.wire.http_server.limits import ConnectionCounts, ConnectionLimits, Release
from gateway.wire.http_server.refusals import (
    TOO_LONG,
    TOO_MANY,
    TOO_SLOW,
    UNREADABLE,
    NullRefusalListener,
    RefusalListener,
    RefusedConnections,
    ServerRefusal,
)
from gateway.wire.http_server.request_cycle import App, RequestCycle, Scope
from gateway.wire.http_server.request_parser import HttpRequestReader
from gateway.wire.http_server.slow_readers import ReaderWatch, count_unread, notice_leaving

KEEP_ALIVE = 75.0
LINGER = 1.0
NOT_YET: tuple[object, bytes] = (None, b"")
# No parser takes it, whatever came before.
NEVER_VALID = b"\0"


class ServerConnection(HttpRequestReader):
    """One client connection: no endless headers, no request that never comes whole."""

    __slots__ = (
        "_ahead",
        "_always",
        "_app",
        "_closed",
        "_cycle",
        "_idle",
        "_look_again",
        "_loop",
        "_next",
        "_reader",
        "_release",
        "_server",
        "_worker",
        "_writable",
        "blocked",
        "refusal",
    )

    limits = ConnectionLimits()
    counts: ConnectionCounts | None = None
    listener: RefusalListener = NullRefusalListener()
    turned_away = RefusedConnections(listener.tell_connections)
    keep_alive = KEEP_ALIVE
    header_bytes = limits.header_bytes
    nap = limits.receive_idle
    """How long a connection is not looked at, at most."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(app_state)
        if not config.loaded:
            config.load()
        self._app = cast(App, config.loaded_app)
        self._server = server_state
        self._loop = _loop or asyncio.get_event_loop()
        self._writable: list[asyncio.Future[None]] = []
        self._closed = False
        self.blocked = False
        self._cycle: RequestCycle | None = None
        self._ahead = b""
        self._next: RequestCycle | None = None
        self._idle: asyncio.Future[None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._release: Release | None = None
        self._reader: ReaderWatch | None = None
        self._look_again: asyncio.TimerHandle | None = None
        self._always = NOT_YET
        self.refusal: HoldgateError | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Meet the client."""
        self._transport = cast(asyncio.Transport, transport)
        self._heard_at = self._since = self._loop.time()
        if self.counts is not None:
            self._release = self.counts.admit(str((self._meet()["client"] or ("",))[0]))
            if self._release is None:
                self._turn_away(self.counts)
                return
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._look_again = self._loop.call_later(self.nap, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take it that the client is gone, and tell those who answer it."""
        self._closed = True
        self._stop_looking()
        if self._reader is not None:
            self._reader.stop()
        if self._release is not None:
            self._release()
        self._server.connections.discard(self)
        self.resume_writing()
        for cycle in (self._cycle, self._coming, *self._waiting):
            if cycle is not None:
                cycle.lose()
        self._waiting.clear()
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        # They refer back: nothing of a connection would be freed before a collection.
        self._parser = self._cycle = self._coming = None

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._heard_at = self._loop.time()
        if self.is_closing():
            return
        if self._is_answering():
            self._keep(data)
            return
        try:
            self._parse(data)
        except httptools.HttpParserUpgrade:
            self._end_http()
        except httptools.HttpParserError:
            self._misread()
        else:
            if self._bare_bytes > self.header_bytes and not self.is_closing():
                self._refuse(TOO_LONG)

    def pause_writing(self) -> None:
        """Hear that the client does not read."""
        # A plain flag: it is looked at for every event.
        self.blocked = True
        self._watch_reader()

    def resume_writing(self) -> None:
        """Hear that the client reads again."""
        self.blocked = False
        # More than one may wait: a heartbeat stands beside whoever sends the answer.
        waiting, self._writable = self._writable, []
        for writer in waiting:
            if not writer.done():
                writer.set_result(None)

    # What uvicorn's server calls.

    def shutdown(self) -> None:
        """Close, or do so after the answer under way."""
        if self._cycle is None or self._cycle.ended:
            self.close()
        else:
            # The answer under way ends as it would, and says that it is the last.
            self._cycle.keep_alive = False

    # What a cycle calls.

    @property
    def always(self) -> bytes:
        """The header lines every answer carries: the date, made once a second."""
        headers = self._server.default_headers
        # uvicorn makes a new list every second, so that identity tells of a new date.
        if self._always[0] is not headers:
            lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
            self._always = (headers, lines)
        return self._always[1]

    def is_closing(self) -> bool:
        """Whether nothing more is to be read or written."""
        return self._closed or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Write to the client."""
        self._transport.write(data)

    def write_pieces(self, pieces: Sequence[bytes]) -> None:
        """Write to the client without joining the pieces."""
        self._transport.writelines(pieces)

    def read_on(self) -> None:
        """Go on reading, if that was stopped."""
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    @property
    def stalled_since(self) -> float | None:
        """When a client that must be waited for last took something."""
        return None if self._reader is None else self._reader.since

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self.blocked:
            writer = self._loop.create_future()
            self._writable.append(writer)
            await writer

    def close(self) -> None:
        """Close; a client that still sends gets a moment to read why it should not."""
        is_sending = self._is_receiving() or bool(self._ahead) or not self._reading
        self._stop_looking()
        if self._transport.get_write_buffer_size():
            # A closing transport stays until all is written: for ever, if nobody reads.
            self._watch_reader()
        if self._closed or not (is_sending and self._transport.can_write_eof()):
            self._transport.close()
        else:
            self._linger()
        self._closed = True

    def rest(self) -> None:
        """Let go of what is needed only to read requests, until the answer is complete."""
        self._stop_looking()
        self._addresses, self._always = None, NOT_YET
        # In the middle of a pipelined request the parser is needed for the rest of it.
        if not self._begun:
            self._parser, self._headers = None, []

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        self._server.total_requests += 1
        self._heard_at = self._since = self._loop.time()
        if self.is_closing():
            return
        # After a long answer, what it let go of is needed again.
        if self._parser is None:
            self._parser = self._new_parser()
        if self._look_again is None:
            self._look_again = self._loop.call_later(self.nap, self._look)
        self.read_on()
        if self._waiting:
            self._begin(self._waiting.pop(0))
        # Not before: what was sent ahead is read when its turn has come.
        if self._ahead and not self._is_answering():
            data, self._ahead = self._ahead, b""
            self.data_received(data)

    # Ours.

    def _accept(self, scope: Scope, lasts: bool) -> RequestCycle:
        cycle = RequestCycle(self, scope, self._loop, lasts, self._expects)
        if self._cycle is None or self._cycle.ended:
            self._begin(cycle)
        else:
            self._waiting.append(cycle)
        return cycle

    def _begin(self, cycle: RequestCycle) -> None:
        """Have a request answered, by the one who answers all of this connection."""
        self._cycle = self._next = cycle
        # The task is kept between requests, and asleep unless it is just answering.
        if self._idle is not None:
            self._idle.set_result(None)
            self._idle = None
        elif self._worker is None:
            self._worker = self._loop.create_task(self._work())
            self._server.tasks.add(self._worker)
            self._worker.add_done_callback(self._server.tasks.discard)

    async def _work(self) -> None:
        """Answer one request after the other.

        A task and a scope for each of them were a tenth of what a small request cost. The scope
        is cancelled only by what ends the connection as well.
        """
        with anyio.CancelScope() as scope:
            while not self._closed:
                cycle, self._next = self._next, None
                if cycle is None:
                    self._idle = self._loop.create_future()
                    await self._idle
                else:
                    cycle.cancel_scope = scope
                    await cycle.run(self._app)
        self._idle = None
        if not self._closed:
            self.close()

    def _keep(self, data: bytes) -> None:
        """Keep what is sent ahead of an answer still under way; of much only the beginning.

        The rest waits in the kernel, and the client with it, until the answer is whole.
        """
        self._ahead += data
        if len(self._ahead) > self.header_bytes and self._reading:
            self._reading = False
            self._transport.pause_reading()
            notice_leaving(self._transport, lambda: not (self._reading or self._closed), self._loop)

    def _end_http(self) -> None:
        """Let the request that would go on in another protocol be the last, and be told no."""
        cycle = self._coming
        if cycle is not None and cycle.is_websocket:
            # Admission answers it, with 426 and the reason.
            cycle.keep_alive = False
        elif self._waiting:
            # Nobody answers it before those in front; then it is refused as what it is not.
            self._waiting.pop()
            self._ahead = NEVER_VALID
        else:
            self._refuse(UNREADABLE)

    def _misread(self) -> None:
        """Refuse what is not HTTP, after the answers to what was."""
        if self._is_answering():
            self._ahead = NEVER_VALID
        else:
            self._refuse(UNREADABLE)

    def _refuse(self, refusal: ServerRefusal) -> None:
        """Say why nothing more is read here, and see that it is logged once."""
        cycle = None if self._in_head else self._coming
        # Only what has no answer yet, not even the beginning of one, can be told.
        if cycle is None or not cycle.started:
            self._transport.write(refusal.write_answer(self._tell(refusal, cycle)))
        self.close()

    def _tell(self, refusal: ServerRefusal, cycle: RequestCycle | None) -> Headers:
        """Tell of it; return the headers that name it, if it has a name of its own."""
        if cycle is not None and cycle is not self._next:
            # Whoever answers it waits for its body, and tells with whose request it was.
            self.refusal = refusal.make_error()
            cycle.lose()
        elif self._cycle is not None or self._is_receiving():
            # Without a byte there was no request.
            return self.listener.tell_request(refusal.make_error())
        return ()

    def _turn_away(self, counts: ConnectionCounts) -> None:
        """Say that there are too many connections."""
        self.turned_away.add(self._loop)
        self._release = counts.let_linger()
        if self._release is None:
            self._transport.abort()
        else:
            self._transport.write(TOO_MANY.write_answer())
            self._linger()
        self._closed = True

    def _linger(self) -> None:
        """Close in a moment: at once, the client's kernel would throw the answer away unread."""
        self._transport.write_eof()
        self._reading = True
        self._transport.resume_reading()
        self._loop.call_later(LINGER, self._transport.close)

    def _watch_reader(self) -> None:
        if self._reader is None:
            self._reader = ReaderWatch(self._transport, self.limits.slow_reader, self._loop)
        self._reader.start()

    def _is_answering(self) -> bool:
        """Whether a request came whole and has no whole answer yet."""
        cycle = self._cycle
        return cycle is not None and not cycle.more_body and not cycle.ended

    def _stop_looking(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()
            self._look_again = None

    def _look(self) -> None:
        """Close a connection on which nothing more comes; one timer a connection."""
        now = self._loop.time()
        left = self._time_left(now)
        is_between = self._is_between()
        if left <= 0:
            self._look_again = None
            if is_between:
                self.close()
            else:
                self._refuse(TOO_SLOW)
            return
        if is_between and count_unread(self._transport):
            self._watch_reader()
        self._look_again = self._loop.call_later(max(min(left, self.nap), 0.001), self._look)

    def _time_left(self, now: float) -> float:
        """Return how long the client may still take for what has to come now."""
        if self._is_answering():
            return self.nap
        quiet, limits = now - self._heard_at, self.limits
        if self._is_between():
            return self.keep_alive - quiet
        left = limits.receive_idle - quiet
        return min(left, self._since + limits.receive_total - now) if limits.receive_total else left

    def _is_between(self) -> bool:
        """Whether one request was answered and no other has begun."""
        return self._cycle is not None and not self._is_receiving()


def build_connection_class(
    limits: ConnectionLimits, listener: RefusalListener
) -> type[ServerConnection]:
    """Return the protocol with these limits; `listener` hears whom it refuses by itself."""
    is_counted = limits.connections or limits.connections_per_address
    waits = (limits.receive_idle, limits.receive_total or limits.receive_idle, limits.slow_reader)
    members = {
        "limits": limits,
        "header_bytes": limits.header_bytes,
        "nap": min(waits),
        "counts": ConnectionCounts(limits) if is_counted else None,
        "listener": listener,
        "turned_away": RefusedConnections(listener.tell_connections),
        "__slots__": (),
    }
    return type("LimitedConnection", (ServerConnection,), members)
