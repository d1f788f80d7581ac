"""Holds: answers that are kept open until a reminder or a result is ready.

`HoldPolicy` decides for one exchange; `Holds` knows all held answers and the limits. `find_wait`
returns what an answer could be held for. The machine decides by that, and its effect `Hold` says
how long at most; `hold` does it. While it waits, reminders may be set or cancelled
and runs may end: each change wakes the hold, and it looks again for what is ready next. It ends
when it has claimed something, or with a reason why it waits no longer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import NoReturn

from gateway.clock.system import SteadyClock
from gateway.clock.timer_queue import TimerQueue
from gateway.exchange.effects import Hold
from gateway.exchange.events import HoldEnded, ReminderDue, Wait
from gateway.histogram import Histogram
from gateway.reminders.model import Reminder
from gateway.reminders.tool_scope import Jobs, TimeSettings, ToolScope
from gateway.reminders.turn_claim import TurnClaim, TurnClaims
from gateway.stores.documents import SessionKey
from gateway.stores.hints import ARRIVED
from gateway.stores.waiting import Unsubscribe

DUE, GONE, TAKEN_OVER, REPLACED, DRAINING, LIMIT, LEFT, BY_HAND = (
    "due",
    "reminder_gone",
    "taken_over",
    "replaced",
    "draining",
    "limit",
    "client_gone",
    "by_hand",
)
# How far the clock may fall behind the steady time before a hold counts as too long.
LATE_MS = 1000
REMINDER_DUE = ReminderDue()
RESULT_READY = ReminderDue(is_result=True)
TellMove = Callable[[int], Awaitable[None]]
"""Tells until when a hold lasts, if that has changed: UTC milliseconds."""
BUCKETS = (0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(slots=True)
class HoldCounts:
    """Holds since the process began: how many, how they ended, and how long they lasted."""

    started: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram(BUCKETS))
    outcomes: Counter[str] = field(default_factory=Counter)


class HeldAnswer:
    """One held answer; it sleeps until somebody wakes it.

    There may be many thousands, so it uses little memory: only a future while it sleeps.
    """

    __slots__ = ("_has_news", "_holds", "_sleeper", "begun", "key", "reason")

    def __init__(self, key: SessionKey, holds: Holds, begun: float) -> None:
        self.key = key
        self.begun = begun
        self.reason = ""
        self._holds = holds
        self._has_news = False
        self._sleeper: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<HeldAnswer {self.reason or 'on'}>"

    def rouse(self) -> None:
        """Wake it, so that it looks again at what it waits for."""
        self._has_news = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def end(self, reason: str) -> None:
        """End it; the first reason counts."""
        self.reason = self.reason or reason
        self.rouse()

    def look(self) -> None:
        """Start a new look: changes from now on wake it."""
        self._has_news = False

    async def sleep(self, until_ms: int, longest: float) -> None:
        """Sleep until this instant, or until woken since the last look, or `longest` seconds.

        A clock that is stepped back moves the instant, but not the limit of seconds.
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
    """All held answers: one for each session, with a limit for each owner and for all."""

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
        self.most = most
        """How many there may be; those that are open stay when it is lowered."""
        self.most_of_one = most_of_one
        """The same for one owner."""
        self._open: dict[SessionKey, HeldAnswer] = {}
        self._by_owner: Counter[str] = Counter()
        self.draining = False
        self.counts = HoldCounts()

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Holds {len(self._open)} open>"

    async def run(self) -> NoReturn:
        """Wake holds that are over their time limit, forever."""
        await self.patience.run()

    def has_room(self, owner: str, session: str) -> bool:
        """Whether one more answer may be held."""
        if self.draining:
            return False
        if (owner, session) in self._open:
            return True
        return len(self._open) < self.most and self._by_owner[owner] < self.most_of_one

    def begin(self, owner: str, session: str) -> HeldAnswer:
        """Start a hold; another hold of the same session ends."""
        key = (owner, session)
        # Check again: another hold may have taken the last place since `may_hold`.
        has_room = self.has_room(owner, session)
        self.end(owner, session, REPLACED)
        hold = self._open[key] = HeldAnswer(key, self, self._steady())
        self._by_owner[owner] += 1
        self.counts.started += 1
        if not has_room:
            hold.end(DRAINING if self.draining else LIMIT)
        return hold

    def measure_seconds(self, hold: HeldAnswer) -> float:
        """Return for how many seconds an answer has been held."""
        return self._steady() - hold.begun

    def over(self, hold: HeldAnswer, outcome: str) -> float:
        """Count how a hold ended, and return its seconds."""
        seconds = self.measure_seconds(hold)
        self.counts.seconds.add(seconds)
        self.counts.outcomes[outcome] += 1
        if self._open.get(hold.key) is hold:
            self._forget(hold)
        return seconds

    def end(self, owner: str, session: str, reason: str = TAKEN_OVER) -> bool:
        """End the hold of a session; tell whether there was one."""
        hold = self._open.get((owner, session))
        if hold is None:
            return False
        self._forget(hold)
        hold.end(reason)
        return True

    def drain(self) -> None:
        """End all holds, and start no new ones."""
        self.draining = True
        for hold in tuple(self._open.values()):
            hold.end(DRAINING)

    def _forget(self, hold: HeldAnswer) -> None:
        del self._open[hold.key]
        owner = hold.key[0]
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]


