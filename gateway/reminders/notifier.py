"""Tells of reminders that come due where somebody wants to hear of it.

A session is attended to while somebody has subscribed to it lately, or while it has reminders and
its owner a webhook. Each has one timer, for the reminder that is next; all others cost nothing.
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
from gateway.outbox.text import shown_task
from gateway.outbox.wakeup import News
from gateway.reminders.model import Task
from gateway.reminders.service import KIND, Reminders
from gateway.stores.documents import Listed, StoreUnavailable
from gateway.stores.waiting import Unsubscribe

Where = tuple[str, str]

DAY_MS = 24 * 60 * 60 * 1000
KEPT_MS = 7 * DAY_MS
REFRESH_SECONDS = 3600.0
RETRY_SECONDS = 30.0
# Said in place of a time: to look again after a while, whatever the clock shows by then.
AGAIN = -1
# Sessions that are looked at together: they share what makes their events durable.
AT_ONCE = 16
LISTED_AT_ONCE = 500


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class _Charge:
    """A session that is attended to."""

    unwatch: Unsubscribe
    cancel: Callable[[], None] = _nothing
    announced: set[str] = field(default_factory=set)


class Herald:
    """Publishes each reminder that comes due, once."""

    def __init__(
        self,
        feed: Feed,
        reminders: Reminders,
        timers: TimerQueue,
        clock: Clock,
        owners: Iterable[str] = (),
    ) -> None:
        self._feed = feed
        self._reminders = reminders
        self._timers = timers
        self._clock = clock
        self._owners = frozenset(owners)
        self._wanted: set[Where] = set()
        self._charges: dict[Where, _Charge] = {}
        # Sessions to be looked at, in the order in which they gave reason to.
        self._unseen: dict[Where, None] = {}
        self._news = News()
        reminders.on_schedule = self._scheduled

    def __repr__(self) -> str:
        return f"<Herald of {len(self._charges)} sessions>"

    async def attend(self, owner: str, session: str) -> None:
        """Attend to a session from now on, and for a week, durably."""
        where = (owner, session)
        await self._feed.rows.interested(owner, session, self._clock.now_ms())
        self._wanted.add(where)
        self._take(where)

    async def run(self) -> None:
        """Tell of what comes due, and forget what is old, for ever."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh_often)
            while True:
                self._news.look()
                while self._unseen:
                    await self._look_at_some()
                await self._news.wait()

    async def refresh(self) -> None:
        """Attend to all that somebody wants to hear of, and to no others; forget what is old."""
        rows, now_ms = self._feed.rows, self._clock.now_ms()
        for owner, session in tuple(self._feed.open):
            await rows.interested(owner, session, now_ms)
        known = frozenset(self._wanted)
        await rows.prune(now_ms - KEPT_MS)
        wanted = frozenset(await rows.interests())
        self._wanted = (self._wanted | wanted) - (known - wanted)
        for where in wanted:
            self._take(where)
        for where in known - wanted:
            self._hear(where)
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

    # Whom it attends to.

    def _scheduled(self, owner: str, session: str) -> None:
        if owner in self._owners:
            self._take((owner, session))

    async def _take_all(self, owner: str) -> None:
        """Attend to all sessions of an owner that have reminders."""
        store = self._reminders.store
        after: Listed | None = None
        while listed := await store.listing(KIND, owner, after, LISTED_AT_ONCE):
            for one in listed:
                self._take((owner, one.session))
            after = listed[-1]

    def _take(self, where: Where) -> None:
        if where not in self._charges:
            watch = self._reminders.watch(*where, partial(self._hear, where))
            self._charges[where] = _Charge(watch)
            self._hear(where)

    def _leave(self, where: Where) -> None:
        charge = self._charges.pop(where)
        charge.unwatch()
        charge.cancel()

    def _hear(self, where: Where) -> None:
        """Look at a session soon: something may have changed, or come due."""
        self._unseen[where] = None
        self._news.rouse()

    # What it tells.

    async def _look_at_some(self) -> None:
        async with anyio.create_task_group() as tasks:
            for where in tuple(islice(self._unseen, AT_ONCE)):
                del self._unseen[where]
                if where in self._charges:
                    tasks.start_soon(self._look, where, self._charges[where])

    async def _look(self, where: Where, charge: _Charge) -> None:
        next_ms: int | None
        try:
            tasks = await self._reminders.undelivered(*where)
        except StoreUnavailable as error:
            owner, session = where
            self._feed.note("reminders_not_read", owner=owner, session=session, why=error.message)
            next_ms = AGAIN
        else:
            # Since the read nobody came in between: what is scheduled next is taken up anew.
            if not self._is_wanted(where, tasks):
                self._leave(where)
                return
            next_ms = await self._announce(where, charge, tasks)
        charge.cancel()
        if next_ms == AGAIN:
            # Not by the clock alone: one that was ahead, and comes back, would keep it waiting.
            later = asyncio.get_running_loop().call_later
            timer = later(RETRY_SECONDS, self._hear, where)
            next_ms = self._clock.now_ms() + ceil(RETRY_SECONDS * 1000)
        else:
            timer = None
        if next_ms is not None:
            number = self._timers.call_at(next_ms, partial(self._hear, where))
            charge.cancel = partial(self._cancel, number, timer)

    def _cancel(self, number: int, timer: asyncio.TimerHandle | None) -> None:
        self._timers.cancel(number)
        if timer is not None:
            timer.cancel()

    def _is_wanted(self, where: Where, tasks: tuple[Task, ...]) -> bool:
        return where in self._wanted or (bool(tasks) and where[0] in self._owners)

    async def _announce(self, where: Where, charge: _Charge, tasks: tuple[Task, ...]) -> int | None:
        """Publish what is due and was not published yet; return when to look again."""
        now_ms, window_ms = self._clock.now_ms(), self._reminders.rules.due_window_ms
        charge.announced.intersection_update(task.id for task in tasks)
        for task in sorted(tasks, key=lambda task: task.due_ms):
            if task.id in charge.announced:
                continue
            ready_ms = task.due_ms - window_ms
            if ready_ms > now_ms:
                return ready_ms
            if not await self._feed.publish(*where, REMINDER_DUE, task.id, shown_task(task)):
                return AGAIN
            charge.announced.add(task.id)
        return None
