"""What happens in sessions: a log that is kept for a week, and those who read on as it grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from gateway.outbox.wakeup import News, Seats
from gateway.stores.documents import StoreUnavailable
from gateway.stores.rows import DeliveryRows, SessionEvent
from gateway.stores.waiting import Unsubscribe, Watchers

Where = tuple[str, str]
Note = Callable[..., None]

REMINDER_DUE, RUN_STARTED, RUN_FINISHED, DELIVERY_ACKED = KINDS = (
    "reminder.due",
    "run.started",
    "run.finished",
    "delivery.acked",
)
# Events may hold whole results; what is read ahead of a slow reader is little.
PAGE = 20
MOST_SUBSCRIPTIONS = 20


class Clock(Protocol):
    """Whoever knows what time it is."""

    def now_ms(self) -> int:
        """Return the corrected time in UTC milliseconds."""


class Feed:
    """The log of events of all sessions; each has a number, and higher is later."""

    def __init__(
        self, rows: DeliveryRows, clock: Clock, note: Note, most: int = MOST_SUBSCRIPTIONS
    ) -> None:
        self.rows = rows
        self.clock = clock
        self.note = note
        self.seats = Seats(most, "subscriptions to events")
        self.open: Counter[Where] = Counter()
        """The sessions that are subscribed to now."""
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return f"<Feed {len(self.seats)} subscribed>"

    async def publish(
        self, owner: str, session: str, kind: str, key: str, data: Mapping[str, object]
    ) -> bool:
        """Append to a session's log, once for each kind and key; False if the store is down."""
        if kind not in KINDS:
            raise ValueError(f"No event is called {kind!r}.")
        written = msgspec.json.encode(data)
        event = SessionEvent(owner, session, kind, key, self.clock.now_ms(), written)
        try:
            kept = await self.rows.note(event)
        except StoreUnavailable as error:
            why = error.message
            self.note("event_not_kept", owner=owner, session=session, kind=kind, why=why)
            return False
        if kept is not None:
            self._watchers.changed((owner, session))
            self._watchers.changed(owner)
        return True

    def watch(self, owner: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called after each event of any of an owner's sessions."""
        return self._watchers.watch(owner, callback)

    @contextmanager
    def subscribed(self, owner: str, session: str) -> Iterator[Subscription]:
        """Read a session's log as it grows; raises `TooMany` or `Draining` if that cannot be."""
        with self.seats.seat(owner) as news:
            where = (owner, session)
            unwatch = self._watchers.watch(where, news.rouse)
            self.open[where] += 1
            try:
                yield Subscription(self.rows, where, news)
            finally:
                unwatch()
                self.open[where] -= 1
                if not self.open[where]:
                    del self.open[where]

    def drain(self) -> None:
        """End all subscriptions, and let none begin."""
        self.seats.drain()


class Subscription:
    """One reader of a session's log, who is told when it has grown.

    It keeps nothing but its place: what a slow reader has not read yet is in the store.
    """

    __slots__ = ("_news", "_rows", "_where", "after")

    def __init__(self, rows: DeliveryRows, where: Where, news: News) -> None:
        self._rows = rows
        self._where = where
        self._news = news
        self.after = 0
        """The number of the last event that was read."""

    async def begin(self, after: int | None) -> None:
        """Go to where to read on: behind an event, or behind all there are.

        A number that was never given is from another log than this, of which all is new.
        """
        last = await self._rows.last_event(*self._where)
        if after is None:
            self.after = last
        else:
            self.after = after if after <= last else 0

    async def events(self) -> AsyncGenerator[SessionEvent]:
        """Yield the events that there are, and those to come, until the gateway leaves."""
        while not self._news.over:
            self._news.look()
            found = await self._rows.events(*self._where, self.after, PAGE)
            for event in found:
                self.after = event.seq
                yield event
            if not found:
                await self._news.wait()
