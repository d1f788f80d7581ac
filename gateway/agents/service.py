"""The configured agents, how a message to one of them becomes a request, and who answers it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from gateway.agents.client import AgentClient, AgentListener
from gateway.agents.conversations import Conversations, Record, UnkeptConversation
from gateway.agents.locks import Lease
from gateway.agents.model import CANCELLED, GONE, Agent, AgentMessage, Outcome
from gateway.dialects import DIALECTS
from gateway.dialects.raw_json import append_items
from gateway.errors import NotFound
from gateway.exchange.model import ModelRequest
from gateway.exchange.ports import Request
from gateway.exchange.prepare import ExchangeInput, ExchangePreparer
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.jobs.tool_calls import SENTENCE
from gateway.offload import Offload
from gateway.reminders.clock_calls import NAME as CLOCK
from gateway.reminders.tool_scope import ServerTool
from gateway.sessions.directives.memory import Attempt
from gateway.sessions.request_kind import Sentinels, read_facts
from gateway.sessions.service import SessionView

log = logging.getLogger("holdgate.agents")
CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128
MOST_NAMED = 20
Tools = Callable[[AgentMessage], tuple[ServerTool, ...]]
NOT_BEGUN = "not started"


@dataclass(slots=True)
class AgentServices:
    """The services that all agents use."""

    exchanges: LiveExchanges
    preparer: ExchangePreparer
    conversations: Conversations
    note: Callable[..., None]
    tools: Tools
    """Returns the tools that are offered for a message, beside the clock."""


class Agents:
    """All agents: finds them, and answers messages to them."""

    def __init__(self, listed: Iterable[Agent], services: AgentServices) -> None:
        self._listed = tuple(listed)
        self.known: Mapping[str, Agent] = {agent.id: agent for agent in self._listed}
        self.services = services

    def __repr__(self) -> str:
        return f"<Agents {', '.join(self.known)}>"

    def announce(self) -> None:
        """Log which agents there are."""
        for agent in self._listed:
            if self.known[agent.id] is agent:
                self.services.note("agent_registered", id=agent.id, name=agent.name)
            else:
                log.warning("the agent %s is configured twice; the later one is used", agent.id)

    def find(self, name: str) -> Agent:
        """Return an agent, or raise `NotFound` with the known agents."""
        found = self.known.get(name)
        if found is not None:
            return found
        known = ", ".join(list(self.known)[:MOST_NAMED])
        hint = f"known agents: {known}." if known else "none is configured, see [[agents]]."
        raise NotFound(f"No agent is called '{name[:100]}'; {hint}", param="agentId")

    async def chat(
        self, lease: Lease | None, message: AgentMessage, listener: AgentListener
    ) -> Outcome:
        """Answer a message by an agent; the lease is released in every case.

        Raise before the listener gets any event if the message cannot be sent at all.
        """
        try:
            client, request, report = await self._prepare(lease, message, listener)
        except BaseException:
            if lease is not None:
                await lease.release(NOT_BEGUN)
            raise
        try:
            return await self._answer(client, request, report, listener)
        finally:
            if client.outcome is not None:
                self._log(message, client.outcome)

    async def _prepare(
        self, lease: Lease | None, message: AgentMessage, listener: AgentListener
    ) -> tuple[AgentClient, Request, str]:
        """Make the request and the client for a message; also return the directive report."""
        services, preparer = self.services, self.services.preparer
        offload, sentinels = services.exchanges.services.offload, preparer.sessions.sentinels
        record = await self._record(message)
        tools = services.tools(message)
        given = await compose_request(message, record.messages, tools, offload, sentinels)
        client = AgentClient(message.text, listener, lease, record)
        report = ""

        def begin(view: SessionView) -> AgentClient:
            nonlocal report
            report = view.report
            return client

        request = await preparer.prepare(given, begin)
        if given.asked.directives:
            client.transcript.set_message(await read_message(request.asked, message.owner, offload))
        return client, request, report

    async def _record(self, message: AgentMessage) -> Record:
        if message.fresh:
            return UnkeptConversation()
        return await self.services.conversations.open(
            message.owner, message.agent.id, message.session, message.told
        )

    async def _answer(
        self, client: AgentClient, request: Request, report: str, listener: AgentListener
    ) -> Outcome:
        exchanges = self.services.exchanges
        why, is_connected = CANCELLED, listener.line is not None
        try:
            await listener.start(report)
            if is_connected:
                exchanges.services.heartbeats.add(client)
            await exchanges.run(request, client)
            why = GONE
        except Exception:
            await client.crash()
            raise
        finally:
            if is_connected:
                exchanges.services.heartbeats.remove(client)
            outcome = await client.leave(why)
        return outcome

    def _log(self, message: AgentMessage, outcome: Outcome) -> None:
        self.services.note(
            "chat_done",
            owner=message.owner,
            agent=message.agent.id,
            session=message.session,
            reason=outcome.reason,
            code=outcome.code or None,
            tool_count=outcome.tool_count,
            turns=outcome.turns,
        )


async def compose_request(
    message: AgentMessage,
    history: bytes,
    tools: tuple[ServerTool, ...],
    offload: Offload,
    sentinels: Sentinels,
) -> ExchangeInput:
    """Make the request of history and message; a large one is written in a helper process."""
    agent = message.agent
    system = [agent.system] if agent.system else []
    if any(tool.declaration.name == SCHEDULE_TASK for tool in tools):
        system.append(SENTENCE)
    work = partial(_write, agent.model, "\n\n".join(system), history, message.text)
    size = len(history) + len(message.text)
    if size <= offload.above:
        asked = work()
    else:
        named = not message.fresh
        asked = await offload.send(
            message.owner, size, partial(_write_large, work, named, sentinels)
        )
    return ExchangeInput(
        id=message.request_id,
        exchange_id=message.exchange_id,
        owner=message.owner,
        session=None if message.fresh else message.session,
        asked=asked,
        dialect=CHAT,
        belongs_to=message.session,
        attempt=Attempt(message.request_id),
        tools=tools,
        acts=message.directives,
        takes_over=False,
        may_hold=message.may_hold,
        collects=message.collects,
        wants_clock=CLOCK in agent.tools,
        is_composed=True,
        source=message.source,
    )


def _write(model: str, system: str, history: bytes, text: str) -> ModelRequest:
    before = history.strip()[1:-1].strip()
    items = [msgspec.json.encode({"role": "system", "content": system})] if system else []
    items += [before] if before else []
    items.append(msgspec.json.encode({"role": "user", "content": text}))
    messages = msgspec.Raw(append_items(b"[]", items))
    body = msgspec.json.encode({"model": model, "messages": messages, "stream": True})
    return CHAT.read(body, JSON_DEPTH)


def _write_large(
    work: Callable[[], ModelRequest], named: bool, sentinels: Sentinels
) -> ModelRequest:
    asked = work()
    return msgspec.structs.replace(asked, facts=read_facts(CHAT, asked.body, named, sentinels))


async def read_message(asked: ModelRequest, owner: str, offload: Offload) -> str:
    """Return the newest user message as the model reads it: without directives."""
    return await offload.run(owner, len(asked.body), partial(_read_newest_text, asked.body))


def _read_newest_text(body: bytes) -> str:
    return CHAT.newest_user(body)[1][0]
