"""One client's connection to the demo upstream: HTTP in, output out.

It is no ordinary server's: a script may drop, reset or hang the connection at any byte, and choose
the chunks, so the demo speaks HTTP/1.1 itself instead of using `wire/http_server`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import httptools

from gateway.demo.chat import write_error
from gateway.demo.dialect import AnswerStamp
from gateway.demo.journal import EventKind, ReceivedRequest, RequestJournal
from gateway.demo.play import send_document
from gateway.demo.player import Player
from gateway.demo.routes import respond
from gateway.demo.script import Break, Fail

MOST_BODY = 64 * 1024 * 1024
MOST_HEAD = 256 * 1024
MOST_WAITING = 16
TOO_LONG = Fail(413, f"The body is longer than {MOST_BODY} bytes.")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"connection: close\r\n"


@dataclass(slots=True)
class PartialRequest:
    """A request that is still being read."""

    url: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    head_size: int = 0


class ModelConnection(asyncio.Protocol):
    """Reads requests and has them answered, one after the other."""

    def __init__(
        self,
        number: int,
        numbers: Iterator[int],
        journal: RequestJournal,
        peers: set[ModelConnection],
    ) -> None:
        self._number = number
        self._numbers = numbers
        self._journal = journal
        self._peers = peers
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._draft: PartialRequest | None = None
        self._paused = False
        self._problem: Fail | None = None
        self._waiting: deque[ReceivedRequest] = deque()
        self._asked: ReceivedRequest | None = None
        self._player: Player | None = None
        self._our_doing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Meet the client."""
        self._transport = cast(asyncio.Transport, transport)
        self._peers.add(self)
        self._journal.note(EventKind.OPENED, self._number)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notice that the client left, and whether it should have stayed."""
        self._peers.discard(self)
        if self._player is not None:
            self._player.stop()
        if not self._our_doing and (self._asked or self._draft):
            self._journal.note(EventKind.CLOSED_BY_CLIENT, self._number, self._asked)
        self._journal.note(EventKind.CLOSED, self._number)

    def pause_writing(self) -> None:
        """Hear that the client does not read."""
        self._paused = True
        if self._player is not None:
            self._player.block()

    def resume_writing(self) -> None:
        """Hear that the client reads again."""
        self._paused = False
        if self._player is not None:
            self._player.unblock()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self._our_doing:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self._problem = self._problem or Fail(400, f"This is not HTTP/1.1: {problem}.")
        if self._problem is not None:
            self._reject(self._problem)
        elif self._asked is None and self._waiting:
            self._next()

    def cut(self) -> None:
        """End the connection, whatever it is doing."""
        self._our_doing = True
        self._transport.abort()

    # What httptools calls, in this order.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._draft = PartialRequest()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        draft = self._weigh(len(url))
        draft.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        draft = self._weigh(len(name) + len(value))
        draft.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Refuse what cannot be read before it comes; let a careful client send its body."""
        headers = self._weigh(0).headers
        if self._parser.should_upgrade():
            self._problem = Fail(400, "This server speaks HTTP/1.1 only.")
        if any(name == "content-length" and int(size) > MOST_BODY for name, size in headers):
            self._problem = TOO_LONG
        elif ("expect", "100-continue") in headers and self._asked is None:
            self._transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        draft = self._weigh(0)
        if len(draft.body) + len(body) > MOST_BODY:
            self._problem = TOO_LONG
        else:
            draft.body += body

    def on_message_complete(self) -> None:
        """Let the request wait for its turn."""
        draft, self._draft = self._weigh(0), None
        if self._problem is not None:
            return
        version = self._parser.get_http_version()
        received = ReceivedRequest(
            number=next(self._numbers),
            connection=self._number,
            method=self._parser.get_method().decode("latin-1"),
            target=draft.url.decode("latin-1"),
            headers=tuple(draft.headers),
            body=bytes(draft.body),
            version=version,
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
        )
        self._journal.note(EventKind.REQUEST, self._number, received)
        self._waiting.append(received)
        if len(self._waiting) > MOST_WAITING:
            self._problem = Fail(429, f"More than {MOST_WAITING} requests wait on one connection.")

    def _weigh(self, more: int) -> PartialRequest:
        assert self._draft is not None
        self._draft.head_size += more
        if self._draft.head_size > MOST_HEAD:
            self._problem = Fail(431, f"The headers are longer than {MOST_HEAD} bytes.")
        return self._draft

    def _next(self) -> None:
        self._asked = asked = self._waiting.popleft()
        stamp = AnswerStamp(asked.number, int(asked.events[0].at))
        outputs = respond(asked.method, asked.path, asked.body, stamp)
        extra = b"x-request-id: req_demo%08d\r\n" % asked.number
        extra += b"" if asked.keep_alive else CLOSE
        chunked = asked.version != "1.0"
        self._player = Player(self._transport, outputs, extra, chunked, self._finish)
        if self._paused:
            self._player.block()
        self._player.play()

    def _finish(self, broke: Break | None) -> None:
        asked = self._asked
        assert asked is not None
        event = EventKind.FINISHED if broke is None else EventKind.BROKE
        self._journal.note(event, self._number, asked)
        if broke is not None:
            self._our_doing = broke.how != "hang"
            return
        self._asked = self._player = None
        if not asked.keep_alive:
            self._our_doing = True
            self._transport.close()
        elif self._waiting:
            self._next()

    def _reject(self, fail: Fail) -> None:
        self._our_doing = True
        if self._asked is not None:
            self._transport.abort()
            return
        body = send_document(fail.status, write_error(fail))
        Player(self._transport, body, CLOSE, True, lambda broke: None).play()
        self._transport.close()
