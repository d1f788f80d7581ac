"""One process at a time: a lock that ends with the process that has it, however that ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from threading import RLock

from gateway.stores.documents import InUse, StoreUnavailable


class Lock:
    """A locked file that names its process; shared among those that can share.

    The threads of a process may have it together.
    """

    def __init__(self, path: Path, place: str, *, shared: bool = False) -> None:
        self._path = path
        self._place = place
        self.shared = shared
        self._descriptor = -1
        self._changing = RLock()

    def hold(self) -> None:
        """Have the lock, or raise `InUse`; look again whether the file in its place is ours."""
        with self._changing:
            while not self._ours():
                self.release()
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
                self._lock()

    def release(self) -> None:
        """Let go of it. The file stays: to remove it would free the name while others wait."""
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
        # Whose it is only helps people; on a full disk the lock holds without it.
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def _refusal(self, holder: str) -> str:
        who = f"process {holder}" if holder.isdigit() else "another process"
        return f"{self._place} is used by another Holdgate ({who}); only one may use it at a time."


def lost() -> StoreUnavailable:
    """Say that the place was replaced and another process was quicker, without naming paths."""
    return StoreUnavailable(
        "The session's state is unavailable: its place is used by another Holdgate."
    )
