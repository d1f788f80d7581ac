"""A client on a raw socket, which sees every byte of an answer and how it ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import SocketStream

PATH = "/v1/chat/completions"
PATIENCE = 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and whether it was whole, closed or reset."""

    status: int
    headers: dict[str, str]
    chunks: tuple[bytes, ...]
    ending: str

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[str]:
        """What stands after `data: ` in each frame."""
        lines = self.body.splitlines()
        return [line[6:].decode() for line in lines if line.startswith(b"data: ")]

    @property
    def events(self) -> list[Any]:
        """The frames' JSON, without the end mark."""
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def tokens(self) -> list[str]:
        """The texts of the deltas, in order."""
        deltas = [c["delta"] for e in self.events for c in e.get("choices", ())]
        return [delta["content"] for delta in deltas if delta.get("content")]


def request(body: bytes, *, method: str = "POST", path: str = PATH, extra: str = "") -> bytes:
    """Write a request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: demo\r\n{extra}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def asking(text: str, **fields: object) -> bytes:
    """Write the body of a streaming request with one user message."""
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "demo", "stream": True, "messages": messages, **fields}).encode()


class Peer:
    """One connection to a server."""

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        self._seen = b""
        self._ending = ""

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def ask(self, text: str, **fields: object) -> Answer:
        """Ask, and read the answer to its end."""
        await self.send(request(asking(text, **fields)))
        return await self.answer()

    async def answer(self) -> Answer:
        """Read one answer, as far as it goes."""
        if not await self._until(b"\r\n\r\n"):
            return Answer(0, {}, (), self._ending)
        head, _, self._seen = self._seen.partition(b"\r\n\r\n")
        start, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        status = int(start.split(" ")[1])
        chunks = [chunk async for chunk in self._chunks(headers)]
        return Answer(status, headers, tuple(chunks), self._ending)

    async def saw(self, wanted: bytes) -> None:
        """Read until these bytes have come."""
        assert await self._until(wanted)

    async def _chunks(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        self._ending = "whole"
        if "content-length" in headers:
            yield await self._take(int(headers["content-length"]))
            return
        if "transfer-encoding" not in headers:
            await self._until(b"nothing like this")
            yield await self._take(len(self._seen))
            return
        while await self._until(b"\r\n"):
            size, _, self._seen = self._seen.partition(b"\r\n")
            chunk = await self._take(int(size, 16) + 2)
            if not chunk.removesuffix(b"\r\n"):
                return
            yield chunk[: int(size, 16)]

    async def _take(self, size: int) -> bytes:
        while len(self._seen) < size and await self._more():
            pass
        taken, self._seen = self._seen[:size], self._seen[size:]
        return taken

    async def _until(self, wanted: bytes) -> bool:
        while wanted not in self._seen:
            if not await self._more():
                return False
        return True

    async def _more(self) -> bool:
        try:
            with anyio.fail_after(PATIENCE):
                self._seen += await self.stream.receive()
        except anyio.EndOfStream:
            self._ending = "closed"
            return False
        except anyio.BrokenResourceError:
            self._ending = "reset"
            return False
        return True


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Peer]:
    """Connect to a server."""
    host, port = url.removeprefix("http://").split(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        yield Peer(stream)
