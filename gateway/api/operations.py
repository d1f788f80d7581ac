"""Liveness, readiness, metrics and status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from starlette.requests import Request as WebRequest
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from gateway.api.admission import Keys, incoming_of
from gateway.api.requests import answer_json
from gateway.api.route import ApiRoute, Reply, bind_all
from gateway.console.instances import InstanceLister, InstanceView
from gateway.exchange.runner import LiveExchanges
from gateway.metrics import CONTENT_TYPE, Metrics
from gateway.reminders.view import NtpView
from gateway.routing import Models
from gateway.version import __version__

CONSOLE = "/console/"
GREETING = """Holdgate {version}: a streaming LLM gateway that gives models time.

POST /v1/chat/completions   ask a model (GET /v1/models lists them)
POST /api/chat              talk to an agent (GET /api/agents lists them)
GET  /api/status            upstreams and what is going on
GET  /api/usage             tokens and costs
GET  /healthz /readyz       alive? ready?
GET  /metrics               for Prometheus
"""


class Liveness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process lives."""

    status: Literal["ok"]


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New requests are accepted, though the store may be in trouble."""

    status: Literal["ready", "degraded"]
    reason: Annotated[str, Meta(description="Why it is degraded.")] | UnsetType = UNSET


class NotReady(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New requests are not accepted."""

    status: Literal["draining", "unavailable"]
    reason: Annotated[str, Meta(description="What is wrong with the store.")] | UnsetType = UNSET


class UpstreamStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an upstream is."""

    id: str
    health: Literal["ok", "cooling"]
    cooling_seconds: float
    connections_busy: int


class ExchangeCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many exchanges are under way."""

    live: int
    by_state: dict[str, int]


class ClockStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the clock is."""

    enabled: bool
    timezone: str
    now_ms: int
    ntp: NtpView
    holds: Annotated[int, Meta(description="Answers that are held open.")]


class InstanceStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which process this is among those that share a store."""

    id: Annotated[str, Meta(description="As in `x-holdgate-instance` and in its log lines.")]
    worker: Annotated[int, Meta(description="Its number, with `server.workers`.")] = 0
    workers_metrics: Annotated[
        tuple[str, ...], Meta(description="Where each worker shows its own metrics, by number.")
    ] = ()
    skew_ms: Annotated[
        int, Meta(description="How far the host's clock is ahead of the database's, if over 1 s.")
    ] = 0


class GatewayStatus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gateway is."""

    version: str
    uptime_seconds: float
    draining: bool
    upstreams: list[UpstreamStatus]
    exchanges: ExchangeCounts
    models: list[str]
    agents: tuple[str, ...]
    clock: ClockStatus
    store: Annotated[str, Meta(description="What kind of store it has.")]
    instance: InstanceStatus | UnsetType = UNSET
    instances: (
        Annotated[list[InstanceView], Meta(description="All that share the store; for admins.")]
        | UnsetType
    ) = UNSET


@dataclass(frozen=True, slots=True)
class Operations:
    """What an operator looks at."""

    exchanges: LiveExchanges
    models: Models
    keys: Keys
    metrics: Metrics
    trouble: Callable[[], Awaitable[str]]
    """Says what is wrong with the stores, if anything is."""
    started_at: float
    wall: Callable[[], float]
    clock: Callable[[], ClockStatus]
    agents: tuple[str, ...] = ()
    needs_store: bool = False
    """Whether requests are refused as long as the store is in trouble."""
    instance: Callable[[], InstanceStatus | UnsetType] = lambda: UNSET
    store_kind: str = ""
    instances: InstanceLister | None = None
    """Lists the instances where several share the store."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def greet(self, request: WebRequest) -> Response:
        """Say what this is; a browser is led to the console."""
        if b"text/html" in incoming_of(request.scope).headers.get(b"accept", b""):
            return RedirectResponse(CONSOLE, 307, {"vary": "accept"})
        return PlainTextResponse(GREETING.format(version=__version__))

    async def show_liveness(self, request: WebRequest) -> Liveness:
        """Say that the process lives."""
        return Liveness("ok")

    async def show_readiness(self, request: WebRequest) -> Readiness | Response:
        """Say whether new requests are accepted."""
        if self.exchanges.draining:
            return answer_json(NotReady("draining"), 503, {"retry-after": "1"})
        reason = await self.trouble()
        if reason and self.needs_store:
            return answer_json(NotReady("unavailable", reason), 503, {"retry-after": "1"})
        # Else models answer without a store, so trouble with it turns nobody away.
        return Readiness("degraded", reason) if reason else Readiness("ready")

    async def show_metrics(self, request: WebRequest) -> Response:
        """Show the counters, for Prometheus; with keys, an admin's key is needed."""
        # They tell of all owners.
        self.keys.admin(incoming_of(request.scope))
        return Response(self.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def show_status(self, request: WebRequest) -> GatewayStatus:
        """Show version, upstreams with their health, and counts."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        lister = self.instances if owner.admin else None
        live = self.exchanges.live
        states = Counter[str](running.exchange.state for running in live)
        return GatewayStatus(
            version=__version__,
            uptime_seconds=round(self.wall() - self.started_at, 3),
            draining=self.exchanges.draining,
            upstreams=[self._show_upstream(name) for name in self.exchanges.services.upstreams],
            exchanges=ExchangeCounts(len(live), dict(states)),
            models=[model.name for model in self.models.listed],
            agents=self.agents,
            clock=self.clock(),
            store=self.store_kind,
            instance=self.instance(),
            instances=UNSET if lister is None else await lister.list_all(),
        )

    def _show_upstream(self, name: str) -> UpstreamStatus:
        services = self.exchanges.services
        cooling = services.health.cooling(name, services.now())
        busy = services.upstreams[name].busy
        return UpstreamStatus(name, "cooling" if cooling else "ok", round(cooling, 1), busy)


GREETING_SENT = (
    Reply("What this is.", text=True),
    Reply("To a browser: the console is at the address of `location`.", status=307),
)
GREET = ApiRoute("get", "/", "greet", Operations.greet, access="open", replies=GREETING_SENT)
ROUTES = (
    GREET,
    # Coding agents ask this first.
    replace(GREET, method="head", name="greetBriefly", summary="Say that the gateway is there."),
    ApiRoute("get", "/healthz", "health", Operations.show_liveness, access="open"),
    ApiRoute(
        "get",
        "/readyz",
        "ready",
        Operations.show_readiness,
        errors={503: "The gateway is starting or shutting down."},
        error="ReadinessError",
        access="open",
    ),
    ApiRoute(
        "get",
        "/metrics",
        "metrics",
        Operations.show_metrics,
        access="admin",
        replies=(Reply("The counters.", text=True),),
    ),
    ApiRoute("get", "/api/status", "status", Operations.show_status),
)
