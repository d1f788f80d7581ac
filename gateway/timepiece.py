"""The clock of one exchange: what it adds to a request, what it runs, what it holds for."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import msgspec

from gateway.clock.base import Clock
from gateway.clock.zone import Zone
from gateway.core.additions import Addition, ToolDeclaration, ToolResult, UserText
from gateway.core.clock_words import reminder_text, time_tag
from gateway.core.events import HoldEnded, ReminderDue, Wait
from gateway.core.model import Asked, ToolCall
from gateway.core.reminders import Task, Unfit, read_item
from gateway.dialects.base import Dialect
from gateway.holds import DUE, GONE, LEFT, LIMIT, Hold, Holds
from gateway.reminders import Reminders, Reservation
from gateway.stores.base import StoreUnavailable
from gateway.tools.clock import (
    DECLARATION,
    NAME,
    NEEDS_SESSION,
    Call,
    Cancel,
    Clear,
    Get,
    List,
    Refused,
    Schedule,
    cleared,
    failed,
    got,
    listed,
    read_call,
    removed,
    scheduled,
    unknown,
)

TOOL_SECONDS = 20.0
# How far the clock may fall behind the time that passes before a hold counts as too long.
LATE_MS = 1000
CLOCK = frozenset({NAME})
NO_TOOLS: frozenset[str] = frozenset()
ASSISTANT, TOOL = "assistant", "tool"
REMINDER_DUE = ReminderDue()


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """What the operator says about the clock."""

    time_tag: str = "always"
    hold_max_ms: int = 60_000
    hold_total_ms: int = 600_000
    hold_non_streaming: bool = True
    standard_tools: tuple[ToolDeclaration, ...] = ()


class Errand(msgspec.Struct, frozen=True, gc=False):
    """The request a timepiece is for."""

    owner: str
    session: str | None
    chain: str
    asked: Asked
    dialect: Dialect
    may_hold: bool = True
    tags_results: bool = True
    """Whether the time may follow the results of tools: models of one dialect then say nothing."""


class Timepieces:
    """Gives each exchange its clock; knows the time, the reminders and the holds of all."""

    def __init__(
        self, clock: Clock, zone: Zone, reminders: Reminders, holds: Holds, settings: TimeSettings
    ) -> None:
        self.clock = clock
        self.zone = zone
        self.reminders = reminders
        self.holds = holds
        self.settings = settings

    def arrive(self, owner: str, session: str | None) -> None:
        """Take note of a new request: it takes over what its session is held open for."""
        if session is not None:
            self.holds.end(owner, session)

    def give(self, errand: Errand) -> Timepiece:
        """Give an exchange its clock."""
        return Timepiece(self, errand)

    def tag(self) -> UserText:
        """Tell the time."""
        clock, zone = self.clock, self.zone
        return UserText(time_tag(clock.now_ms(), zone.tz, zone.name, clock.offset_ms))


class Timepiece:
    """The clock of one exchange."""

    __slots__ = (
        "_answered",
        "_equipped",
        "_errand",
        "_held_ms",
        "_offers",
        "_parts",
        "_quiet_at",
        "_reservation",
        "tools",
    )

    def __init__(self, parts: Timepieces, errand: Errand) -> None:
        self._parts = parts
        self._errand = errand
        self._reservation: Reservation | None = None
        # What earlier turns carried of an answer that is handed over in one piece, at its end.
        self._answered: list[Reservation] = []
        # With which the operator's tools were declared: in later turns they are already.
        self._equipped: Reservation | None = None
        self._held_ms = 0
        self._quiet_at: int | None = None
        asked = errand.asked
        self._offers = asked.takes_tools and not errand.dialect.declares(asked.tools, NAME)
        self.tools = CLOCK if self._offers else NO_TOOLS

    @property
    def carries(self) -> bool:
        """Whether the turn at hand carries reminders that are not delivered yet."""
        return self._reservation is not None

    @property
    def owes(self) -> bool:
        """Whether turns that ended well carried reminders that are not delivered yet."""
        return bool(self._answered)

    def now_ms(self) -> int:
        """Return the time."""
        return self._parts.clock.now_ms()

    async def first(self) -> tuple[Addition, ...]:
        """Return what is added to the client's request: the tool, what is due, the time."""
        additions: list[Addition] = [DECLARATION] if self._offers else []
        # What is put after the beginning of an answer would be no beginning any more.
        if self._errand.asked.last_role != ASSISTANT:
            additions += await self._due()
            if self._tells_time():
                additions.append(self._parts.tag())
        return tuple(additions)

    def _tells_time(self) -> bool:
        rule = self._parts.settings.time_tag
        if rule == "off":
            return False
        if (rule == "always" and self._errand.tags_results) or self.carries:
            return True
        return self._errand.asked.last_role != TOOL

    async def due(self) -> tuple[Addition, ...]:
        """Return what fell due since, for a follow-up that is sent whether or not anything is."""
        if self._quiet_at == self._parts.reminders.counts.scheduled:
            return ()
        return tuple(await self._due())

    async def _due(self) -> list[Addition]:
        errand, reminders = self._errand, self._parts.reminders
        if errand.session is None:
            return []
        before = reminders.counts.scheduled
        if await reminders.idle(errand.owner, errand.session):
            # Nearly all sessions; unless one is scheduled, the end of a turn need not look again.
            self._quiet_at = before
            return []
        found = await reminders.reserve(errand.owner, errand.session, errand.chain)
        return [] if found is None else self._told(found)

    def _told(self, reservation: Reservation) -> list[Addition]:
        self._reservation = reservation
        errand = self._errand
        extra = [
            tool
            for tool in self._parts.settings.standard_tools
            if errand.asked.takes_tools
            and not errand.dialect.declares(errand.asked.tools, tool.name)
        ]
        told = UserText(reminder_text(reservation.tasks, bool(extra)))
        if self._equipped is not None:
            return [told]
        self._equipped = reservation
        return [*extra, told]

    async def delivered(self) -> None:
        """Take it that the client has seen the turn that carries reminders."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            await self._parts.reminders.commit(reservation)

    def answered(self) -> None:
        """Take it that the turn ended well, and is handed over later."""
        if self._reservation is not None:
            self._answered.append(self._reservation)
            self._reservation = None

    async def handed_over(self) -> None:
        """Take it that the client has got the whole answer."""
        answered, self._answered = self._answered, []
        for reservation in answered:
            await self._parts.reminders.commit(reservation)

    def lost(self) -> None:
        """Give back what a turn carried that came to nothing."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            self._parts.reminders.release(reservation)
            if self._equipped is reservation:
                self._equipped = None

    def let_go(self) -> None:
        """Give back all that was not delivered."""
        self.lost()
        for reservation in self._answered:
            self._parts.reminders.release(reservation)
        self._answered = []

    # The tool.

    async def run(self, call: ToolCall) -> ToolResult:
        """Do what the model asks of the clock, and say what came of it."""
        with anyio.move_on_after(TOOL_SECONDS):
            return ToolResult(call.id, await self._run(call.arguments))
        return ToolResult(call.id, failed("", "The clock did not answer in time; try again."))

    async def _run(self, arguments: str) -> str:
        action = ""
        try:
            asked = read_call(arguments)
            action = asked.action
            return await self._answer(asked)
        except Refused as refused:
            return failed(refused.action, refused.sentence)
        except Unfit as unfit:
            return failed(action, str(unfit))
        except StoreUnavailable as error:
            return failed(action, f"{error.message} Nothing was changed; try again later.")

    async def _answer(self, asked: Call) -> str:
        parts, owner, session = self._parts, self._errand.owner, self._errand.session
        if isinstance(asked, Get):
            return got(parts.clock.now_ms(), parts.zone.tz, parts.zone.name, parts.clock.ntp)
        if session is None:
            raise Refused(asked.action, NEEDS_SESSION.format(action=asked.action))
        match asked:
            case Schedule():
                return await self._schedule(session, asked)
            case List():
                return listed((await parts.reminders.tasks(owner, session)).items)
            case Cancel(task_id):
                found = await parts.reminders.cancel(owner, session, task_id)
                return removed(task_id) if found else unknown(task_id)
            case Clear():
                return cleared(await parts.reminders.clear(owner, session))

    async def _schedule(self, session: str, asked: Schedule) -> str:
        errand, reminders = self._errand, self._parts.reminders
        now_ms = self.now_ms()
        wanted = tuple(
            read_item(item.due_at, item.task, item.tool, item.arguments, now_ms, reminders.rules)
            for item in asked.items
        )
        tasks = await reminders.schedule(errand.owner, session, wanted, errand.chain)
        return scheduled(tasks, self._will_hold)

    def _will_hold(self, task: Task) -> bool:
        """Tell whether this answer would be kept open for a task."""
        if task.guard == self._errand.chain or task.delivered_ms is not None:
            return False
        ready_in = task.due_ms - self._parts.reminders.rules.due_window_ms - self.now_ms()
        return self._may_hold() and ready_in <= self._most_ms()

    # The hold.

    def _may_hold(self) -> bool:
        errand, parts = self._errand, self._parts
        if errand.session is None or not errand.may_hold or parts.settings.hold_max_ms <= 0:
            return False
        if not errand.asked.stream and not parts.settings.hold_non_streaming:
            return False
        return parts.holds.has_room(errand.owner, errand.session)

    def _most_ms(self) -> int:
        settings = self._parts.settings
        return min(settings.hold_max_ms, settings.hold_total_ms - self._held_ms)

    async def wait(self) -> Wait | None:
        """Say what the answer could be held for; None when there is nothing."""
        errand, reminders = self._errand, self._parts.reminders
        if self._quiet_at == reminders.counts.scheduled or not self._may_hold():
            return None
        assert errand.session is not None
        ready_ms = await reminders.next_ready(errand.owner, errand.session, errand.chain)
        if ready_ms is None:
            return None
        return Wait(ready_ms, ready_ms - self.now_ms(), self._most_ms())

    async def hold(self) -> ReminderDue | HoldEnded:
        """Keep the answer open until a reminder is ready, or there is a reason not to."""
        self._forget_texts()
        errand, parts = self._errand, self._parts
        assert errand.session is not None
        hold = parts.holds.begin(errand.owner, errand.session)
        unwatch = parts.reminders.watch(errand.owner, errand.session, hold.rouse)
        outcome = LEFT
        try:
            found = await self._held(hold, errand.session)
            outcome = DUE if isinstance(found, ReminderDue) else found.reason
            return found
        finally:
            unwatch()
            self._held_ms += round(parts.holds.over(hold, outcome) * 1000)

    def _forget_texts(self) -> None:
        """Let go of what is large in the request: a hold may be long, and there may be many."""
        asked = self._errand.asked
        tools = asked.tools if self._parts.settings.standard_tools else b""
        bare = msgspec.structs.replace(asked, body=b"", tools=tools)
        self._errand = msgspec.structs.replace(self._errand, asked=bare)

    async def _held(self, hold: Hold, session: str) -> ReminderDue | HoldEnded:
        errand, reminders = self._errand, self._parts.reminders
        most_ms, begun_ms = self._most_ms(), self.now_ms()
        slept_for: int | None = None
        while not hold.reason:
            if slept_for is not None and slept_for <= self.now_ms():
                # Of thousands that are due at once each claims what it waited for, unasked.
                found = await reminders.reserve(errand.owner, session, errand.chain)
                if found is not None:
                    self._reservation = found
                    return REMINDER_DUE
            hold.look()
            slept_for = await reminders.next_ready(errand.owner, session, errand.chain)
            if slept_for is None:
                break
            if slept_for > self.now_ms():
                left = (most_ms + LATE_MS) / 1000 - self._parts.holds.lasted(hold)
                if slept_for - begun_ms > most_ms or left <= 0:
                    hold.end(LIMIT)
                else:
                    await hold.sleep(slept_for, left)
        return HoldEnded(hold.reason or GONE)

    def woken(self) -> tuple[Addition, ...]:
        """Return what the follow-up of a hold carries: what is due, and what time it is by now."""
        assert self._reservation is not None
        told = self._told(self._reservation)
        return (*told, *(() if self._parts.settings.time_tag == "off" else (self._parts.tag(),)))
