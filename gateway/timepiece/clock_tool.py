"""The `clock` tool of one exchange: what it answers a model."""

from __future__ import annotations

from collections.abc import Callable

from gateway.clock.base import Clock
from gateway.clock.zone import Zone
from gateway.core.reminders import Task, Unfit, read_item
from gateway.reminders import Reminders
from gateway.stores.base import StoreUnavailable
from gateway.tools.clock import (
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


class ClockTool:
    """Tells the time, and keeps the reminders of one session."""

    def __init__(
        self,
        clock: Clock,
        zone: Zone,
        reminders: Reminders,
        where: tuple[str, str | None, str],
        will_hold: Callable[[Task], bool],
    ) -> None:
        self._clock = clock
        self._zone = zone
        self._reminders = reminders
        self._owner, self._session, self._chain = where
        self._will_hold = will_hold

    async def run(self, arguments: str) -> str:
        """Do what the model asks of the clock, and say what came of it."""
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
        clock, zone, owner, session = self._clock, self._zone, self._owner, self._session
        if isinstance(asked, Get):
            return got(clock.now_ms(), zone.tz, zone.name, clock.ntp)
        if session is None:
            raise Refused(asked.action, NEEDS_SESSION.format(action=asked.action))
        match asked:
            case Schedule():
                return await self._schedule(session, asked)
            case List():
                return listed((await self._reminders.tasks(owner, session)).items)
            case Cancel(task_id):
                found = await self._reminders.cancel(owner, session, task_id)
                return removed(task_id) if found else unknown(task_id)
            case Clear():
                return cleared(await self._reminders.clear(owner, session))

    async def _schedule(self, session: str, asked: Schedule) -> str:
        reminders, now_ms = self._reminders, self._clock.now_ms()
        wanted = tuple(
            read_item(item.due_at, item.task, item.tool, item.arguments, now_ms, reminders.rules)
            for item in asked.items
        )
        tasks = await reminders.schedule(self._owner, session, wanted, self._chain)
        return scheduled(tasks, self._will_hold)
