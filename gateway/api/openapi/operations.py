"""What an operator looks at, described."""

from __future__ import annotations

from gateway.api.openapi.text import (
    TEXT,
    Answer,
    Area,
    Json,
    Operation,
    in_json,
    items,
    number,
    ref,
    text,
    thing,
    truth,
)

GREETING = Answer("What this is.", {TEXT: {"schema": {"type": "string"}}})
UPSTREAM: Json = thing(
    {
        "id": text(),
        "health": text(enum=["ok", "cooling"]),
        "cooling_seconds": {"type": "number"},
        "connections_busy": number(),
    }
)
CLOCK: Json = thing(
    {
        "enabled": truth(),
        "timezone": text(),
        "nowMs": number(),
        "ntp": ref("Ntp"),
        "holds": number("Answers that are held open."),
    }
)
STATUS: Json = thing(
    {
        "version": text(),
        "uptime_seconds": {"type": "number"},
        "draining": truth(),
        "upstreams": items(UPSTREAM),
        "exchanges": thing(
            {
                "live": number(),
                "by_state": {"type": "object", "additionalProperties": {"type": "integer"}},
            }
        ),
        "models": items(text()),
        "agents": items(text()),
        "clock": CLOCK,
    }
)

READINESS: Json = thing(
    {
        "status": text(enum=["ready", "degraded"]),
        "reason": text("Why it is degraded."),
    },
    optional=("reason",),
)

AREA = Area(
    "operations",
    "How the gateway is.",
    (
        Operation(
            method="get",
            path="/",
            name="greet",
            summary="Say what this is.",
            answers=(GREETING,),
            access="open",
        ),
        Operation(
            method="head",
            path="/",
            name="greetBriefly",
            summary="Say that somebody is there, as coding agents ask first.",
            answers=(GREETING,),
            access="open",
        ),
        Operation(
            method="get",
            path="/healthz",
            name="health",
            summary="Say that the process lives.",
            answers=(Answer("It does.", in_json(thing({"status": {"const": "ok"}}))),),
            access="open",
        ),
        Operation(
            method="get",
            path="/readyz",
            name="ready",
            summary="Say whether new requests are welcome.",
            answers=(Answer("They are, though the store may be in trouble.", in_json(READINESS)),),
            errors={503: "They are not: starting, or shutting down."},
            error="ReadinessError",
            access="open",
        ),
        Operation(
            method="get",
            path="/metrics",
            name="metrics",
            summary="Show the counters, for Prometheus.",
            answers=(Answer("The counters.", {TEXT: {"schema": {"type": "string"}}}),),
            access="admin",
        ),
        Operation(
            method="get",
            path="/api/status",
            name="status",
            summary="Show version, upstreams with their health, and what is going on.",
            answers=(Answer("How it is.", in_json(STATUS)),),
        ),
        Operation(
            method="get",
            path="/openapi.json",
            name="openapi",
            summary="Show this document.",
            answers=(Answer("It.", in_json({"type": "object"})),),
            access="open",
        ),
    ),
)
