"""Reads, changes and sweeps the stored states of sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import NoReturn, TypeVar

import anyio

from gateway.sessions.model import SessionState, without_old
from gateway.sessions.session_request import KIND, NEW, SHAPE
from gateway.stores.documents import (
    DocumentKey,
    Documents,
    StoreUnavailable,
    amend,
    fetch,
    iterate_due,
)

R = TypeVar("R")
Note = Callable[..., None]
Change = Callable[[SessionState], tuple[SessionState, R]]


class SessionStates:
    """The stored states of all sessions."""

    def __init__(self, store: Documents, note: Note) -> None:
        self.store = store
        self.note = note
        # Counts changes by this process: while it stays the same, no exchange has to read again.
        self.changes = 0
        self.on_forget: Callable[[DocumentKey], None] = lambda key: None
        """Called for each session that is forgotten."""

    async def read(self, key: DocumentKey | None) -> SessionState:
        """Return a session's state; an empty one if the store is down."""
        if key is None or self.store.absent(key):
            return NEW
        try:
            return await fetch(self.store, key, SHAPE)
        except StoreUnavailable as error:
            self.note("session_not_read", owner=key.owner, session=key.session, why=error.message)
            return NEW

    async def show(self, owner: str, name: str) -> SessionState:
        """Return a session's state; raise `StoreUnavailable` if the store is down."""
        return await fetch(self.store, DocumentKey(KIND, owner, name), SHAPE)

    async def change(self, key: DocumentKey, change: Change[R]) -> R:
        """Change a session's state, durably; raise `StoreUnavailable` if the store is down."""
        try:
            return await amend(self.store, key, change, SHAPE)
        finally:
            self.changes += 1

    async def forget(self, owner: str, name: str) -> None:
        """Delete a session's state."""
        key = DocumentKey(KIND, owner, name)
        await self.store.delete(key)
        self.changes += 1
        self.on_forget(key)

    async def run(self, tick_ms: int) -> NoReturn:
        """Sweep now, and then every tick, for ever."""
        while True:
            try:
                await self.sweep()
            except StoreUnavailable as error:
                self.note("sessions_not_swept", why=error.message)
            await anyio.sleep(tick_ms / 1000)

    async def sweep(self) -> None:
        """Delete kept turns that expired, and sessions of which nothing is left."""
        async with aclosing(iterate_due(self.store, KIND, self.store.now_ms())) as found:
            async for keys in found:
                for key in keys:
                    await self._tidy(key)

    async def _tidy(self, key: DocumentKey) -> None:
        now_ms = self.store.now_ms()
        try:
            await self.change(key, lambda state: (without_old(state, now_ms), None))
        except StoreUnavailable as error:
            # One bad session must not stop the sweep of the others.
            who = {"owner": key.owner, "session": key.session}
            self.note("sessions_not_swept", **who, why=error.message)
