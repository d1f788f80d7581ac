"""A fake upstream on raw sockets: the test owns every byte and its moment."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from anyio.lowlevel import checkpoint

Story = Callable[["Peer"], Awaitable[None]]

_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was read, and the number of the connection it came on."""

    connection: int
    line: bytes
    headers: dict[bytes, bytes]
    body: bytes
    head: bytes = b""
    """Its line and headers as they came."""


class Peer:
    """One accepted connection."""

    def __init__(self, sock: socket.socket, number: int, log: list[Request]) -> None:
        self.sock = sock
        self.number = number
        self.sent = 0
        self._log = log
        self._unread = bytearray()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def request(self) -> Request:
        """Read one whole request and log it; `EOFError` if the other side closed instead."""
        head = await self._until(b"\r\n\r\n")
        line, *lines = head[:-4].split(b"\r\n")
        headers = {name: value.strip() for name, _, value in (x.partition(b":") for x in lines)}
        lowered = {name.lower(): value for name, value in headers.items()}
        while len(self._unread) < int(lowered.get(b"content-length", b"0")):
            await self._more()
        request = Request(self.number, line, headers, bytes(self._unread), head)
        self._unread.clear()
        self._log.append(request)
        return request

    async def send(self, *pieces: bytes) -> None:
        """Send each piece in a packet of its own."""
        for piece in pieces:
            await asyncio.get_running_loop().sock_sendall(self.sock, piece)
            self.sent += len(piece)
            await checkpoint()

    async def gone(self) -> None:
        """Wait until the connection is closed, by whomever."""
        with suppress(EOFError, ConnectionError):
            while self.sock.fileno() != -1:
                await self._more()
                self._unread.clear()

    async def asked(self) -> None:
        """Wait until there is something to read, and leave it unread.

        A connection that is closed without a request, such as a look at the start whether the
        upstream can be reached, asks nothing.
        """
        await anyio.wait_readable(self.sock)
        if not self.sock.recv(1, socket.MSG_PEEK):
            raise EOFError

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.close()

    def close(self) -> None:
        """Close in the usual way."""
        self.sock.close()

    async def _until(self, end: bytes) -> bytes:
        while end not in self._unread:
            await self._more()
        length = self._unread.index(end) + len(end)
        found = bytes(self._unread[:length])
        del self._unread[:length]
        return found

    async def _more(self) -> None:
        data = await asyncio.get_running_loop().sock_recv(self.sock, 65536)
        if not data:
            raise EOFError
        self._unread += data


class FakeUpstream:
    """Plays a story to everyone who connects."""

    def __init__(self, listener: socket.socket, story: Story) -> None:
        self.requests: list[Request] = []
        self.accepted = 0
        self.open = 0
        self.port: int = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/chat?key=canary"
        self._listener = listener
        self._story = story

    @property
    def connections(self) -> list[int]:
        """On which connection each request came."""
        return [request.connection for request in self.requests]

    async def accept(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(self._listener)
            self.accepted += 1
            tasks.start_soon(self._play, Peer(sock, self.accepted, self.requests))

    async def _play(self, peer: Peer) -> None:
        self.open += 1
        try:
            with suppress(EOFError, ConnectionError):
                await self._story(peer)
        finally:
            peer.close()
            self.open -= 1


@asynccontextmanager
async def fake_upstream(story: Story) -> AsyncIterator[FakeUpstream]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setblocking(False)
        fake = FakeUpstream(listener, story)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fake.accept, tasks)
            yield fake
            tasks.cancel_scope.cancel()


def answering(*pieces: bytes) -> Story:
    """Answer every request with the same packets, on a connection kept alive."""

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(*pieces)

    return story


def once(*pieces: bytes, reset: bool = False) -> Story:
    """Answer one request with these packets, then close or reset."""

    async def story(peer: Peer) -> None:
        await peer.request()
        await peer.send(*pieces)
        if reset:
            peer.reset()

    return story


def head(*lines: str, status: str = "200 OK") -> bytes:
    """Write a start line and headers."""
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode("latin-1")


def sized(body: bytes, *lines: str, status: str = "200 OK") -> bytes:
    """Write an answer with a content-length."""
    return head(*lines, f"content-length: {len(body)}", status=status) + body


def chunk(data: bytes) -> bytes:
    """Write one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKED = head("content-type: text/event-stream", "transfer-encoding: chunked")
LAST = b"0\r\n\r\n"
