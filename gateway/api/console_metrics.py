"""The console's figures over HTTP: metrics over time, health, tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.api.admission import Keys, Owner, incoming_of
from gateway.api.requests import answer_json
from gateway.api.route import ApiRoute, Parameter, Reply, bind_all
from gateway.console.health import GatewayHealth, HealthReader
from gateway.console.metrics_history import MetricsHistory, MetricsReport, Window
from gateway.console.tools import ToolLister, ToolReport
from gateway.errors import BadRequest

HOUR: Window = "hour"
# What it shows is old at once.
NO_STORE = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class ConsoleMetricsArea:
    """The routes about how the gateway is and was; they tell of all owners, so they need an admin.

    Everybody may see which tools there are.
    """

    history: MetricsHistory
    health: HealthReader
    tools: ToolLister
    keys: Keys

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def show_metrics(self, request: WebRequest) -> Response:
        """Show what the gateway did over the last hour or day; an admin's key is needed."""
        self._find_admin(request)
        text = request.query_params.get("window", "") or HOUR
        window = next((one for one in get_args(Window) if one == text), None)
        if window is None:
            raise BadRequest("window must be hour or day.", param="window")
        return answer_json(self.history.report(window), headers=NO_STORE)

    async def show_health(self, request: WebRequest) -> Response:
        """Show how upstreams, store, clock and the process are; an admin's key is needed."""
        self._find_admin(request)
        return answer_json(await self.health.read(), headers=NO_STORE)

    async def list_tools(self, request: WebRequest) -> Response:
        """List the gateway's tools and the agents; how often they are called, for an admin."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        return answer_json(self.tools.list_tools(owner.name, owner.admin), headers=NO_STORE)

    def _find_admin(self, request: WebRequest) -> Owner:
        incoming = incoming_of(request.scope)
        owner = self.keys.admin(incoming)
        incoming.owner = owner.name
        return owner


ROUTES = (
    ApiRoute(
        "get",
        "/api/console/metrics",
        "consoleMetrics",
        ConsoleMetricsArea.show_metrics,
        (Parameter("window", Window, "The last hour, or the last day; without it, the hour."),),
        access="admin",
        replies=(Reply("What the gateway did over time.", MetricsReport),),
    ),
    ApiRoute(
        "get",
        "/api/console/health",
        "consoleHealth",
        ConsoleMetricsArea.show_health,
        access="admin",
        replies=(Reply("How the gateway is.", GatewayHealth),),
    ),
    ApiRoute(
        "get",
        "/api/console/tools",
        "consoleTools",
        ConsoleMetricsArea.list_tools,
        replies=(Reply("The tools of the gateway, and the agents.", ToolReport),),
    ),
)
