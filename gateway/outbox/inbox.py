"""The inbox: one list of a session's due reminders and waiting results."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Container, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import anyio

from gateway.clock.protocol import Clock
from gateway.clock.timer_queue import TimerQueue
from gateway.outbox.feed import DELIVERY_ACKED, Feed
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.text import REMINDER, RUN, DeliveryView, show_due_reminder, show_result
from gateway.outbox.wakeup import SubscriberLimit, Wakeup
from gateway.reminders.model import Reminder, Rules
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.waiting import Unsubscribe

# The limit of one page; the next request gets the rest at once.
MOST_SHOWN_CHARACTERS = 1024 * 1024
# Where instances share the store: what others do is not always told.
POLL_SECONDS = 15.0
_MARK = 8
_CURSOR = re.compile(rf"([0-9]{{1,18}})(?:\.((?:[A-Za-z0-9_-]{{{_MARK}}}){{1,4096}}))?")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a reader has seen: results up to a number, and marks of due reminders.

    Results are numbered in the order in which they come. The order of reminders can change when the
    clock is stepped, so each seen reminder has a mark.
    """

    seq: int = 0
    marks: frozenset[str] = frozenset()

    def __str__(self) -> str:
        marks = "".join(sorted(self.marks))
        return f"{self.seq}.{marks}" if marks else str(self.seq)


def read_cursor(text: str) -> Seen | None:
    """Read a cursor; return None if it is not valid."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        return None
    marks = match[2] or ""
    cut = (marks[at : at + _MARK] for at in range(0, len(marks), _MARK))
    return Seen(int(match[1]), frozenset(cut))


def _mark(task: Reminder) -> str:
    return urlsafe_b64encode(sha256(task.id.encode()).digest()[:6]).decode()


@dataclass(frozen=True, slots=True)
class Page:
    """Items that a reader has not seen, the oldest first, and the cursor after them."""

    items: tuple[DeliveryView, ...]
    seen: Seen
    next_ms: int | None = None
    """When the next reminder is due; None if there is none."""


class ReminderSource(Protocol):
    """The reminders of sessions, as the inbox uses them."""

    @property
    def rules(self) -> Rules: ...

    async def list_undelivered(self, owner: str, session: str) -> tuple[Reminder, ...]:
        """Return undelivered reminders; raise if the store is down."""

    async def acknowledge(
        self, owner: str, session: str, ids: Container[str]
    ) -> tuple[Reminder, ...]:
        """Mark reminders as delivered, durably; return those that were waiting."""

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each change of a session's reminders."""


class Inbox:
    """Shows what waits for a session, or waits for it. Reading does not mark it as delivered."""

    def __init__(
        self,
        deliveries: OutboxQueue,
        reminders: ReminderSource,
        feed: Feed,
        timers: TimerQueue,
        clock: Clock,
        most: int = 100,
    ) -> None:
        self._deliveries = deliveries
        self._reminders = reminders
        self._feed = feed
        self._timers = timers
        self._clock = clock
        self.subscribers = SubscriberLimit(most, "requests that wait for an inbox")

    def __repr__(self) -> str:
        return f"<Inbox {len(self.subscribers)} waiting>"

    async def look(self, owner: str, session: str, seen: Seen) -> Page:
        """Return what waits now and was not seen; raise if a store is down."""
        tasks = await self._reminders.list_undelivered(owner, session)
        items = await self._deliveries.pending(owner, session)
        ready_ms = self._clock.now_ms() + self._reminders.rules.due_window_ms
        due = {_mark(task): task for task in tasks if task.due_ms <= ready_ms}
        later = min((task.due_ms for task in tasks if task.due_ms > ready_ms), default=None)
        next_ms = None if later is None else later - self._reminders.rules.due_window_ms
        return _page(due, items, seen, next_ms)

    async def wait(
        self, owner: str, session: str, seen: Seen, seconds: float, wakeup: Wakeup
    ) -> Page | None:
        """Wait for something that was not seen, and return it; None after `seconds`."""
        with anyio.move_on_after(seconds), ExitStack() as stack:
            stack.callback(self._reminders.watch(owner, session, wakeup.rouse))
            stack.callback(self._deliveries.watch(owner, session, wakeup.rouse))
            while not wakeup.over:
                wakeup.look()
                page = await self.look(owner, session, seen)
                if page.items:
                    return page
                await self._sleep(wakeup, page.next_ms)
        return None

    async def _sleep(self, wakeup: Wakeup, next_ms: int | None) -> None:
        is_shared = self._deliveries.rows.is_shared
        with ExitStack() as stack, anyio.move_on_after(POLL_SECONDS if is_shared else None):
            if next_ms is not None:
                stack.callback(self._timers.cancel, self._timers.call_at(next_ms, wakeup.rouse))
            await wakeup.wait()

    async def acknowledge(self, owner: str, session: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Mark items as delivered, durably; return the ids of those that were waiting."""
        asked = tuple(dict.fromkeys(ids))
        tasks = await self._reminders.acknowledge(owner, session, frozenset(asked))
        for task in tasks:
            data = {"id": task.id, "kind": REMINDER}
            await self._feed.publish(owner, session, DELIVERY_ACKED, task.id, data)
        runs = await self._acknowledge_runs(owner, session, asked)
        found = {*(task.id for task in tasks), *runs}
        return tuple(item_id for item_id in asked if item_id in found)

    async def _acknowledge_runs(
        self, owner: str, session: str, ids: tuple[str, ...]
    ) -> tuple[str, ...]:
        if self._deliveries.idle(owner, session):
            return ()
        events = {
            item_id: self._feed.make_event(
                owner, session, DELIVERY_ACKED, item_id, {"id": item_id, "kind": RUN}
            )
            for item_id in ids
        }
        runs = await self._deliveries.acknowledge(owner, session, ids, events.__getitem__)
        if runs:
            self._feed.announce(owner, session)
        return runs

    def drain(self) -> None:
        """End all waiting requests, and allow no new ones."""
        self.subscribers.drain()


def _page(
    due: Mapping[str, Reminder], items: tuple[OutboxItem, ...], seen: Seen, next_ms: int | None
) -> Page:
    marks = {mark for mark in seen.marks if mark in due}
    seq, left = seen.seq, MOST_SHOWN_CHARACTERS
    shown: list[tuple[int, DeliveryView]] = []
    for mark, task in due.items():
        if mark not in marks:
            marks.add(mark)
            shown.append((task.due_ms, show_due_reminder(task)))
    for item in items:
        if item.seq <= seq:
            continue
        left -= len(item.text)
        if shown and left < 0:
            break
        seq = item.seq
        shown.append((item.at_ms, show_result(item)))
    shown.sort(key=lambda pair: pair[0])
    return Page(tuple(one for _, one in shown), Seen(seq, frozenset(marks)), next_ms)
