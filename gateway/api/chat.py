"""Agents over HTTP: a message in, its answer as named events, and who there is to talk to."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.agents.client import AgentListener
from gateway.agents.locks import Locks
from gateway.agents.model import AgentMessage, Outcome
from gateway.agents.service import Agents
from gateway.api.admission import IncomingRequest, Keys, Owner, incoming_of
from gateway.api.relay import cut_off, refuse_body, session_header, tell_failure
from gateway.api.requests import read_members
from gateway.api.route import ApiRoute, EventStream, Reply, bind_all
from gateway.api.sessions import BookmarkView
from gateway.dialects import DIALECTS
from gateway.dialects.events import read_object
from gateway.errors import (
    BadRequest,
    Headers,
    HoldgateError,
    MethodNotAllowed,
    TooMany,
)
from gateway.exchange.model import RequestSource
from gateway.exchange.ports import error_headers
from gateway.sessions.identity import refuse_session_id
from gateway.wire.http_client.headers import read_trace_context
from gateway.wire.http_server.request_body import BodyLimits, BodyUnpacker, receive_body
from gateway.wire.http_server.request_cycle import CYCLE
from gateway.wire.http_server.response import ClientResponse, Receive, Send
from gateway.wire.sse import encode

PATH = "/api/chat"
CHAT = "chat"
NOT_EMPTY = {"minLength": 1}
PING = b": ping\n\n"
STREAM: Headers = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
BUSY = "The previous request is still running; try again shortly."
BUSY_IN_CHINESE = "上一个请求还在处理中，请稍后再试"


class AgentView(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent as it is shown."""

    id: str
    name: str
    model: str
    tools: tuple[str, ...]


