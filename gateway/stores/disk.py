"""Whole files: read one, replace one so that a crash leaves the old or the new, set one aside."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from gateway.stores.documents import LARGEST_DOCUMENT, Stored, StoreUnavailable

Signature = tuple[int, int, int]

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.ENOENT: "its directory is gone",
    errno.ENOTDIR: "its directory is gone",
    errno.EIO: "the disk reports an input/output error",
    errno.EACCES: "permission is denied",
    errno.EPERM: "permission is denied",
    errno.EMFILE: "too many files are open",
    errno.ENFILE: "too many files are open",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that was read, or why it cannot be a document."""

    signature: Signature
    stored: Stored
    problem: str = ""


def unavailable(error: OSError) -> StoreUnavailable:
    """Say in a sentence why state is unavailable, without naming paths."""
    reason = REASONS.get(error.errno or 0) or os.strerror(error.errno or 0).lower()
    failure = StoreUnavailable(f"The session's state is unavailable: {reason}.")
    failure.__cause__ = error
    return failure


def peek(path: str) -> Signature | None:
    """Return what changes whenever a file changes, or None if there is no file."""
    try:
        return _signature(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(error) from error


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino


def revision_of(content: bytes) -> int:
    """Number a content: never 0, and another one for another content."""
    return int.from_bytes(blake2b(content, digest_size=7).digest()) + 1


def load(path: str) -> Loaded | None:
    """Read a file, or return None if there is none."""
    try:
        status = os.lstat(path)
        if problem := _problem(status):
            signature = _signature(status)
            return Loaded(signature, Stored(b"", revision_of(repr(signature).encode())), problem)
        # What was a plain file a moment ago must not become one that leads away, or blocks.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
            # The signature is older than the content: a change in between is seen as a change.
            signature = _signature(os.fstat(file.fileno()))
            document = file.read()
    except FileNotFoundError:
        return None
    return Loaded(signature, Stored(document, revision_of(document)))


def _problem(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return "It is not a plain file."
    if status.st_size > LARGEST_DOCUMENT:
        return f"It is larger than {LARGEST_DOCUMENT} bytes."
    return ""


def replace(path: str, document: bytes, temporary: str) -> Signature:
    """Put a whole new file in the place of an old one; the directory is not yet synchronised."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(document)
            file.flush()
            os.fsync(file.fileno())
            signature = _signature(os.fstat(file.fileno()))
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise
    return signature


def put_aside(path: str, at_ms: int) -> str:
    """Rename a file so that nobody takes it for a document; return its new name."""
    old = Path(path)
    when = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    name = base = f"{old.stem}.corrupt-{when}"
    again = 1
    while os.path.lexists(old.with_name(name)):
        again += 1
        name = f"{base}-{again}"
    old.rename(old.with_name(name))
    return name


def make_directory(path: Path) -> None:
    """Make a directory that only its owner can enter, unless it is there; its parent must be."""
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        sync_directory(path.parent)


def sync_directory(path: str | Path) -> None:
    """Make renames and removals in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
