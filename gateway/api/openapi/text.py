"""The words in which routes are described, and how OpenAPI writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Json = Mapping[str, object]
Access = Literal["open", "key", "admin"]
Errors = Mapping[int, str]

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


class Parameter(msgspec.Struct, frozen=True):
    """Something that is given beside the body."""

    name: str
    schema: Json
    description: str
    where: Literal["path", "query", "header"] = "query"
    required: bool = False

    def written(self) -> Json:
        """Write it as OpenAPI has it."""
        return {
            "name": self.name,
            "in": self.where,
            "required": self.required or self.where == "path",
            "description": self.description,
            # One that is empty is as good as absent.
            **({"allowEmptyValue": True} if self.where == "query" and not self.required else {}),
            "schema": self.schema,
        }


class Answer(msgspec.Struct, frozen=True):
    """What comes back when all went well; without contents, nothing but the status does."""

    description: str
    contents: Json = {}
    status: int = 200

    def written(self) -> Json:
        """Write it as OpenAPI has it."""
        content = {"content": self.contents} if self.contents else {}
        return {"description": self.description, "headers": REQUEST_ID, **content}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked for."""

    method: str
    path: str
    name: str
    summary: str
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Json | None = None
    errors: Errors = {}
    """What can go wrong here beside what can anywhere."""
    error: str = "Error"
    """The shape of errors."""
    access: Access = "key"

    def written(self, tag: str) -> Json:
        """Write it as OpenAPI has it."""
        wanted = {"required": True, "content": {JSON: {"schema": self.body}}}
        return {
            "operationId": self.name,
            "tags": [tag],
            "summary": self.summary,
            **({"parameters": [p.written() for p in self.parameters]} if self.parameters else {}),
            **({"requestBody": wanted} if self.body is not None else {}),
            "responses": self._responses(),
            "security": [] if self.access == "open" else SECURITY,
        }

    def _responses(self) -> dict[str, Json]:
        common = {
            **ANYWHERE,
            **(WITH_KEY if self.access != "open" else {}),
            **(WITH_BODY if self.body is not None else {}),
        }
        told = {str(answer.status): answer.written() for answer in self.answers}
        for status in sorted({**common, **self.errors}):
            says = self.errors.get(status)
            told[str(status)] = (
                error_ref(self.error, status) if says is None else error(self.error, says)
            )
        return told


class Area(msgspec.Struct, frozen=True):
    """Operations that belong together."""

    name: str
    description: str
    operations: tuple[Operation, ...]


def in_json(schema: Json) -> Json:
    """Say that an answer is JSON of this shape."""
    return {JSON: {"schema": schema}}


def in_events(description: str, names: tuple[str, ...] = (), data: Json | None = None) -> Json:
    """Say that an answer is a stream of events, each of this shape."""
    said = {"contentMediaType": JSON, "contentSchema": data} if data is not None else {}
    return {
        EVENTS: {
            "schema": {
                "type": "object",
                "description": f"Each event of the stream. {description}",
                "properties": {
                    "event": {"type": "string", **({"enum": list(names)} if names else {})},
                    "data": {"type": "string", **said},
                },
                "required": ["event", "data"] if names else ["data"],
            }
        }
    }


def ref(name: str) -> Json:
    """Name a shape that is described once for all."""
    return {"$ref": f"#/components/schemas/{name}"}


def error(shape: str, description: str) -> Json:
    """Describe an answer that is an error of this shape."""
    return Answer(description, in_json(ref(shape))).written()


def error_ref(shape: str, status: int) -> Json:
    """Name an error that is described once for all."""
    return {"$ref": f"#/components/responses/{shape}{status}"}


def common_errors(shape: str) -> dict[str, Json]:
    """Describe the errors of a shape that can be met nearly everywhere."""
    return {f"{shape}{status}": error(shape, says) for status, says in COMMON.items()}


def text(description: str = "", **more: object) -> Json:
    """Describe a text."""
    return {"type": "string", **_described(description), **more}


def number(description: str = "", **more: object) -> Json:
    """Describe a whole number."""
    return {"type": "integer", **_described(description), **more}


def truth(description: str = "") -> Json:
    """Describe what is so or not."""
    return {"type": "boolean", **_described(description)}


def moment(description: str = "") -> Json:
    """Describe an instant."""
    return text(description, format="date-time")


def items(schema: Json, description: str = "") -> Json:
    """Describe a list."""
    return {"type": "array", "items": schema, **_described(description)}


def or_null(schema: Json) -> Json:
    """Say that there may be nothing instead."""
    kind = schema.get("type")
    if kind is None:
        return {"anyOf": [schema, {"type": "null"}]}
    told = {**schema, "type": [*(kind if isinstance(kind, list) else [kind]), "null"]}
    known = schema.get("enum")
    return {**told, "enum": [*known, None]} if isinstance(known, list) else told


def thing(members: Mapping[str, Json], *, optional: tuple[str, ...] = ()) -> Json:
    """Describe an object that has these members and no others."""
    return {
        "type": "object",
        "properties": members,
        "required": [name for name in members if name not in optional],
        "additionalProperties": False,
    }


def wish(members: Mapping[str, Json], *required: str) -> Json:
    """Describe an object that is sent: null is as good as absent, what is unknown is refused."""
    return {
        "type": "object",
        "properties": {
            name: schema if name in required else or_null(schema)
            for name, schema in members.items()
        },
        "required": list(required),
        "additionalProperties": False,
    }


def _described(description: str) -> Json:
    return {"description": description} if description else {}