class AgentList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agents there are."""

    agents: list[AgentView]


class ChatMessageBody(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """A message to an agent."""

    # What is missing or empty is refused below, in a sentence that says what to send.
    message: (
        Annotated[str, Meta(description="For the agent.", extra_json_schema=NOT_EMPTY)] | UnsetType
    ) = UNSET
    agent_id: Annotated[str, Meta(description="Who is to answer.", extra_json_schema=NOT_EMPTY)] = (
        ""
    )
    session_id: Annotated[
        str | None, Meta(description="Which conversation; without it, one called as the agent.")
    ] = None
    user_id: Annotated[
        str | None, Meta(description="Whose it is; only an admin's key may say so.")
    ] = None


class ChatEvent(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The data of an event of a chat; which members it has depends on the event."""

    session_id: str
    delta: Annotated[str, Meta(description="Of `thinking` and `text`.")] | UnsetType = UNSET
    name: Annotated[str, Meta(description="Of a tool.")] | UnsetType = UNSET
    input: Annotated[dict[str, Any] | str, Meta(description="Of `tool_start`.")] | UnsetType = UNSET
    duration_ms: Annotated[int, Meta(description="Of `tool_end`.")] | UnsetType = UNSET
    error: Annotated[str, Meta(description="Of `tool_error`.")] | UnsetType = UNSET
    until: Annotated[int, Meta(description="Of `hold`: UTC milliseconds.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(description="Of `complete`.")] | UnsetType = UNSET
    tool_count: Annotated[int, Meta(description="Of `complete`.")] | UnsetType = UNSET
    turns: Annotated[int, Meta(description="Of `complete`.")] | UnsetType = UNSET
    bookmark: BookmarkView | UnsetType = UNSET
    message: Annotated[str, Meta(description="Of `error`.")] | UnsetType = UNSET
    code: Annotated[str | float | None, Meta(description="Of `error`.")] | UnsetType = UNSET


class SessionBusy(TooMany):
    """Another exchange of the session is under way."""

    code = "session_busy"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, retry_after=1)
        self.reason = reason


class ChatAnswer(AgentListener):
    """An agent's answer as a client sees it: named events, each with its session."""

    def __init__(self, answer: ClientResponse, session: str) -> None:
        self.line = self._answer = answer
        self._session = session

    async def start(self, report: str) -> None:
        """Begin the stream."""
        headers = STREAM
        if report:
            headers += ((b"x-holdgate-directive", report.encode("ascii", "replace")),)
        self._answer.ready(headers, lambda: PING)
        await self._show("start")

    async def thinking(self, delta: str) -> None:
        """Show what the model thinks."""
        await self._show("thinking", delta=delta)

    async def text(self, delta: str) -> None:
        """Show what the model says."""
        await self._show("text", delta=delta)

    async def tool_start(self, name: str, arguments: str) -> None:
        """Show that a tool begins."""
        given = read_object(arguments.encode())
        await self._show("tool_start", name=name, input=arguments if given is None else given)

    async def tool_end(self, name: str, ms: int) -> None:
        """Show that a tool has done its work."""
        await self._show("tool_end", name=name, duration_ms=ms)

    async def tool_error(self, name: str, error: str) -> None:
        """Show that a tool has not."""
        await self._show("tool_error", name=name, error=error)

    async def hold(self, until_ms: int) -> None:
        """Show until when the answer is kept open."""
        await self._show("hold", until=until_ms)

    async def complete(self, outcome: Outcome) -> None:
        """End the stream of a complete answer."""
        await self._end(
            "complete",
            reason=outcome.reason,
            tool_count=outcome.tool_count,
            turns=outcome.turns,
            bookmark=BookmarkView(outcome.version, outcome.at_ms),
        )

    async def error(self, outcome: Outcome) -> None:
        """End the stream of one that went wrong."""
        await self._end("error", message=outcome.error, code=outcome.code)

    async def _show(self, event: str, **members: Any) -> None:
        await self._answer.frames(self._frame(event, **members))

    async def _end(self, event: str, **members: Any) -> None:
        await self._answer.end(self._frame("end") + self._frame(event, **members))

    def _frame(self, event: str, **members: Any) -> bytes:
        return encode(msgspec.json.encode(ChatEvent(self._session, **members)), event)


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """Answers messages to agents; each owner talks in sessions of their own.

    It stands beside the model endpoints, since its answers stream as theirs do.
    """

    agents: Agents
    locks: Locks
    keys: Keys
    limits: BodyLimits
    dialect = DIALECTS["openai-chat"]

    def routes(self) -> list[BaseRoute]:
        """Return the ordinary routes of this area."""
        return bind_all((AGENTS,), self)

    async def listing(self, request: WebRequest) -> AgentList:
        """List the agents."""
        self.keys.owner(incoming_of(request.scope))
        known = self.agents.known.values()
        found = [AgentView(one.id, one.name, one.model, tuple(one.tools)) for one in known]
        return AgentList(found)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one message; whatever goes wrong is said."""
        incoming, exchanges = incoming_of(scope), self.agents.services.exchanges
        answer = ClientResponse(
            receive, send, incoming.answer_headers, scope.get("extensions", {}).get(CYCLE)
        )
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"Send a POST to {PATH}.", "POST")
            owner = self.keys.owner(incoming)
            incoming.owner = owner.name
            exchanges.check_open()
            body = await receive_body(incoming.headers, receive, self.limits.size)
            exchanges.check_open()
            given = await self._read(body, owner.name, incoming)
            await self._answer(self._make_message(given, owner, incoming), incoming, answer)
        except Exception as error:  # noqa: BLE001 - the outer loop of a request
            told = tell_failure(error, incoming, "", exchanges, answer)
            if told is not None:
                await self._say(told, answer)

    async def _answer(
        self, message: AgentMessage, incoming: IncomingRequest, answer: ClientResponse
    ) -> None:
        incoming.owner, incoming.session = message.owner, message.session
        incoming.model = message.agent.model
        answer.also(session_header(message.session))
        lease = await self.locks.take(message.owner, message.session, CHAT)
        if isinstance(lease, str):
            says = incoming.headers.get(b"accept-language", b"").decode("latin-1")
            raise SessionBusy(BUSY_IN_CHINESE if prefers_chinese(says) else BUSY, lease)
        await self.agents.chat(lease, message, ChatAnswer(answer, message.session))
        if not answer.ended:
            # Nobody was left to tell, or nobody who reads: the connection ends with it.
            await cut_off(answer)

    async def _read(self, body: bytes, owner: str, incoming: IncomingRequest) -> ChatMessageBody:
        offload = self.agents.services.exchanges.services.offload
        body = await BodyUnpacker(self.limits.size, offload).unpack(incoming.headers, body, owner)
        work = partial(read_members, body, self.limits.depth, ChatMessageBody, "a message")
        return await offload.run(owner, len(body), work)

    def _make_message(
        self, given: ChatMessageBody, owner: Owner, incoming: IncomingRequest
    ) -> AgentMessage:
        if not given.agent_id:
            says = "`agentId` is missing; GET /api/agents lists the agents."
            raise BadRequest(says, param="agentId")
        agent = self.agents.find(given.agent_id)
        return AgentMessage(
            owner=self._speaker(owner, given.user_id),
            agent=agent,
            session=_short("sessionId", given.session_id) or agent.id,
            text=_check_message(given.message),
            exchange_id=incoming.exchange_id,
            request_id=incoming.request_id,
            directives=True,
            source=RequestSource(PATH, read_trace_context(incoming.listed), agent.id),
        )

    def _speaker(self, owner: Owner, user_id: str | None) -> str:
        """Return whose message it is: who holds an admin's key may speak for others."""
        if self.keys and owner.admin:
            return _short("userId", user_id) or owner.name
        return owner.name

    async def _say(self, error: HoldgateError, answer: ClientResponse) -> None:
        if answer.started:
            # What went wrong after the start was said in the stream.
            return
        if isinstance(error, SessionBusy):
            await answer.whole(error.status, error_headers(error), _busy_body(error))
            return
        await refuse_body(error, answer, self.dialect)


def prefers_chinese(accept_language: str) -> bool:
    """Whether the language somebody likes best is Chinese."""
    accepted = accept_language.lower().replace(" ", "")
    wishes = [wish.partition(";q=") for wish in accepted.split(",")]
    best = max(wishes, key=lambda wish: _weight(wish[2]))
    return best[0].partition("-")[0] == "zh" and _weight(best[2]) > 0


def _weight(text: str) -> float:
    try:
        return float(text) if text else 1.0
    except ValueError:
        return 0.0


def _busy_body(error: SessionBusy) -> bytes:
    details = {"message": error.message, "type": error.kind, "code": error.code}
    return msgspec.json.encode({"error": {**details, "busy_reason": error.reason}})


def _check_message(message: str | UnsetType) -> str:
    if message is UNSET or not message.strip():
        state = "missing" if message is UNSET else "empty"
        raise BadRequest(f"`message` is {state}; send the text for the agent.", param="message")
    return message


def _short(name: str, given: str | None) -> str:
    if given and (reason := refuse_session_id(given)):
        raise BadRequest(f"`{name}` {reason}.", param=name)
    return given or ""


CHAT_EVENTS = ("start", "thinking", "text", "tool_start", "tool_end", "tool_error", "hold")
CHAT_ENDS = ("end", "complete", "error")
CHAT_STREAM = EventStream(
    "First `start`, then whatever comes, `end`, and then exactly one of `complete` and `error`.",
    CHAT_EVENTS + CHAT_ENDS,
    ChatEvent,
)
AGENTS = ApiRoute("get", "/api/agents", "listAgents", ChatEndpoint.listing)
ROUTES = (
    AGENTS,
    ApiRoute(
        "post",
        PATH,
        "chat",
        ChatEndpoint.__call__,
        body=ChatMessageBody,
        required=("message", "agentId"),
        errors={
            404: "No agent has this id; the message lists the ids.",
            429: "The session is busy, or a limit of the owner is reached.",
        },
        replies=(Reply("The agent's answer.", events=CHAT_STREAM),),
        summary="Send a message to an agent.",
    ),
)
