"""The `clock` tool of one exchange: runs the calls of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.clock.protocol import Clock
from gateway.clock.zone import Zone
from gateway.errors import InvalidInput
from gateway.reminders.clock_calls import (
    HOLD_ONLY,
    NEEDS_SESSION,
    Call,
    Cancel,
    ClearAll,
    Get,
    List,
    Schedule,
    ToolError,
    describe_unknown_reminder,
    read_call,
    read_item,
    render_cleared,
    render_list,
    render_removed,
    render_scheduled,
    render_time,
)
from gateway.reminders.model import Reminder, ReminderRequest
from gateway.reminders.service import ReminderService
from gateway.reminders.tool_scope import ToolScope
from gateway.stores.documents import StoreUnavailable


@dataclass(frozen=True, slots=True)
class ReminderScope:
    """Where the reminders of an exchange are stored, and what is stored about who set them."""

    owner: str
    session: str | None
    exchange_id: str = ""
    setter: str = ""
    main: str = ""
    refusal: str = NEEDS_SESSION
    """The error if there is no session."""
    hold_only_ms: int | None = None
    """How long the answer can be held at most, if reminders end with it; else None."""


def scope_of(scope: ToolScope) -> ReminderScope:
    """Return the scope of reminders for a request that names a session."""
    setter = "" if scope.asker is None else scope.asker.requester().setter
    return ReminderScope(scope.owner, scope.session, scope.exchange_id, setter, scope.main)


def hold_only(owner: str, session: str | None, most_ms: int) -> ReminderScope:
    """Return the scope of reminders for a request without a session, if it may set any."""
    return ReminderScope(owner, session, hold_only_ms=None if session is None else most_ms)


class ClockTool:
    """Returns the time, and sets, lists and removes the reminders of one session."""

    def __init__(
        self,
        clock: Clock,
        zone: Zone,
        reminders: ReminderService,
        scope: ReminderScope,
        will_hold: Callable[[Reminder], bool],
    ) -> None:
        self._clock = clock
        self._zone = zone
        self._reminders = reminders
        self._scope = scope
        self._will_hold = will_hold

    async def run(self, arguments: str) -> str:
        """Run a call of the model, and return its result as JSON, or raise `ToolError`."""
        asked = read_call(arguments)
        try:
            return await self._answer(asked)
        except InvalidInput as invalid:
            raise ToolError(asked.action, str(invalid)) from None
        except StoreUnavailable as error:
            says = f"{error.message} Nothing was changed; try again later."
            raise ToolError(asked.action, says) from None

    async def _answer(self, asked: Call) -> str:
        clock, zone, scope = self._clock, self._zone, self._scope
        owner, session = scope.owner, scope.session
        if isinstance(asked, Get):
            return render_time(clock.now_ms(), zone.tz, zone.name, clock.ntp)
        if session is None:
            raise ToolError(asked.action, scope.refusal.format(action=asked.action))
        match asked:
            case Schedule():
                return await self._schedule(session, asked)
            case List():
                return render_list((await self._reminders.list_reminders(owner, session)).items)
            case Cancel(task_id):
                if not await self._reminders.cancel(owner, session, task_id):
                    raise describe_unknown_reminder(task_id)
                return render_removed(task_id)
            case ClearAll():
                return render_cleared(await self._reminders.clear(owner, session))

    async def _schedule(self, session: str, asked: Schedule) -> str:
        reminders, now_ms = self._reminders, self._clock.now_ms()
        wanted = tuple(
            read_item(item.due_at, item.task, item.tool, item.arguments, now_ms, reminders.rules)
            for item in asked.items
        )
        scope = self._scope
        if scope.hold_only_ms is not None:
            await self._make_room(wanted, now_ms, scope.hold_only_ms)
        tasks = await reminders.schedule(
            scope.owner, session, wanted, scope.exchange_id, scope.setter, scope.main
        )
        return render_scheduled(tasks, self._will_hold, scope.hold_only_ms is not None)

    async def _make_room(
        self, wanted: tuple[ReminderRequest, ...], now_ms: int, most_ms: int
    ) -> None:
        """Refuse reminders that are due after this answer ends; sweep those of earlier answers."""
        if not all(now_ms < request.due_ms <= now_ms + most_ms for request in wanted):
            raise InvalidInput(HOLD_ONLY.format(seconds=max(0, most_ms) / 1000))
        await self._reminders.sweep()
