"""Routes of the API, each one row of a table: the router and the OpenAPI document are made from it.

A row names the handler. The handler's docstring is the summary, the type it returns is the answer,
and `Components` makes the schemas from the msgspec types. Only what the handler cannot tell stands
in the row: parameters, the body, errors beyond the common ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import getdoc
from types import UnionType
from typing import Any, Literal, get_args, get_type_hints

import msgspec
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.api.requests import JSON, answer_json
from gateway.errors import BadRequest, InvalidInput

Json = Mapping[str, object]
Access = Literal["open", "key", "admin"]
Errors = Mapping[int, str]
Shape = Any
"""A type, as msgspec describes it, or a tuple of types of which any is possible."""

EVENTS = "text/event-stream"
TEXT = "text/plain"
IDS = {
    "x-request-id": {"$ref": "#/components/headers/RequestId"},
    "x-holdgate-exchange": {"$ref": "#/components/headers/ExchangeId"},
}
RETRY_AFTER = {"retry-after": {"$ref": "#/components/headers/RetryAfter"}}
RETRIED = (429, 503)
# Without keys in the configuration none is needed, so that nothing is asked for as well.
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"key": []}, {"gatewayKey": []}, {}]

# What any request may meet, what one with a key may, and what one with a body may.
ANYWHERE: Errors = {
    400: "The request cannot be read or is not valid; the message says what is wrong.",
    403: "The Origin or the Host is not accepted, or an admin's key is needed.",
    503: "The gateway is shutting down, or its store cannot be reached.",
}
WITH_KEY: Errors = {401: "No key was sent, or the key is not known."}
WITH_BODY: Errors = {
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not JSON, or the content encoding is not known.",
}
COMMON: Errors = {**ANYWHERE, **WITH_KEY, **WITH_BODY}


class Anything(Convertor[str]):
    """A part of a path that may hold slashes and line ends as well: a session may have any name."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Take it as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Write it as it is."""
        return value


# The library knows convertors by their names alone, in a table of its own.
ANYTHING = "anything"
register_url_convertor(ANYTHING, Anything())


class Components:
    """The shapes that are described once for all, collected while routes are described."""

    def __init__(self, errors: Mapping[str, Shape]) -> None:
        self.errors = errors
        self.schemas: dict[str, Any] = {}

    def refer(self, shape: Shape) -> Json:
        """Return the schema of a shape; structs in it are only named there."""
        if isinstance(shape, tuple):
            return {"anyOf": [self.refer(one) for one in shape]}
        # Class names are unique in the gateway, so that what is found never differs.
        (schema,), found = msgspec.json.schema_components(
            (shape,), ref_template="#/components/schemas/{name}"
        )
        for name, component in found.items():
            self.schemas.setdefault(name, component)
        return schema

    def require(self, kind: type[msgspec.Struct], names: tuple[str, ...]) -> None:
        """Say of members that they have to be sent, though the reader gets on without them."""
        component = self.schemas[kind.__name__]
        component["required"] = list(names)
        for name in names:
            component["properties"][name].pop("default", None)

    def describe_common_errors(self) -> Mapping[str, Json]:
        """Describe the errors that can be met nearly everywhere, in each shape."""
        return {
            f"{name}{status}": Reply(says, shape, status=status).describe(self)
            for name, shape in self.errors.items()
            for status, says in COMMON.items()
        }


class Parameter(msgspec.Struct, frozen=True):
    """Something that is given beside the body."""

    name: str
    shape: Shape
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False

    def describe(self, components: Components) -> Json:
        """Describe it as OpenAPI does."""
        return {
            "name": self.name,
            "in": self.where,
            "required": self.required or self.where == "path",
            "description": self.description,
            # One that is empty is as good as absent.
            **({"allowEmptyValue": True} if self.where == "query" and not self.required else {}),
            "schema": components.refer(self.shape),
        }


class EventStream(msgspec.Struct, frozen=True):
    """A stream of server-sent events: their names, and the shape of their data, if both are set."""

    description: str
    names: tuple[str, ...] = ()
    data: Shape = None

    def describe(self, components: Components) -> Json:
        """Describe it as OpenAPI does."""
        names = {"enum": list(self.names)} if self.names else {}
        data = (
            {"contentMediaType": JSON, "contentSchema": components.refer(self.data)}
            if self.data
            else {}
        )
        return {
            "type": "object",
            "description": f"Each event of the stream. {self.description}",
            "properties": {
                "event": {"type": "string", **names},
                "data": {"type": "string", **data},
            },
            "required": ["event", "data"] if self.names else ["data"],
        }


