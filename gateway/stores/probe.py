"""Whether something can be written to a place, so that a full disk is noticed early."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from anyio.to_thread import run_sync

from gateway.stores.disk import unavailable
from gateway.stores.documents import StoreUnavailable

NAME = ".probe"
SIZE = 4096
# Whoever asks more often is told what was found last.
REST_SECONDS = 2.0


class WriteProbe:
    """Writes a small file and removes it, at most once in a while."""

    def __init__(self, directory: Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._path = directory / NAME
        self._steady = steady
        self._looked: float | None = None
        self._found: StoreUnavailable | None = None

    def __repr__(self) -> str:
        return f"<WriteProbe {'troubled' if self._found else 'fine'}>"

    async def check(self) -> None:
        """Raise `StoreUnavailable` if nothing could be written lately."""
        now = self._steady()
        if self._looked is None or now - self._looked >= REST_SECONDS:
            self._looked = now
            self._found = await run_sync(self._write)
        if self._found is not None:
            raise self._found

    def _write(self) -> StoreUnavailable | None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._path, flags, 0o600), "wb", buffering=0) as file:
                if file.write(bytes(SIZE)) < SIZE:
                    return StoreUnavailable("The session's state is unavailable: the disk is full.")
        except OSError as error:
            return unavailable(error)
        finally:
            with suppress(OSError):
                self._path.unlink()
        return None
