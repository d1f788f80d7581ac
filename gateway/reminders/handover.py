"""Hands reminders of sub-agents over to their main session if the sub-agent did not take them.

A sub-agent ends when its task is done, and then no request comes in its session any more. Each
sub-agent session with reminders has one timer, for the next handover; all others cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import anyio

from gateway.clock.timer_queue import TimerQueue
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.reminder_documents import KIND
from gateway.reminders.service import ReminderService
from gateway.sessions.identity import SUB_AGENT
from gateway.stores.documents import LATEST, SessionKey, StoreUnavailable
from gateway.stores.waiting import Unsubscribe

RETRY_MS = 30_000
# No limit: sub-agents with reminders are few, and only their keys are read.
EVERY = 2**31


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class _Watched:
    """A sub-agent's session that has reminders."""

    unwatch: Unsubscribe
    cancel: Callable[[], None] = _nothing


class Handover:
    """Hands over the reminders of sub-agents to their main sessions."""

    def __init__(self, reminders: ReminderService, timers: TimerQueue) -> None:
        self._reminders = reminders
        self._timers = timers
        self._watched: dict[SessionKey, _Watched] = {}
        self._unseen: dict[SessionKey, None] = {}
        self._wakeup = Wakeup()
        reminders.on_delegated = self.watch

    def __repr__(self) -> str:
        return f"<Handover of {len(self._watched)} sessions>"

    def watch(self, owner: str, session: str) -> None:
        """Watch the reminders of a sub-agent until there are none left."""
        key = (owner, session)
        if key not in self._watched:
            unwatch = self._reminders.watch(owner, session, partial(self._hear, key))
            self._watched[key] = _Watched(unwatch)
        self._hear(key)

    async def run(self) -> NoReturn:
        """Hand over reminders that nobody takes, forever; start with those of a former process."""
        is_loaded = False
        while True:
            self._wakeup.look()
            if not is_loaded:
                is_loaded = await self._is_loaded()
            while self._unseen:
                key = next(iter(self._unseen))
                del self._unseen[key]
                if key in self._watched:
                    await self._look(key, self._watched[key])
            with anyio.move_on_after(None if is_loaded else RETRY_MS / 1000):
                await self._wakeup.wait()

    async def _is_loaded(self) -> bool:
        """Find the sub-agents that have reminders; return False if the store is down."""
        try:
            keys = await self._reminders.store.due(KIND, LATEST, EVERY)
        except StoreUnavailable as error:
            self._reminders.note("handover_not_loaded", why=error.message)
            return False
        for key in keys:
            if SUB_AGENT in key.session:
                self.watch(key.owner, key.session)
        return True

    def _hear(self, key: SessionKey) -> None:
        self._unseen[key] = None
        self._wakeup.rouse()

    async def _look(self, key: SessionKey, watched: _Watched) -> None:
        """Hand over what is due for it now, and set the timer for the next handover."""
        watched.cancel()
        try:
            next_ms = await self._reminders.hand_over(*key)
        except StoreUnavailable:
            # The reason is in the log already.
            next_ms = self._reminders.clock.now_ms()
        if next_ms is None and key in self._unseen:
            # Something was scheduled meanwhile.
            return
        if next_ms is None:
            watched.unwatch()
            del self._watched[key]
            return
        now_ms = self._timers.now_ms()
        if next_ms <= now_ms:
            # A turn carries it, the main session has no room, or the store is down.
            next_ms = now_ms + RETRY_MS
        number = self._timers.call_at(next_ms, partial(self._hear, key))
        watched.cancel = partial(self._timers.cancel, number)
