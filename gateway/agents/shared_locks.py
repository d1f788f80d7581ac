"""Locks of sessions that other instances hold: their holder is asked to end a hold, and waited for.

The store says who holds a lock, and whether he rests: then his answer is kept open, and ends as
soon as he is asked. All else is told by hints, which may be lost, so nobody waits for one for long.
Who is asked and is about to end by himself answers at once; so he is waited for a little longer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio

from gateway.stores.conversation_rows import SharedLockRows
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.hints import END_RESTING, LOCK_FREED, SessionHints
from gateway.stores.waiting import Unsubscribe

L = TypeVar("L")
Take = Callable[[], Awaitable[L | str]]
"""Tries once to take a lock; returns the holder's reason if that does not work."""

# How long to wait until a hold has ended.
HOLD_PATIENCE = 5.0
# How long the holder has to say that it is about to end.
HEARING = 0.05
# How often it is asked again: a hold may begin just after it was asked, and hints may be lost.
ASK_AGAIN = 0.5


class SharedLocks:
    """Asks other instances for their locks, and hears what they ask."""

    def __init__(self, rows: SharedLockRows, hints: SessionHints) -> None:
        self._rows = rows
        self._hints = hints

    def watch_asked(self, key: SessionKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback when another instance wants the lock of a session."""
        return self._hints.watch_hints(END_RESTING, key, callback)

    def answer(self, key: SessionKey) -> None:
        """Tell the other instances that a session's lock is free, or is about to be."""
        self._hints.tell(LOCK_FREED, key)

    async def rest(self, key: SessionKey, token: str, resting: bool) -> None:
        """Note for all instances whether the holder waits in a hold, which it ends when asked."""
        # If that fails, others find the session busy for as long as the hold lasts.
        with suppress(StoreUnavailable):
            await self._rows.rest(*key, token, resting)

    async def take(self, key: SessionKey, grace: float, take: Take[L]) -> L | str:
        """Take a lock that another instance holds, once that ends its hold or its exchange.

        Only a hold or an exchange that is about to end is waited for, the latter up to `grace`.
        """
        request = _LockRequest(self._hints, key, take)
        try:
            return await request.wait(await self._find_patience(key, grace), grace)
        finally:
            request.stop()

    async def _find_patience(self, key: SessionKey, grace: float) -> float:
        held = await self._rows.find(*key)
        return HOLD_PATIENCE if held is None or held.resting else min(grace, HEARING)


class _LockRequest(Generic[L]):
    """One who wants a lock that another instance holds."""

    def __init__(self, hints: SessionHints, key: SessionKey, take: Take[L]) -> None:
        self._hints = hints
        self._key = key
        self._take = take
        self._news = anyio.Event()
        self.stop = hints.watch_hints(LOCK_FREED, key, self._hear)

    def _hear(self) -> None:
        self._news.set()

    async def wait(self, patience: float, grace: float) -> L | str:
        """Wait for the lock, and take it; return the holder's reason if it takes too long."""
        ends = anyio.current_time() + patience
        is_answered = False
        while True:
            self._news = anyio.Event()
            self._hints.tell(END_RESTING, self._key)
            left = ends - anyio.current_time()
            with anyio.move_on_after(min(left, ASK_AGAIN)):
                await self._news.wait()
            taken = await self._take()
            if not isinstance(taken, str):
                return taken
            if self._news.is_set() and not is_answered:
                is_answered, ends = True, max(ends, anyio.current_time() + grace)
            if anyio.current_time() >= ends:
                return taken
