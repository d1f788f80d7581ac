"""What is surely not there: most sessions have no documents, and each asks for two."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gateway.stores.documents import DocumentKey

LOOK_SECONDS = 0.1
MOST = 100_000
GONE = -1


class Absent:
    """Keys that had no file since their directory last changed.

    A file put there by hand changes its directory, which is looked at now and then.
    """

    __slots__ = ("_keys", "_looked", "_root", "_seen", "_steady")

    def __init__(self, root: Path, steady: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._steady = steady
        # By kind: a directory that changes all the time must not cost what the others hold.
        self._keys: dict[str, set[DocumentKey]] = {}
        self._seen: dict[str, int] = {}
        self._looked: dict[str, float] = {}

    def __contains__(self, key: DocumentKey) -> bool:
        now = self._steady()
        if now - self._looked.get(key.kind, -LOOK_SECONDS) >= LOOK_SECONDS:
            self._look(key.kind, now)
        return key in self._keys[key.kind]

    def add(self, key: DocumentKey) -> None:
        """Take it that a key has no file, if there is a directory that could hold it."""
        self._look(key.kind, self._steady())
        if self._seen[key.kind] == GONE:
            return
        keys = self._keys[key.kind]
        if len(keys) >= MOST:
            keys.clear()
        keys.add(key)

    def drop(self, key: DocumentKey) -> None:
        """Take it that a key may have a file."""
        self._keys.get(key.kind, set()).discard(key)

    def _look(self, kind: str, now: float) -> None:
        self._looked[kind] = now
        try:
            changed = (self._root / kind).stat().st_mtime_ns
        except OSError:
            changed = GONE
        if self._seen.get(kind) != changed:
            self._seen[kind] = changed
            self._keys[kind] = set()
