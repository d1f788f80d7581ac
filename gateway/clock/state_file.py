"""The file that remembers the correction over a restart."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.clock.protocol import NtpState

LARGEST = 65_536

_decoder = msgspec.json.Decoder(NtpState)


class StateFileError(Exception):
    """The file holds no state; says why."""


def read(path: Path, max_offset_ms: int) -> NtpState | None:
    """Return the state in a file, or None if there is no file."""
    try:
        content = _content(path)
    except FileNotFoundError:
        return None
    try:
        state = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateFileError(str(error)) from error
    if not _is_believable(state, max_offset_ms):
        raise StateFileError("The stored correction does not fit the settings.")
    return state


def _content(path: Path) -> bytes:
    # Whatever stands there must neither lead away nor block.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise StateFileError(f"It is not a regular file of at most {LARGEST} bytes.")
        return os.read(descriptor, LARGEST)
    finally:
        os.close(descriptor)


def _is_believable(state: NtpState, max_offset_ms: int) -> bool:
    if state.status == "disabled" or abs(state.offset_ms) > max_offset_ms:
        return False
    return state.last_sync_ms is not None or (state.offset_ms == 0 and state.status != "synced")


def write(path: Path, state: NtpState) -> None:
    """Put a state in the place of the old one; a crash leaves one or the other."""
    with suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    # One name for all attempts, so that crashes leave no more than one; not a document's name, and
    # not one that a store tidies away.
    temporary = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        temporary.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(msgspec.json.encode(state))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
