"""What the kernel knows of a TCP connection."""

from __future__ import annotations

import select
import socket
import struct
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Sequence
from functools import partial

KEEP_ALIVE_AFTER = 60

# Where struct tcp_info of linux/tcp.h has bytes_acked, and bytes_sent with bytes_retrans.
_ACKED = struct.Struct("=Q")
_ACKED_AT = 120
_SENT = struct.Struct("=QQ")
_SENT_AT = 200
_SIZE = _SENT_AT + _SENT.size


def tune(sock: TransportSocket) -> None:
    """Send small writes at once, and notice a peer that vanished in silence."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_AFTER)


def probe(sock: TransportSocket) -> Callable[[], Sequence[object]]:
    """Make a cheap question: has the peer sent, closed or reset? Nothing listed means no."""
    if not hasattr(select, "poll"):
        return tuple
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return partial(poll.poll, 0)


def count_acknowledged_bytes(sock: TransportSocket) -> int | None:
    """Return how many bytes the peer's kernel took in all; None where that is not known."""
    info = _read_info(sock)
    return None if info is None else int(_ACKED.unpack_from(info, _ACKED_AT)[0])


def was_acknowledged(sock: TransportSocket, written: int) -> bool:
    """Say whether the peer's kernel took all that was written; true where that is not known.

    `tcpi_unacked` does not tell: a reset empties the send queue, and it reads 0. The totals stay.
    Under TLS more is sent than written, which the second comparison makes up for.
    """
    info = _read_info(sock)
    if info is None:
        return True
    (acked,) = _ACKED.unpack_from(info, _ACKED_AT)
    sent, sent_again = _SENT.unpack_from(info, _SENT_AT)
    # The SYN counts as one acknowledged byte, but as none sent.
    return bool(acked > written and acked > sent - sent_again)


def _read_info(sock: TransportSocket) -> bytes | None:
    option = getattr(socket, "TCP_INFO", None)
    info = b"" if option is None else sock.getsockopt(socket.IPPROTO_TCP, option, _SIZE)
    return info if len(info) == _SIZE else None
