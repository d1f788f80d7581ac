"""Messages between the gateway and a helper process: a length, then a pickle."""

from __future__ import annotations

import struct
from typing import BinaryIO

_HEAD = struct.Struct(">?Q")
# Larger than any pipe takes at once, and small enough that no write holds memory twice for long.
PIECE = 1024 * 1024


def write_frame(pipe: BinaryIO, data: bytes, last: bool = False) -> None:
    """Write one message; `last` says that the writer leaves after it."""
    _write(pipe, _HEAD.pack(last, len(data)))
    _write(pipe, data)


def read_frame(pipe: BinaryIO) -> tuple[bytearray, bool]:
    """Read one message and whether it is the last; raise `EOFError` at the end."""
    last, size = _HEAD.unpack(_read(pipe, _HEAD.size))
    return _read(pipe, size), last


def _write(pipe: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[pipe.write(left[:PIECE]) :]


def _read(pipe: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    left = memoryview(data)
    while left:
        # Unbuffered, so that what arrives is copied once.
        count = pipe.readinto(left[:PIECE])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        left = left[count:]
    return data
