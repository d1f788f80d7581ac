"""Publishes an event when a reminder is due, where several instances share a store.

The store knows which sessions are to be looked at next, of those that somebody listens to. Each
instance sleeps until then, and takes some of them; no instance has a list of all. The feed has one
event for each reminder, so none is published twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.outbox.feed import REMINDER_DUE, Feed
from gateway.outbox.text import show_due_reminder
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.notifier import DAY_MS, KEPT_MS, REFRESH_SECONDS, RETRY_SECONDS
from gateway.reminders.service import ReminderService
from gateway.stores.delivery_rows import AnnouncementRows, ReadySession
from gateway.stores.documents import StoreUnavailable
from gateway.stores.hints import REMINDERS

# Hints may be lost, and whoever took a session may have died.
POLL_SECONDS = 5.0
# Many changes at once cost one look.
PAUSE_SECONDS = 0.05
WATCHED_BEFORE = "watch reminders of "
PRUNE = "prune events"


class SharedDueNotifier:
    """Publishes reminders that come due, each by whichever instance looks first."""

    def __init__(
        self,
        feed: Feed,
        reminders: ReminderService,
        rows: AnnouncementRows,
        clock: Clock,
        owners: Iterable[str] = (),
    ) -> None:
        self._feed = feed
        self._reminders = reminders
        self._rows = rows
        self._clock = clock
        self._owners = frozenset(owners)
        self._wakeup = Wakeup()
        rows.use_owners(self._owners)
        reminders.hints.watch_all(REMINDERS, self._wakeup.rouse)

    def __repr__(self) -> str:
        return f"<SharedDueNotifier for {len(self._owners)} owners with webhooks>"

    async def attend(self, owner: str, session: str) -> None:
        """Publish due reminders of a session from now on, for a week, durably."""
        await self._feed.rows.note_interest(owner, session, self._clock.now_ms())
        await self._rows.watch(owner, session)
        self._wakeup.rouse()

    async def replace_owners(self, owners: Iterable[str]) -> None:
        """Watch the sessions of exactly these owners, beside those that somebody subscribed to."""
        self._owners = frozenset(owners)
        self._rows.use_owners(self._owners)
        try:
            await self._watch_owners()
        except StoreUnavailable as error:
            # The next refresh does it.
            self._feed.note("events_not_tidied", why=error.message)

    async def run(self) -> None:
        """Publish due reminders and delete old events, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_often)
            while True:
                self._wakeup.look()
                try:
                    pause = await self._look()
                except StoreUnavailable as error:
                    self._feed.note("reminders_not_read", why=error.message)
                    pause = POLL_SECONDS
                with anyio.move_on_after(pause):
                    await self._wakeup.wait()
                await anyio.sleep(PAUSE_SECONDS)

    async def refresh(self) -> None:
        """Note who listens now, watch the sessions of owners, and delete old events."""
        rows, now_ms = self._feed.rows, self._clock.now_ms()
        for owner, session in tuple(self._feed.open):
            await self.attend(owner, session)
        if await self._reminders.store.chores.take(PRUNE, round(REFRESH_SECONDS * 1000)):
            await rows.prune(now_ms - KEPT_MS)
        await self._watch_owners()

    async def _refresh_often(self) -> NoReturn:
        while True:
            try:
                await self.refresh()
                pause = REFRESH_SECONDS
            except StoreUnavailable as error:
                self._feed.note("events_not_tidied", why=error.message)
                pause = RETRY_SECONDS
            await anyio.sleep(pause)

    async def _watch_owners(self) -> None:
        """Watch what owners had set before they had a webhook; one instance a day does it."""
        for owner in self._owners:
            if await self._reminders.store.chores.take(WATCHED_BEFORE + owner, DAY_MS):
                await self._rows.watch_all(owner)
        self._wakeup.rouse()

    async def _look(self) -> float:
        """Publish what is due; return for how many seconds to sleep if nothing changes."""
        window_ms = self._reminders.rules.due_window_ms
        # Nearly always nothing is due, and only the end of an index is read.
        while (next_ms := await self._rows.next_ready_ms()) is not None:
            wait = (next_ms - window_ms - self._clock.now_ms()) / 1000
            if wait > 0:
                return min(POLL_SECONDS, wait)
            taken = await self._rows.take(self._clock.now_ms() + window_ms)
            if not taken:
                # Others take it at this moment, or nobody listens any more.
                return PAUSE_SECONDS
            async with anyio.create_task_group() as tasks:
                for session in taken:
                    tasks.start_soon(self._announce, session)
        return POLL_SECONDS

    async def _announce(self, taken: ReadySession) -> None:
        """Publish what is due in a session; if that fails, it is looked at again in a while."""
        owner, session = key = (taken.owner, taken.session)
        try:
            reminders = await self._reminders.list_undelivered(*key)
            now_ms, next_ms = self._clock.now_ms(), None
            for one in sorted(reminders, key=lambda one: one.due_ms):
                if one.due_ms - self._reminders.rules.due_window_ms > now_ms:
                    next_ms = one.due_ms
                    break
                due = show_due_reminder(one)
                if not await self._feed.publish(*key, REMINDER_DUE, one.id, due):
                    return
            await self._rows.move_on(taken, next_ms)
        except StoreUnavailable as error:
            self._feed.note("reminders_not_read", owner=owner, session=session, why=error.message)
