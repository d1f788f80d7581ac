"""All routes as one OpenAPI document, and the route that shows it.

It says what this version can do and nothing of who runs it, so it needs no key. A test compares it
with the routes there are.
"""

from __future__ import annotations

from functools import cache

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.api.openapi import jobs, models, operations, sessions
from gateway.api.openapi.operation import JSON, Components, Json, write_common_errors
from gateway.version import __version__

PATH = "/openapi.json"
AREAS = (
    models.AREA,
    sessions.AGENTS,
    sessions.SESSIONS,
    sessions.REMINDERS,
    sessions.DELIVERIES,
    jobs.AREA,
    operations.AREA,
)
ABOUT = (
    "A streaming LLM gateway that gives models time. Each request may carry an `x-request-id`; "
    "each answer does. Without keys in the configuration none is needed."
)


class OpenApi:
    """The route that tells of all others."""

    def routes(self) -> list[BaseRoute]:
        """Return the route."""
        return [Route(PATH, self.show, methods=["GET"])]

    async def show(self, request: WebRequest) -> Response:
        """Show the document."""
        return Response(_encode_document(), media_type=JSON)


@cache
def _encode_document() -> bytes:
    return msgspec.json.encode(document())


def document() -> Json:
    """Return the document."""
    components = Components()
    paths: dict[str, dict[str, Json]] = {}
    for area in AREAS:
        for one in area.operations:
            paths.setdefault(one.path, {})[one.method] = one.write(area.name, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdgate", "version": __version__, "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": area.name, "description": area.description} for area in AREAS],
        "paths": paths,
        "components": {
            "responses": write_common_errors(components),
            "schemas": components.schemas,
            "headers": {
                "RequestId": {
                    "description": "The id of the request, the client's if it is sane.",
                    "required": True,
                    "schema": {"type": "string"},
                }
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }
