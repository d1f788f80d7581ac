"""Reminders and the clock over REST: looking, setting and removing by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import Keys
from gateway.api.requests import find_owner, find_session, read_members, receive_small_body
from gateway.api.route import ApiRoute, Parameter, bind_all
from gateway.api.sessions import SESSION, SESSION_ID, ReminderEnd, show_end
from gateway.clock.protocol import Clock
from gateway.clock.zone import Zone
from gateway.dialects.raw_json import Fields
from gateway.errors import NotFound
from gateway.reminders.clock_calls import read_item
from gateway.reminders.service import ReminderService
from gateway.reminders.view import ClockReading, ReminderView, read_clock, show_reminder
from gateway.timestamps import Timestamp
from gateway.wire.http_server.request_body import BodyLimits

PART = "reminders"
PATH = f"{SESSION}/{PART}"


class ReminderBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A reminder that is asked for."""

    due_at: Annotated[Timestamp, Meta(description="With seconds and an offset.")] = ""
    # What is missing or empty is refused below, in a sentence that says what to send.
    task: Annotated[
        str, Meta(description="What to do then.", extra_json_schema={"minLength": 1})
    ] = ""
    tool: Annotated[str | None, Meta(description="A tool that may help; a hint.")] = None
    arguments: Annotated[
        str | Fields | None, Meta(description="Of that tool: an object, or a text.")
    ] = None


class SessionReminders(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The reminders of a session, and what became of others within a day."""

    session_id: str
    items: list[ReminderView]
    ended: list[ReminderEnd]


class RemindersSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The reminders that were set."""

    session_id: str
    scheduled: list[ReminderView]


class ReminderRemoved(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The id of the reminder that was removed."""

    session_id: str
    removed: str


class RemindersCleared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How many reminders were removed."""

    session_id: str
    removed_count: int


@dataclass(frozen=True, slots=True)
class RemindersArea:
    """The routes about reminders and the time; each owner sees only their own.

    They stand before those of sessions, whose names may hold anything, `/reminders` too.
    """

    reminders: ReminderService
    clock: Clock
    keys: Keys
    zone: Zone
    limits: BodyLimits

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def tell_time(self, request: WebRequest) -> ClockReading:
        """Tell the time, as the model's tool does."""
        find_owner(self.keys, request)
        zone = self.zone
        return read_clock(self.clock.now_ms(), zone.tz, zone.name, self.clock.ntp)

    async def list_reminders(self, request: WebRequest) -> SessionReminders:
        """List the reminders of a session, and what became of others within a day."""
        owner, name = find_session(self.keys, request, PART)
        tasks = await self.reminders.list_reminders(owner, name)
        ended = [show_end(end) for end in self.reminders.recent(owner, name)]
        return SessionReminders(name, list(map(show_reminder, tasks.items)), ended)

    async def set_reminder(self, request: WebRequest) -> RemindersSet:
        """Set a reminder."""
        owner, name = find_session(self.keys, request, PART)
        body = await receive_small_body(request, self.limits)
        asked = read_members(body, self.limits.depth, ReminderBody, "a reminder")
        arguments = asked.arguments or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        now_ms, rules = self.clock.now_ms(), self.reminders.rules
        wanted = read_item(asked.due_at, asked.task, asked.tool or "", arguments, now_ms, rules)
        tasks = await self.reminders.schedule(owner, name, (wanted,))
        return RemindersSet(name, list(map(show_reminder, tasks)))

    async def cancel(self, request: WebRequest) -> ReminderRemoved:
        """Remove one reminder."""
        owner, name = find_session(self.keys, request, PART)
        task_id = request.path_params["taskId"]
        if not await self.reminders.cancel(owner, name, task_id):
            raise NotFound(f"No reminder of this session has the id '{task_id[:100]}'.")
        return ReminderRemoved(name, task_id)

    async def clear(self, request: WebRequest) -> RemindersCleared:
        """Remove all reminders of a session."""
        owner, name = find_session(self.keys, request, PART)
        return RemindersCleared(name, await self.reminders.clear(owner, name))


TASK_ID = Parameter("taskId", Annotated[str, Meta(min_length=1)], "The reminder.", "path")
ROUTES = (
    ApiRoute("get", "/api/clock", "tellTime", RemindersArea.tell_time),
    ApiRoute("get", PATH, "listReminders", RemindersArea.list_reminders, (SESSION_ID,)),
    ApiRoute(
        "post",
        PATH,
        "setReminder",
        RemindersArea.set_reminder,
        (SESSION_ID,),
        ReminderBody,
        ("dueAt", "task"),
        status=201,
    ),
    ApiRoute("delete", PATH, "clearReminders", RemindersArea.clear, (SESSION_ID,)),
    ApiRoute(
        "delete",
        PATH + "/{taskId}",
        "cancelReminder",
        RemindersArea.cancel,
        (SESSION_ID, TASK_ID),
        errors={404: "The session has no such reminder."},
    ),
)
