"""Counts and log lines of reminders, and the reminders that ended lately."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from gateway.reminders.model import Reminder, ReminderList, earliest_due
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.timestamps import iso

DAY_MS = 24 * 60 * 60 * 1000
MOST_ENDED = 20_000
MOST_ENDED_HERE = 100
LONGEST_SHOWN = 200
DELIVERED, CANCELLED, EXPIRED = "delivered", "cancelled", "expired"


@dataclass(slots=True)
class ReminderCounts:
    """How many reminders were scheduled, delivered and so on since the process began."""

    scheduled: int = 0
    reserved: int = 0
    committed: int = 0
    released: int = 0
    expired: int = 0
    cancelled: int = 0
    acknowledged: int = 0


class EndedReminder(msgspec.Struct, frozen=True, gc=False):
    """A reminder that ended: its outcome, and when."""

    id: str
    text: str
    due_ms: int
    outcome: str
    at_ms: int


class RecentlyEnded:
    """Reminders that ended during the last day; above a limit the oldest sessions are dropped."""

    def __init__(self) -> None:
        self._ended: OrderedDict[SessionKey, deque[EndedReminder]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: SessionKey, ended: Iterable[EndedReminder]) -> None:
        """Remember reminders that ended in a session."""
        line = self._ended.pop(key, None) or deque(maxlen=MOST_ENDED_HERE)
        self._count -= len(line)
        line.extend(ended)
        self._count += len(line)
        self._ended[key] = line
        while self._count > MOST_ENDED:
            self._forget_one()

    def of(self, key: SessionKey, now_ms: int) -> tuple[EndedReminder, ...]:
        """Return the reminders that ended in a session, in the order of their ends."""
        return tuple(item for item in self._ended.get(key, ()) if item.at_ms > now_ms - DAY_MS)

    def forget(self, now_ms: int) -> None:
        """Forget the sessions in which nothing ended for a day."""
        while self._ended and next(iter(self._ended.values()))[-1].at_ms <= now_ms - DAY_MS:
            self._forget_one()

    def _forget_one(self) -> None:
        _, line = self._ended.popitem(last=False)
        self._count -= len(line)


class ReminderRecords:
    """The counts, the log lines and the ended reminders of one service."""

    def __init__(self, note: Callable[..., None]) -> None:
        self.counts = ReminderCounts()
        self.recent = RecentlyEnded()
        self.note = note

    def add_ended(
        self, key: SessionKey, reminders: tuple[Reminder, ...], outcome: str, at_ms: int
    ) -> None:
        """Remember that reminders of a session ended."""
        if reminders:
            shown = ((one.id, one.text[:LONGEST_SHOWN], one.due_ms) for one in reminders)
            self.recent.add(key, (EndedReminder(*one, outcome, at_ms) for one in shown))

    def log(self, event: str, key: SessionKey, about: tuple[Reminder, ...], **more: object) -> None:
        """Log what was done with some reminders; never their text."""
        (owner, session), first = key, earliest_due(ReminderList(about))
        due = None if first is None else iso(first)
        who = {"owner": owner, "session": session, "count": len(about)}
        self.note(event, **who, earliest_due=due, store="ok", **more)

    def log_trouble(self, event: str, key: SessionKey, error: StoreUnavailable) -> None:
        """Log why something could not be done."""
        owner, session = key
        self.note(event, owner=owner, session=session, store="failed", why=error.message)


def join_ids(reminders: tuple[Reminder, ...]) -> str:
    """Return the ids of reminders as one log value."""
    return ",".join(reminder.id for reminder in reminders)
