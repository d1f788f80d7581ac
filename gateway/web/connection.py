"""One client's connection: HTTP in within our limits, answers out in their order.

It is run by uvicorn's server in the place of uvicorn's own protocol, which has no limits on what
comes in, writes the head of an answer apart from its body, and costs a request twice as much.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, cast
from urllib.parse import unquote

import anyio
import httptools
import uvicorn
from uvicorn.server import ServerState

from gateway.web.cycle import CYCLE, App, Cycle

KEEP_ALIVE = 75.0
LINGER = 1.0
MOST_UNREAD = 64 * 1024
NOT_YET: tuple[object, bytes] = (None, b"")
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


def _refusal(status: str, code: str, message: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    body = json.dumps({"error": error}).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body)


TOO_SLOW = _refusal("408 Request Timeout", "request_timeout", "The request did not come whole.")
TOO_LONG = _refusal("400 Bad Request", "bad_request", "The headers are too large.")
UNREADABLE = _refusal("400 Bad Request", "bad_request", "This is not valid HTTP.")


class Connection(asyncio.Protocol):
    """One client connection: no endless headers, no request that never comes whole."""

    __slots__ = (
        "_addresses",
        "_ahead",
        "_always",
        "_app",
        "_app_state",
        "_begun",
        "_closed",
        "_coming",
        "_cycle",
        "_expects",
        "_head_bytes",
        "_headers",
        "_heard_at",
        "_idle",
        "_in_head",
        "_look_again",
        "_loop",
        "_next",
        "_parser",
        "_reading",
        "_server",
        "_transport",
        "_url",
        "_waiting",
        "_worker",
        "_writable",
        "blocked",
    )

    header_bytes = 64 * 1024
    receive_idle = 30.0
    keep_alive = KEEP_ALIVE

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._app = cast(App, config.loaded_app)
        self._server = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_event_loop()
        self._parser: Any = _parser(self)
        self._transport: asyncio.Transport
        self._addresses: dict[str, Any] | None = None
        self._writable: list[asyncio.Future[None]] = []
        self._reading = True
        self._closed = False
        self.blocked = False
        self._cycle: Cycle | None = None
        self._coming: Cycle | None = None
        self._waiting: list[Cycle] = []
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._begun = False
        self._expects = False
        self._in_head = True
        self._head_bytes = 0
        self._ahead = b""
        self._next: Cycle | None = None
        self._idle: asyncio.Future[None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._heard_at = 0.0
        self._look_again: asyncio.TimerHandle | None = None
        self._always = NOT_YET

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Meet the client."""
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)  # type: ignore[arg-type]
        self._heard_at = self._loop.time()
        self._look_again = self._loop.call_later(self.receive_idle, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take it that the client is gone, and tell those who answer it."""
        self._closed = True
        self._stop_looking()
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
        if self._in_head:
            self._head_bytes += len(data)
            if b"h2c" in data:
                data = _without_upgrade(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(UNREADABLE)
            return
        if self._in_head and self._head_bytes > self.header_bytes and not self.is_closing():
            self._refuse(TOO_LONG)

    def pause_writing(self) -> None:
        """Hear that the client does not read."""
        self.blocked = True

    def resume_writing(self) -> None:
        """Hear that the client reads again."""
        self.blocked = False
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
            self._cycle.keep_alive = False

    # What the parser calls, in this order.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._begun = True
        self._url = b""
        self._headers = []
        self._expects = False

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Have the request answered, or wait for its turn."""
        self._in_head = False
        parser = self._parser
        version = parser.get_http_version()
        scope = self._scope(parser.get_method().decode("ascii"), version)
        lasts = version != "1.0" and parser.should_keep_alive()
        cycle = Cycle(self, scope, self._loop, lasts, self._expects)
        scope["extensions"] = {CYCLE: cycle}
        self._coming = cycle
        if self._cycle is None or self._cycle.ended:
            self._begin(cycle)
        else:
            self._waiting.append(cycle)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        cycle = self._coming
        assert cycle is not None
        if cycle.ended:
            return
        cycle.add_body(body)
        # A connection that is not read from does not show that its client left.
        if cycle.unread > MOST_UNREAD and not self._waiting and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._begun = False
        self._in_head = True
        self._head_bytes = 0
        if self._coming is not None:
            self._coming.end_body()

    # What a cycle calls.

    @property
    def always(self) -> bytes:
        """The header lines every answer carries: the date, made once a second."""
        headers = self._server.default_headers
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

    def read_on(self) -> None:
        """Go on reading, if that was stopped."""
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    async def drain(self) -> None:
        """Wait until the client reads."""
        if self.blocked:
            writer = self._loop.create_future()
            self._writable.append(writer)
            await writer

    def close(self) -> None:
        """Close; a client that still sends gets a moment to read why it should not."""
        if self._closed or not (self._is_receiving() and self._transport.can_write_eof()):
            self._transport.close()
        else:
            # Closed at once, its kernel would throw the answer away unread.
            self._transport.write_eof()
            self._reading = True
            self._transport.resume_reading()
            self._loop.call_later(LINGER, self._transport.close)
        self._closed = True

    def rest(self) -> None:
        """Let go of what is needed only to read requests, until the answer is complete."""
        self._stop_looking()
        self._addresses, self._always = None, NOT_YET
        if not self._begun:
            self._parser, self._headers = None, []

    def answered(self) -> None:
        """Go on with the next request."""
        self._server.total_requests += 1
        self._heard_at = self._loop.time()
        if self.is_closing():
            return
        if self._parser is None or self._look_again is None:
            self._rouse()
        if not self._reading:
            self.read_on()
        if self._waiting:
            self._begin(self._waiting.pop(0))
        if self._ahead and not self._is_answering():
            data, self._ahead = self._ahead, b""
            self.data_received(data)

    # Ours.

    def _rouse(self) -> None:
        """Take up again what was let go of for a long answer."""
        if self._parser is None:
            self._parser = _parser(self)
        if self._look_again is None:
            self._look_again = self._loop.call_later(self.receive_idle, self._look)

    def _met(self) -> dict[str, Any]:
        """Say who speaks to whom."""
        told = self._transport.get_extra_info
        self._addresses = {
            "server": _address(told("sockname")),
            "client": _address(told("peername")),
            "scheme": "https" if told("sslcontext") else "http",
        }
        return self._addresses

    def _scope(self, method: str, version: str) -> dict[str, Any]:
        target, _, query = self._url.partition(b"?")
        if not target.startswith(b"/"):
            url = httptools.parse_url(self._url)
            target, query = url.path or b"", url.query or b""
        path = target.decode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": target,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            "state": self._app_state.copy(),
            **(self._addresses or self._met()),
        }

    def _begin(self, cycle: Cycle) -> None:
        """Have a request answered, by the one who answers all of this connection."""
        self._cycle = self._next = cycle
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
        """Keep what is sent ahead of an answer still under way, within the bounds of a head."""
        self._ahead += data
        if len(self._ahead) > self.header_bytes:
            self.close()

    def _refuse(self, answer: bytes) -> None:
        self._transport.write(answer)
        self.close()

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
        quiet = self._loop.time() - self._heard_at
        patience = self._patience()
        if patience is not None and quiet >= patience:
            self._lose_patience()
            return
        again = self.receive_idle if patience is None else patience - quiet
        self._look_again = self._loop.call_later(max(again, 0.001), self._look)

    def _patience(self) -> float | None:
        """Return for how long nothing may come, if something has to come now."""
        if self._is_answering():
            return None
        is_between = self._cycle is not None and not self._is_receiving()
        return self.keep_alive if is_between else self.receive_idle

    def _lose_patience(self) -> None:
        is_between = self._cycle is not None and not self._is_receiving()
        if not is_between and not (self._cycle and self._cycle.started and not self._cycle.ended):
            self._transport.write(TOO_SLOW)
        self.close()

    def _is_receiving(self) -> bool:
        if self._in_head:
            return self._head_bytes > 0
        return self._coming is not None and self._coming.more_body


def _parser(connection: Connection) -> Any:
    parser = httptools.HttpRequestParser(connection)
    # A request that asks to be the last may have another behind it; that one is dropped.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _address(pair: Any) -> tuple[str, int] | None:
    return (str(pair[0]), int(pair[1])) if isinstance(pair, tuple) and len(pair) > 1 else None


def _without_upgrade(data: bytes) -> bytes:
    """Hide an offer to go on in HTTP/2, which we may ignore: the parser would drop the body."""
    head, end, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + body


def limited_connection(header_bytes: int, receive_idle: float) -> type[Connection]:
    """Return the protocol with these limits."""
    limits = {"header_bytes": header_bytes, "receive_idle": receive_idle, "__slots__": ()}
    return type("LimitedConnection", (Connection,), limits)
