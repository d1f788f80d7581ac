"""A message to an agent, made a request for the driver: history, tools, routes, clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gateway.agents.conversations import Conversations
from gateway.agents.talk import Talk
from gateway.agents.values import ChatErrand
from gateway.core.additions import ToolResult
from gateway.core.directive_memory import Attempt
from gateway.core.directives import NOTHING, candidates, no_route
from gateway.core.model import Route
from gateway.dialects import DIALECTS
from gateway.dialects.body import appended
from gateway.driver import Driver, Request
from gateway.errors import NoRoute
from gateway.routing import Models, PublicModel
from gateway.sessions import Entry, Kind, Sessions, Visit
from gateway.timepiece import Errand, ServerTool, Timepiece, Timepieces
from gateway.tools.clock import NAME as CLOCK
from gateway.tools.schedule_task import NAME as SCHEDULE_TASK
from gateway.tools.schedule_task import SENTENCE

Tools = Callable[[ChatErrand], tuple[ServerTool, ...]]

CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128
# Who is told the time right after the results of tools may answer nothing at all.
SHY = frozenset({"anthropic-messages"})


def no_tools(errand: ChatErrand) -> tuple[ServerTool, ...]:
    """Offer nothing beside the clock."""
    return ()


@dataclass(slots=True)
class Means:
    """What all agents work with."""

    driver: Driver
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

    async def claim(self, said: str) -> bool:
        """Let nothing be sent."""
        return False

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

    errand: ChatErrand
    entry: Entry
    model: PublicModel
    routes: tuple[Route, ...]
    tools: tuple[ServerTool, ...]

    @property
    def message(self) -> str:
        """What the user said, as the model reads it."""
        if not self.entry.asked.directives:
            return self.errand.message
        return CHAT.newest_user(self.entry.asked.body)[1][0]


async def drafted(means: Means, errand: ChatErrand, history: bytes) -> Draft:
    """Put a message behind its history, and let its session have a say."""
    tools = means.tools(errand)
    asked = CHAT.read(_body(errand, history, tools), JSON_DEPTH)
    name = None if errand.fresh else errand.session
    attempt = Attempt(errand.request_id)
    visit = Visit(errand.owner, name, asked, CHAT, errand.chain, attempt=attempt)
    entry = await _entered(means, errand, visit)
    model = means.models.find(errand.agent.model)
    return Draft(errand, entry, model, _routes(means.models, model, entry), tools)


def request_of(means: Means, draft: Draft, talk: Talk) -> Request:
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


def _body(errand: ChatErrand, history: bytes, tools: tuple[ServerTool, ...]) -> bytes:
    agent = errand.agent
    told = [agent.system] if agent.system else []
    if any(tool.declaration.name == SCHEDULE_TASK for tool in tools):
        told.append(SENTENCE)
    system = [{"role": "system", "content": "\n\n".join(told)}] if told else []
    before = history.strip()[1:-1].strip()
    items = [*map(msgspec.json.encode, system), *([before] if before else [])]
    items.append(msgspec.json.encode({"role": "user", "content": errand.message}))
    messages = msgspec.Raw(appended(b"[]", items))
    return msgspec.json.encode({"model": agent.model, "messages": messages, "stream": True})


async def _entered(means: Means, errand: ChatErrand, visit: Visit) -> Entry:
    """Let directives act that a user wrote; of others only what is in force counts."""
    if errand.directives:
        return await means.sessions.enter(visit, means.driver.services.upstreams.keys())
    state = await means.sessions.states.read(visit.key)
    return Entry(visit.asked, routing=state.routing)


def _routes(models: Models, model: PublicModel, entry: Entry) -> tuple[Route, ...]:
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


def _time(means: Means, draft: Draft, talk: Talk) -> Timepiece | None:
    """Give the exchange its clock and tools, if it is to have any."""
    errand, entry = draft.errand, draft.entry
    may_have = draft.model.clock or CLOCK in errand.agent.tools
    has_clock = means.clock and may_have and entry.kind is not Kind.COMPACTION
    if not (has_clock or draft.tools or _has_deliveries(means, errand)):
        return None
    spoken = means.driver.services.ways.spoken(draft.routes[0].upstream)
    return means.timepieces.give(
        Errand(
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


def _has_deliveries(means: Means, errand: ChatErrand) -> bool:
    deliveries = means.timepieces.deliveries
    if deliveries is None or errand.fresh or not errand.collects:
        return False
    return not deliveries.idle(errand.owner, errand.session)
