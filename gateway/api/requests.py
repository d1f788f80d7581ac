"""What all areas of the HTTP API do in one way: find the owner, read a body, write an answer.

An area reads a body into a type and answers with one; OpenAPI is made from the same types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response

from gateway.api.admission import Keys, incoming_of
from gateway.dialects.raw_json import Fields, misfit, read_as
from gateway.errors import BadRequest, NotFound
from gateway.sessions.identity import check_session_id
from gateway.wire.http_server.request_body import BodyLimits, ClientLeft, read_body

T = TypeVar("T", bound=msgspec.Struct)

JSON = "application/json"
NULL = b"null"
BODY_INCOMPLETE = "The connection ended before the whole body had arrived."

_fields = msgspec.json.Decoder(Fields)


def find_owner(keys: Keys, request: WebRequest) -> str:
    """Return whose request it is, or raise `Unauthorized`."""
    incoming = incoming_of(request.scope)
    incoming.owner = keys.owner(incoming).name
    return incoming.owner


def find_session(keys: Keys, request: WebRequest, part: str = "") -> tuple[str, str]:
    """Return whose request it is, and about which session; `part` of one needs its name."""
    owner = find_owner(keys, request)
    name: str = request.path_params["id"]
    if part and not name:
        raise NotFound(f"The session is missing; write /api/sessions/{{id}}/{part}.")
    check_session_id(name)
    incoming_of(request.scope).session = name
    return owner, name


def read_positive(request: WebRequest, name: str, default: int) -> int:
    """Return a positive number of the query, or what holds without it."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise BadRequest(f"{name} must be a positive number.", param=name)
    return int(text[:9])


async def receive_small_body(request: WebRequest, limits: BodyLimits) -> bytes:
    """Receive a body that is small enough to be unpacked and read at once."""
    headers = incoming_of(request.scope).headers
    try:
        return await read_body(headers, request.receive, limits.size)
    except ClientLeft:
        raise BadRequest(BODY_INCOMPLETE) from None


def read_members(body: bytes, depth: int, kind: type[T], what: str) -> T:
    """Read a body whose members are all known; one that is null is as good as absent."""
    fields = read_as(_fields, body, depth)
    known = kind.__struct_encode_fields__
    if unknown := [name for name in fields if name not in known]:
        odd = ", ".join(f"`{name[:40]}`" for name in unknown[:5])
        names = ", ".join(f"`{name}`" for name in known)
        raise BadRequest(f"Unknown: {odd}; {what} has {names}.", param=unknown[0][:40])
    given = {name: value for name, value in fields.items() if bytes(value) != NULL}
    try:
        return msgspec.json.decode(msgspec.json.encode(given), type=kind)
    except msgspec.ValidationError as error:
        raise misfit(str(error)) from None


def answer_json(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)
