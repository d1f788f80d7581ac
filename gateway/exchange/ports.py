"""What the driver is given and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import msgspec

from gateway.dialects.protocol import Dialect
from gateway.dialects.translators import Translators
from gateway.errors import Headers, HoldgateError, MethodNotAllowed, UpstreamAnswered
from gateway.exchange.additions import Addition, ToolResult
from gateway.exchange.answer_ids import Answers
from gateway.exchange.events import HoldEnded, ReminderDue, Wait
from gateway.exchange.model import Asked, Route, ToolCall
from gateway.exchange.observer import NOBODY, Observer
from gateway.exchange.rules import RULES, Rule
from gateway.offload import Offload
from gateway.routing import Health
from gateway.wire.heartbeats import Heartbeats, HeartbeatTarget
from gateway.wire.http_client.headers import towards_client
from gateway.wire.http_client.upstream import Upstream


class Client(HeartbeatTarget, Protocol):
    """The client's side of an exchange, as the driver uses it."""

    started: bool
    give_up: Callable[[], None]
    blocked: bool
    """Whether the client must be waited for before more is brought for it."""

    @property
    def scope(self) -> anyio.CancelScope | None:
        """What cancels whoever answers, and ends the connection; None: make one."""

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        """Call this when the client has left; return how to stop watching."""

    def rest(self) -> None:
        """Let go of what is not needed while nothing is sent but heartbeats."""

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        """Prepare the start line of a stream."""

    async def frames(self, frames: bytes) -> None:
        """Show whole frames at once."""

    async def drain(self) -> None:
        """Wait until the client has read enough."""

    async def end(self, frames: bytes) -> None:
        """Show the last frames and end the stream."""

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Show an answer of one piece."""


class Session(Protocol):
    """The session of a request, as the driver uses it at the end of a turn."""

    awaits_end: bool
    """Whether it wants to know that the exchange ended normally."""

    def is_quiet(self) -> bool:
        """Tell without waiting that there is nothing to go on with."""

    def rest(self) -> None:
        """Let go of the request: it is not kept through a long wait."""

    async def repeat(self) -> str | None:
        """Return the text to go on with, if there is one."""

    async def claim(self, said: str) -> str:
        """Count one use of that text, durably; return why it must not be sent, or nothing."""

    @property
    def uses(self) -> tuple[int, int]:
        """How often the text was used by now, this time included, and how often it may be."""

    async def disarm(self, reason: str) -> None:
        """Do not go on any more."""

    async def keep(
        self, message: bytes, calls: tuple[str, ...], results: tuple[ToolResult, ...]
    ) -> None:
        """Keep a turn of which the client was shown only some calls, to be rebuilt later."""

    async def end(self) -> None:
        """Hear that the exchange ends normally; only its tail is still to be shown."""


class Time(Protocol):
    """The clock of one exchange, as the driver uses it."""

    tools: frozenset[str]

    @property
    def cargo(self) -> object | None:
        """What the turn at hand carries that is not delivered yet."""

    @property
    def owed(self) -> Sequence[object]:
        """What turns carried that ended well, and is not delivered yet."""

    def now_ms(self) -> int:
        """Return the time."""

    def first_at_once(self) -> tuple[Addition, ...] | None:
        """Return what is added to the client's request, if that can be told without waiting."""

    async def first(self) -> tuple[Addition, ...]:
        """Return what is added to the client's request."""

    async def due(self) -> tuple[Addition, ...]:
        """Return what fell due since, for a follow-up that is sent whether or not anything is."""

    async def delivered(self) -> None:
        """Take it that the client has seen the turn that carries reminders."""

    def answered(self) -> None:
        """Take it that the turn ended well, and is handed over later."""

    async def handed_over(self) -> None:
        """Take it that the client has got the whole answer."""

    def lost(self) -> None:
        """Give back what a turn carried that came to nothing."""

    def let_go(self) -> None:
        """Give back all that was not delivered."""

    async def run(self, call: ToolCall, is_last: bool = False) -> ToolResult:
        """Run a server tool; after the last the answer is over."""

    def is_quiet(self) -> bool:
        """Tell without waiting that there is nothing an answer could be held for."""

    async def wait(self) -> Wait | None:
        """Say what the answer could be held for."""

    async def hold(self) -> ReminderDue | HoldEnded:
        """Keep the answer open until a reminder is ready, or there is a reason not to."""

    async def calm(self) -> None:
        """Wait until all have left their holds that were due together with this one."""

    def woken(self) -> tuple[Addition, ...]:
        """Return what the follow-up of a hold carries: what is due, and what time it is by now."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One client request, read and routed: all an exchange starts from."""

    id: str
    owner: str
    asked: Asked
    dialect: Dialect
    routes: tuple[Route, ...]
    headers: Headers = ()
    query: bytes = b""
    """What the client says in the URL, for an upstream of its own dialect."""
    notes: bool = False
    session: Session | None = None
    time: Time | None = None
    answers: Answers | None = None
    observer: Observer = NOBODY
    """Who hears all that happens in this exchange."""
    session_id: str | None = None
    """Whose exchange it is, for whoever deletes the session."""
    is_composed: bool = False
    """Whether the gateway wrote all of it, as for an agent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds an exchange."""

    event_bytes: int = 8 * 1024 * 1024
    answer_bytes: int = 20 * 1024 * 1024
    turns: int = 16


LIMITS = Limits()
FOLLOW_UPS = 64


@dataclass(frozen=True, slots=True)
class Services:
    """What every exchange uses: who answers and how they are, the heartbeat, the rules."""

    upstreams: Mapping[str, Upstream]
    beats: Heartbeats
    now: Callable[[], float]
    translators: Translators
    limits: Limits = LIMITS
    rules: tuple[Rule, ...] = RULES
    health: Health = field(default_factory=Health)
    places: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(FOLLOW_UPS))
    """How many follow-ups of due reminders may be under way at once."""
    offload: Offload = field(default_factory=Offload)
    """Does work on large requests beside the loop."""


def error_headers(error: HoldgateError) -> Headers:
    """Return the headers an error answer carries."""
    headers: Headers = ((b"content-type", b"application/json"),)
    if isinstance(error, UpstreamAnswered):
        return headers + towards_client(error.headers)
    if isinstance(error, MethodNotAllowed):
        return (*headers, (b"allow", error.allowed.encode()))
    if error.retry_after is not None:
        return (*headers, (b"retry-after", b"%d" % max(1, round(error.retry_after))))
    return headers
