"""How routes are described, and how OpenAPI writes that.

What is sent and answered is named by its msgspec type: `Components` makes the schemas from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from gateway.api.openapi.errors import ERRORS

Json = Mapping[str, object]
Access = Literal["open", "key", "admin"]
Errors = Mapping[int, str]
Shape = Any
"""A type, as msgspec describes it, or a tuple of types of which any is possible."""

JSON = "application/json"
EVENTS = "text/event-stream"
TEXT = "text/plain"
REQUEST_ID = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
# Without keys in the configuration none is needed, so that nothing is asked for as well.
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"key": []}, {}]

# What any request may meet, what one with a key may, and what one with a body may.
ANYWHERE: Errors = {
    400: "The request cannot be read, or means nothing; the sentence names what is wrong.",
    403: "A foreign Origin, an unknown Host, or an admin's key is needed.",
    503: "Shutting down, or what is kept cannot be reached.",
}
WITH_KEY: Errors = {401: "No key, or one that is not known."}
WITH_BODY: Errors = {
    408: "The body did not come whole in time.",
    413: "The body is too large.",
    415: "The body is not said to be JSON, or has an encoding that is not known.",
}
COMMON: Errors = {**ANYWHERE, **WITH_KEY, **WITH_BODY}


class Components:
    """The shapes that are described once for all, collected while operations are written."""

    def __init__(self) -> None:
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


class Parameter(msgspec.Struct, frozen=True):
    """Something that is given beside the body."""

    name: str
    shape: Shape
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False

    def write(self, components: Components) -> Json:
        """Write it as OpenAPI has it."""
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

    def write(self, components: Components) -> Json:
        """Write it as OpenAPI has it."""
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
    """An answer; without a shape, events and text, it is nothing but the status."""

    description: str
    shape: Shape = None
    events: EventStream | None = None
    text: bool = False
    status: int = 200

    def write(self, components: Components) -> Json:
        """Write it as OpenAPI has it."""
        contents = {
            **({JSON: {"schema": components.refer(self.shape)}} if self.shape else {}),
            **({EVENTS: {"schema": self.events.write(components)}} if self.events else {}),
            **({TEXT: {"schema": {"type": "string"}}} if self.text else {}),
        }
        content = {"content": contents} if contents else {}
        return {"description": self.description, "headers": REQUEST_ID, **content}


class Operation(msgspec.Struct, frozen=True):
    """One thing that can be asked for."""

    method: str
    path: str
    name: str
    summary: str
    replies: tuple[Reply, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Shape = None
    required: tuple[str, ...] = ()
    """What the body must have, where its type does not say so."""
    errors: Errors = {}
    """What can go wrong here beside what can anywhere."""
    error: str = "Error"
    """The shape of errors."""
    access: Access = "key"

    def write(self, tag: str, components: Components) -> Json:
        """Write it as OpenAPI has it."""
        document: dict[str, object] = {
            "operationId": self.name,
            "tags": [tag],
            "summary": self.summary,
        }
        if self.parameters:
            document["parameters"] = [one.write(components) for one in self.parameters]
        if self.body is not None:
            content = {JSON: {"schema": components.refer(self.body)}}
            document["requestBody"] = {"required": True, "content": content}
        if self.required:
            components.require(self.body, self.required)
        document["responses"] = self._write_responses(components)
        return {**document, "security": [] if self.access == "open" else SECURITY}

    def _write_responses(self, components: Components) -> Mapping[str, Json]:
        possible = {
            **ANYWHERE,
            **(WITH_KEY if self.access != "open" else {}),
            **(WITH_BODY if self.body is not None else {}),
            **self.errors,
        }
        responses = {str(one.status): one.write(components) for one in self.replies}
        for status in sorted(possible):
            responses[str(status)] = (
                Reply(self.errors[status], ERRORS[self.error]).write(components)
                if status in self.errors
                else {"$ref": f"#/components/responses/{self.error}{status}"}
            )
        return responses


class Area(msgspec.Struct, frozen=True):
    """Operations that belong together."""

    name: str
    description: str
    operations: tuple[Operation, ...]


def write_common_errors(components: Components) -> Mapping[str, Json]:
    """Describe the errors that can be met nearly everywhere, in each shape."""
    return {
        f"{name}{status}": Reply(says, shape).write(components)
        for name, shape in ERRORS.items()
        for status, says in COMMON.items()
    }
