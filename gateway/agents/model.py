"""What agents are, what is asked of them, and who listens to the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.wire.heartbeats import HeartbeatTarget

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


class Connected(HeartbeatTarget, Protocol):
    """The connection of somebody who listens, and may leave."""

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching."""


class AgentListener(Protocol):
    """Whoever listens to an agent's answer, as it comes."""

    @property
    def line(self) -> Connected | None:
        """By what it is connected; None: by nothing, and it cannot leave."""

    async def start(self, report: str) -> None:
        """Hear that the message is taken, and what became of directives in it."""

    async def thinking(self, delta: str) -> None:
        """Hear what the model thinks."""

    async def text(self, delta: str) -> None:
        """Hear what the model says."""

    async def tool_start(self, name: str, arguments: str) -> None:
        """Hear that a tool begins."""

    async def tool_end(self, name: str, ms: int) -> None:
        """Hear that a tool has done its work."""

    async def tool_error(self, name: str, error: str) -> None:
        """Hear that a tool has not."""

    async def hold(self, until_ms: int) -> None:
        """Hear that the answer is kept open until then."""

    async def complete(self, outcome: Outcome) -> None:
        """Hear, at the very end, that the answer is complete."""

    async def error(self, outcome: Outcome) -> None:
        """Hear, at the very end, what went wrong."""


class SilentListener:
    """Listens, and tells nobody; for messages that nobody waits for."""

    line: Connected | None = None

    async def start(self, report: str) -> None:
        """Hear nothing."""

    async def thinking(self, delta: str) -> None:
        """Hear nothing."""

    async def text(self, delta: str) -> None:
        """Hear nothing."""

    async def tool_start(self, name: str, arguments: str) -> None:
        """Hear nothing."""

    async def tool_end(self, name: str, ms: int) -> None:
        """Hear nothing."""

    async def tool_error(self, name: str, error: str) -> None:
        """Hear nothing."""

    async def hold(self, until_ms: int) -> None:
        """Hear nothing."""

    async def complete(self, outcome: Outcome) -> None:
        """Hear nothing."""

    async def error(self, outcome: Outcome) -> None:
        """Hear nothing."""
