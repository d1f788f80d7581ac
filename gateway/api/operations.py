"""Liveness, readiness, metrics, status, and the list of models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.api.admission import incoming_of
from gateway.api.auth import Keys
from gateway.api.paths import MODEL
from gateway.api.requests import answer_json, find_owner
from gateway.errors import NotFound
from gateway.exchange.runner import LiveExchanges
from gateway.metrics import CONTENT_TYPE, Metrics
from gateway.reminders.view import NtpView
from gateway.routing import Models, PublicModel
from gateway.timestamps import iso_second
from gateway.version import __version__

GREETING = """Holdgate {version}: a streaming LLM gateway that gives models time.

POST /v1/chat/completions   ask a model (GET /v1/models lists them)
POST /api/chat              talk to an agent (GET /api/agents lists them)
GET  /api/status            upstreams and what is going on
GET  /healthz /readyz       alive? ready?
GET  /metrics               for Prometheus
"""


class Liveness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process lives."""

    status: Literal["ok"]


class Readiness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New requests are welcome."""

    status: Literal["ready", "degraded"]
    reason: Annotated[str, Meta(description="Why it is degraded.")] | UnsetType = UNSET


class NotReady(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New requests are not welcome."""

    status: Literal["draining"]


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


class OpenAiModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, in OpenAI's shape."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAiModelList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models, in OpenAI's shape."""

    object: Literal["list"]
    data: list[OpenAiModel]


class AnthropicModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, in Anthropic's shape."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str


class AnthropicModelList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models, in Anthropic's shape."""

    data: list[AnthropicModel]
    has_more: Literal[False]
    first_id: str | None
    last_id: str | None


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

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return [
            Route("/", self.greet, methods=["GET"]),
            Route("/healthz", self.show_liveness, methods=["GET"]),
            Route("/readyz", self.show_readiness, methods=["GET"]),
            Route("/metrics", self.show_metrics, methods=["GET"]),
            Route("/api/status", self.show_status, methods=["GET"]),
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route(MODEL, self.show_model, methods=["GET"]),
        ]

    async def greet(self, request: WebRequest) -> Response:
        """Say what this is."""
        return PlainTextResponse(GREETING.format(version=__version__))

    async def show_liveness(self, request: WebRequest) -> Response:
        """Say that the process lives."""
        return answer_json(Liveness("ok"))

    async def show_readiness(self, request: WebRequest) -> Response:
        """Say whether new requests are welcome."""
        if self.exchanges.draining:
            return answer_json(NotReady("draining"), 503, {"retry-after": "1"})
        # Models answer without a store, so trouble with it turns nobody away.
        reason = await self.trouble()
        return answer_json(Readiness("degraded", reason) if reason else Readiness("ready"))

    async def show_metrics(self, request: WebRequest) -> Response:
        """Show the counters; they tell of all owners, so with keys they are an admin's."""
        self.keys.admin(incoming_of(request.scope).headers)
        return Response(self.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def show_status(self, request: WebRequest) -> Response:
        """Show version, upstreams with their health, and counts."""
        find_owner(self.keys, request)
        live = self.exchanges.live
        states = Counter[str](running.exchange.state for running in live)
        status = GatewayStatus(
            version=__version__,
            uptime_seconds=round(self.wall() - self.started_at, 3),
            draining=self.exchanges.draining,
            upstreams=[self._show_upstream(name) for name in self.exchanges.services.upstreams],
            exchanges=ExchangeCounts(len(live), dict(states)),
            models=[model.name for model in self.models.listed],
            agents=self.agents,
            clock=self.clock(),
        )
        return answer_json(status)

    def _show_upstream(self, name: str) -> UpstreamStatus:
        services = self.exchanges.services
        cooling = services.health.cooling(name, services.now())
        busy = services.upstreams[name].busy
        return UpstreamStatus(name, "cooling" if cooling else "ok", round(cooling, 1), busy)

    async def list_models(self, request: WebRequest) -> Response:
        """List the public names."""
        find_owner(self.keys, request)
        listed = self.models.listed
        if not _is_anthropic(request):
            return answer_json(OpenAiModelList("list", [self._as_openai(one) for one in listed]))
        found = [self._as_anthropic(one) for one in listed]
        first, last = (found[0].id, found[-1].id) if found else (None, None)
        return answer_json(AnthropicModelList(found, False, first, last))

    async def show_model(self, request: WebRequest) -> Response:
        """Show one public name."""
        find_owner(self.keys, request)
        name = request.path_params["name"]
        if not name:
            raise NotFound("Name a model.")
        model = self.models.find(name)
        show = self._as_anthropic if _is_anthropic(request) else self._as_openai
        return answer_json(show(model))

    def _as_anthropic(self, model: PublicModel) -> AnthropicModel:
        created = f"{iso_second(int(self.started_at))}Z"
        return AnthropicModel("model", model.name, model.name, created)

    def _as_openai(self, model: PublicModel) -> OpenAiModel:
        return OpenAiModel(model.name, "model", int(self.started_at), model.routes[0].upstream)


def _is_anthropic(request: WebRequest) -> bool:
    """Whether the client speaks Messages: the SDKs say their version on every request."""
    return b"anthropic-version" in incoming_of(request.scope).headers
