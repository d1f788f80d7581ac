"""A gateway that streams what a test tells it to, when it tells it to."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

PATIENCE = 20
GONE = (anyio.EndOfStream, anyio.BrokenResourceError)
MODELS = b'{"object":"list","data":[{"id":"scripted"}]}'
HEAD = "HTTP/1.1 {}\r\ncontent-type: {}\r\n{}\r\n\r\n"


class Exchange:
    """One request for an answer, and the pen to write it with."""

    def __init__(self, headers: dict[str, str], body: Any, stream: SocketStream) -> None:
        self.headers = headers
        self.body = body
        self.done = anyio.Event()
        self._stream = stream

    async def begin(self) -> None:
        """Start the stream."""
        kind, how = "text/event-stream", "transfer-encoding: chunked"
        await self._stream.send(HEAD.format("200 OK", kind, how).encode())

    async def say(self, text: str | None) -> None:
        """Send a piece of text; None is a heartbeat."""
        delta = {} if text is None else {"content": text}
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        await self.frame(f"data: {json.dumps(chunk)}")

    async def note(self, **note: object) -> None:
        """Send a note for people."""
        await self.frame(f": holdgate {json.dumps(note)}")

    async def hold(self, ms: int, now: int = 1_770_067_358_229) -> None:
        """Say that the answer is held for so long."""
        await self.note(state="holding", turn=1, until=now + ms, now=now)

    async def frame(self, frame: str) -> None:
        """Send one frame."""
        data = frame.encode() + b"\n\n"
        await self._stream.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """End the stream as it should be."""
        await self.frame("data: [DONE]")
        await self._stream.send(b"0\r\n\r\n")
        self.done.set()

    async def refuse(self, status: str, body: bytes) -> None:
        """Answer with one document."""
        await answered(self._stream, status, body)
        self.done.set()

    async def break_off(self) -> None:
        """Close the connection in the middle."""
        await self._stream.aclose()
        self.done.set()

    async def left(self) -> None:
        """Wait until the client has closed the connection."""
        with anyio.fail_after(PATIENCE), pytest.raises(GONE):
            await self._stream.receive()
        self.done.set()


class Gate:
    """Takes requests and hands them to the test, one by one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._hand, self._taken = anyio.create_memory_object_stream[Exchange](10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hand.close()
        self._taken.close()

    async def asked(self) -> Exchange:
        """Wait for the next request, and start to answer it."""
        exchange = await self.knocked()
        await exchange.begin()
        return exchange

    async def knocked(self) -> Exchange:
        """Wait for the next request."""
        with anyio.fail_after(PATIENCE):
            return await self._taken.receive()

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection."""
        async with stream:
            reader = BufferedByteReceiveStream(stream)
            while True:
                try:
                    method, headers, body = await received(reader)
                except (*GONE, anyio.IncompleteRead, anyio.ClosedResourceError):
                    return
                if method == "GET":
                    await answered(stream, "200 OK", MODELS)
                    continue
                exchange = Exchange(headers, json.loads(body), stream)
                await self._hand.send(exchange)
                await exchange.done.wait()


async def answered(stream: SocketStream, status: str, body: bytes) -> None:
    """Send one document."""
    head = HEAD.format(status, "application/json", f"content-length: {len(body)}")
    await stream.send(head.encode() + body)


async def received(reader: BufferedByteReceiveStream) -> tuple[str, dict[str, str], bytes]:
    """Read one request."""
    head = await reader.receive_until(b"\r\n\r\n", 65536)
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
    body = await reader.receive_exactly(int(headers.get("content-length", 0)))
    return first.split(" ")[0], headers, body


@asynccontextmanager
async def opened() -> AsyncIterator[Gate]:
    """Listen while the test runs."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        gate = Gate(f"http://127.0.0.1:{port}")
        with gate:
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, gate.serve)
                yield gate
                group.cancel_scope.cancel()
