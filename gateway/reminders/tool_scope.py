"""What the gateway's tools know about an exchange, and the ports they use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.exchange.additions import ToolDeclaration
from gateway.sessions.identity import Requester
from gateway.stores.waiting import Unsubscribe


class ServerTool(Protocol):
    """A tool that the gateway runs itself."""

    @property
    def declaration(self) -> ToolDeclaration:
        """The declaration that is offered to the model."""

    async def run(self, arguments: str) -> str:
        """Run a call of the model, and return the result as JSON.

        Raises `ToolError` with a sentence for the model if it cannot do that.
        """


class Asker(Protocol):
    """The session of a request, which knows the kind of the request."""

    def is_auxiliary(self) -> bool:
        """Check again whether the request is a side call of an agent."""

    def requester(self) -> Requester:
        """Return the kind of the request."""


class Jobs(Protocol):
    """The jobs of sessions, as a hold that waits for their results sees them."""

    def expecting(self, owner: str, session: str) -> int | None:
        """Return when a session's next run begins, a past time if one is running; None: never."""

    def is_known(self, owner: str, session: str) -> bool:
        """Return whether that is known; if not, `refresh` finds out."""

    async def refresh(self, owner: str, session: str) -> None:
        """Read it from a store that instances share, if it may have changed."""

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback when that changes."""


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """The operator's settings for the clock and holds."""

    time_tag: str = "always"
    hold_max_ms: int = 60_000
    hold_total_ms: int = 600_000
    hold_non_streaming: bool = True
    standard_tools: tuple[ToolDeclaration, ...] = ()
    hold_for_jobs: bool = False
    hold_without_session: bool = False


class ToolScope(msgspec.Struct, frozen=True, gc=False):
    """For whom the gateway's tools work in one exchange, and what they may do.

    It does not refer to the request itself, because an answer may be held for long.
    """

    owner: str
    session: str | None
    exchange_id: str
    last_role: str = "user"
    """The role of the request's last message."""
    streams: bool = True
    may_hold: bool = True
    tags_results: bool = True
    """Whether the time may follow tool results: models of one dialect then answer nothing."""
    clock: bool = True
    """Whether there are a clock and reminders, or only other tools and waiting results."""
    collects: bool = True
    """Whether it may deliver what waits for the session: runs of jobs leave that to the client."""
    main: str = ""
    """The main session, if this is a request of one of its sub-agents."""
    asker: Asker | None = None
