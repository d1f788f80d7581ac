"""The server process: uvicorn with our limits on what comes in, and our way of leaving."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Literal

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

KEEP_ALIVE = 75
LINGER = 1.0
CONTINUE = b"HTTP/1.1 100"
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
# The name under which a request's scope says how to hear of its client leaving.
LEAVING = "holdgate.leaving"
# And the one for writing frames without passing the server's general way of sending.
WRITING = "holdgate.writing"


def _refusal(status: str, code: str, message: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    body = json.dumps({"error": error}).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n%b" % (len(body), body)


TOO_SLOW = _refusal("408 Request Timeout", "request_timeout", "The request did not come whole.")
TOO_LONG = _refusal("400 Bad Request", "bad_request", "The headers are too large.")
UNREADABLE = _refusal("400 Bad Request", "bad_request", "This is not valid HTTP.")


class Corked:
    """A transport that writes the head of an answer together with what follows it.

    uvicorn writes them apart, which is a second system call and often a second packet. And it
    closes on a client that still sends, whose kernel then throws the answer away unread.
    """

    __slots__ = ("_closed", "_expected", "_head", "_loop", "_transport", "lingers")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._expected = False
        self._head = b""
        self._closed = False
        self.lingers: Callable[[], bool] = lambda: False

    def expect_head(self) -> None:
        """Keep the next thing written until more is, or nothing else is left to do."""
        self._expected = True

    def write(self, data: bytes) -> None:
        """Write, behind a head that waits."""
        if self._head:
            data, self._head = self._head + data, b""
        elif self._expected and not data.startswith(CONTINUE):
            self._expected = False
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            self.write(b"")

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self._closed or self._transport.is_closing()

    def close(self) -> None:
        """Close; a client that still sends gets a moment to read why it should not."""
        self._flush()
        if self._closed or not (self.lingers() and self._transport.can_write_eof()):
            self._transport.close()
        else:
            self._transport.write_eof()
            self._transport.resume_reading()
            self._loop.call_later(LINGER, self._transport.close)
        self._closed = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class LimitedProtocol(HttpToolsProtocol):
    """One client connection: no endless headers, no request that never comes whole."""

    header_bytes = 64 * 1024
    receive_idle = 30.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._corked = Corked(transport, self.loop)
        self._corked.lingers = self._is_receiving
        self.transport = self._corked  # type: ignore[assignment]
        self._heard_at = self.loop.time()
        self._head_bytes = 0
        self._in_head = True
        self._answered: RequestResponseCycle | None = None
        self._ahead = b""
        self._left: Callable[[], None] | None = None
        self._look_again = self.loop.call_later(self.receive_idle, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._look_again.cancel()
        super().connection_lost(exc)
        if self._left is not None:
            self._left()
        if (answering := self._answering()) is not None:
            # uvicorn tells only the request that came last, which may wait behind this one.
            answering.disconnected = True
            answering.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        if self._is_closing():
            return
        if self._answering() is not None:
            self._keep(data)
            return
        if self._in_head:
            self._head_bytes += len(data)
            if b"h2c" in data:
                data = _without_upgrade(data)
        super().data_received(data)
        if self.pipeline:
            # A connection that is not read from does not show that its client left.
            self.flow.resume_reading()
        if self._in_head and self._head_bytes > self.header_bytes and not self._is_closing():
            self.transport.write(TOO_LONG)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._corked.expect_head()
        self.scope["extensions"] = {
            LEAVING: self._tell_when_gone,  # type: ignore[dict-item]
            WRITING: self._write_frames,  # type: ignore[dict-item]
        }
        super().on_headers_complete()
        if not self.pipeline:
            self._answered = self.cycle

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._left = None
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()
        if self._ahead and not self._is_closing():
            data, self._ahead = self._ahead, b""
            self.data_received(data)

    def send_400_response(self, msg: str) -> None:
        self.transport.write(UNREADABLE)
        self.transport.close()

    def _tell_when_gone(self, left: Callable[[], None]) -> None:
        """Have this called when the client of the answer under way is gone."""
        if self._is_closing():
            self.loop.call_soon(left)
        self._left = left
        # After a large body reading may still be paused, and nobody would notice.
        self.flow.resume_reading()

    def _write_frames(self, frames: bytes) -> bool:
        """Write a chunk of a stream that has begun; False when the client must be waited for."""
        if self.flow.write_paused or self._is_closing():
            return False
        self._corked.write(b"%x\r\n%b\r\n" % (len(frames), frames))
        return True

    def _keep(self, data: bytes) -> None:
        """Keep what is sent ahead of an answer still under way, within the bounds of a head."""
        self._ahead += data
        if len(self._ahead) > self.header_bytes:
            self.transport.close()

    def _answering(self) -> RequestResponseCycle | None:
        """Return the request that came whole and has no whole answer yet."""
        answered = self._answered
        if answered is None or answered.more_body or answered.response_complete:
            return None
        return answered

    def _is_closing(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def _look(self) -> None:
        """Close a connection whose request stopped coming; one timer a connection."""
        quiet = self.loop.time() - self._heard_at
        if self._is_waiting() and quiet >= self.receive_idle:
            if not self.cycle or not self.cycle.response_started:
                self.transport.write(TOO_SLOW)
            self.transport.close()
            return
        again = self.receive_idle - quiet if quiet < self.receive_idle else self.receive_idle
        self._look_again = self.loop.call_later(again, self._look)

    def _is_waiting(self) -> bool:
        if self._answering() is not None:
            return False
        return self.cycle is None or self._is_receiving()

    def _is_receiving(self) -> bool:
        in_head = self._in_head and self._head_bytes > 0
        in_body = not self._in_head and self.cycle is not None and self.cycle.more_body
        return in_head or in_body


def _without_upgrade(data: bytes) -> bytes:
    """Hide an offer to go on in HTTP/2, which we may ignore: the parser would drop the body."""
    head, end, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-upgrade:", head) + end + body


def limited_protocol(header_bytes: int, receive_idle: float) -> type[LimitedProtocol]:
    """Return the protocol with these limits."""
    limits = {"header_bytes": header_bytes, "receive_idle": receive_idle}
    return type("LimitedProtocol", (LimitedProtocol,), limits)


class Server(uvicorn.Server):
    """Runs until a signal, then lets the gateway drain before it closes anything."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(config)
        self._leave = leave
        self._leaving = False
        self.listening: Callable[[str], None] = lambda url: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        if self.started and sockets:
            self.listening(_url(sockets[0]))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave on SIGINT and SIGTERM; a second one does not wait."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self._leaving:
            self.force_exit = self.should_exit = True
            return
        self._leaving = True
        self._leave(self._exit)

    def _exit(self) -> None:
        self.should_exit = True


def server_config(
    app: Any,
    protocol: type[HttpToolsProtocol],
    grace: float,
    lifespan: Literal["on", "off"] = "on",
) -> uvicorn.Config:
    """Say how uvicorn is to run."""
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(grace)),
        backlog=2048,
    )


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; dead peers of accepted connections are noticed by the kernel."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    sock.bind((host, port))
    sock.set_inheritable(True)
    return sock


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
