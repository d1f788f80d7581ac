"""Clients that do not read: how to notice them, and how to be rid of them."""

from __future__ import annotations

import asyncio
import fcntl
import select
import socket
import struct
import termios
import time
from collections.abc import Callable

from gateway.wire.tcp import count_acknowledged_bytes

# How often, within the time a client has, it is looked at.
LOOKS = 4
# How soon it is noticed that a client left while it is not read from.
GONE_LOOK = 0.1
# Where the kernel does not tell of a half-closed connection, only a reset shows.
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR
_RESET = struct.pack("ii", 1, 0)
_COUNT = struct.Struct("i")


class ReaderWatch:
    """Closes the connection of a client that takes nothing of what is written to it."""

    __slots__ = ("_loop", "_patience", "_taken", "_timer", "_transport", "since")

    def __init__(
        self, transport: asyncio.Transport, patience: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport = transport
        self._patience = patience
        self._loop = loop
        self._taken = 0
        self._timer: asyncio.TimerHandle | None = None
        self.since = 0.0
        """When the client last took something, as far as that was looked for."""

    def start(self) -> None:
        """Look at the client from now on, until it has taken everything."""
        if self._timer is None:
            self.since = time.monotonic()
            self._taken = self._count_taken()
            self._wait()

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = self._loop.call_later(self._patience / LOOKS, self._look)

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        taken = self._count_taken()
        if taken != self._taken:
            self.since, self._taken = now, taken
        if not count_unread(self._transport):
            return
        if now - self.since >= self._patience:
            reset(self._transport)
        else:
            self._wait()

    def _count_taken(self) -> int:
        """Return a number that grows with what the client takes."""
        acknowledged = count_acknowledged_bytes(self._transport.get_extra_info("socket"))
        return -self._transport.get_write_buffer_size() if acknowledged is None else acknowledged


def count_unread(transport: asyncio.Transport) -> int:
    """Return how many of the bytes written have not reached the client's kernel."""
    sock = transport.get_extra_info("socket")
    try:
        (queued,) = _COUNT.unpack(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(_COUNT.size)))
    except OSError:
        # Not every kernel tells of sockets.
        queued = 0
    return transport.get_write_buffer_size() + int(queued)


def notice_leaving(
    transport: asyncio.Transport, is_paused: Callable[[], bool], loop: asyncio.AbstractEventLoop
) -> None:
    """Close the connection of a client that leaves while it is not read from."""
    if not is_paused():
        return
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _GONE)
    if poll.poll(0):
        transport.abort()
    else:
        loop.call_later(GONE_LOOK, notice_leaving, transport, is_paused, loop)


def reset(transport: asyncio.Transport) -> None:
    """Close at once: what was not taken is thrown away, and the kernel keeps nothing of it."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
