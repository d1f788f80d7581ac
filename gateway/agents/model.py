"""Agents, messages to them, and the outcome of a message."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.exchange.model import JOB_RUN, RequestSource
from gateway.jobs.model import Run

COMPLETED, LENGTH, FILTERED, TURNS, TAKEN_OVER, DRAINING = (
    "completed",
    "length",
    "content_filter",
    "turns",
    "taken_over",
    "draining",
)
ERROR, GONE, CANCELLED = "error", "client_gone", "cancelled"


@dataclass(frozen=True, slots=True)
class Agent:
    """A named profile whose conversations the gateway stores."""

    id: str
    name: str
    model: str
    system: str = ""
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """One message to an agent."""

    owner: str
    agent: Agent
    session: str
    text: str
    exchange_id: str
    request_id: str
    fresh: bool = False
    """Whether it is a new conversation: nothing is read from the session, nothing is stored."""
    may_hold: bool = True
    may_schedule: bool = True
    """Whether new jobs may be made."""
    collects: bool = True
    """Whether it may deliver what waits for the session: runs of jobs leave that to the user."""
    directives: bool = False
    """Whether directives in the message act: True if a user wrote it."""
    told: Run | None = None
    """The run whose owed result it tells the session."""
    source: RequestSource = JOB_RUN


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a message."""

    text: str
    """The text of all turns."""
    reason: str
    error: str | None = None
    """What went wrong, in a sentence."""
    code: str = ""
    tool_count: int = 0
    turns: int = 0
    version: int = 0
    """The version of the conversation with this exchange; 0 if it was not stored."""
    at_ms: int = 0
    """When it was stored."""
