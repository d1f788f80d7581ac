"""Files on disk: their names, whole reads and writes, the lock of one process, a write probe.

A file is never changed in place. `replace` writes a temporary file beside it, syncs that, and
renames it: a crash leaves the old content or the new, and perhaps a temporary file, which the next
scan removes. The rename is durable only after `sync_directory`, which the caller does once for many
files. `ProcessLock` is an flock, so it ends with its process however that ends; the lock file is
never removed, because that would free the name while others wait for it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from threading import RLock

from anyio.to_thread import run_sync

from gateway.stores.documents import LARGEST_DOCUMENT, LOCAL_OWNER, InUse, Stored, StoreUnavailable

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

SUFFIX = ".json"
TEMPORARY = ".tmp-"
# A file with this name is beside the documents, but is not a document.
RESERVED = "ntp-state"
# The lock file of a session directory, and its database of rows.
DIRECTORY_LOCK = ".lock"
ROWS_FILE = "holdgate.sqlite3"
# Marks that there are rows, so that a database that lost its content is not taken for a new one.
ROWS_MARKER = "jobs.json"
LONGEST_PREFIX = 40
HASH_DIGITS = 24

_is_plain = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}").fullmatch
_odd = re.compile(r"[^A-Za-z0-9._-]+")
PROBE_FILE = ".probe"
PROBE_BYTES = 4096
# If asked more often, the last result is returned again.
PROBE_REST_SECONDS = 2.0


def name_of(owner: str, session: str) -> str:
    """Return the file name of a session without suffix: its id if that is plain, else a hash."""
    if owner == LOCAL_OWNER and session != RESERVED and _is_plain(session):
        return session
    readable = _odd.sub("_", session)[:LONGEST_PREFIX].lstrip(".")
    whole = owner.encode() + b"\0" + session.encode()
    return f"{readable}~{sha256(whole).hexdigest()[:HASH_DIGITS]}"


def is_document(file_name: str) -> bool:
    """Return whether a file with this name is a document of a session."""
    return (
        file_name.endswith(SUFFIX)
        and not file_name.startswith(".")
        and file_name != RESERVED + SUFFIX
    )


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file that was read; `problem` says why it cannot be a document."""

    signature: Signature
    stored: Stored
    problem: str = ""


def unavailable(error: OSError) -> StoreUnavailable:
    """Return an error that says why state is unavailable, without naming paths."""
    reason = REASONS.get(error.errno or 0) or os.strerror(error.errno or 0).lower()
    failure = StoreUnavailable(f"The session's state is unavailable: {reason}.")
    failure.__cause__ = error
    return failure


def peek(path: str) -> Signature | None:
    """Return the signature of a file, which changes with the file; None if there is no file."""
    try:
        return _signature(os.lstat(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable(error) from error


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino


def revision_of(content: bytes) -> int:
    """Return the revision of a content: a digest as a number, never 0."""
    return int.from_bytes(blake2b(content, digest_size=7).digest()) + 1


def load(path: str) -> Loaded | None:
    """Read a file, or return None if there is none."""
    try:
        status = os.lstat(path)
        if problem := _problem(status):
            signature = _signature(status)
            return Loaded(signature, Stored(b"", revision_of(repr(signature).encode())), problem)
        # A plain file may have become a link or a pipe since: do not follow it, do not block.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags), "rb", buffering=0) as file:
            # The signature is taken before the content, so a change in between is noticed.
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
    """Replace a file by a new one; the caller still has to sync the directory."""
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
    """Rename a file so that it is not taken for a document; return its new name."""
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
    """Make a directory with mode 0700 if it does not exist; its parent must exist."""
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


class ProcessLock:
    """A locked file with the id of its process; with `shared`, several processes may hold it.

    All threads of the process may use it.
    """

    def __init__(self, path: Path, place: str, *, shared: bool = False) -> None:
        self._path = path
        self._place = place
        self.shared = shared
        self._descriptor = -1
        self._changing = RLock()

    def hold(self) -> None:
        """Take the lock, or raise `InUse`; if held, check that the file at its path is still it."""
        with self._changing:
            while not self._ours():
                self.release()
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
                self._lock()

    def release(self) -> None:
        """Release the lock. The file stays: removing it would free the name while others wait."""
        with self._changing:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _ours(self) -> bool:
        if self._descriptor < 0:
            return False
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._descriptor))

    def _lock(self) -> None:
        mode = fcntl.LOCK_SH if self.shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 20, 0).decode("ascii", "replace").strip()
            self.release()
            raise InUse(self._refusal(holder)) from None
        # The process id only helps people; on a full disk the lock works without it.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def _refusal(self, holder: str) -> str:
        who = f"process {holder}" if holder.isdigit() else "another process"
        return f"{self._place} is used by another Holdgate ({who}); only one may use it at a time."


def other_owner() -> StoreUnavailable:
    """Return the error that another process took the replaced store, without naming paths."""
    return StoreUnavailable(
        "The session's state is unavailable: another Holdgate uses the same store."
    )


class WriteProbe:
    """Checks that the disk is writable: writes and removes a small file, not too often."""

    def __init__(self, directory: Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._path = directory / PROBE_FILE
        self._steady = steady
        self._looked: float | None = None
        self._found: StoreUnavailable | None = None

    def __repr__(self) -> str:
        return f"<WriteProbe {'troubled' if self._found else 'fine'}>"

    async def check(self) -> None:
        """Raise `StoreUnavailable` if nothing could be written lately."""
        now = self._steady()
        if self._looked is None or now - self._looked >= PROBE_REST_SECONDS:
            self._looked = now
            self._found = await run_sync(self._write)
        if self._found is not None:
            raise self._found

    def _write(self) -> StoreUnavailable | None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path, flags, 0o600), "wb", buffering=0) as file:
                if file.write(bytes(PROBE_BYTES)) < PROBE_BYTES:
                    return StoreUnavailable("The session's state is unavailable: the disk is full.")
        except OSError as error:
            return unavailable(error)
        finally:
            with suppress(OSError):
                self._path.unlink()
        return None
