"""The clock of one exchange: what it adds to a request, what it runs, what it holds for."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import msgspec

from gateway.clock.protocol import Clock
from gateway.clock.zone import Zone
from gateway.exchange.additions import Addition, ToolDeclaration, ToolResult, UserText
from gateway.exchange.events import HoldEnded, ReminderDue, Wait
from gateway.exchange.model import UNKNOWN, ToolCall
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.clock_calls import DECLARATION, NAME, SIDE_CALL, render_error
from gateway.reminders.clock_tool import ClockTool, ReminderScope, hold_only, scope_of
from gateway.reminders.holds import DUE, GONE, LEFT, LIMIT, TAKEN_OVER, Hold, Holds
from gateway.reminders.model import Reminder
from gateway.reminders.service import ReminderService
from gateway.reminders.text import reminder_text, time_tag
from gateway.reminders.tool_scope import Jobs, ServerTool, TimeSettings, ToolScope
from gateway.reminders.turn_claim import TurnClaim
from gateway.stores.waiting import Unsubscribe

TOOL_SECONDS = 20.0
# How far the clock may fall behind the time that passes before a hold counts as too long.
LATE_MS = 1000
CLOCK = frozenset({NAME})
NO_TOOLS: frozenset[str] = frozenset()
ASSISTANT, TOOL = "assistant", "tool"
REMINDER_DUE = ReminderDue()


class Timepieces:
    """Gives each exchange its clock; knows the time, the reminders and the holds of all."""

    def __init__(
        self,
        clock: Clock,
        zone: Zone,
        reminders: ReminderService,
        holds: Holds,
        settings: TimeSettings,
        deliveries: OutboxQueue | None = None,
        unnamed: ReminderService | None = None,
    ) -> None:
        self.clock = clock
        self.zone = zone
        self.reminders = reminders
        self.holds = holds
        self.settings = settings
        self.deliveries = deliveries
        # Where reminders of requests without a session are kept, if they may set any.
        self.unnamed = unnamed
        self.jobs: Jobs | None = None

    def arrive(self, owner: str, session: str | None) -> None:
        """Take note of a new request: it takes over what its session is held open for."""
        if session is not None:
            self.holds.end(owner, session)

    def give(self, errand: ToolScope) -> Timepiece:
        """Give an exchange its clock."""
        return Timepiece(self, errand)

    def tag(self) -> UserText:
        """Tell the time."""
        clock, zone = self.clock, self.zone
        text = time_tag(clock.now_ms(), zone.tz, zone.name, clock.offset_ms)
        return UserText(text, fleeting=True)


class Timepiece:
    """The clock of one exchange."""

    __slots__ = (
        "_equipped",
        "_errand",
        "_extras",
        "_held_ms",
        "_offers",
        "_parts",
        "_quiet_at",
        "_reminders",
        "_session",
        "cargo",
        "owed",
        "tools",
    )

    def __init__(self, parts: Timepieces, errand: ToolScope) -> None:
        self._parts = parts
        self._errand = errand
        self._reminders, self._session = parts.reminders, errand.session
        if errand.session is None and parts.unnamed is not None and errand.may_hold:
            # What is set there lives and dies with this exchange.
            self._reminders, self._session = parts.unnamed, f"exchange:{errand.chain}"
        self.cargo: TurnClaim | None = None
        # What earlier turns carried of an answer that is handed over in one piece, at its end.
        self.owed: list[TurnClaim] = []
        # With which the operator's tools were declared: in later turns they are already.
        self._equipped: TurnClaim | None = None
        self._held_ms = 0
        self._quiet_at: int | None = None
        asked, declares = errand.asked, errand.dialect.declares
        takes = asked.takes_tools
        declared = bool(asked.tools) and declares(asked.tools, NAME)
        self._offers = takes and errand.clock and not declared
        self.tools = CLOCK if self._offers else NO_TOOLS
        self._extras: dict[str, ServerTool] = {}
        if errand.extras and takes:
            for tool in errand.extras:
                name = tool.declaration.name
                if not declares(asked.tools, name):
                    self._extras[name] = tool
            self.tools |= self._extras.keys()

    def now_ms(self) -> int:
        """Return the time."""
        return self._parts.clock.now_ms()

    def first_at_once(self) -> tuple[Addition, ...] | None:
        """Return what is added to the client's request, if nothing can be due; else None."""
        return self._beginning([]) if self._surely_idle() else None

    async def first(self) -> tuple[Addition, ...]:
        """Return what is added to the client's request: the tools, what is due, the time."""
        is_open = self._errand.asked.last_role != ASSISTANT
        return self._beginning(await self._due() if is_open else [])

    def _beginning(self, due: list[Addition]) -> tuple[Addition, ...]:
        additions: list[Addition] = [DECLARATION] if self._offers else []
        if self._extras:
            additions += [tool.declaration for tool in self._extras.values()]
        # What is put after the beginning of an answer would be no beginning any more.
        if self._errand.asked.last_role != ASSISTANT:
            additions += due
            if self._tells_time():
                additions.append(self._parts.tag())
        return tuple(additions)

    def _tells_time(self) -> bool:
        rule = self._parts.settings.time_tag
        if rule == "off" or not self._errand.clock:
            return False
        if (rule == "always" and self._errand.tags_results) or self.cargo is not None:
            return True
        return self._errand.asked.last_role != TOOL

    async def due(self) -> tuple[Addition, ...]:
        """Return what fell due since, for a follow-up that is sent whether or not anything is."""
        if self.is_quiet():
            return ()
        return tuple(await self._due())

    def is_quiet(self) -> bool:
        """Tell without waiting that nothing was there at the last look, and nothing came since."""
        if self._quiet_at != self._reminders.counts.scheduled:
            return False
        return not self._waits_for_results()

    def _surely_idle(self) -> bool:
        """Tell without waiting that nothing is there, as is true of nearly all sessions.

        Unless a reminder is scheduled, the end of a turn need not look again.
        """
        errand, parts = self._errand, self._parts
        owner, session = errand.owner, self._session
        if session is None or not errand.collects:
            return True
        if errand.clock and not self._reminders.surely_idle(owner, session):
            return False
        self._quiet_at = self._reminders.counts.scheduled
        return parts.deliveries is None or parts.deliveries.idle(owner, session)

    async def _due(self) -> list[Addition]:
        errand, parts = self._errand, self._parts
        if self._session is None or not errand.collects:
            return []
        before = self._reminders.counts.scheduled
        quiet = not errand.clock or await self._reminders.idle(errand.owner, self._session)
        if quiet:
            # Nearly all sessions; unless one is scheduled, the end of a turn need not look again.
            self._quiet_at = before
            if parts.deliveries is None or parts.deliveries.idle(errand.owner, self._session):
                return []
        found = await self._load(self._session, not quiet, with_results=True)
        return [] if found is None else self._told(found)

    async def _load(
        self,
        session: str,
        with_reminders: bool,
        with_results: bool,
        by: Callable[[], None] | None = None,
    ) -> TurnClaim | None:
        """Claim what is there for the session, for this exchange to carry."""
        errand, deliveries, asker = self._errand, self._parts.deliveries, self._errand.asker
        if self._is_auxiliary():
            return None
        reminders = None
        who = (errand.owner, session, errand.chain, asker.requester() if asker else UNKNOWN)
        if with_reminders and (reminders := await self._reminders.reserve(*who, by)):
            # Whoever leaves while the results are looked for gives it back.
            self.cargo = TurnClaim(self._reminders, deliveries, reminders, None)
        if with_results and deliveries is not None and (results := await deliveries.reserve(*who)):
            self.cargo = TurnClaim(self._reminders, deliveries, reminders, results)
        return self.cargo

    def _told(self, cargo: TurnClaim) -> list[Addition]:
        texts: list[Addition] = [UserText(cargo.results_text)] if cargo.results is not None else []
        if cargo.reminders is None:
            return texts
        extra = self._standard_tools()
        texts.append(UserText(reminder_text(cargo.reminders.items, bool(extra))))
        if self._equipped is not None:
            return texts
        self._equipped = cargo
        return [*extra, *texts]

    def _standard_tools(self) -> list[ToolDeclaration]:
        asked, dialect = self._errand.asked, self._errand.dialect
        return [
            tool
            for tool in self._parts.settings.standard_tools
            if asked.takes_tools and not dialect.declares(asked.tools, tool.name)
        ]

    async def delivered(self) -> None:
        """Take it that the client has seen the turn that carries something."""
        if self._is_auxiliary():
            self.lost()
        cargo, self.cargo = self.cargo, None
        if cargo is not None:
            await cargo.commit()

    def answered(self) -> None:
        """Take it that the turn ended well, and is handed over later."""
        if self.cargo is not None:
            self.owed.append(self.cargo)
            self.cargo = None

    async def handed_over(self) -> None:
        """Take it that the client has got the whole answer."""
        if self._is_auxiliary():
            self.let_go()
        answered, self.owed = self.owed, []
        for cargo in answered:
            await cargo.commit()

    def lost(self) -> None:
        """Give back what a turn carried that came to nothing."""
        cargo, self.cargo = self.cargo, None
        if cargo is not None:
            cargo.release()
            if self._equipped is cargo:
                self._equipped = None

    def let_go(self) -> None:
        """Give back all that was not delivered."""
        self.lost()
        for cargo in self.owed:
            cargo.release()
        self.owed = []

    def _is_auxiliary(self) -> bool:
        """Judge again whether this is a side call, which takes nothing and sets nothing."""
        asker = self._errand.asker
        return asker is not None and asker.is_auxiliary()

    # The tools.

    async def run(self, call: ToolCall, is_last: bool = False) -> ToolResult:
        """Run a tool of ours, and say what came of it; after the last the answer is over."""
        text = render_error("", f"The {call.name} tool did not answer in time; try again.")
        with anyio.move_on_after(TOOL_SECONDS):
            text = await self._run(call, is_last)
        return ToolResult(call.id, text)

    async def _run(self, call: ToolCall, is_last: bool) -> str:
        if (extra := self._extras.get(call.name)) is not None:
            if self._is_auxiliary():
                return render_error("", SIDE_CALL.format(action=call.name))
            return await extra.run(call.arguments)
        parts, scope = self._parts, self._scope(is_last)
        tool = ClockTool(parts.clock, parts.zone, self._reminders, scope, self._will_hold)
        return await tool.run(call.arguments)

    def _scope(self, is_last: bool) -> ReminderScope:
        if self._is_auxiliary():
            return ReminderScope(self._errand.owner, None, refusal=SIDE_CALL)
        if self._errand.session is not None:
            return scope_of(self._errand)
        most_ms = self._most_ms() if self._may_hold() and not is_last else 0
        return hold_only(self._errand.owner, self._session, most_ms)

    def _will_hold(self, task: Reminder) -> bool:
        """Tell whether this answer would be kept open for a task."""
        if task.not_before_exchange == self._errand.chain or task.delivered_ms is not None:
            return False
        ready_in = task.due_ms - self._reminders.rules.due_window_ms - self.now_ms()
        return self._may_hold() and ready_in <= self._most_ms()

    # The hold.

    def _may_hold(self) -> bool:
        errand, parts = self._errand, self._parts
        if self._session is None or not (errand.may_hold and errand.clock):
            return False
        if parts.settings.hold_max_ms <= 0:
            return False
        if not errand.asked.stream and not parts.settings.hold_non_streaming:
            return False
        return parts.holds.has_room(errand.owner, self._session)

    def _most_ms(self) -> int:
        settings = self._parts.settings
        return min(settings.hold_max_ms, settings.hold_total_ms - self._held_ms)

    def _waits_for_results(self) -> bool:
        """Tell whether results of jobs are here, or may be worth waiting for."""
        errand, parts = self._errand, self._parts
        if self._session is None or parts.deliveries is None:
            return False
        if not parts.deliveries.idle(errand.owner, self._session):
            return True
        return parts.settings.hold_for_jobs and self._expected(self._session) is not None

    def _expected(self, session: str) -> int | None:
        """Return when a run begins that the answer is held for; the past: it is under way."""
        parts = self._parts
        if not parts.settings.hold_for_jobs or parts.jobs is None:
            return None
        return parts.jobs.expecting(self._errand.owner, session)

    async def wait(self) -> Wait | None:
        """Say what the answer could be held for; None when there is nothing."""
        session = self._session
        if self.is_quiet() or session is None or not self._may_hold() or self._is_auxiliary():
            return None
        ready_ms = await self._next_ready(session)
        if ready_ms is None:
            return None
        return Wait(ready_ms, ready_ms - self.now_ms(), self._most_ms())

    async def _next_ready(self, session: str) -> int | None:
        errand = self._errand
        ready_ms = await self._reminders.next_ready(errand.owner, session, errand.chain)
        expected = self._expected(session)
        if expected is None or ready_ms is None:
            return ready_ms if expected is None else expected
        return min(ready_ms, expected)

    async def hold(self) -> ReminderDue | HoldEnded:
        """Keep the answer open until a reminder is ready, or there is a reason not to."""
        self._forget_texts()
        errand, parts = self._errand, self._parts
        assert self._session is not None
        hold = parts.holds.begin(errand.owner, self._session)
        stops = self._watch(hold, self._session)
        outcome = LEFT
        try:
            found = await self._held(hold, self._session)
            outcome = DUE if isinstance(found, ReminderDue) else found.reason
            return found
        finally:
            for stop in stops:
                stop()
            self._held_ms += round(parts.holds.over(hold, outcome) * 1000)

    def _watch(self, hold: Hold, session: str) -> list[Unsubscribe]:
        owner, parts = self._errand.owner, self._parts
        stops = [self._reminders.watch(owner, session, hold.rouse)]
        if parts.settings.hold_for_jobs and parts.deliveries is not None:
            stops.append(parts.deliveries.watch(owner, session, hold.rouse))
            if parts.jobs is not None:
                stops.append(parts.jobs.watch(owner, session, hold.rouse))
        return stops

    def _forget_texts(self) -> None:
        """Let go of what is large in the request: a hold may be long, and there may be many."""
        asked = self._errand.asked
        tools = asked.tools if self._parts.settings.standard_tools else b""
        bare = msgspec.structs.replace(asked, body=b"", tools=tools)
        self._errand = msgspec.structs.replace(self._errand, asked=bare)

    async def _held(self, hold: Hold, session: str) -> ReminderDue | HoldEnded:
        most_ms, begun_ms = self._most_ms(), self.now_ms()
        slept_for: int | None = None
        while not hold.reason:
            if self._is_auxiliary():
                # It may claim nothing any more: what is due is the conversation's.
                return HoldEnded(TAKEN_OVER)
            if slept_for is not None and await self._is_due(hold, session, slept_for):
                return REMINDER_DUE
            hold.look()
            slept_for = await self._next_ready(session)
            if slept_for is None:
                if not await self._is_due(hold, session, None):
                    break
                return REMINDER_DUE
            until_ms = slept_for
            if until_ms <= self.now_ms() and self._expected(session) == slept_for:
                # A run is under way: whether it ends well is not known, only when to give up.
                until_ms = begun_ms + most_ms + LATE_MS
            if until_ms > self.now_ms():
                await self._sleep(hold, slept_for, until_ms, begun_ms, most_ms)
        return HoldEnded(hold.reason or GONE)

    async def _sleep(
        self, hold: Hold, ready_ms: int, until_ms: int, begun_ms: int, most_ms: int
    ) -> None:
        left = (most_ms + LATE_MS) / 1000 - self._parts.holds.lasted(hold)
        if ready_ms - begun_ms > most_ms or left <= 0:
            hold.end(LIMIT)
        else:
            await hold.sleep(until_ms, left)

    async def _is_due(self, hold: Hold, session: str, slept_for: int | None) -> bool:
        """Claim what the hold waited for, if it is there now.

        Of thousands that are due at once each claims what it waited for, unasked.
        """
        parts, errand = self._parts, self._errand
        reminds = slept_for is not None and slept_for <= self.now_ms()
        results = (
            parts.settings.hold_for_jobs
            and parts.deliveries is not None
            and not parts.deliveries.idle(errand.owner, session)
        )
        if not reminds and not results:
            return False
        return await self._load(session, reminds, results, hold.rouse) is not None

    async def calm(self) -> None:
        """Wait until all have left their holds that were due together with this one."""
        await self._parts.holds.timers.calm()

    def woken(self) -> tuple[Addition, ...]:
        """Return what the follow-up of a hold carries: what is due, and what time it is by now."""
        assert self.cargo is not None
        told = self._told(self.cargo)
        return (*told, *(() if self._parts.settings.time_tag == "off" else (self._parts.tag(),)))
