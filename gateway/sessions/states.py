"""What is kept of sessions, read and changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gateway.core.session import SessionState
from gateway.sessions.values import KIND, NEW, SHAPE
from gateway.stores.base import Documents, Key, StoreUnavailable, amend, fetch

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[SessionState], tuple[SessionState, R]]


class States:
    """The states of all sessions."""

    def __init__(self, store: Documents, note: Note) -> None:
        self.store = store
        self.note = note
        # Counts what this process changes, so that an exchange need not read again what it read.
        self.changes = 0

    async def read(self, key: Key | None) -> SessionState:
        """Return what is in force; without a working store, nothing is."""
        if key is None or self.store.absent(key):
            return NEW
        try:
            return await fetch(self.store, key, SHAPE)
        except StoreUnavailable as error:
            self.note("session_not_read", owner=key.owner, session=key.session, why=error.message)
            return NEW

    async def show(self, owner: str, name: str) -> SessionState:
        """Return what is kept of a session; raises if the store is down."""
        return await fetch(self.store, Key(KIND, owner, name), SHAPE)

    async def change(self, key: Key, change: Change[R]) -> R:
        """Change a session's state, durably; raises if that cannot be."""
        try:
            return await amend(self.store, key, change, SHAPE)
        finally:
            self.changes += 1

    async def forget(self, owner: str, name: str) -> None:
        """Remove all that is kept of a session."""
        await self.store.delete(Key(KIND, owner, name))
        self.changes += 1
