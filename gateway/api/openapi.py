"""All routes as one OpenAPI document, and the route that shows it.

It says what this version can do and nothing of who runs it, so it needs no key. A test compares it
with the routes there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.api import (
    chat,
    console_exchanges,
    console_feed,
    console_files,
    console_metrics,
    console_sign_in,
    count_tokens,
    delivery,
    jobs,
    models,
    operations,
    pass_through,
    reminders,
    session_deliveries,
    sessions,
    usage,
)
from gateway.api.job_answers import JobError
from gateway.api.operations import NotReady
from gateway.api.requests import JSON
from gateway.api.route import ApiRoute, Components, Json, Reply, bind_all
from gateway.version import __version__

ABOUT = (
    "A streaming LLM gateway that gives models time. Each request may carry an `x-request-id`; "
    "each answer does. Without keys in the configuration none is needed."
)


class ErrorDetail(msgspec.Struct):
    """What went wrong. What an upstream says of an error is passed on, and may be more or less."""

    message: Annotated[str, Meta(description="One sentence for the person who reads it.")]
    type: str | UnsetType | None = UNSET
    param: Annotated[str | None, Meta(description="Which member is meant.")] | UnsetType = UNSET
    code: str | float | UnsetType | None = UNSET
    busy_reason: (
        Annotated[Literal["chat", "job"], Meta(description="What keeps a session busy.")]
        | UnsetType
    ) = UNSET


class Error(msgspec.Struct):
    """An error, as OpenAI writes them."""

    error: ErrorDetail


class MessagesErrorDetail(msgspec.Struct):
    """What went wrong."""

    type: str
    message: str


class MessagesError(msgspec.Struct):
    """An error, as Anthropic writes them."""

    type: Literal["error"]
    error: MessagesErrorDetail


# Admission refuses in one shape, whatever the path.
ERRORS: Mapping[str, Any] = {
    "Error": Error,
    "MessagesError": MessagesError,
    "JobError": (JobError, Error),
    "ReadinessError": (NotReady, Error),
}


class OpenApi:
    """The route that describes all others."""

    def routes(self) -> list[BaseRoute]:
        """Return the route."""
        return bind_all((DOCUMENT,), self)

    async def show(self, request: WebRequest) -> Response:
        """Show this document."""
        return Response(_encode_document(), media_type=JSON)


@cache
def _encode_document() -> bytes:
    return msgspec.json.encode(document())


DOCUMENT = ApiRoute(
    "get",
    "/openapi.json",
    "openapi",
    OpenApi.show,
    access="open",
    replies=(Reply("The document.", dict[str, Any]),),
)


class Area(NamedTuple):
    """Routes that belong together."""

    name: str
    description: str
    routes: tuple[ApiRoute, ...]


AREAS = (
    Area(
        "models",
        "Models, in the dialects of OpenAI and Anthropic. Members that are not described here are "
        "those of the dialect, and are passed on.",
        (*models.RELAYS, *count_tokens.ROUTES, *pass_through.ROUTES, *models.ROUTES),
    ),
    Area("agents", "Agents, whose conversations are kept in the gateway.", chat.ROUTES),
    Area(
        "sessions",
        "What is stored for sessions. Each owner sees only their own.",
        sessions.ROUTES,
    ),
    Area(
        "reminders",
        "The clock, and reminders set by hand. A session that was never used has none.",
        reminders.ROUTES,
    ),
    Area(
        "deliveries",
        "What reaches a client between its requests. A session that was never used has none.",
        (*delivery.ROUTES, *session_deliveries.ROUTES),
    ),
    Area("jobs", "Messages that are sent on a schedule.", jobs.ROUTES),
    Area("usage", "Tokens and costs, by hour, owner, model and upstream.", usage.ROUTES),
    Area(
        "console",
        "The console: its page and files, who is signed in to it, and what it shows: exchanges, "
        "live and lately ended, metrics, and a feed of changes. Times are UTC milliseconds. An "
        "owner sees only their own, an admin sees all. Where a key is accepted, so is the cookie "
        "of a sign-in, from the gateway's own pages.",
        (
            *console_sign_in.ROUTES,
            *console_exchanges.ROUTES,
            *console_feed.ROUTES,
            *console_metrics.ROUTES,
            *console_files.ROUTES,
        ),
    ),
    Area("operations", "The state of the gateway.", (*operations.ROUTES, DOCUMENT)),
)


def document() -> Json:
    """Return the document."""
    components = Components(ERRORS)
    paths: dict[str, dict[str, Json]] = {}
    for area in AREAS:
        for one in area.routes:
            methods = paths.setdefault(one.public_path, {})
            methods[one.method] = one.describe(area.name, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdgate", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": area.name, "description": area.description} for area in AREAS],
        "paths": paths,
        "components": {
            "responses": components.describe_common_errors(),
            "schemas": components.schemas,
            "headers": {
                "RequestId": {
                    "description": "The id of the request: the client's if it is valid, else ours.",
                    "required": True,
                    "schema": {"type": "string"},
                },
                "ExchangeId": {
                    "description": "The gateway's own id of the request; log lines have it.",
                    "required": True,
                    "schema": {"type": "string"},
                },
                "RetryAfter": {
                    "description": "In how many seconds to try again.",
                    "schema": {"type": "string"},
                },
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "gatewayKey": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-holdgate-key",
                    "description": "For clients whose other headers carry their own key for an "
                    "upstream.",
                },
            },
        },
    }
