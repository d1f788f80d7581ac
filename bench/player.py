"""Writes the outputs of one answer to a socket, each in its time.

Callbacks and whole writes only: a task for each answer would make the upstream what is measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from gateway.demo.orders import Break
from gateway.demo.output import BATCH, Outputs, ResponseHead

REASONS = {status.value: status.phrase for status in HTTPStatus}


class Player:
    """One answer on its way out; whoever started it hears of its end."""

    def __init__(
        self, transport: asyncio.Transport, outputs: Outputs, ended: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._outputs = outputs
        self._ended = ended
        self._chunked = True
        self._head = b""
        self._blocked = False
        self._stalled = False
        self._due = 0.0
        self._timer: asyncio.Handle | None = None

    def play(self) -> None:
        """Write until there is a wait or the end; then be called again, or not."""
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
            assert not isinstance(output, Break), "no load asks for a broken answer"
            self._write(batch)
            self._wait(output)
            return
        self._write(batch, b"0\r\n\r\n")
        self._ended()

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
        lines = [f"HTTP/1.1 {head.status} {REASONS[head.status]}"]
        lines += [f"{name}: {value}" for name, value in head.headers]
        self._chunked = "content-length" not in dict(head.headers)
        if self._chunked:
            lines.append("transfer-encoding: chunked")
        self._head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def _write(self, batch: list[bytes], last: bytes = b"") -> None:
        data = b"".join(batch)
        if self._chunked:
            data = b"%x\r\n%b\r\n%b" % (len(data), data, last) if data else last
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._transport.write(data)

    def _wait(self, seconds: float) -> None:
        if seconds:
            # Counted from when the last wait should have ended, so that a slow moment is caught up.
            self._due = (self._due or self._loop.time()) + seconds
            self._timer = self._loop.call_at(self._due, self.play)
        else:
            self._timer = self._loop.call_soon(self.play)
