"""Sessions over REST: what is in force, and forgetting it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.core.directives import in_force
from gateway.core.session import SessionState, StopMessage
from gateway.errors import BadRequest, NotFound
from gateway.reminders import Reminders
from gateway.sessions import KIND, States
from gateway.stores.base import LATEST, Listed
from gateway.web.auth import Keys
from gateway.web.incoming import incoming_of

PAGE = 50
LARGEST_PAGE = 500
# The calendar ends there, though a file may say otherwise.
LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class SessionsArea:
    """The routes about sessions; each owner sees only their own."""

    states: States
    reminders: Reminders
    keys: Keys

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return [
            Route("/api/sessions", self.listing, methods=["GET"]),
            Route("/api/sessions/{name:path}", self.show, methods=["GET"]),
            Route("/api/sessions/{name:path}", self.forget, methods=["DELETE"]),
        ]

    async def listing(self, request: WebRequest) -> Response:
        """List the owner's sessions that have state, the one changed last first."""
        owner = self._owner(request)
        limit = min(_number(request, "limit", PAGE), LARGEST_PAGE)
        after = _cursor(request.query_params.get("after", ""))
        found = await self.states.store.listing(KIND, owner, after, limit)
        listed = [
            {"sessionId": item.session, "updatedAt": _time(item.updated_ms)} for item in found
        ]
        last = f"{found[-1].updated_ms}:{found[-1].session}" if len(found) == limit else None
        return JSONResponse({"sessions": listed, "next": last})

    async def show(self, request: WebRequest) -> Response:
        """Show what is in force in a session."""
        name, owner = request.path_params["name"], self._owner(request)
        state = await self.states.show(owner, name)
        idle = await self.reminders.idle(owner, name)
        if state == SessionState() and idle:
            raise _unknown(name)
        tasks = () if idle else (await self.reminders.tasks(owner, name)).items
        return JSONResponse(
            {
                "sessionId": name,
                "directives": list(in_force(state.routing)),
                "stopMessage": _stop(state.stop) if state.stop else None,
                "reminders": len(tasks),
            }
        )

    async def forget(self, request: WebRequest) -> Response:
        """Forget a session."""
        name = request.path_params["name"]
        owner = self._owner(request)
        state, idle = await self.states.show(owner, name), await self.reminders.idle(owner, name)
        if state == SessionState() and idle:
            raise _unknown(name)
        if not idle:
            await self.reminders.clear(owner, name)
        await self.states.forget(owner, name)
        return JSONResponse({"sessionId": name, "deleted": True})

    def _owner(self, request: WebRequest) -> str:
        return self.keys.owner(incoming_of(request.scope).headers).name


def _stop(stop: StopMessage) -> Mapping[str, Any]:
    return {
        "text": stop.text,
        "maxRepeats": stop.max_repeats,
        "used": stop.used,
        "armed": stop.armed,
        "updatedAt": _time(stop.updated_at_ms),
        "lastUsedAt": None if stop.last_used_at_ms is None else _time(stop.last_used_at_ms),
    }


def _unknown(name: str) -> NotFound:
    return NotFound(f"Nothing is kept of a session '{name[:100]}'.")


def _time(ms: int) -> str:
    moment = datetime.fromtimestamp(min(ms, LAST_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(request: WebRequest, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise BadRequest(f"`{name}` must be a positive number.", param=name)
    return int(text[:9])


def _cursor(text: str) -> Listed | None:
    if not text:
        return None
    updated, _, session = text.partition(":")
    if not (re.fullmatch(r"[0-9]{1,19}", updated) and int(updated) <= LATEST):
        raise BadRequest("`after` must be the `next` of an earlier page.", param="after")
    return Listed(int(updated), session)
