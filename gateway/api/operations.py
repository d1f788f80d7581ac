"""Liveness, readiness, metrics, status, and the list of models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.api.admission import incoming_of
from gateway.api.auth import Keys
from gateway.api.paths import MODEL
from gateway.errors import NotFound
from gateway.exchange.live import LiveExchanges
from gateway.metrics import CONTENT_TYPE, Metrics
from gateway.routing import Models, PublicModel
from gateway.version import __version__

GREETING = """Holdgate {version}: a streaming LLM gateway that gives models time.

POST /v1/chat/completions   ask a model (GET /v1/models lists them)
POST /api/chat              talk to an agent (GET /api/agents lists them)
GET  /api/status            upstreams and what is going on
GET  /healthz /readyz       alive? ready?
GET  /metrics               for Prometheus
"""


READY = {"status": "ready"}


def _is_anthropic(request: WebRequest) -> bool:
    """Whether the client speaks Messages: the SDKs say their version on every request."""
    return b"anthropic-version" in incoming_of(request.scope).headers


@dataclass(frozen=True, slots=True)
class Operations:
    """What an operator looks at."""

    driver: LiveExchanges
    models: Models
    keys: Keys
    metrics: Metrics
    draining: Callable[[], bool]
    trouble: Callable[[], Awaitable[str]]
    """Says what is wrong with the stores, if anything is."""
    started_at: float
    wall: Callable[[], float]
    clock: Callable[[], Mapping[str, Any]]
    agents: tuple[str, ...] = ()

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return [
            Route("/", self.greet, methods=["GET"]),
            Route("/healthz", self.health, methods=["GET"]),
            Route("/readyz", self.ready, methods=["GET"]),
            Route("/metrics", self.show_metrics, methods=["GET"]),
            Route("/api/status", self.status, methods=["GET"]),
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route(MODEL, self.one_model, methods=["GET"]),
        ]

    async def greet(self, request: WebRequest) -> Response:
        """Say what this is."""
        return PlainTextResponse(GREETING.format(version=__version__))

    async def health(self, request: WebRequest) -> Response:
        """Say that the process lives."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: WebRequest) -> Response:
        """Say whether new requests are welcome."""
        if self.draining():
            return JSONResponse({"status": "draining"}, 503, {"retry-after": "1"})
        # Models answer without a store, so trouble with it turns nobody away.
        reason = await self.trouble()
        return JSONResponse({"status": "degraded", "reason": reason} if reason else READY)

    async def show_metrics(self, request: WebRequest) -> Response:
        """Show the counters; they tell of all owners, so with keys they are an admin's."""
        self.keys.admin(incoming_of(request.scope).headers)
        return Response(self.metrics.render(), headers={"content-type": CONTENT_TYPE})

    async def status(self, request: WebRequest) -> Response:
        """Show version, upstreams with their health, and counts."""
        self.keys.owner(incoming_of(request.scope).headers)
        return JSONResponse(
            {
                "version": __version__,
                "uptime_seconds": round(self.wall() - self.started_at, 3),
                "draining": self.draining(),
                "upstreams": [self._upstream(name) for name in self.driver.services.upstreams],
                "exchanges": {"live": len(self.driver.live), "by_state": self._states()},
                "models": [model.name for model in self.models.listed],
                "agents": list(self.agents),
                "clock": self.clock(),
            }
        )

    def _upstream(self, name: str) -> Mapping[str, Any]:
        services = self.driver.services
        cooling = services.health.cooling(name, services.now())
        return {
            "id": name,
            "health": "cooling" if cooling else "ok",
            "cooling_seconds": round(cooling, 1),
            "connections_busy": services.upstreams[name].busy,
        }

    def _states(self) -> Mapping[str, int]:
        counts: dict[str, int] = {}
        for drive in self.driver.live:
            counts[drive.exchange.state] = counts.get(drive.exchange.state, 0) + 1
        return counts

    async def list_models(self, request: WebRequest) -> Response:
        """List the public names."""
        self.keys.owner(incoming_of(request.scope).headers)
        if _is_anthropic(request):
            found = [self._anthropic_model(model) for model in self.models.listed]
            ids = [model["id"] for model in found] or [None]
            ends = {"first_id": ids[0], "last_id": ids[-1]}
            return JSONResponse({"data": found, "has_more": False, **ends})
        data = [self._model(model) for model in self.models.listed]
        return JSONResponse({"object": "list", "data": data})

    async def one_model(self, request: WebRequest) -> Response:
        """Show one public name."""
        self.keys.owner(incoming_of(request.scope).headers)
        name = request.path_params["name"]
        if not name:
            raise NotFound("Name a model.")
        model = self.models.find(name)
        shown = self._anthropic_model(model) if _is_anthropic(request) else self._model(model)
        return JSONResponse(shown)

    def _anthropic_model(self, model: PublicModel) -> Mapping[str, Any]:
        created = datetime.fromtimestamp(int(self.started_at), UTC).isoformat()
        return {
            "type": "model",
            "id": model.name,
            "display_name": model.name,
            "created_at": created.replace("+00:00", "Z"),
        }

    def _model(self, model: PublicModel) -> Mapping[str, Any]:
        created = int(self.started_at)
        owner = model.routes[0].upstream
        return {"id": model.name, "object": "model", "created": created, "owned_by": owner}
