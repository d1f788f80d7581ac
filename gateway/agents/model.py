"""What agents are, what is asked of them, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A named profile whose conversations live in the gateway."""

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
    """Whether it is a conversation of its own: nothing is read of the session, nothing kept."""
    may_hold: bool = True
    may_schedule: bool = True
    """Whether new jobs may be made."""
    collects: bool = True
    """Whether it may take what waits for the session: a run of a job leaves that to the user."""
    directives: bool = False
    """Whether directives in the message act: a user wrote it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a message."""

    text: str
    """All that was said, in all turns."""
    reason: str
    error: str | None = None
    """What went wrong, in a sentence."""
    code: str = ""
    tool_count: int = 0
    turns: int = 0
    version: int = 0
    """The version of the conversation that has this exchange."""
    at_ms: int = 0
    """When it was kept."""