class HoldPolicy:
    """Decides whether and how long the answer of one exchange is held, and holds it."""

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
        """Return whether the answer may be held at all, as things are now."""
        scope, settings, session = self._scope, self._settings, self._claims.session
        if session is None or not (scope.may_hold and scope.clock):
            return False
        if settings.hold_max_ms <= 0 or not (scope.streams or settings.hold_non_streaming):
            return False
        return self._holds.has_room(scope.owner, session)

    @property
    def most_ms(self) -> int:
        """How long the next hold may last, after earlier holds of this exchange."""
        settings = self._settings
        return min(settings.hold_max_ms, settings.hold_total_ms - self._held_ms)

    def will_hold(self, reminder: Reminder) -> bool:
        """Return whether this answer would be held for a reminder."""
        is_own = reminder.not_before_exchange == self._scope.exchange_id
        if is_own or reminder.delivered_ms is not None:
            return False
        ready_ms = reminder.due_ms - self._claims.reminders.rules.due_window_ms
        return self.may_hold() and ready_ms - self._now_ms() <= self.most_ms

    def is_quiet(self) -> bool:
        """Return without I/O whether nothing was there at the last look and nothing came since."""
        return self._claims.is_unchanged() and not self._waits_for_results()

    def _now_ms(self) -> int:
        return self._claims.reminders.clock.now_ms()

    async def find_wait(self) -> Wait | None:
        """Return what the answer could be held for; None if there is nothing."""
        claims = self._claims
        if self.is_quiet() or not self.may_hold() or claims.is_side_call():
            return None
        ready_ms = await self._find_ready()
        if ready_ms is None:
            return None
        return Wait(ready_ms, ready_ms - self._now_ms(), self.most_ms)

    def _waits_for_results(self) -> bool:
        """Return whether results of jobs may be there, or a run be expected."""
        session = self._claims.session
        if session is None:
            return False
        owner, jobs = self._scope.owner, self._jobs
        if not self._claims.queue.idle(owner, session):
            return True
        if jobs is not None and self._settings.hold_for_jobs and not jobs.is_known(owner, session):
            return True
        return self._find_expected_run() is not None

    def _find_expected_run(self) -> int | None:
        """Return when the run begins that the answer is held for; a past time: it is running."""
        session, jobs = self._claims.session, self._jobs
        if session is None or jobs is None or not self._settings.hold_for_jobs:
            return None
        return jobs.expecting(self._scope.owner, session)

    async def _find_ready(self) -> int | None:
        """Return when something may be ready: a reminder, or the result of a run."""
        scope, session = self._scope, self._claims.session
        assert session is not None
        if self._jobs is not None and self._settings.hold_for_jobs:
            await self._jobs.refresh(scope.owner, session)
        ready_ms = await self._claims.reminders.next_ready(scope.owner, session, scope.exchange_id)
        expected_ms = self._find_expected_run()
        if expected_ms is None or ready_ms is None:
            return ready_ms if expected_ms is None else expected_ms
        return min(ready_ms, expected_ms)

    # Holding.

    async def hold(self, effect: Hold, tell_move: TellMove) -> ReminderDue | HoldEnded:
        """Hold the answer until something is claimed, or there is a reason to end."""
        holds, session = self._holds, self._claims.session
        assert session is not None
        held = holds.begin(self._scope.owner, session)
        stops = self._watch(held, session)
        outcome = LEFT
        try:
            found = await self._wait(held, effect, tell_move)
            outcome = DUE if isinstance(found, ReminderDue) else found.reason
            return found
        finally:
            for stop in stops:
                stop()
            self._held_ms += round(holds.over(held, outcome) * 1000)

    def _watch(self, held: HeldAnswer, session: str) -> list[Unsubscribe]:
        owner = self._scope.owner
        reminders = self._claims.reminders
        stops = [reminders.watch(owner, session, held.rouse)]
        if not reminders.instance.is_alone:
            # A request at another instance takes the reminder over.
            end = partial(held.end, TAKEN_OVER)
            stops.append(reminders.hints.watch_hints(ARRIVED, (owner, session), end))
        if self._settings.hold_for_jobs:
            stops.append(self._claims.queue.watch(owner, session, held.rouse))
            if self._jobs is not None:
                stops.append(self._jobs.watch(owner, session, held.rouse))
        return stops

    async def _wait(
        self, held: HeldAnswer, effect: Hold, tell_move: TellMove
    ) -> ReminderDue | HoldEnded:
        begun_ms, told_ms = self._now_ms(), effect.until_ms
        ready_ms: int | None = None
        while not held.reason:
            if self._claims.is_side_call():
                # A side call may claim nothing: what is due belongs to the conversation.
                return HoldEnded(TAKEN_OVER)
            if ready_ms is not None and (claim := await self._claim(held, ready_ms)):
                return _name_due(claim)
            # Later changes wake the hold; earlier changes are found now.
            held.look()
            ready_ms = await self._find_ready()
            if ready_ms is None:
                claim = await self._claim(held, None)
                if claim is None:
                    break
                return _name_due(claim)
            if told_ms != ready_ms and self._now_ms() < ready_ms <= begun_ms + effect.most_ms:
                told_ms = ready_ms
                await tell_move(ready_ms)
            await self._sleep(held, ready_ms, begun_ms, effect.most_ms)
        return HoldEnded(held.reason or GONE)

    async def _sleep(self, held: HeldAnswer, ready_ms: int, begun_ms: int, most_ms: int) -> None:
        """Sleep until something may be ready, within what the machine allows."""
        until_ms, now_ms = ready_ms, self._now_ms()
        if ready_ms <= now_ms:
            if self._find_expected_run() != ready_ms:
                return
            # A run is running: its end is not known, only the time limit.
            until_ms = begun_ms + most_ms + LATE_MS
        # A clock that is set back moves the instant, but not the time limit.
        left = (most_ms + LATE_MS) / 1000 - self._holds.measure_seconds(held)
        if ready_ms - begun_ms > most_ms or left <= 0 or until_ms <= now_ms:
            held.end(LIMIT)
        else:
            await held.sleep(until_ms, left)

    async def _claim(self, held: HeldAnswer, ready_ms: int | None) -> TurnClaim | None:
        """Claim what the hold waited for, if it is there now.

        If thousands of holds are due at once, each claims only for itself and is not woken by it.
        """
        session = self._claims.session
        assert session is not None
        reminds = ready_ms is not None and ready_ms <= self._now_ms()
        waits_for_jobs = self._settings.hold_for_jobs
        results = waits_for_jobs and not self._claims.queue.idle(self._scope.owner, session)
        if not reminds and not results:
            return None
        return await self._claims.claim(reminds, results, held.rouse)

    def end_hold(self, reason: str) -> bool:
        """End the hold of this answer; tell whether it was held."""
        # There is at most one hold for each session, and this exchange is held.
        session = self._claims.session
        return session is not None and self._holds.end(self._scope.owner, session, reason)

    async def calm(self) -> None:
        """Wait until all holds that were due together with this one have ended."""
        await self._holds.timers.calm()


def _name_due(claim: TurnClaim) -> ReminderDue:
    return REMINDER_DUE if claim.reminders is not None else RESULT_READY
