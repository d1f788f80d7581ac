"""For what, and for how long, the answer of one exchange is kept open.

`find_wait` says what it could be held for. The machine decides by that, and its `Hold` says until
when and how long at most; `hold` obeys. While it waits, reminders may be set or cancelled and runs
may end: whatever changes wakes it, and it looks for what is ready next. It ends when something is
there to be claimed, or with a reason why nothing is waited for any more.
"""

from __future__ import annotations

from gateway.exchange.effects import Hold
from gateway.exchange.events import HoldEnded, ReminderDue, Wait
from gateway.reminders.holds import DUE, GONE, LEFT, LIMIT, TAKEN_OVER, HeldAnswer
from gateway.reminders.model import Reminder
from gateway.reminders.tool_scope import ToolScope, ToolServices
from gateway.reminders.turn_claim import TurnClaims
from gateway.stores.waiting import Unsubscribe

# How far the clock may fall behind the time that passes before a hold counts as too long.
LATE_MS = 1000
REMINDER_DUE = ReminderDue()


class HoldPolicy:
    """Keeps the answer of one exchange open."""

    __slots__ = ("_claims", "_held_ms", "_scope", "_services")

    def __init__(self, services: ToolServices, scope: ToolScope, claims: TurnClaims) -> None:
        self._services = services
        self._scope = scope
        self._claims = claims
        self._held_ms = 0

    # Whether.

    def may_hold(self) -> bool:
        """Tell whether the answer may be kept open at all, as things are now."""
        scope, services, session = self._scope, self._services, self._claims.session
        if session is None or not (scope.may_hold and scope.clock):
            return False
        settings = services.settings
        if settings.hold_max_ms <= 0 or not (scope.streams or settings.hold_non_streaming):
            return False
        return services.holds.has_room(scope.owner, session)

    @property
    def most_ms(self) -> int:
        """For how long one hold may last, after those before it."""
        settings = self._services.settings
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
            self._services.clock.now_ms(),
        )
        return self.may_hold() and reminder.due_ms - window_ms - now_ms <= self.most_ms

    def is_quiet(self) -> bool:
        """Tell without waiting that nothing was there at the last look, and nothing came since."""
        return self._claims.is_unchanged() and not self._waits_for_results()

    async def find_wait(self) -> Wait | None:
        """Say what the answer could be held for; None when there is nothing."""
        claims = self._claims
        if self.is_quiet() or not self.may_hold() or claims.is_side_call():
            return None
        ready_ms = await self._find_ready()
        if ready_ms is None:
            return None
        return Wait(ready_ms, ready_ms - self._services.clock.now_ms(), self.most_ms)

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
        services, session = self._services, self._claims.session
        if session is None or not services.settings.hold_for_jobs or services.jobs is None:
            return None
        return services.jobs.expecting(self._scope.owner, session)

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
        holds, session = self._services.holds, self._claims.session
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
        owner, services = self._scope.owner, self._services
        stops = [self._claims.reminders.watch(owner, session, held.rouse)]
        if services.settings.hold_for_jobs:
            stops.append(self._claims.queue.watch(owner, session, held.rouse))
            if services.jobs is not None:
                stops.append(services.jobs.watch(owner, session, held.rouse))
        return stops

    async def _wait(self, held: HeldAnswer, most_ms: int) -> ReminderDue | HoldEnded:
        begun_ms = self._services.clock.now_ms()
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
        until_ms, now_ms = ready_ms, self._services.clock.now_ms()
        if ready_ms <= now_ms:
            if self._find_expected_run() != ready_ms:
                return
            # A run is under way: whether it ends well is not known, only when to give up.
            until_ms = begun_ms + most_ms + LATE_MS
        # A clock that is set back makes the instant come later; it makes nobody more patient.
        left = (most_ms + LATE_MS) / 1000 - self._services.holds.measure_seconds(held)
        if ready_ms - begun_ms > most_ms or left <= 0 or until_ms <= now_ms:
            held.end(LIMIT)
        else:
            await held.sleep(until_ms, left)

    async def _claim(self, held: HeldAnswer, ready_ms: int | None) -> bool:
        """Claim what the hold waited for, if it is there now.

        Of thousands that are due at once each claims what it waited for, unasked.
        """
        services, session = self._services, self._claims.session
        assert session is not None
        reminds = ready_ms is not None and ready_ms <= services.clock.now_ms()
        results = services.settings.hold_for_jobs and not self._claims.queue.idle(
            self._scope.owner, session
        )
        if not reminds and not results:
            return False
        return await self._claims.claim(reminds, results, held.rouse) is not None

    async def calm(self) -> None:
        """Wait until all have left their holds that were due together with this one."""
        await self._services.holds.timers.calm()
