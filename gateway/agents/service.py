"""Agents: who there is, and how a message to one is answered."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from gateway.agents.client import AgentClient
from gateway.agents.conversations import Record, Unkept
from gateway.agents.locks import Lease
from gateway.agents.model import CANCELLED, GONE, Agent, AgentMessage, Ear, Outcome
from gateway.agents.requests import AgentServices, drafted, request_of
from gateway.errors import NotFound
from gateway.exchange.ports import Request

log = logging.getLogger("holdgate.agents")
MOST_NAMED = 20
NOT_BEGUN = "not begun"


class Agents:
    """All agents, and how each of them answers."""

    def __init__(self, listed: Iterable[Agent], means: AgentServices) -> None:
        self._listed = tuple(listed)
        self.known: Mapping[str, Agent] = {agent.id: agent for agent in self._listed}
        self.means = means

    def __repr__(self) -> str:
        return f"<Agents {', '.join(self.known)}>"

    def announce(self) -> None:
        """Say in the log which agents there are."""
        for agent in self._listed:
            if self.known[agent.id] is agent:
                self.means.note("agent_registered", id=agent.id, name=agent.name)
            else:
                log.warning("the agent %s is there twice; the later one counts", agent.id)

    def find(self, name: str) -> Agent:
        """Return an agent, or raise `NotFound` naming those there are."""
        found = self.known.get(name)
        if found is not None:
            return found
        known = ", ".join(list(self.known)[:MOST_NAMED])
        hint = f"there are: {known}." if known else "none is configured, see [[agents]]."
        raise NotFound(f"No agent is called '{name[:100]}'; {hint}", param="agentId")

    async def chat(self, lease: Lease | None, errand: AgentMessage, ear: Ear) -> Outcome:
        """Have an agent answer a message; the lease is released on every way out.

        Raises before anything was heard if the message cannot be sent at all.
        """
        try:
            talk, request, told = await self._prepared(lease, errand, ear)
        except BaseException:
            if lease is not None:
                await lease.release(NOT_BEGUN)
            raise
        try:
            return await self._answered(talk, request, told, ear)
        finally:
            if talk.outcome is not None:
                self._log(errand, talk.outcome)

    async def _prepared(
        self, lease: Lease | None, errand: AgentMessage, ear: Ear
    ) -> tuple[AgentClient, Request, str]:
        """Make of a message a request, and who hears what comes of it."""
        means = self.means
        record = await self._record(errand)
        draft = await drafted(means, errand, record.messages)
        talk = AgentClient(draft.message, ear, lease, record)
        return talk, request_of(means, draft, talk), draft.entry.told

    async def _record(self, errand: AgentMessage) -> Record | Unkept:
        if errand.fresh:
            return Unkept()
        where = (errand.owner, errand.agent.id, errand.session)
        return await self.means.conversations.open(*where)

    async def _answered(self, talk: AgentClient, request: Request, told: str, ear: Ear) -> Outcome:
        driver = self.means.driver
        why = CANCELLED
        try:
            await ear.start(told)
            if ear.line is not None:
                driver.services.beats.add(talk)
            await driver.run(request, talk)
            why = GONE
        except Exception:
            await talk.crash()
            raise
        finally:
            driver.services.beats.remove(talk)
            outcome = await talk.leave(why)
        return outcome

    def _log(self, errand: AgentMessage, outcome: Outcome) -> None:
        self.means.note(
            "chat_done",
            id=errand.request_id,
            owner=errand.owner,
            agent=errand.agent.id,
            session=errand.session,
            reason=outcome.reason,
            code=outcome.code or None,
            tool_count=outcome.tool_count,
            turns=outcome.turns,
        )
