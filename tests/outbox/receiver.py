"""A receiver of webhooks on a real socket, which answers as the test says."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

LARGEST_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class Posted:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        """Which event it was."""
        found: str = self.json["data"]["run_id"]
        return found


Answering = Callable[[Posted], bytes | None]
"""What is answered to a request; None breaks the connection."""


def answer(status: str, *headers: str, body: bytes = b"ok") -> bytes:
    """Write an answer."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


TAKEN, FAILED = answer("200 OK"), answer("500 Internal Server Error")


def takes(posted: Posted) -> bytes:
    """Take everything."""
    return TAKEN


class Receiver:
    """Keeps what was posted."""

    def __init__(self, answering: Answering, port: int = 0) -> None:
        self.answering = answering
        self.port = port
        self.posted: list[Posted] = []
        self.accepted = 0

    @property
    def keys(self) -> list[str]:
        """Which events were posted, in order."""
        return [posted.key for posted in self.posted]

    async def serve(self, stream: SocketStream) -> None:
        """Answer the requests of one connection."""
        self.accepted += 1
        gone = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead)
        async with stream:
            with suppress(*gone):
                buffered = BufferedByteReceiveStream(stream)
                while (said := self.answering(await self._request(buffered))) is not None:
                    await stream.send(said)

    async def _request(self, stream: BufferedByteReceiveStream) -> Posted:
        head = (await stream.receive_until(b"\r\n\r\n", LARGEST_HEAD)).decode("latin-1")
        line, *lines = head.split("\r\n")
        pairs = (one.partition(":") for one in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await stream.receive_exactly(int(headers["content-length"]))
        posted = Posted(line, headers, body)
        self.posted.append(posted)
        return posted


@asynccontextmanager
async def receiving(answering: Answering = takes, port: int = 0) -> AsyncIterator[Receiver]:
    """Have a receiver, on a port of its own or on this one."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    async with listener, anyio.create_task_group() as tasks:
        found: int = listener.extra(SocketAttribute.local_port)
        receiver = Receiver(answering, found)
        tasks.start_soon(listener.serve, receiver.serve)
        yield receiver
        tasks.cancel_scope.cancel()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
