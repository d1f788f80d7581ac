"""Agents over HTTP: a message in, its answer as named events, and who there is to talk to."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from anyio.lowlevel import checkpoint
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.agents.client import AgentListener
from gateway.agents.locks import Locks
from gateway.agents.model import AgentMessage, Outcome
from gateway.agents.service import Agents
from gateway.api.admission import IncomingRequest, incoming_of
from gateway.api.auth import Keys, Owner
from gateway.api.requests import answer_json, read_members
from gateway.dialects import DIALECTS
from gateway.dialects.events import read_object
from gateway.errors import (
    BadRequest,
    Headers,
    HoldgateError,
    MethodNotAllowed,
    TooMany,
    Unavailable,
)
from gateway.exchange.ports import error_headers
from gateway.sessions.identity import refuse_session_id
from gateway.wire.http_server.request_body import BodyLimits, BodyUnpacker, ClientLeft, receive_body
from gateway.wire.http_server.request_cycle import CYCLE
from gateway.wire.http_server.response import ClientResponse, Receive, Send
from gateway.wire.sse import encode

log = logging.getLogger("holdgate.chat")
PATH = "/api/chat"
CHAT = "chat"
NOT_EMPTY = {"minLength": 1}
PING = b": ping\n\n"
STREAM: Headers = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
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
        await self._show("tool_end", name=name, durationMs=ms)

    async def tool_error(self, name: str, error: str) -> None:
        """Show that a tool has not."""
        await self._show("tool_error", name=name, error=error)

    async def hold(self, until_ms: int) -> None:
        """Show until when the answer is kept open."""
        await self._show("hold", until=until_ms)

    async def complete(self, outcome: Outcome) -> None:
        """End the stream of a complete answer."""
        bookmark = {"seq": outcome.version, "timestamp": outcome.at_ms}
        await self._end(
            "complete",
            reason=outcome.reason,
            toolCount=outcome.tool_count,
            turns=outcome.turns,
            bookmark=bookmark,
        )

    async def error(self, outcome: Outcome) -> None:
        """End the stream of one that went wrong."""
        await self._end("error", message=outcome.error, code=outcome.code)

    async def _show(self, event: str, **members: object) -> None:
        await self._answer.frames(self._frame(event, members))

    async def _end(self, event: str, **members: object) -> None:
        await self._answer.end(self._frame("end", {}) + self._frame(event, members))

    def _frame(self, event: str, members: Mapping[str, object]) -> bytes:
        return encode(msgspec.json.encode({"sessionId": self._session, **members}), event)


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
        return [Route("/api/agents", self.listing, methods=["GET"])]

    async def listing(self, request: WebRequest) -> Response:
        """List the agents."""
        self.keys.owner(incoming_of(request.scope).headers)
        known = self.agents.known.values()
        found = [AgentView(one.id, one.name, one.model, tuple(one.tools)) for one in known]
        return answer_json(AgentList(found))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one message; whatever goes wrong is said."""
        incoming = incoming_of(scope)
        answer = ClientResponse(
            receive, send, incoming.answer_headers, scope.get("extensions", {}).get(CYCLE)
        )
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"Send a POST to {PATH}.", "POST")
            owner = self.keys.owner(incoming.headers)
            self.agents.services.exchanges.check_open()
            body = await receive_body(incoming.headers, receive, self.limits.size)
            self.agents.services.exchanges.check_open()
            given = await self._read(body, owner.name, incoming)
            await self._answer(self._make_message(given, owner, incoming), incoming, answer)
        except HoldgateError as error:
            self.agents.services.exchanges.refuse(incoming.request_id, error)
            await self._say(error, answer)
        except ClientLeft:
            return
        except Exception as error:
            # The outer loop of a request: a bug of ours must not look like a finished answer.
            log.exception("request %s failed", incoming.request_id, exc_info=error)
            if not answer.ended:
                await self._say(Unavailable("Something went wrong inside the gateway."), answer)

    async def _answer(
        self, message: AgentMessage, incoming: IncomingRequest, answer: ClientResponse
    ) -> None:
        answer.also(((b"x-holdgate-session", quote(message.session, safe=SAFE).encode()),))
        lease = await self.locks.take(message.owner, message.session, CHAT)
        if isinstance(lease, str):
            says = incoming.headers.get(b"accept-language", b"").decode("latin-1")
            raise SessionBusy(BUSY_IN_CHINESE if prefers_chinese(says) else BUSY, lease)
        await self.agents.chat(lease, message, ChatAnswer(answer, message.session))
        if not answer.ended and answer.scope is not None:
            # Nobody was left to tell, or nobody who reads: the connection ends with it.
            answer.scope.cancel()
            await checkpoint()

    async def _read(self, body: bytes, owner: str, incoming: IncomingRequest) -> ChatMessageBody:
        offload = self.agents.services.exchanges.services.offload
        body = await BodyUnpacker(self.limits.size, offload).unpack(incoming.headers, body, owner)
        return await offload.run(owner, len(body), partial(_read_message, body, self.limits.depth))

    def _make_message(
        self, given: ChatMessageBody, owner: Owner, incoming: IncomingRequest
    ) -> AgentMessage:
        agent = self.agents.find(_check_agent_id(given.agent_id))
        return AgentMessage(
            owner=self._speaker(owner, given.user_id),
            agent=agent,
            session=_short("sessionId", given.session_id) or agent.id,
            text=_check_message(given.message),
            exchange_id=incoming.exchange_id,
            request_id=incoming.request_id,
            directives=True,
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
        # What is left of a refused body must not be read as the next request.
        headers = (*error_headers(error), (b"connection", b"close"))
        await answer.whole(error.status, headers, self.dialect.error_body(error))


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


def _read_message(body: bytes, depth: int) -> ChatMessageBody:
    return read_members(body, depth, ChatMessageBody, "a message")


def _check_agent_id(agent_id: str) -> str:
    if not agent_id:
        says = "`agentId` is missing; GET /api/agents lists the agents."
        raise BadRequest(says, param="agentId")
    return agent_id


def _check_message(message: str | UnsetType) -> str:
    if message is UNSET:
        raise BadRequest("`message` is missing; send the text for the agent.", param="message")
    if not message.strip():
        raise BadRequest("`message` is empty; send the text for the agent.", param="message")
    return message


def _short(name: str, given: str | None) -> str:
    if given and (reason := refuse_session_id(given)):
        raise BadRequest(f"`{name}` {reason}.", param=name)
    return given or ""
