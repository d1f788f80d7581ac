"""Databases that are damaged: how that is noticed, and when it is over."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from gateway.stores.disk import Signature, peek
from gateway.stores.documents import StoreUnavailable
from gateway.stores.sqlite.database import Database, NotWhole, unavailable

CODES = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
# A larger database is not read as a whole: that would take seconds.
LARGEST_EXAMINED = 64 * 1024 * 1024
WHOLE = "ok"


def is_damage(error: BaseException | None) -> bool:
    """Whether an error says that a file is no whole database."""
    if isinstance(error, StoreUnavailable):
        error = error.__cause__
    code = getattr(error, "sqlite_errorname", "")
    return isinstance(error, NotWhole) or code.startswith(CODES)


class Damage:
    """Remembers that a file is damaged until somebody puts it right.

    Nothing is written to such a file, lest more of it be lost.
    """

    def __init__(self, path: Path, open_database: Callable[[], Database]) -> None:
        self._path = path
        self._open = open_database
        self._trouble: StoreUnavailable | None = None
        self._seen: Signature | None = None

    def __repr__(self) -> str:
        return f"<Damage {self._trouble.message if self._trouble else 'none'}>"

    def refuse(self) -> None:
        """Raise `StoreUnavailable` while the file is damaged; one that was changed is examined."""
        if self._trouble is not None and peek(str(self._path)) != self._seen:
            self.examine()
        if self._trouble is not None:
            raise self._trouble

    def note(self, error: object) -> None:
        """Take note of what went wrong, if it says that the file is damaged."""
        if isinstance(error, StoreUnavailable) and is_damage(error):
            self._trouble, self._seen = error, peek(str(self._path))

    def examine(self) -> None:
        """Look whether the file is whole; what cannot be opened for now is no damage."""
        self._trouble = None
        database = self._open()
        try:
            if self._path.exists():
                _read_whole(database.connection(), self._path.stat().st_size)
        except (sqlite3.Error, OSError) as error:
            self.note(unavailable(error))
        finally:
            database.close()


def _read_whole(connection: sqlite3.Connection, size: int) -> None:
    if size > LARGEST_EXAMINED:
        return
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != WHOLE:
        raise NotWhole("the database is damaged")
