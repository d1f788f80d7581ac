"""The events of sessions: a log that is kept for a week, and its subscribers.

The log is rows in the store, numbered for each session as they are stored. A reader only needs the
number of the last event it got, and reads on after it. An event about a row is stored in the
transaction that changes the row; `announce` then only wakes its readers. Only events in the store
are sent, and nothing is kept in memory for a slow reader. Invariants:

1. An event is in the log once for each kind and key of a session, so it may be published again if
   it is not known whether that was done.
2. A reader calls `Wakeup.look` before it reads: later writes wake it, so that no event is missed
   between the end of a read and the wait.
3. A number that this log never gave comes from another log, as after a restore: then all events are
   new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager

import anyio
import msgspec

from gateway.clock.protocol import Clock
from gateway.outbox.wakeup import SubscriberLimit, Wakeup
from gateway.stores.delivery_rows import DeliveryRows, SessionEvent
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.hints import EVENTS, SessionHints
from gateway.stores.waiting import Unsubscribe, Watchers, join_both

Note = Callable[..., None]
EventData = Mapping[str, object] | msgspec.Struct

REMINDER_DUE, RUN_STARTED, RUN_FINISHED, DELIVERY_ACKED = KINDS = (
    "reminder.due",
    "run.started",
    "run.finished",
    "delivery.acked",
)
# Events may contain whole results, so only a few are read ahead for a slow reader.
PAGE = 20
MOST_SUBSCRIPTIONS = 20
# In a store that instances share: hints of their events may be lost.
POLL_SECONDS = 15.0


class Feed:
    """The log of events of all sessions; of one session, a higher number is later."""

    def __init__(
        self,
        rows: DeliveryRows,
        clock: Clock,
        note: Note,
        most: int = MOST_SUBSCRIPTIONS,
        hints: SessionHints | None = None,
    ) -> None:
        self._hints = hints
        self.rows = rows
        self.clock = clock
        self.note = note
        self.subscribers = SubscriberLimit(most, "subscriptions to events")
        self.open: Counter[SessionKey] = Counter()
        """How many subscriptions each session has now."""
        self._watchers = Watchers()

    def __repr__(self) -> str:
        return f"<Feed {len(self.subscribers)} subscribed>"

    def make_event(
        self, owner: str, session: str, kind: str, key: str, data: EventData
    ) -> SessionEvent:
        """Make an event of now, for whoever stores it together with what it tells of."""
        if kind not in KINDS:
            raise ValueError(f"No event is called {kind!r}.")
        written = msgspec.json.encode(data)
        return SessionEvent(owner, session, kind, key, self.clock.now_ms(), written)

    async def publish(self, owner: str, session: str, kind: str, key: str, data: EventData) -> bool:
        """Append an event, once for each kind and key; return False if the store is down."""
        event = self.make_event(owner, session, kind, key, data)
        try:
            await self.rows.note(event)
        except StoreUnavailable as error:
            why = error.message
            self.note("event_not_kept", owner=owner, session=session, kind=kind, why=why)
            return False
        self.announce(owner, session)
        return True

    def announce(self, owner: str, session: str) -> None:
        """Wake the readers of a session: an event of it was stored."""
        self._watchers.notify((owner, session))
        self._watchers.notify(owner)
        if self._hints is not None:
            self._hints.tell(EVENTS, (owner, session))

    def watch(self, owner: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback after each event of any of an owner's sessions."""
        return self._watchers.watch(owner, callback)

    def _watch_session(self, key: SessionKey, wakeup: Wakeup) -> Unsubscribe:
        here = self._watchers.watch(key, wakeup.rouse)
        if self._hints is None:
            return here
        return join_both(here, self._hints.watch(EVENTS, key, wakeup.rouse))

    @contextmanager
    def subscribe(self, owner: str, session: str) -> Iterator[Subscription]:
        """Subscribe to a session's events; raise `TooMany` or `Draining` if not possible."""
        with self.subscribers.admit(owner) as wakeup:
            key = (owner, session)
            unwatch = self._watch_session(key, wakeup)
            poll_seconds = None if self._hints is None else POLL_SECONDS
            self.open[key] += 1
            try:
                yield Subscription(self.rows, key, wakeup, poll_seconds)
            finally:
                unwatch()
                self.open[key] -= 1
                if not self.open[key]:
                    del self.open[key]

    def drain(self) -> None:
        """End all subscriptions, and allow no new ones."""
        self.subscribers.drain()


class Subscription:
    """One reader of a session's log; new events wake it.

    It only keeps its position: events that a slow reader has not read yet are in the store.
    """

    __slots__ = ("_key", "_poll_seconds", "_rows", "_wakeup", "after")

    def __init__(
        self,
        rows: DeliveryRows,
        key: SessionKey,
        wakeup: Wakeup,
        poll_seconds: float | None = None,
    ) -> None:
        self._poll_seconds = poll_seconds
        self._rows = rows
        self._key = key
        self._wakeup = wakeup
        self.after = 0
        """The number of the last event that was read."""

    async def begin(self, after: int | None) -> None:
        """Set the position: after the given event, or after all events.

        A number that was never given is from another log; then reading starts at the beginning.
        """
        last = await self._rows.last_event(*self._key)
        if after is None:
            self.after = last
        else:
            self.after = after if after <= last else 0

    async def events(self) -> AsyncGenerator[SessionEvent]:
        """Yield stored and new events until the gateway shuts down."""
        while not self._wakeup.over:
            self._wakeup.look()
            found = await self._rows.events(*self._key, self.after, PAGE)
            for event in found:
                self.after = event.seq
                yield event
            if not found:
                with anyio.move_on_after(self._poll_seconds):
                    await self._wakeup.wait()
