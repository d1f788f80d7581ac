"""Answers that are kept open: for what and how long, which there are, and what ends them.

`HoldPolicy` decides for one exchange, `Holds` knows all answers that are kept open and the limits.
`find_wait` says what an answer could be held for. The machine decides by that, and its `Hold` says
until when and how long at most; `hold` obeys. While it waits, reminders may be set or cancelled and
runs may end: whatever changes wakes it, and it looks for what is ready next. It ends when something
is there to be claimed, or with a reason why nothing is waited for any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil
from typing import NoReturn

from gateway.clock.system import SteadyClock
from gateway.clock.timer_queue import TimerQueue
from gateway.exchange.effects import Hold
from gateway.exchange.events import HoldEnded, ReminderDue, Wait
from gateway.reminders.model import Reminder
from gateway.reminders.tool_scope import Jobs, TimeSettings, ToolScope
from gateway.reminders.turn_claim import TurnClaims
from gateway.stores.documents import SessionKey
from gateway.stores.waiting import Unsubscribe

DUE, GONE, TAKEN_OVER, REPLACED, DRAINING, LIMIT, LEFT = (
    "due",
    "reminder_gone",
    "taken_over",
    "replaced",
    "draining",
    "limit",
    "client_gone",
)
# How far the clock may fall behind the time that passes before a hold counts as too long.
LATE_MS = 1000
REMINDER_DUE = ReminderDue()


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


class HoldPolicy:
    """Keeps the answer of one exchange open."""

    __slots__ = ("_claims", "_held_ms", "_holds", "_jobs", "_scope", "_settings")

    def __init__(
        self,
        holds: Holds,
        settings: TimeSettings,
        jobs: Jobs | None,
        scope: ToolScope,
        claims: TurnClaims,
    ) -> None:
        self._holds = holds
        self._settings = settings
        self._jobs = jobs
        self._scope = scope
        self._claims = claims
        self._held_ms = 0

    # Whether.

    def may_hold(self) -> bool:
        """Tell whether the answer may be kept open at all, as things are now."""
        scope, settings, session = self._scope, self._settings, self._claims.session
        if session is None or not (scope.may_hold and scope.clock):
            return False
        if settings.hold_max_ms <= 0 or not (scope.streams or settings.hold_non_streaming):
            return False
        return self._holds.has_room(scope.owner, session)

    @property
    def most_ms(self) -> int:
        """For how long one hold may last, after those before it."""
        settings = self._settings
        return min(settings.hold_max_ms, settings.hold_total_ms - self._held_ms)

    def will_hold(self, reminder: Reminder) -> bool:
        """Tell whether this answer would be kept open for a reminder."""
        if (
            reminder.not_before_exchange == self._scope.exchange_id
            or reminder.delivered_ms is not None
        ):
            return False
        window_ms, now_ms = (
            self._claims.reminders.rules.due_window_ms,
            self._now_ms(),
        )
        return self.may_hold() and reminder.due_ms - window_ms - now_ms <= self.most_ms

    def is_quiet(self) -> bool:
        """Tell without waiting that nothing was there at the last look, and nothing came since."""
        return self._claims.is_unchanged() and not self._waits_for_results()

    def _now_ms(self) -> int:
        return self._claims.reminders.clock.now_ms()

    async def find_wait(self) -> Wait | None:
        """Say what the answer could be held for; None when there is nothing."""
        claims = self._claims
        if self.is_quiet() or not self.may_hold() or claims.is_side_call():
            return None
        ready_ms = await self._find_ready()
        if ready_ms is None:
            return None
        return Wait(ready_ms, ready_ms - self._now_ms(), self.most_ms)

    def _waits_for_results(self) -> bool:
        """Tell whether results of jobs are here, or may be worth waiting for."""
        session = self._claims.session
        if session is None:
            return False
        if not self._claims.queue.idle(self._scope.owner, session):
            return True
        return self._find_expected_run() is not None

    def _find_expected_run(self) -> int | None:
        """Return when a run begins that the answer is held for; the past: it is under way."""
        session, jobs = self._claims.session, self._jobs
        if session is None or jobs is None or not self._settings.hold_for_jobs:
            return None
        return jobs.expecting(self._scope.owner, session)

    async def _find_ready(self) -> int | None:
        """Return when something may be ready: a reminder, or the result of a run."""
        scope, session = self._scope, self._claims.session
        assert session is not None
        ready_ms = await self._claims.reminders.next_ready(scope.owner, session, scope.exchange_id)
        expected_ms = self._find_expected_run()
        if expected_ms is None or ready_ms is None:
            return ready_ms if expected_ms is None else expected_ms
        return min(ready_ms, expected_ms)

    # Holding.

    async def hold(self, effect: Hold) -> ReminderDue | HoldEnded:
        """Keep the answer open until something is claimed, or there is a reason not to."""
        holds, session = self._holds, self._claims.session
        assert session is not None
        held = holds.begin(self._scope.owner, session)
        stops = self._watch(held, session)
        outcome = LEFT
        try:
            found = await self._wait(held, effect.most_ms)
            outcome = DUE if isinstance(found, ReminderDue) else found.reason
            return found
        finally:
            for stop in stops:
                stop()
            self._held_ms += round(holds.over(held, outcome) * 1000)

    def _watch(self, held: HeldAnswer, session: str) -> list[Unsubscribe]:
        owner = self._scope.owner
        stops = [self._claims.reminders.watch(owner, session, held.rouse)]
        if self._settings.hold_for_jobs:
            stops.append(self._claims.queue.watch(owner, session, held.rouse))
            if self._jobs is not None:
                stops.append(self._jobs.watch(owner, session, held.rouse))
        return stops

    async def _wait(self, held: HeldAnswer, most_ms: int) -> ReminderDue | HoldEnded:
        begun_ms = self._now_ms()
        ready_ms: int | None = None
        while not held.reason:
            if self._claims.is_side_call():
                # It may claim nothing any more: what is due is the conversation's.
                return HoldEnded(TAKEN_OVER)
            if ready_ms is not None and await self._claim(held, ready_ms):
                return REMINDER_DUE
            # What changes from here on wakes the hold; what changed before is found now.
            held.look()
            ready_ms = await self._find_ready()
            if ready_ms is None:
                if not await self._claim(held, None):
                    break
                return REMINDER_DUE
            await self._sleep(held, ready_ms, begun_ms, most_ms)
        return HoldEnded(held.reason or GONE)

    async def _sleep(self, held: HeldAnswer, ready_ms: int, begun_ms: int, most_ms: int) -> None:
        """Sleep until something may be ready, within what the machine allows."""
        until_ms, now_ms = ready_ms, self._now_ms()
        if ready_ms <= now_ms:
            if self._find_expected_run() != ready_ms:
                return
            # A run is under way: whether it ends well is not known, only when to give up.
            until_ms = begun_ms + most_ms + LATE_MS
        # A clock that is set back makes the instant come later; it makes nobody more patient.
        left = (most_ms + LATE_MS) / 1000 - self._holds.measure_seconds(held)
        if ready_ms - begun_ms > most_ms or left <= 0 or until_ms <= now_ms:
            held.end(LIMIT)
        else:
            await held.sleep(until_ms, left)

    async def _claim(self, held: HeldAnswer, ready_ms: int | None) -> bool:
        """Claim what the hold waited for, if it is there now.

        Of thousands that are due at once each claims what it waited for, unasked.
        """
        session = self._claims.session
        assert session is not None
        reminds = ready_ms is not None and ready_ms <= self._now_ms()
        waits_for_jobs = self._settings.hold_for_jobs
        results = waits_for_jobs and not self._claims.queue.idle(self._scope.owner, session)
        if not reminds and not results:
            return False
        return await self._claims.claim(reminds, results, held.rouse) is not None

    async def calm(self) -> None:
        """Wait until all have left their holds that were due together with this one."""
        await self._holds.timers.calm()
