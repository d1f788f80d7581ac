"""What is counted of reminders, and what is remembered of those that ended."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from gateway.stores.documents import DocumentKey

DAY_MS = 24 * 60 * 60 * 1000
MOST_ENDED = 20_000
MOST_ENDED_HERE = 100


@dataclass(slots=True)
class ReminderCounts:
    """How many reminders went which way since the process began."""

    scheduled: int = 0
    reserved: int = 0
    committed: int = 0
    released: int = 0
    expired: int = 0
    cancelled: int = 0
    acknowledged: int = 0


class EndedReminder(msgspec.Struct, frozen=True, gc=False):
    """A reminder that is over: how it ended, and when."""

    id: str
    text: str
    due_ms: int
    outcome: str
    at_ms: int


class RecentlyEnded:
    """What ended during the last day; when it is too much, where something ended last."""

    def __init__(self) -> None:
        self._ended: OrderedDict[DocumentKey, deque[EndedReminder]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: DocumentKey, ended: Iterable[EndedReminder]) -> None:
        """Remember what ended in a session."""
        line = self._ended.pop(key, None) or deque(maxlen=MOST_ENDED_HERE)
        self._count -= len(line)
        line.extend(ended)
        self._count += len(line)
        self._ended[key] = line
        while self._count > MOST_ENDED:
            self._forget_one()

    def of(self, key: DocumentKey, now_ms: int) -> tuple[EndedReminder, ...]:
        """Return what ended in a session, the first to end first."""
        return tuple(one for one in self._ended.get(key, ()) if one.at_ms > now_ms - DAY_MS)

    def forget(self, now_ms: int) -> None:
        """Forget the sessions where nothing ended for a day."""
        while self._ended and next(iter(self._ended.values()))[-1].at_ms <= now_ms - DAY_MS:
            self._forget_one()

    def _forget_one(self) -> None:
        _, line = self._ended.popitem(last=False)
        self._count -= len(line)
