"""What the gateway's tools in an exchange are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.exchange.additions import ToolDeclaration
from gateway.sessions.identity import Requester
from gateway.stores.waiting import Unsubscribe


class ServerTool(Protocol):
    """A tool that the gateway runs by itself."""

    @property
    def declaration(self) -> ToolDeclaration:
        """How it is offered to the model."""

    async def run(self, arguments: str) -> str:
        """Do what the model asks, and say what came of it, as JSON; never raises."""


class Asker(Protocol):
    """The session of a request, as far as it knows what kind of request that is."""

    def is_auxiliary(self) -> bool:
        """Judge again whether the request is a side call of an agent."""

    def requester(self) -> Requester:
        """Return what kind of request it is."""


class Jobs(Protocol):
    """The jobs of sessions, as a hold that waits for their results sees them."""

    def expecting(self, owner: str, session: str) -> int | None:
        """Return when a session's next run begins, the past if one is under way; None: never."""

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called when that changes."""


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """What the operator says about the clock."""

    time_tag: str = "always"
    hold_max_ms: int = 60_000
    hold_total_ms: int = 600_000
    hold_non_streaming: bool = True
    standard_tools: tuple[ToolDeclaration, ...] = ()
    hold_for_jobs: bool = False
    hold_without_session: bool = False


class ToolScope(msgspec.Struct, frozen=True, gc=False):
    """For whom the gateway's tools work in one exchange, and what they may do.

    Nothing of the request itself: an answer may be held open for long.
    """

    owner: str
    session: str | None
    exchange_id: str
    last_role: str = "user"
    """Who speaks in the request's last message."""
    streams: bool = True
    may_hold: bool = True
    tags_results: bool = True
    """Whether the time may follow the results of tools: models of one dialect then say nothing."""
    clock: bool = True
    """Whether there is a clock at all, or only other tools and what waits for the session."""
    collects: bool = True
    """Whether it may take what waits for the session: a run of a job leaves that to the client."""
    main: str = ""
    """The main session, if this is a request of one of its sub-agents."""
    asker: Asker | None = None