class Reply(msgspec.Struct, frozen=True):
    """An answer; without a shape, events, text and types, it is nothing but the status."""

    description: str
    shape: Shape = None
    events: EventStream | None = None
    text: bool = False
    status: int = 200
    types: tuple[str, ...] = ()
    """What a file may be."""

    def describe(self, components: Components) -> Json:
        """Describe it as OpenAPI does."""
        contents = {
            **({JSON: {"schema": components.refer(self.shape)}} if self.shape else {}),
            **({EVENTS: {"schema": self.events.describe(components)}} if self.events else {}),
            **({TEXT: {"schema": {"type": "string"}}} if self.text else {}),
            **{kind: {"schema": {"type": "string"}} for kind in self.types},
        }
        content = {"content": contents} if contents else {}
        headers = IDS | (RETRY_AFTER if self.status in RETRIED else {})
        return {"description": self.description, "headers": headers, **content}


class ApiRoute(msgspec.Struct, frozen=True):
    """One thing that can be asked for, and the method of an area that answers it.

    A handler returns a struct, which is sent as JSON, or a whole response.
    """

    method: str
    path: str
    name: str
    """The operation's id, unique in the whole API."""
    handler: Callable[..., Awaitable[object]]
    parameters: tuple[Parameter, ...] = ()
    body: Shape = None
    required: tuple[str, ...] = ()
    """What the body must have, where its type does not say so."""
    errors: Errors = {}
    """What can go wrong here beside what can anywhere."""
    error: str = "Error"
    """The shape of errors."""
    access: Access = "key"
    status: int = 200
    envelope: Any = None
    """A generic struct in which the answer stands."""
    replies: tuple[Reply, ...] = ()
    """Answers that the type of the handler does not tell."""
    summary: str = ""
    """What it does, if the handler's docstring is not about this route alone."""

    def bind(self, area: object) -> Route:
        """Return the route on which this area answers."""

        async def respond(request: WebRequest) -> Response:
            try:
                found = await self.handler(area, request)
            except InvalidInput as invalid:
                raise BadRequest(str(invalid)) from None
            if isinstance(found, Response):
                return found
            return answer_json(self.envelope(found) if self.envelope else found, self.status)

        return Route(self.path, respond, methods=[self.method.upper()])

    @property
    def public_path(self) -> str:
        """The path without what only the router needs to know."""
        return self.path.replace(f":{ANYTHING}", "")

    def describe(self, tag: str, components: Components) -> Json:
        """Describe it as OpenAPI does."""
        document: dict[str, object] = {
            "operationId": self.name,
            "tags": [tag],
            "summary": self.summary or getdoc(self.handler),
        }
        if self.parameters:
            document["parameters"] = [one.describe(components) for one in self.parameters]
        if self.body is not None:
            content = {JSON: {"schema": components.refer(self.body)}}
            document["requestBody"] = {"required": True, "content": content}
        if self.required:
            components.require(self.body, self.required)
        document["responses"] = self._describe_responses(components)
        return {**document, "security": [] if self.access == "open" else SECURITY}

    def _describe_responses(self, components: Components) -> Mapping[str, Json]:
        possible = {
            **ANYWHERE,
            **(WITH_KEY if self.access != "open" else {}),
            **(WITH_BODY if self.body is not None else {}),
            **self.errors,
        }
        replies = (*self._find_returned(), *self.replies)
        responses = {str(one.status): one.describe(components) for one in replies}
        for status in sorted(possible):
            responses[str(status)] = (
                Reply(self.errors[status], components.errors[self.error]).describe(components)
                if status in self.errors
                else {"$ref": f"#/components/responses/{self.error}{status}"}
            )
        return responses

    def _find_returned(self) -> Iterable[Reply]:
        """Yield the answer that the handler's type tells of, described by that type's docstring."""
        returned = get_type_hints(self.handler)["return"]
        kinds = get_args(returned) if isinstance(returned, UnionType) else (returned,)
        kinds = tuple(kind for kind in kinds if kind not in (Response, type(None)))
        if kinds:
            says = " ".join(getdoc(kind) or "" for kind in kinds)
            shapes = tuple(self.envelope[kind] for kind in kinds) if self.envelope else kinds
            yield Reply(says, shapes if len(shapes) > 1 else shapes[0], status=self.status)


def bind_all(routes: Iterable[ApiRoute], area: object) -> list[BaseRoute]:
    """Return the routes on which this area answers."""
    return [route.bind(area) for route in routes]
