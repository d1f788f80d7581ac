"""Publishes an event when a reminder is due, for sessions that somebody listens to.

A session is watched while somebody has subscribed to it lately, or while it has reminders and its
owner has a webhook. Each watched session has one timer, for its next reminder; all others cost
nothing.

Whatever may have changed a session (a schedule, a claim, a timer, a new subscriber) only adds it to
the sessions to look at. One loop looks at them, some at a time, and decides everything anew from
the store. So a signal that comes twice or too early only costs a look, and none can be lost. The
feed has one event for each reminder, so none is published twice; `announced` only saves writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import ceil
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.timer_queue import TimerQueue
from gateway.outbox.feed import REMINDER_DUE, Feed
from gateway.outbox.text import show_due_reminder
from gateway.outbox.wakeup import Wakeup
from gateway.reminders.model import Reminder
from gateway.reminders.reminder_documents import KIND
from gateway.reminders.service import ReminderService
from gateway.stores.documents import Listed, SessionKey, StoreUnavailable
from gateway.stores.waiting import Unsubscribe

DAY_MS = 24 * 60 * 60 * 1000
KEPT_MS = 7 * DAY_MS
REFRESH_SECONDS = 3600.0
RETRY_SECONDS = 30.0
# In place of a time: look again after a while, whatever the clock shows then.
AGAIN = -1
# Sessions that are looked at together: their events share one commit.
AT_ONCE = 16
LISTED_AT_ONCE = 500


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class _AttendedSession:
    """A session whose due reminders are published."""

    unwatch: Unsubscribe
    cancel: Callable[[], None] = _nothing
    announced: set[str] = field(default_factory=set)


class DueNotifier:
    """Publishes each reminder that comes due, once."""

    def __init__(
        self,
        feed: Feed,
        reminders: ReminderService,
        timers: TimerQueue,
        clock: Clock,
        owners: Iterable[str] = (),
    ) -> None:
        self._feed = feed
        self._reminders = reminders
        self._timers = timers
        self._clock = clock
        self._owners = frozenset(owners)
        self._wanted: set[SessionKey] = set()
        self._charges: dict[SessionKey, _AttendedSession] = {}
        # Sessions to look at, in the order of their signals.
        self._unseen: dict[SessionKey, None] = {}
        self._wakeup = Wakeup()
        reminders.on_schedule = self._take_scheduled

    def __repr__(self) -> str:
        return f"<DueNotifier of {len(self._charges)} sessions>"

    async def attend(self, owner: str, session: str) -> None:
        """Publish due reminders of a session from now on, for a week, durably."""
        key = (owner, session)
        await self._feed.rows.note_interest(owner, session, self._clock.now_ms())
        self._wanted.add(key)
        self._take(key)

    async def replace_owners(self, owners: Iterable[str]) -> None:
        """Watch the sessions of exactly these owners, beside those that somebody subscribed to."""
        before, self._owners = self._owners, frozenset(owners)
        try:
            for owner in self._owners - before:
                await self._take_all(owner)
        except StoreUnavailable as error:
            # The next refresh takes them.
            self._feed.note("reminders_not_read", owner=owner, why=error.message)
        for key in self._charges:
            if key[0] in before - self._owners:
                self._hear(key)

    async def run(self) -> None:
        """Publish due reminders and delete old events, forever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_often)
            while True:
                self._wakeup.look()
                while self._unseen:
                    await self._look_at_some()
                await self._wakeup.wait()

    async def refresh(self) -> None:
        """Watch exactly the sessions that somebody listens to; delete old events."""
        rows, now_ms = self._feed.rows, self._clock.now_ms()
        for owner, session in tuple(self._feed.open):
            await rows.note_interest(owner, session, now_ms)
        known = frozenset(self._wanted)
        await rows.prune(now_ms - KEPT_MS)
        wanted = frozenset(await rows.interests())
        self._wanted = (self._wanted | wanted) - (known - wanted)
        for key in wanted:
            self._take(key)
        for key in known - wanted:
            self._hear(key)
        for owner in self._owners:
            await self._take_all(owner)

    async def _refresh_often(self) -> NoReturn:
        while True:
            try:
                await self.refresh()
                pause = REFRESH_SECONDS
            except StoreUnavailable as error:
                self._feed.note("events_not_tidied", why=error.message)
                pause = RETRY_SECONDS
            await anyio.sleep(pause)

    # Which sessions are watched.

    def _take_scheduled(self, owner: str, session: str) -> None:
        if owner in self._owners:
            self._take((owner, session))

    async def _take_all(self, owner: str) -> None:
        """Watch all sessions of an owner that have reminders."""
        store = self._reminders.store
        after: Listed | None = None
        while listed := await store.listing(KIND, owner, after, LISTED_AT_ONCE):
            for item in listed:
                self._take((owner, item.session))
            after = listed[-1]

    def _take(self, key: SessionKey) -> None:
        if key not in self._charges:
            watch = self._reminders.watch(*key, partial(self._hear, key))
            self._charges[key] = _AttendedSession(watch)
            self._hear(key)

    def _leave(self, key: SessionKey) -> None:
        charge = self._charges.pop(key)
        charge.unwatch()
        charge.cancel()

    def _hear(self, key: SessionKey) -> None:
        """Look at a session soon: something may have changed, or come due."""
        self._unseen[key] = None
        self._wakeup.rouse()

    # What is published.

    async def _look_at_some(self) -> None:
        async with anyio.create_task_group() as tasks:
            for key in tuple(islice(self._unseen, AT_ONCE)):
                del self._unseen[key]
                if key in self._charges:
                    tasks.start_soon(self._look, key, self._charges[key])

    async def _look(self, key: SessionKey, charge: _AttendedSession) -> None:
        next_ms: int | None
        try:
            tasks = await self._reminders.list_undelivered(*key)
        except StoreUnavailable as error:
            owner, session = key
            self._feed.note("reminders_not_read", owner=owner, session=session, why=error.message)
            next_ms = AGAIN
        else:
            # No task switch since the read: a later schedule adds the session again.
            if not self._is_wanted(key, tasks):
                self._leave(key)
                return
            next_ms = await self._announce(key, charge, tasks)
        charge.cancel()
        if next_ms == AGAIN:
            # Not by the clock alone: if it is set back, the timer would wait too long.
            later = asyncio.get_running_loop().call_later
            timer = later(RETRY_SECONDS, self._hear, key)
            next_ms = self._clock.now_ms() + ceil(RETRY_SECONDS * 1000)
        else:
            timer = None
        if next_ms is not None:
            number = self._timers.call_at(next_ms, partial(self._hear, key))
            charge.cancel = partial(self._cancel, number, timer)

    def _cancel(self, number: int, timer: asyncio.TimerHandle | None) -> None:
        self._timers.cancel(number)
        if timer is not None:
            timer.cancel()

    def _is_wanted(self, key: SessionKey, tasks: tuple[Reminder, ...]) -> bool:
        return key in self._wanted or (bool(tasks) and key[0] in self._owners)

    async def _announce(
        self, key: SessionKey, charge: _AttendedSession, tasks: tuple[Reminder, ...]
    ) -> int | None:
        """Publish what is due and was not published yet; return when to look again."""
        now_ms, window_ms = self._clock.now_ms(), self._reminders.rules.due_window_ms
        charge.announced.intersection_update(task.id for task in tasks)
        for task in sorted(tasks, key=lambda task: task.due_ms):
            if task.id in charge.announced:
                continue
            ready_ms = task.due_ms - window_ms
            if ready_ms > now_ms:
                return ready_ms
            if not await self._feed.publish(*key, REMINDER_DUE, task.id, show_due_reminder(task)):
                return AGAIN
            charge.announced.add(task.id)
        return None
