"""Sessions over REST: what was said, what is to come, what is in force, and forgetting it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.agents.conversations import Conversations
from gateway.api.admission import incoming_of
from gateway.api.auth import Keys
from gateway.api.paths import SESSION
from gateway.api.session_pages import Pages
from gateway.api.session_removal import SessionRemoval
from gateway.dialects.identity import check_session_id
from gateway.errors import BadRequest, NotFound
from gateway.jobs.model import Job
from gateway.jobs.service import Jobs
from gateway.jobs.view import shown_job
from gateway.outbox.queue import Deliveries
from gateway.reminders.clock_calls import shown
from gateway.reminders.model import Reminder
from gateway.reminders.service import ReminderService
from gateway.sessions.directives.routing import in_force
from gateway.sessions.model import SessionState, StopMessage
from gateway.sessions.state_store import States
from gateway.stores.documents import LATEST, Listed
from gateway.stores.rows import AgentConversation

PAGE = 50
LARGEST_PAGE = 500
# The calendar ends there, though a file may say otherwise.
LAST_MS = 253_402_300_799_999


@dataclass(frozen=True, slots=True)
class Kept:
    """All that is kept of a session."""

    state: SessionState
    reminders: tuple[Reminder, ...]
    jobs: list[Job]
    talks: list[AgentConversation]
    deliveries: int

    def __bool__(self) -> bool:
        return self.state != SessionState() or any(
            (self.reminders, self.jobs, self.talks, self.deliveries)
        )


@dataclass(frozen=True, slots=True)
class SessionsArea:
    """The routes about sessions; each owner sees only their own."""

    states: States
    reminders: ReminderService
    conversations: Conversations
    jobs: Jobs
    deliveries: Deliveries
    keys: Keys
    removal: SessionRemoval

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return [
            Route("/api/sessions", self.listing, methods=["GET"]),
            Route(SESSION, self.show, methods=["GET"]),
            Route(SESSION, self.forget, methods=["DELETE"]),
        ]

    async def listing(self, request: WebRequest) -> Response:
        """List the owner's sessions that have state or a conversation, the newest first."""
        owner = self._owner(request)
        limit = min(_number(request, "limit", PAGE), LARGEST_PAGE)
        after = _cursor(request.query_params.get("after", ""))
        pages = Pages(self.states.store, self.conversations.rows, owner)
        found = await pages.page(after, limit)
        listed = [
            {
                "sessionId": item.session,
                "agentId": item.agent or None,
                "updatedAt": _time(item.updated_ms),
            }
            for item in found
        ]
        last = f"{found[-1].updated_ms}:{found[-1].session}" if len(found) == limit else None
        return _answer({"sessions": listed, "next": last})

    async def show(self, request: WebRequest) -> Response:
        """Show a session: what was said, what is to come, what is in force."""
        owner, name = self._session(request)
        kept = await self._kept(owner, name)
        if not kept:
            raise _unknown(name)
        talk = _chosen(kept.talks, request.query_params.get("agentId", ""))
        state = kept.state
        return _answer(
            {
                "sessionId": name,
                "agentId": talk.agent if talk else None,
                "agents": [found.agent for found in kept.talks],
                "messages": msgspec.Raw(talk.messages if talk else b"[]"),
                "bookmark": _bookmark(talk) if talk else None,
                "reminders": [shown(task) for task in kept.reminders],
                "jobs": [shown_job(job) for job in kept.jobs],
                "deliveries": kept.deliveries,
                "directives": list(in_force(state.routing)),
                "stopMessage": _stop(state.stop) if state.stop else None,
            }
        )

    async def forget(self, request: WebRequest) -> Response:
        """Forget a session and those of its sub-agents; what goes on in them is ended."""
        owner, name = self._session(request)
        others = await self.removal.find_sub_agents(owner, name)
        kept = others or await self._kept(owner, name)
        if not kept and not self.removal.is_answering(owner, name):
            raise _unknown(name)
        # The sub-agents first: what they scheduled could pass to the session again.
        for session in (*others, name):
            await self.removal.remove(owner, session)
        return _answer({"sessionId": name, "deleted": True})

    async def _kept(self, owner: str, name: str) -> Kept:
        idle = await self.reminders.idle(owner, name)
        return Kept(
            state=await self.states.show(owner, name),
            reminders=() if idle else (await self.reminders.tasks(owner, name)).items,
            jobs=await self.jobs.listing(owner, name),
            talks=await self.conversations.rows.of_session(owner, name),
            deliveries=len(await self.deliveries.pending(owner, name)),
        )

    def _session(self, request: WebRequest) -> tuple[str, str]:
        owner, name = self._owner(request), request.path_params["name"]
        check_session_id(name)
        return owner, name

    def _owner(self, request: WebRequest) -> str:
        return self.keys.owner(incoming_of(request.scope).headers).name


def _chosen(talks: list[AgentConversation], agent: str) -> AgentConversation | None:
    """Return the conversation with an agent; without one, the newest."""
    if not agent:
        return talks[0] if talks else None
    return next((talk for talk in talks if talk.agent == agent), None)


def _bookmark(talk: AgentConversation) -> Mapping[str, int]:
    return {"seq": talk.version, "timestamp": talk.updated_ms}


def _answer(members: Mapping[str, object]) -> Response:
    return Response(msgspec.json.encode(members), media_type="application/json")


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
