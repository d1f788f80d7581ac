"""The tools that the gateway adds to requests: who gets them, and how often they are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.agents.model import Agent
from gateway.console.metrics_history import MetricsHistory
from gateway.errors import ModelNotFound
from gateway.exchange.additions import ToolDeclaration
from gateway.jobs.tool_calls import DECLARATION as SCHEDULE_TASK
from gateway.reminders.clock_calls import DECLARATION as CLOCK
from gateway.routing import Models

CallCounts = tuple[Counter[str], Counter[str]]
"""The calls of tools and their errors, by name."""


class ToolView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the gateway adds to requests."""

    name: str
    agents: Annotated[list[str], Meta(description="The agents that have it.")]
    models: Annotated[int, Meta(description="To how many public models it is offered.")]
    of_models: Annotated[int, Meta(description="How many public models there are.")]
    relay: Annotated[bool, Meta(description="Whether relay sessions get it.")]
    calls: Annotated[
        int | None,
        Meta(description="In the last hour; null without an admin's key, or if clients run it."),
    ]
    errors: int | None
    schema: Annotated[
        msgspec.Raw,
        Meta(description="Of its arguments.", extra_json_schema={"type": "object"}),
    ]


class ToolAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent, and the tools it lists."""

    id: str
    name: str
    model: str
    tools: tuple[str, ...]


class ToolReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tools of the gateway, and the agents."""

    tools: list[ToolView]
    agents: list[ToolAgent]


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Which tools the operator lets requests have."""

    clock: bool
    """Whether there is a clock at all."""
    schedule_for_relay: bool
    standard: tuple[ToolDeclaration, ...]
    """The tools that are added when a reminder is due."""


@dataclass(frozen=True, slots=True)
class ToolAudience:
    """To whom a tool is offered."""

    tool: ToolDeclaration
    agents: list[str]
    models: int
    relay: bool
    is_counted: bool = True
    """False: clients run it."""

    def show(self, of_models: int, counts: CallCounts | None) -> ToolView:
        """Return what is shown of it, with counts of calls and errors if they may be seen."""
        name = self.tool.name
        calls, errors = counts if counts and self.is_counted else (None, None)
        return ToolView(
            name=name,
            agents=self.agents,
            models=self.models,
            of_models=of_models,
            relay=self.relay,
            calls=None if calls is None else calls[name],
            errors=None if errors is None else errors[name],
            schema=msgspec.Raw(self.tool.schema.encode()),
        )


@dataclass(frozen=True, slots=True)
class ToolLister:
    """Lists the tools, as an owner who may use certain models sees them."""

    settings: ToolSettings
    models: Models
    agents: Mapping[str, Agent]
    history: MetricsHistory

    def list_tools(self, owner: str, with_calls: bool) -> ToolReport:
        """Return the tools and the agents; calls are counted for all owners together."""
        settings, listed = self.settings, self.models.of(owner).listed
        agents = self.agents.values()
        with_clock = sum(model.clock for model in listed) if settings.clock else 0
        clock_agents = [agent.id for agent in agents if self._has_clock(agent)]
        schedulers = [agent.id for agent in agents if SCHEDULE_TASK.name in agent.tools]
        relay = settings.schedule_for_relay
        offers = [
            ToolAudience(CLOCK, clock_agents, with_clock, settings.clock),
            ToolAudience(SCHEDULE_TASK, schedulers, len(listed) if relay else 0, relay),
            *(
                ToolAudience(one, clock_agents, with_clock, settings.clock, is_counted=False)
                for one in settings.standard
            ),
        ]
        counts = self.history.count_tool_calls() if with_calls else None
        return ToolReport(
            [offer.show(len(listed), counts) for offer in offers],
            [ToolAgent(one.id, one.name, one.model, tuple(one.tools)) for one in agents],
        )

    def _has_clock(self, agent: Agent) -> bool:
        if not self.settings.clock:
            return False
        try:
            return CLOCK.name in agent.tools or self.models.find(agent.model).clock
        except ModelNotFound:
            return False
