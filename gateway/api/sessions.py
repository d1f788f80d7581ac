"""Sessions over REST: what was said, what is to come, what is in force, and forgetting it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Meta
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.agents.conversations import Conversations
from gateway.api.admission import Keys, Owner, incoming_of
from gateway.api.requests import find_session, read_positive
from gateway.api.route import ApiRoute, Parameter, bind_all
from gateway.api.session_removal import SessionRemoval
from gateway.console.session_list import SessionLister, SessionSummary, show_time
from gateway.console.session_pages import SessionPlace, SessionQuery
from gateway.errors import BadRequest, Forbidden, NotFound
from gateway.jobs.model import Job
from gateway.jobs.service import JobService
from gateway.jobs.view import JobView
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.model import Reminder
from gateway.reminders.records import EndedReminder
from gateway.reminders.service import ReminderService
from gateway.reminders.view import ReminderView, show_reminder
from gateway.sessions.directives.routing import in_force
from gateway.sessions.model import SessionState, StopMessage, clear_routing, clear_stop
from gateway.sessions.request_session import SessionStates
from gateway.sessions.session_request import KIND
from gateway.stores.conversation_rows import AgentConversation
from gateway.stores.documents import LATEST, DocumentKey
from gateway.timestamps import Timestamp, iso

SESSION = "/api/sessions/{id:anything}"
"""The path of a session."""
SESSION_ID = Parameter(
    "id", Annotated[str, Meta(min_length=1, max_length=256)], "The session; any text.", "path"
)
PAGE = 50
LARGEST_PAGE = 500
EVERYBODY = "*"


class SessionList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of sessions."""

    sessions: list[SessionSummary]
    next: Annotated[str | None, Meta(description="The `after` of the next page.")]


class BookmarkView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a conversation is."""

    seq: Annotated[int, Meta(description="The version.")]
    timestamp: Annotated[int, Meta(description="UTC milliseconds.")]


class StopMessageView(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The message that is sent when the model stops, as it is shown."""

    text: str
    max_repeats: int
    used: int
    armed: bool
    updated_at: Timestamp
    last_used_at: Timestamp | None


