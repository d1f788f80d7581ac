"""A message to an agent, made a request for the driver: history, tools, routes, clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from gateway.agents.client import AgentClient
from gateway.agents.conversations import Conversations
from gateway.agents.model import AgentMessage
from gateway.dialects import DIALECTS
from gateway.dialects.body import appended
from gateway.errors import NoRoute
from gateway.exchange.additions import ToolResult
from gateway.exchange.live import LiveExchanges
from gateway.exchange.model import Asked, Route
from gateway.exchange.ports import Request
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.jobs.tool_calls import SENTENCE
from gateway.reminders.clock_calls import NAME as CLOCK
from gateway.reminders.timepiece import Timepiece, Timepieces
from gateway.reminders.tool_scope import ServerTool, ToolScope
from gateway.routing import Models, PublicModel
from gateway.sessions.directives.memory import Attempt
from gateway.sessions.directives.routing import NOTHING, candidates, no_route
from gateway.sessions.facts import read_facts
from gateway.sessions.sentinels import Sentinels
from gateway.sessions.service import Sessions, SessionView
from gateway.sessions.session_request import Kind, SessionRequest

Tools = Callable[[AgentMessage], tuple[ServerTool, ...]]

CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128
# Who is told the time right after the results of tools may answer nothing at all.
SHY = frozenset({"anthropic-messages"})


def no_tools(errand: AgentMessage) -> tuple[ServerTool, ...]:
    """Offer nothing beside the clock."""
    return ()


@dataclass(slots=True)
class AgentServices:
    """What all agents work with."""

    driver: LiveExchanges
    models: Models
    sessions: Sessions
    timepieces: Timepieces
    conversations: Conversations
    note: Callable[..., None]
    clock: bool = True
    """Whether models that may have a clock get one."""
    tools: Tools = no_tools
    """Which tools are offered for a message beside the clock."""


class Alone:
    """The session of an exchange that nothing goes on with by itself."""

    awaits_end = False

    def is_quiet(self) -> bool:
        """Have nothing to go on with."""
        return True

    def rest(self) -> None:
        """Keep nothing anyway."""

    async def repeat(self) -> str | None:
        """Return no text to go on with."""
        return None

    async def claim(self, said: str) -> str:
        """Let nothing be sent."""
        return "nothing goes on by itself here"

    async def disarm(self, reason: str) -> None:
        """Have nothing to disarm."""

    async def keep(
        self, message: bytes, calls: tuple[str, ...], results: tuple[ToolResult, ...]
    ) -> None:
        """Keep nothing: the history has it all."""

    async def end(self) -> None:
        """Have nothing to remember."""


ALONE = Alone()


@dataclass(frozen=True, slots=True)
class Draft:
    """A message on its way to the driver, its directives taken out."""

    errand: AgentMessage
    entry: SessionView
    model: PublicModel
    routes: tuple[Route, ...]
    tools: tuple[ServerTool, ...]
    message: str
    """What the user said, as the model reads it."""


async def drafted(means: AgentServices, errand: AgentMessage, history: bytes) -> Draft:
    """Put a message behind its history, and let its session have a say."""
    tools = means.tools(errand)
    asked = await _ask(means, errand, history, tools)
    name = None if errand.fresh else errand.session
    attempt = Attempt(errand.request_id)
    visit = SessionRequest(errand.owner, name, asked, CHAT, errand.chain, attempt=attempt)
    entry = await _entered(means, errand, visit)
    model = means.models.find(errand.agent.model)
    routes = _routes(means.models, model, entry)
    message = errand.message
    if entry.asked.directives:
        body = entry.asked.body
        offload = means.driver.services.offload
        message = await offload.run(errand.owner, len(body), partial(_said_last, body))
    return Draft(errand, entry, model, routes, tools, message)


def request_of(means: AgentServices, draft: Draft, talk: AgentClient) -> Request:
    """Say it to the driver, and who hears what comes of it."""
    errand = draft.errand
    return Request(
        id=errand.request_id,
        owner=errand.owner,
        asked=draft.entry.asked,
        dialect=CHAT,
        routes=draft.routes,
        notes=True,
        session=draft.entry.session or ALONE,
        time=_time(means, draft, talk),
        witness=talk.gains,
        session_id=errand.session,
        is_composed=True,
    )


async def _ask(
    means: AgentServices, errand: AgentMessage, history: bytes, tools: tuple[ServerTool, ...]
) -> Asked:
    """Write the request, beside the loop if it is large."""
    agent, offload = errand.agent, means.driver.services.offload
    told = [agent.system] if agent.system else []
    if any(tool.declaration.name == SCHEDULE_TASK for tool in tools):
        told.append(SENTENCE)
    work = partial(_written, agent.model, "\n\n".join(told), history, errand.message)
    size = len(history) + len(errand.message)
    if size <= offload.above:
        return work()
    named, sentinels = not errand.fresh, means.sessions.sentinels
    return await offload.send(errand.owner, size, partial(_written_large, work, named, sentinels))


def _written(model: str, system: str, history: bytes, message: str) -> Asked:
    before = history.strip()[1:-1].strip()
    items = [msgspec.json.encode({"role": "system", "content": system})] if system else []
    items += [before] if before else []
    items.append(msgspec.json.encode({"role": "user", "content": message}))
    messages = msgspec.Raw(appended(b"[]", items))
    body = msgspec.json.encode({"model": model, "messages": messages, "stream": True})
    return CHAT.read(body, JSON_DEPTH)


def _written_large(work: Callable[[], Asked], named: bool, sentinels: Sentinels) -> Asked:
    asked = work()
    return msgspec.structs.replace(asked, facts=read_facts(CHAT, asked.body, named, sentinels))


def _said_last(body: bytes) -> str:
    return CHAT.newest_user(body)[1][0]


async def _entered(
    means: AgentServices, errand: AgentMessage, visit: SessionRequest
) -> SessionView:
    """Let directives act that a user wrote; of others only what is in force counts."""
    if errand.directives:
        return await means.sessions.enter(visit, means.driver.services.upstreams.keys())
    state = await means.sessions.states.read(visit.key)
    return SessionView(visit.asked, routing=state.routing)


def _routes(models: Models, model: PublicModel, entry: SessionView) -> tuple[Route, ...]:
    """Return whom to ask: where the model leads, as far as the session's directives go."""
    public = model.routes
    if entry.forced is None and entry.routing == NOTHING:
        return public
    routes = tuple(
        route
        for route in candidates(public, entry.routing, entry.forced)
        if route in public or models.offers(route)
    )
    if not routes:
        raise NoRoute(no_route(entry.asked.model, entry.routing))
    return routes


def _time(means: AgentServices, draft: Draft, talk: AgentClient) -> Timepiece | None:
    """Give the exchange its clock and tools, if it is to have any."""
    errand, entry = draft.errand, draft.entry
    may_have = draft.model.clock or CLOCK in errand.agent.tools
    has_clock = means.clock and may_have and entry.kind is not Kind.COMPACTION
    if not (has_clock or draft.tools or _has_deliveries(means, errand)):
        return None
    spoken = means.driver.services.translators.find_dialect(draft.routes[0].upstream)
    return means.timepieces.give(
        ToolScope(
            owner=errand.owner,
            session=None if errand.fresh else errand.session,
            chain=errand.chain,
            asked=entry.asked,
            dialect=CHAT,
            may_hold=errand.may_hold,
            tags_results=spoken not in SHY,
            clock=has_clock,
            extras=draft.tools,
            narrator=talk.narration,
            collects=errand.collects,
        )
    )


def _has_deliveries(means: AgentServices, errand: AgentMessage) -> bool:
    deliveries = means.timepieces.deliveries
    if deliveries is None or errand.fresh or not errand.collects:
        return False
    return not deliveries.idle(errand.owner, errand.session)
