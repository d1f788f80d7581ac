"""Reminders and the clock over REST: looking, setting and removing by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.api.admission import incoming_of
from gateway.api.auth import Keys
from gateway.api.paths import SESSION
from gateway.clock.protocol import Clock
from gateway.clock.zone import Zone
from gateway.dialects.body import Fields, misfit, read_as
from gateway.dialects.identity import check_session_id
from gateway.errors import BadRequest, InvalidInput, NotFound
from gateway.reminders.clock_calls import got, shown
from gateway.reminders.model import ReminderRequest, read_item
from gateway.reminders.records import EndedReminder
from gateway.reminders.service import ReminderService
from gateway.reminders.text import iso
from gateway.wire.http_server.request_body import ClientLeft, read_body

MEMBERS = ("dueAt", "task", "tool", "arguments")
PATH = SESSION + "/reminders"


class _Item(msgspec.Struct):
    """A reminder as it is asked for."""

    due_at: str | None = msgspec.field(default=None, name="dueAt")
    task: str | None = None
    tool: str | None = None
    arguments: str | Fields | None = None


_fields = msgspec.json.Decoder(Fields)


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large and how deep a body may be."""

    size: int
    depth: int


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
        return [
            Route("/api/clock", self.tell, methods=["GET"]),
            Route(PATH, self.listing, methods=["GET"]),
            Route(PATH, self.schedule, methods=["POST"]),
            Route(PATH, self.clear, methods=["DELETE"]),
            Route(PATH + "/{task_id}", self.cancel, methods=["DELETE"]),
        ]

    async def tell(self, request: WebRequest) -> Response:
        """Tell the time, as the tool does."""
        self._owner(request)
        now_ms, zone = self.clock.now_ms(), self.zone
        return _json(got(now_ms, zone.tz, zone.name, self.clock.ntp).encode())

    async def listing(self, request: WebRequest) -> Response:
        """List the reminders of a session, and what became of others within a day."""
        owner, name = self._session(request)
        tasks = await self.reminders.tasks(owner, name)
        items = [shown(task) for task in tasks.items]
        ended = [_ended(end) for end in self.reminders.recent(owner, name)]
        return _answer({"sessionId": name, "items": items, "ended": ended})

    async def schedule(self, request: WebRequest) -> Response:
        """Set a reminder."""
        owner, name = self._session(request)
        wanted = self._wanted(await self._body(request))
        try:
            tasks = await self.reminders.schedule(owner, name, (wanted,))
        except InvalidInput as invalid:
            raise BadRequest(str(invalid)) from None
        return _answer({"sessionId": name, "scheduled": [shown(task) for task in tasks]}, 201)

    async def cancel(self, request: WebRequest) -> Response:
        """Remove one reminder."""
        owner, name = self._session(request)
        task_id = request.path_params["task_id"]
        if not await self.reminders.cancel(owner, name, task_id):
            raise NotFound(f"No reminder of this session has the id '{task_id[:100]}'.")
        return _answer({"sessionId": name, "removed": task_id})

    async def clear(self, request: WebRequest) -> Response:
        """Remove all reminders of a session."""
        owner, name = self._session(request)
        count = await self.reminders.clear(owner, name)
        return _answer({"sessionId": name, "removedCount": count})

    def _owner(self, request: WebRequest) -> str:
        return self.keys.owner(incoming_of(request.scope).headers).name

    def _session(self, request: WebRequest) -> tuple[str, str]:
        owner = self._owner(request)
        name: str = request.path_params["name"]
        if not name:
            raise NotFound("Name a session: /api/sessions/{id}/reminders.")
        check_session_id(name)
        return owner, name

    async def _body(self, request: WebRequest) -> Fields:
        headers = incoming_of(request.scope).headers
        try:
            body = await read_body(headers, request.receive, self.limits.size)
        except ClientLeft:
            raise BadRequest("The body did not come whole.") from None
        return read_as(_fields, body, self.limits.depth)

    def _wanted(self, fields: Fields) -> ReminderRequest:
        if unknown := [name for name in fields if name not in MEMBERS]:
            said = ", ".join(f"`{name[:40]}`" for name in unknown[:5])
            known = ", ".join(f"`{name}`" for name in MEMBERS)
            raise BadRequest(f"Unknown: {said}; a reminder has {known}.", param=unknown[0][:40])
        item = _item(fields)
        arguments = item.arguments or ""
        text = arguments if isinstance(arguments, str) else bytes(fields["arguments"]).decode()
        rules, now_ms = self.reminders.rules, self.clock.now_ms()
        try:
            return read_item(
                item.due_at or "", item.task or "", item.tool or "", text, now_ms, rules
            )
        except InvalidInput as invalid:
            raise BadRequest(str(invalid)) from None


def _item(fields: Fields) -> _Item:
    try:
        return msgspec.json.decode(msgspec.json.encode(fields), type=_Item)
    except msgspec.ValidationError as error:
        raise misfit(str(error)) from None


def _ended(end: EndedReminder) -> Mapping[str, object]:
    return {
        "taskId": end.id,
        "dueAt": iso(end.due_ms),
        "task": end.text,
        "outcome": end.outcome,
        "at": iso(end.at_ms),
    }


def _answer(members: Mapping[str, object], status: int = 200) -> Response:
    return _json(msgspec.json.encode(members), status)


def _json(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")
