"""A client on a raw socket: it sees every byte of an answer and its moment, and can misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import anyio

PATIENCE = 10
_RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Answer:
    """One answer as far as it has come."""

    status: int
    headers: dict[str, str]
    repeated: list[str]
    """Names of headers that came more than once."""
    body: bytearray = field(default_factory=bytearray)
    chunks: list[bytes] = field(default_factory=list)
    ending: str = ""
    """Empty while it is coming; then `whole`, `closed` or `reset`."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of an answer that is one."""
        assert self.headers["content-type"] == "application/json"
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def datas(self) -> list[bytes]:
        """What stands in the data lines, one entry an event."""
        lines = bytes(self.body).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]

    @property
    def events(self) -> list[Any]:
        """The events' JSON, without the end mark."""
        return [json.loads(data) for data in self.datas if data != b"[DONE]"]

    @property
    def text(self) -> str:
        """What the deltas say."""
        deltas = [choice["delta"] for e in self.events for choice in e.get("choices", ())]
        return "".join(delta.get("content") or "" for delta in deltas)

    @property
    def failed(self) -> str:
        """The code of the error event that ends a stream without a forged end; else empty."""
        assert self.ending == "whole"
        errors = [event["error"] for event in self.events if "error" in event]
        if not errors:
            return ""
        assert len(errors) == 1
        assert "error" in self.events[-1]
        assert b"[DONE]" not in self.datas
        code: str = errors[0]["code"]
        return code


class Dechunker:
    """Undoes the chunked coding; written for these tests alone, so that it shares no mistake."""

    def __init__(self) -> None:
        self.unread = b""
        self.chunks: list[bytes] = []
        self.over = False

    def feed(self, data: bytes) -> None:
        self.unread += data
        while not self.over and self._next():
            pass

    def _next(self) -> bool:
        size, found, rest = self.unread.partition(b"\r\n")
        if not found:
            return False
        length = int(size, 16)
        if len(rest) < length + 2:
            return False
        assert rest[length : length + 2] == b"\r\n"
        self.unread = rest[length + 2 :]
        self.over = length == 0
        if length:
            self.chunks.append(rest[:length])
        return True


class Client:
    """One connection to the gateway."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._seen = b""
        self._answer: Answer | None = None
        self._coded: Dechunker | None = None

    @classmethod
    async def connected(cls, port: int, receive_buffer: int = 0) -> Client:
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def head(self) -> Answer:
        """Read the start line and headers of an answer."""
        while b"\r\n\r\n" not in self._seen:
            assert not await self._more(), f"no answer, but {self._seen!r}"
        raw, _, rest = self._seen.partition(b"\r\n\r\n")
        start, *lines = raw.decode("latin-1").split("\r\n")
        names = [line.partition(":")[0].lower() for line in lines]
        self._answer = Answer(
            status=int(start.split(" ")[1]),
            headers={
                n: line.partition(":")[2].strip() for n, line in zip(names, lines, strict=True)
            },
            repeated=[name for name in set(names) if names.count(name) > 1],
        )
        chunked = self._answer.headers.get("transfer-encoding") == "chunked"
        self._coded = Dechunker() if chunked else None
        self._take(rest)
        return self._answer

    def forget(self) -> None:
        """Take what was read of an answer as no answer: it was only on the way to one."""
        self._answer = None

    def forget_body(self) -> None:
        """Go on as if nothing of the body had come yet."""
        assert self._answer is not None
        self._answer.body.clear()

    async def saw(self, wanted: bytes) -> Answer:
        """Read on until the body holds this."""
        answer = self._answer or await self.head()
        while wanted not in answer.body:
            assert not answer.ending, f"{answer.ending} after {bytes(answer.body)!r}"
            await self._read(answer)
        return answer

    async def more(self) -> Answer:
        """Read on until more has come, or the end."""
        answer = self._answer or await self.head()
        assert not answer.ending, f"{answer.ending} after {bytes(answer.body)!r}"
        await self._read(answer)
        return answer

    async def answer(self, *, bodyless: bool = False) -> Answer:
        """Read an answer to its end, whatever end that is."""
        answer = self._answer or await self.head()
        if bodyless:
            answer.ending = "whole"
        while not answer.ending:
            await self._read(answer)
        self._answer = None
        return answer

    async def discard(self, size: int) -> None:
        """Read so many bytes, chunked or not, and forget them."""
        while size > 0:
            assert not await self._more()
            size -= len(self._seen)
            self._seen = b""

    @property
    def spare(self) -> bytes:
        """What came after the end of the last answer."""
        return self._seen

    async def closed(self) -> str:
        """Read until the gateway closes the connection; say how."""
        with anyio.fail_after(PATIENCE):
            while not (how := await self._more()):
                pass
        return how

    def leave(self) -> None:
        """Close in the usual way."""
        self.sock.close()

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.sock.close()

    def half_close(self) -> None:
        """Say that nothing more is sent, and stay to read."""
        self.sock.shutdown(socket.SHUT_WR)

    async def _read(self, answer: Answer) -> None:
        how = await self._more()
        self._take(self._seen)
        if how and not answer.ending:
            framed = self._coded is not None or "content-length" in answer.headers
            answer.ending = how if framed or how == "reset" else "whole"

    def _take(self, data: bytes) -> None:
        """Take bytes into the answer; what is too much for it belongs to the next one."""
        answer = self._answer
        assert answer is not None
        if self._coded is not None:
            self._coded.feed(data)
            answer.chunks += self._coded.chunks
            answer.body += b"".join(self._coded.chunks)
            self._coded.chunks.clear()
            answer.ending = "whole" if self._coded.over else ""
            self._seen = self._coded.unread if self._coded.over else b""
            return
        length = int(answer.headers.get("content-length", len(answer.body) + len(data) + 1))
        missing = length - len(answer.body)
        answer.body += data[:missing]
        self._seen = data[missing:]
        answer.ending = "whole" if len(answer.body) == length else ""

    async def _more(self) -> str:
        try:
            with anyio.fail_after(PATIENCE):
                data = await asyncio.get_running_loop().sock_recv(self.sock, 65536)
        except ConnectionError:
            return "reset"
        self._seen += data
        return "" if data else "closed"
