"""One request and its answer on a client's connection.

An ASGI application speaks to it by `receive` and `send`: the general way, which says what is
right. The model endpoints also use the direct way below it. Each method there does at once what the
general way would do, or declines and has done nothing; then the caller goes the general way. That
both write the same bytes is shown by tests/wire/test_request_cycle.py. What always holds:

- The head is made when the answer starts and kept in `_head` until something is written: head and
  first frames are one packet.
- `_chunked` is None until the answer starts; where it is False, `_length` is what is still to come.
- Nothing is written after `disconnected`, and `ended` comes once. The next request of the
  connection may begin within that very call.
- Nothing of the request stays here: scope and body are handed over, since the answer may be held
  for hours, one of thousands.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Protocol

import anyio

from gateway.errors import Headers, HoldgateError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
App = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Any]

log = logging.getLogger("holdgate.server")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
BODILESS = (204, 304)
JSON = b"application/json"
LARGE = 16 * 1024
# The name under which a request's scope holds its cycle, for those who know what that is.
CYCLE = "holdgate.cycle"
# In the message that says that a client is gone: the error it was told, if that was why.
REFUSAL = "holdgate.refusal"
PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
STATUS_LINES = {s: f"HTTP/1.1 {s} {PHRASES.get(s, '')}\r\n".encode() for s in range(100, 600)}
TOO_LONG = "The answer is longer than its content-length."
INTERNAL_ERROR = b"Internal Server Error"
_take_name = itemgetter(0)


class Peer(Protocol):
    """The connection, as a cycle uses it."""

    blocked: bool
    """Whether the client does not read what was written."""
    refusal: HoldgateError | None
    """What the client was told when its request was given up before it was whole."""

    @property
    def always(self) -> bytes:
        """The header lines every answer carries."""

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""

    def write(self, data: bytes) -> None:
        """Write to the client."""

    def write_pieces(self, pieces: Sequence[bytes]) -> None:
        """Write to the client without joining the pieces."""

    def read_on(self) -> None:
        """Go on reading, if that was stopped."""

    @property
    def stalled_since(self) -> float | None:
        """When a client that must be waited for last took something."""

    async def drain(self) -> None:
        """Wait until the client reads."""

    def close(self) -> None:
        """Close, once all is written."""

    def on_response_complete(self) -> None:
        """Hear that the answer is complete."""

    def rest(self) -> None:
        """Let go of what is needed only to read requests, until the answer is complete."""


class RequestCycle:
    """One request and its answer."""

    __slots__ = (
        "_body",
        "_chunked",
        "_chunks",
        "_expects",
        "_head",
        "_is_head",
        "_left",
        "_length",
        "_loop",
        "_news",
        "_peer",
        "_scope",
        "_taken",
        "cancel_scope",
        "disconnected",
        "ended",
        "keep_alive",
        "more_body",
        "started",
    )

    def __init__(
        self,
        peer: Peer,
        scope: Scope,
        loop: asyncio.AbstractEventLoop,
        keep_alive: bool,
        expects: bool,
    ) -> None:
        self._peer = peer
        self._loop = loop
        self._scope = scope
        scope["extensions"] = {CYCLE: self}
        self.keep_alive = keep_alive
        self._expects = expects
        self._is_head = scope["method"] == "HEAD"
        self._chunks = scope["http_version"] == "1.1"
        self._body = b""
        self._taken = False
        self._news: asyncio.Future[None] | None = None
        self._left: Callable[[], None] | None = None
        self._head = b""
        self._chunked: bool | None = None
        self._length = 0
        self.cancel_scope: anyio.CancelScope | None = None
        self.more_body = True
        self.disconnected = False
        self.started = False
        self.ended = False

    # What the connection tells.

    @property
    def unread(self) -> int:
        """How many bytes of the body wait to be taken."""
        return len(self._body)

    @property
    def is_websocket(self) -> bool:
        """Whether it asks to go on as a WebSocket."""
        return offers_websocket(self._scope.get("headers", ()))

    def add_body(self, data: bytes) -> int:
        """Take a piece of the body; return how many bytes of it wait to be taken."""
        # One piece is the rule, and then it is never copied.
        self._body = self._body + data if self._body else data
        if self._news is not None:
            self._wake()
        return len(self._body)

    def end_body(self) -> None:
        """Take the end of the body."""
        self.more_body = False
        if self._news is not None:
            self._wake()

    def lose(self) -> None:
        """Take it that the client is gone."""
        if not self.ended:
            self.disconnected = True
        self._wake()
        # It refers to whoever answers, who refers back: a held answer would stay in memory.
        left, self._left = self._left, None
        if left is not None:
            left()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def run(self, app: App) -> None:
        """Have the application answer; what it leaves undone is a fault of ours."""
        try:
            scope, self._scope = self._scope, {}
            answering = app(scope, self.receive, self.send)
            # The application may let go of it in a long answer: no name of ours keeps it.
            del scope
            await answering
        except Exception as error:
            # The outer loop of every request: the application's own are inside of it.
            log.error("a request failed", exc_info=error)
            await self._give_up()
        else:
            if not self.ended and not self.disconnected:
                log.error("a request was left without an answer")
                await self._give_up()

    async def _give_up(self) -> None:
        if self.started:
            # Cut short is the only honest end: what was sent must not look like a whole answer.
            self._peer.close()
            return
        length = b"%d" % len(INTERNAL_ERROR)
        kind = (b"content-type", b"text/plain; charset=utf-8")
        self._start(500, (kind, (b"content-length", length), (b"connection", b"close")))
        self._finish(INTERNAL_ERROR)

    # ASGI.

    async def receive(self) -> Message:
        """Give the next piece of the body; after the last, wait for the client to leave."""
        if self._expects:
            # The client waits with its body until somebody wants it; a refusal spares it that.
            self._expects = False
            if not self._peer.is_closing():
                self._peer.write(CONTINUE)
        while not (self.disconnected or self.ended or self._has_body()):
            self._peer.read_on()
            await self._wait()
        if self.disconnected or self.ended:
            return {"type": "http.disconnect", REFUSAL: self._peer.refusal}
        body, self._body = self._body, b""
        self._taken = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def _has_body(self) -> bool:
        return not self._taken and (bool(self._body) or not self.more_body)

    async def _wait(self) -> None:
        self._news = self._loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    async def send(self, message: Message) -> None:
        """Take the start or a piece of the answer."""
        if self._peer.blocked and not self.disconnected:
            await self._peer.drain()
        if self.disconnected:
            # ASGI's rule: who still writes to a client that left is not told by an error.
            return
        if message["type"] == "http.response.start" and not self.started:
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            self._start(message["status"], headers)
            # Written with what follows, or soon.
            self._loop.call_soon(self._flush)
        elif message["type"] == "http.response.body" and self.started and not self.ended:
            self._take(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"A {message['type']} does not belong here.")

    def _flush(self) -> None:
        if self._head and not self.disconnected:
            self._write(b"")

    def _take(self, body: bytes, more: bool) -> None:
        if not more:
            self._finish(body)
        elif body and not self._is_head:
            self._write(self._frame(body))

    # The direct way; in brackets what it takes beside the general way, as the least of many runs
    # with a peer that throws away what is written (CPython 3.11, no load).

    def tell_when_gone(self, left: Callable[[], None]) -> None:
        """Have this called when the client is gone before the answer ended."""
        if self.disconnected or self._peer.is_closing():
            self._loop.call_soon(left)
        self._left = left
        # After a large body reading may still be paused, and nobody would notice.
        self._peer.read_on()

    def take_json_body(self, headers: Mapping[bytes, bytes], limit: int) -> bytes | None:
        """Return a JSON body that is all there, as it was sent; None: use `receive_body`."""
        # No coroutines, no message, no second look at the headers (0.4 for 2.7 µs a request).
        if self.more_body or self._taken or self._expects or self.disconnected:
            return None
        if headers.get(b"content-type") != JSON or len(self._body) > limit:
            return None
        self._taken = True
        body, self._body = self._body, b""
        return body

    def start_stream(self, headers: Headers) -> bool:
        """Keep the head of a stream for its first frames; False: use `send`."""
        # No message, and no callback that sends the head alone (2.7 µs less a stream).
        if self._peer.blocked or self.disconnected or self.started:
            return False
        self._start(200, headers)
        return True

    def write_frames(self, frames: bytes) -> bool:
        """Write a chunk of a stream that has begun; False when the client must be waited for."""
        # No coroutine, no message (1.0 for 1.9 µs an event).
        if self._peer.blocked or self.disconnected or self.ended or not self._chunked:
            return False
        if len(frames) > LARGE:
            # They are kept until the turn is judged: a copy would wait beside them to be sent.
            start, self._head = b"%b%x\r\n" % (self._head, len(frames)), b""
            self._peer.write_pieces((start, frames, b"\r\n"))
        else:
            self._write(b"%x\r\n%b\r\n" % (len(frames), frames))
        return True

    @property
    def blocked(self) -> bool:
        """Whether the client must be waited for before more is written."""
        return self._peer.blocked and not self.disconnected

    @property
    def stalled_since(self) -> float | None:
        """When a client that must be waited for last took something."""
        return self._peer.stalled_since

    async def drain(self) -> None:
        """Wait until the client has read enough."""
        await self._peer.drain()

    def write_whole(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write an answer of one piece; False when the client must be waited for."""
        # No coroutines, no messages, and no callback (6.5 for 12 µs a whole answer).
        if self._peer.blocked or self.disconnected or self.started:
            return False
        self._start(status, headers)
        self._finish(body)
        return True

    def rest(self) -> None:
        """Let go of what is needed only to read a request."""
        self._peer.rest()

    def _start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.started = True
        self._expects = False
        # Also of a client that waits to be asked for its body: the answer is there without it.
        always, closes = self._peer.always, False
        lines = [STATUS_LINES[status], always, *[b"%b: %b\r\n" % pair for pair in headers]]
        for place in _find_framing(tuple(map(_take_name, headers))):
            name, value = headers[place]
            if name == b"content-length":
                self._length = int(value)
                self._chunked = False
            elif b"close" in value.lower():
                closes, self.keep_alive = True, False
        if not self.keep_alive and not closes:
            lines.append(b"connection: close\r\n")
        if self._chunked is None and not self._is_head and status not in BODILESS:
            self._chunked = self._chunks
            if self._chunked:
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                # Only the end of the connection can tell an old client where the answer ends.
                self._length, self.keep_alive = 2**63, False
        head = b"".join(lines)
        # Each line ends once: nobody's value may begin another.
        ends = len(lines) - 1 + always.count(b"\n")
        if head.count(b"\n") != ends or head.count(b"\r") != ends or 0 in head:
            raise RuntimeError("A header holds a line break.")
        self._head = head + b"\r\n"

    def _write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        self._peer.write(data)

    def _frame(self, body: bytes) -> bytes:
        """Return a piece of the body as it is written."""
        if self._chunked:
            # An empty chunk would be the end.
            return b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        self._length -= len(body)
        if self._length < 0:
            raise RuntimeError(TOO_LONG)
        return body

    def _finish(self, body: bytes) -> None:
        end = LAST_CHUNK if self._chunked else b""
        self._write(b"" if self._is_head else self._frame(body) + end)
        self.ended = True
        self._left = None
        if self._news is not None:
            self._wake()
        if not self.keep_alive or (self._length and not self._chunked and not self._is_head):
            # Less came than was announced: the next answer would be read as the rest of this one.
            self._peer.close()
        self._peer.on_response_complete()


# Answers have the same few sets of headers, which the gateway chooses.
@lru_cache(maxsize=256)
def _find_framing(names: tuple[bytes, ...]) -> tuple[int, ...]:
    """Return which headers say where an answer ends, and whether its connection does."""
    return tuple([n for n, name in enumerate(names) if name in (b"content-length", b"connection")])


def offers_websocket(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a request asks to go on as a WebSocket."""
    return any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers)
