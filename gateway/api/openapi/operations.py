"""What an operator looks at, described."""

from __future__ import annotations

from typing import Any

from gateway.api.openapi.operation import Area, Operation, Reply
from gateway.api.operations import GatewayStatus, Liveness, Readiness

GREETING = Reply("What this is.", text=True)

AREA = Area(
    "operations",
    "How the gateway is.",
    (
        Operation("get", "/", "greet", "Say what this is.", (GREETING,), access="open"),
        Operation(
            "head",
            "/",
            "greetBriefly",
            "Say that somebody is there, as coding agents ask first.",
            (GREETING,),
            access="open",
        ),
        Operation(
            "get",
            "/healthz",
            "health",
            "Say that the process lives.",
            (Reply("It does.", Liveness),),
            access="open",
        ),
        Operation(
            "get",
            "/readyz",
            "ready",
            "Say whether new requests are welcome.",
            (Reply("They are, though the store may be in trouble.", Readiness),),
            errors={503: "They are not: starting, or shutting down."},
            error="ReadinessError",
            access="open",
        ),
        Operation(
            "get",
            "/metrics",
            "metrics",
            "Show the counters, for Prometheus.",
            (Reply("The counters.", text=True),),
            access="admin",
        ),
        Operation(
            "get",
            "/api/status",
            "status",
            "Show version, upstreams with their health, and what is going on.",
            (Reply("How it is.", GatewayStatus),),
        ),
        Operation(
            "get",
            "/openapi.json",
            "openapi",
            "Show this document.",
            (Reply("It.", dict[str, Any]),),
            access="open",
        ),
    ),
)
