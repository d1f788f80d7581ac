"""What an exchange is run with: the client, the request, and the services of all exchanges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Protocol

import anyio
import msgspec

from gateway.dialects.protocol import Dialect
from gateway.dialects.translators import Translators
from gateway.errors import (
    Headers,
    HoldgateError,
    LimitExceeded,
    MethodNotAllowed,
    UpstreamAnswered,
)
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.model import JOB_RUN, ModelRequest, RequestSource, Route
from gateway.exchange.observer import NOBODY, Observer
from gateway.exchange.rules import RULES, Rule
from gateway.exchange.trail import Trail
from gateway.offload import Offload
from gateway.reminders.server_tools import ServerTools
from gateway.routing import Health
from gateway.sessions.call_signatures import CallSignatures
from gateway.sessions.request_session import RequestSession
from gateway.wire.heartbeats import Heartbeats, HeartbeatTarget
from gateway.wire.http_client.headers import towards_client
from gateway.wire.http_client.upstream import Upstream


class Client(HeartbeatTarget, Protocol):
    """The client's side of an exchange, as the runner uses it."""

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


class Allowance(Protocol):
    """What an exchange takes of the limits of its owner."""

    def allows_turn(self, number: int) -> bool:
        """Tell whether a turn may be asked for; one that may not is refused by `take_turn`, too."""

    def take_turn(self, number: int) -> None:
        """Count a turn that is about to be asked for, once; raise `LimitExceeded` if it is over."""

    def pause(self) -> None:
        """Leave the place among those that run: the answer is held."""

    def end(self) -> None:
        """Leave it for good."""

    def headers(self) -> Headers:
        """Say what is left of the limits."""


class LimitChecker(Protocol):
    """Knows what bounds owners."""

    def check(self, owner: str, dialect: str) -> None:
        """Raise `LimitExceeded` if an owner may ask nothing now."""

    def open(self, owner: str, dialect: str) -> Allowance | None:
        """Return what an exchange takes of its owner's limits; None: there are none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds an exchange."""

    event_bytes: int = 8 * 1024 * 1024
    answer_bytes: int = 20 * 1024 * 1024
    turns: int = 16


FOLLOW_UPS = 64


@dataclass(frozen=True, slots=True)
class Services:
    """What every exchange uses: who answers and how they are, the heartbeat, the rules."""

    upstreams: Mapping[str, Upstream]
    heartbeats: Heartbeats
    now: Callable[[], float]
    translators: Translators
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Rule, ...] = RULES
    health: Health = field(default_factory=Health)
    follow_up_slots: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(FOLLOW_UPS))
    """How many follow-ups of due reminders may be under way at once."""
    offload: Offload = field(default_factory=Offload)
    """Does work on large requests beside the loop."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One client request, read and routed: all an exchange starts from."""

    services: Services
    """What it is answered with to its end, also if the configuration changes meanwhile."""
    id: str
    exchange_id: str
    owner: str
    asked: ModelRequest
    dialect: Dialect
    routes: tuple[Route, ...]
    headers: Headers = ()
    query: bytes = b""
    """What the client says in the URL, for an upstream of its own dialect."""
    client_key: Headers = ()
    """The client's own key, for an upstream that is asked with it and for no other."""
    notes: bool = False
    session: RequestSession | None = None
    tools: ServerTools | None = None
    """The gateway's own tools, what waits for the session, and the hold."""
    answers: AnswerIds | None = None
    signatures: CallSignatures | None = None
    """What upstreams signed calls with, for those that want it back."""
    observer: Observer = NOBODY
    """Who hears all that happens in this exchange."""
    session_id: str | None = None
    """Whose exchange it is, for whoever deletes the session."""
    is_composed: bool = False
    """Whether the gateway wrote all of it, as for an agent."""
    allowance: Allowance | None = None
    """What it takes of its owner's limits, if there are any."""
    unread_at: Mapping[str, Upstream] | None = None
    """The upstreams at the path on which they get it unread; None: it was read."""
    source: RequestSource = JOB_RUN


class ExchangeTrace(Observer, Protocol):
    """The spans of one exchange. It begins them when it is asked to, and ends them by observing."""

    def open_turn(self, route: Route) -> Headers:
        """Begin the span of a request to a route; return the headers that tell the upstream."""


class TrailKeeper(Protocol):
    """Keeps the trails of exchanges."""

    def keep(self, trail: Trail) -> None:
        """Keep a trail whose exchange has ended."""


class Tracer(Protocol):
    """Traces exchanges."""

    def open_exchange(self, request: Request) -> ExchangeTrace:
        """Begin the span of an exchange."""


def error_headers(error: HoldgateError) -> Headers:
    """Return the headers an error answer carries."""
    headers: Headers = ((b"content-type", b"application/json"),)
    if isinstance(error, UpstreamAnswered):
        return headers + towards_client(error.headers)
    if isinstance(error, MethodNotAllowed):
        return (*headers, (b"allow", error.allowed.encode()))
    if isinstance(error, LimitExceeded):
        headers += error.headers
    if error.retry_after is not None:
        return (*headers, (b"retry-after", b"%d" % max(1, ceil(error.retry_after))))
    return headers
