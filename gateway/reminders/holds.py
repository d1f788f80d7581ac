"""Answers that are kept open: which there are, what ends them, and how many there may be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import NoReturn

from gateway.clock.system import SteadyClock
from gateway.clock.timer_queue import TimerQueue
from gateway.stores.documents import SessionKey

DUE, GONE, TAKEN_OVER, REPLACED, DRAINING, LIMIT, LEFT = (
    "due",
    "reminder_gone",
    "taken_over",
    "replaced",
    "draining",
    "limit",
    "client_gone",
)


@dataclass(slots=True)
class HoldCounts:
    """Holds since the process began, by how they ended, and how long they took together."""

    started: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)


class HeldAnswer:
    """One answer that is kept open; it sleeps until somebody has news for it.

    There may be many thousands, so it is made of little: a future while it sleeps, and no more.
    """

    __slots__ = ("_has_news", "_holds", "_sleeper", "begun", "reason", "where")

    def __init__(self, where: SessionKey, holds: Holds, begun: float) -> None:
        self.where = where
        self.begun = begun
        self.reason = ""
        self._holds = holds
        self._has_news = False
        self._sleeper: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<HeldAnswer {self.reason or 'on'}>"

    def rouse(self) -> None:
        """Have it look again at what it waits for."""
        self._has_news = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def end(self, reason: str) -> None:
        """Have it end; the first reason counts."""
        self.reason = self.reason or reason
        self.rouse()

    def look(self) -> None:
        """Begin to look: what happens from now on is news."""
        self._has_news = False

    async def sleep(self, until_ms: int, longest: float) -> None:
        """Sleep until this instant or news since the last look, but no longer than so many seconds.

        A clock that is stepped back makes the instant come later; it makes nobody more patient.
        """
        if self._has_news:
            return
        timers, patience = self._holds.timers, self._holds.patience
        self._sleeper = asyncio.get_running_loop().create_future()
        # The loop's own timers would take four times the memory.
        due = timers.call_at(until_ms, self.rouse)
        enough = patience.call_at(patience.now_ms() + ceil(longest * 1000), self.rouse)
        try:
            await self._sleeper
        finally:
            timers.cancel(due)
            patience.cancel(enough)
            self._sleeper = None


class Holds:
    """All answers that are kept open: one a session, so many an owner, so many in all."""

    def __init__(
        self,
        timers: TimerQueue,
        steady: Callable[[], float],
        most: int = 20_000,
        most_of_one: int = 100,
    ) -> None:
        self.timers = timers
        self.patience = TimerQueue(SteadyClock(steady))
        self._steady = steady
        self._most = most
        self._most_of_one = most_of_one
        self._open: dict[SessionKey, HeldAnswer] = {}
        self._by_owner: Counter[str] = Counter()
        self.draining = False
        self.counts = HoldCounts()

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Holds {len(self._open)} open>"

    async def run(self) -> NoReturn:
        """Have those look again that are held for longer than they may be, for ever."""
        await self.patience.run()

    def has_room(self, owner: str, session: str) -> bool:
        """Whether one more answer may be kept open."""
        if self.draining:
            return False
        if (owner, session) in self._open:
            return True
        return len(self._open) < self._most and self._by_owner[owner] < self._most_of_one

    def begin(self, owner: str, session: str) -> HeldAnswer:
        """Keep an answer open; another one of the same session is not, any more."""
        where = (owner, session)
        # It was looked for before; who came meanwhile may have taken the last place.
        has_room = self.has_room(owner, session)
        self.end(owner, session, REPLACED)
        hold = self._open[where] = HeldAnswer(where, self, self._steady())
        self._by_owner[owner] += 1
        self.counts.started += 1
        if not has_room:
            hold.end(DRAINING if self.draining else LIMIT)
        return hold

    def measure_seconds(self, hold: HeldAnswer) -> float:
        """Return for how many seconds an answer has been kept open."""
        return self._steady() - hold.begun

    def over(self, hold: HeldAnswer, outcome: str) -> float:
        """Take note of how a hold ended, and say how long it took."""
        seconds = self.measure_seconds(hold)
        self.counts.seconds += seconds
        self.counts.outcomes[outcome] += 1
        if self._open.get(hold.where) is hold:
            self._forget(hold)
        return seconds

    def end(self, owner: str, session: str, reason: str = TAKEN_OVER) -> None:
        """End the hold of a session, if there is one."""
        hold = self._open.get((owner, session))
        if hold is not None:
            self._forget(hold)
            hold.end(reason)

    def drain(self) -> None:
        """End all holds, and let none begin."""
        self.draining = True
        for hold in tuple(self._open.values()):
            hold.end(DRAINING)

    def _forget(self, hold: HeldAnswer) -> None:
        del self._open[hold.where]
        owner = hold.where[0]
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