class ReminderEnd(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What became of a reminder."""

    task_id: str
    due_at: Timestamp
    task: str
    outcome: Annotated[str, Meta(description="delivered, cancelled or expired")]
    at: Timestamp


class SessionDetails(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """What was said in a session, what is to come, and what is in force."""

    session_id: str
    agent_id: Annotated[str | None, Meta(description="Whose conversation this is.")]
    agents: Annotated[list[str], Meta(description="All whom conversations were held with.")]
    messages: Annotated[
        msgspec.Raw,
        Meta(
            description="As in a Chat Completions request.",
            extra_json_schema={"type": "array", "items": {"type": "object"}},
        ),
    ]
    bookmark: BookmarkView | None
    reminders: list[ReminderView]
    ended_reminders: Annotated[
        list[ReminderEnd], Meta(description="What became of others within a day.")
    ]
    jobs: list[JobView]
    deliveries: Annotated[int, Meta(description="How many wait.")]
    directives: Annotated[tuple[str, ...], Meta(description="Those in force.")]
    stop_message: StopMessageView | None


class SessionForgotten(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The id of the session that was forgotten."""

    session_id: str
    deleted: Literal[True]


class SessionCleared(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Whether there was something to clear."""

    session_id: str
    cleared: bool


@dataclass(frozen=True, slots=True)
class StoredSession:
    """All that is kept of a session."""

    state: SessionState
    reminders: tuple[Reminder, ...]
    jobs: list[Job]
    conversations: list[AgentConversation]
    deliveries: int

    def __bool__(self) -> bool:
        return self.state != SessionState() or any(
            (self.reminders, self.jobs, self.conversations, self.deliveries)
        )


@dataclass(frozen=True, slots=True)
class SessionsArea:
    """The routes about sessions; each owner sees only their own."""

    states: SessionStates
    reminders: ReminderService
    conversations: Conversations
    jobs: JobService
    deliveries: OutboxQueue
    keys: Keys
    removal: SessionRemoval
    lister: SessionLister

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def list_sessions(self, request: WebRequest) -> SessionList:
        """List the sessions of which something is kept or under way, the last used first."""
        incoming = incoming_of(request.scope)
        asker = self.keys.owner(incoming)
        incoming.owner = asker.name
        query = _read_query(request, asker)
        page = await self.lister.list_sessions(query)
        after = None if page.last is None else _write_cursor(page.last, query.owner is None)
        return SessionList(page.sessions, after)

    async def show(self, request: WebRequest) -> SessionDetails:
        """Show a session: what was said, what is to come, what is in force."""
        owner, name = find_session(self.keys, request)
        stored = await self._find(owner, name)
        agent = request.query_params.get("agentId", "")
        conversation = _choose_conversation(stored.conversations, agent)
        state = stored.state
        return SessionDetails(
            session_id=name,
            agent_id=conversation.agent if conversation else None,
            agents=[found.agent for found in stored.conversations],
            messages=msgspec.Raw(conversation.messages if conversation else b"[]"),
            bookmark=BookmarkView(conversation.version, conversation.updated_ms)
            if conversation
            else None,
            reminders=[show_reminder(task) for task in stored.reminders],
            ended_reminders=[show_end(end) for end in self.reminders.recent(owner, name)],
            jobs=await self.jobs.show_jobs(stored.jobs),
            deliveries=stored.deliveries,
            directives=tuple(in_force(state.routing)),
            stop_message=_show_stop_message(state.stop) if state.stop else None,
        )

    async def forget(self, request: WebRequest) -> SessionForgotten:
        """Forget a session and those of its sub-agents; what goes on in them is ended."""
        owner, name = find_session(self.keys, request)
        others = await self.removal.find_sub_agents(owner, name)
        stored = others or await self._load(owner, name)
        is_known = stored or await self.states.signatures.knows(owner, name)
        if not is_known and not self.removal.is_answering(owner, name):
            raise _not_found(name)
        # The sub-agents first: what they scheduled could pass to the session again.
        for session in (*others, name):
            await self.removal.remove(owner, session)
        return SessionForgotten(name, deleted=True)

    async def clear_stop_message(self, request: WebRequest) -> SessionCleared:
        """Clear the stop message of a session."""
        return await self._clear(request, "stop_message", clear_stop)

    async def clear_directives(self, request: WebRequest) -> SessionCleared:
        """Clear the directives in force in a session."""
        return await self._clear(request, "directives", clear_routing)

    async def _clear(
        self, request: WebRequest, part: str, clear: Callable[[SessionState], SessionState]
    ) -> SessionCleared:
        owner, name = find_session(self.keys, request, part)
        await self._find(owner, name)

        def change(state: SessionState) -> tuple[SessionState, bool]:
            cleared = clear(state)
            return cleared, cleared != state

        was_there = await self.states.change(DocumentKey(KIND, owner, name), change)
        return SessionCleared(name, was_there)

    async def _find(self, owner: str, name: str) -> StoredSession:
        """Return what is kept of a session; raise `NotFound` if nothing is, nor goes on in it."""
        stored = await self._load(owner, name)
        if not stored and not self.removal.is_answering(owner, name):
            raise _not_found(name)
        return stored

    async def _load(self, owner: str, name: str) -> StoredSession:
        idle = await self.reminders.idle(owner, name)
        return StoredSession(
            state=await self.states.show(owner, name),
            reminders=() if idle else (await self.reminders.list_reminders(owner, name)).items,
            jobs=await self.jobs.listing(owner, name),
            conversations=await self.conversations.rows.of_session(owner, name),
            deliveries=len(await self.deliveries.pending(owner, name)),
        )


def _choose_conversation(
    conversations: list[AgentConversation], agent: str
) -> AgentConversation | None:
    """Return the conversation with an agent; without one, the newest."""
    if not agent:
        return conversations[0] if conversations else None
    return next(
        (conversation for conversation in conversations if conversation.agent == agent), None
    )


def _show_stop_message(stop: StopMessage) -> StopMessageView:
    return StopMessageView(
        text=stop.text,
        max_repeats=stop.max_repeats,
        used=stop.used,
        armed=stop.armed,
        updated_at=show_time(stop.updated_at_ms),
        last_used_at=None if stop.last_used_at_ms is None else show_time(stop.last_used_at_ms),
    )


def show_end(end: EndedReminder) -> ReminderEnd:
    """Show what became of a reminder."""
    return ReminderEnd(end.id, iso(end.due_ms), end.text, end.outcome, iso(end.at_ms))


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no session '{name[:100]}'.")


def _read_query(request: WebRequest, asker: Owner) -> SessionQuery:
    wanted = request.query_params.get("owner", "") or asker.name
    if wanted != asker.name and not asker.admin:
        raise Forbidden("Only an admin's key may list sessions of others; leave out owner.")
    owner = None if wanted == EVERYBODY else wanted
    return SessionQuery(
        owner,
        min(read_positive(request, "limit", PAGE), LARGEST_PAGE),
        _read_cursor(request, owner),
        request.query_params.get("q", "").lower(),
    )


def _write_cursor(place: SessionPlace, names_owner: bool) -> str:
    # Of one owner's sessions, it says no more than where they go on.
    owner = f"{quote(place.owner, safe='')}:" if names_owner else ""
    return f"{place.updated_ms}:{owner}{place.session}"


def _read_cursor(request: WebRequest, owner: str | None) -> SessionPlace | None:
    text = request.query_params.get("after", "")
    if not text:
        return None
    updated, _, session = text.partition(":")
    if not (re.fullmatch(r"[0-9]{1,19}", updated) and int(updated) <= LATEST):
        raise BadRequest("`after` must be the `next` of an earlier page.", param="after")
    if owner is None:
        quoted, _, session = session.partition(":")
        owner = unquote(quoted)
    return SessionPlace(int(updated), session, owner)


NO_SESSION = {404: "Nothing is stored for this session, or it belongs to another owner."}
ROUTES = (
    ApiRoute(
        "get",
        "/api/sessions",
        "listSessions",
        SessionsArea.list_sessions,
        (
            Parameter("limit", Annotated[int, Meta(ge=1)], "How many; 50 by default, 500 at most."),
            Parameter("after", str, "The `next` of the page before."),
            Parameter("q", str, "Only those whose names contain this; small letters are as large."),
            Parameter("owner", str, "Whose; `*` for all. Others' only with an admin's key."),
        ),
    ),
    # Before those of sessions, whose names may hold anything, `/directives` too.
    ApiRoute(
        "delete",
        SESSION + "/stop_message",
        "clearStopMessage",
        SessionsArea.clear_stop_message,
        (SESSION_ID,),
        errors=NO_SESSION,
    ),
    ApiRoute(
        "delete",
        SESSION + "/directives",
        "clearDirectives",
        SessionsArea.clear_directives,
        (SESSION_ID,),
        errors=NO_SESSION,
    ),
    ApiRoute(
        "get",
        SESSION,
        "showSession",
        SessionsArea.show,
        (SESSION_ID, Parameter("agentId", str, "Which of its conversations.")),
        errors=NO_SESSION,
    ),
    ApiRoute(
        "delete", SESSION, "forgetSession", SessionsArea.forget, (SESSION_ID,), errors=NO_SESSION
    ),
)
