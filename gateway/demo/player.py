"""Writes the outputs of one answer to a socket, each in its time."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

from gateway.demo.output import Outputs, ResponseHead
from gateway.demo.script import Break
from gateway.wire.http_server.slow_readers import count_unread

BATCH = 64 * 1024
FLUSH_POLL = 0.001
NO_LINGER = struct.pack("ii", 1, 0)
REASONS = {status.value: status.phrase for status in HTTPStatus}

Ended = Callable[[Break | None], None]


class Player:
    """One answer on its way out; whoever started it hears of its end, or of its break."""

    def __init__(
        self,
        transport: asyncio.Transport,
        outputs: Outputs,
        extra: bytes,
        chunked: bool,
        ended: Ended,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._outputs = outputs
        self._extra = extra
        self._chunked = chunked
        self._ended = ended
        self._head = b""
        self._blocked = False
        self._stalled = False
        self._due = 0.0
        self._timer: asyncio.Handle | None = None

    def play(self) -> None:
        """Write until there is a wait, a break, or the end; then be called again, or not."""
        if self._blocked:
            self._stalled = True
            return
        batch: list[bytes] = []
        size = 0
        for output in self._outputs:
            if isinstance(output, bytes):
                batch.append(output)
                size += len(output)
                if size < BATCH:
                    continue
                # Others are to be served between two batches, even if this client reads fast.
                output = 0.0
            if isinstance(output, ResponseHead):
                self._open(output)
                continue
            self._write(batch)
            self._leave(output)
            return
        self._write(batch, b"0\r\n\r\n")
        self._ended(None)

    def block(self) -> None:
        """Stop writing: the client does not read."""
        self._blocked = True

    def unblock(self) -> None:
        """Go on writing; time lost is not made up for."""
        self._blocked = False
        if self._stalled:
            self._stalled, self._due = False, 0.0
            self.play()

    def stop(self) -> None:
        """Forget the rest of the answer."""
        if self._timer is not None:
            self._timer.cancel()

    def _open(self, head: ResponseHead) -> None:
        lines = [f"HTTP/1.1 {head.status} {REASONS.get(head.status, 'Demo')}"]
        lines += [f"{name}: {value}" for name, value in head.headers]
        if head.length is not None:
            self._chunked = False
            lines.append(f"content-length: {head.length}")
        elif self._chunked:
            lines.append("transfer-encoding: chunked")
        self._head = "\r\n".join(lines).encode("latin-1") + b"\r\n" + self._extra + b"\r\n"

    def _write(self, batch: list[bytes], last: bytes = b"") -> None:
        data = b"".join(batch)
        if self._chunked:
            data = b"%x\r\n%b\r\n%b" % (len(data), data, last) if data else last
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._transport.write(data)

    def _leave(self, output: float | Break) -> None:
        if isinstance(output, Break):
            self._break(output)
        elif output:
            # Counted from when the last wait should have ended, so that a slow moment is caught up.
            self._due = (self._due or self._loop.time()) + output
            self._timer = self._loop.call_at(self._due, self.play)
        else:
            self._timer = self._loop.call_soon(self.play)

    def _break(self, how: Break) -> None:
        self._ended(how)
        if how.how == "close":
            self._transport.close()
        elif how.how == "reset":
            self._timer = self._loop.call_later(FLUSH_POLL, self._reset)

    def _reset(self) -> None:
        # A reset throws away what the client's host does not have yet, so wait until it has all.
        if count_unread(self._transport):
            self._timer = self._loop.call_later(FLUSH_POLL, self._reset)
            return
        linger = (socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self._transport.get_extra_info("socket").setsockopt(*linger)
        self._transport.abort()
