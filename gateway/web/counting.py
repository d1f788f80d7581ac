"""How many tokens a Messages request has: asked of an upstream that knows, else estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from gateway.dialects.base import Dialect
from gateway.driver import error_headers
from gateway.driver.values import Ways
from gateway.errors import BadRequest, Headers, HoldgateError, UpstreamError
from gateway.routing import Models
from gateway.upstream.base import Upstream
from gateway.upstream.headers import towards_upstream
from gateway.web.auth import Keys
from gateway.web.incoming import ClientLeft, incoming_of, read_body

PATH = "/v1/messages/count_tokens"
ANSWER_BYTES = 64 * 1024
BYTES_A_TOKEN = 4
# What a picture takes is not told by its bytes.
PICTURE_TOKENS = 1_500
_body = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Counting:
    """The route that counts tokens."""

    dialect: Dialect
    models: Models
    keys: Keys
    counters: Mapping[str, Upstream]
    """The upstreams that can count, by their ids."""
    ways: Ways
    body_bytes: int
    json_depth: int

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return [Route(PATH, self.count, methods=["POST"])]

    async def count(self, request: WebRequest) -> Response:
        """Count the tokens of a request."""
        note = incoming_of(request.scope)
        try:
            self.keys.owner(note.headers)
            try:
                body = await read_body(note.headers, request.receive, self.body_bytes)
            except ClientLeft:
                raise BadRequest("The body did not come whole.") from None
            return await self._counted(body, towards_upstream(note.listed))
        except HoldgateError as error:
            headers = {name.decode(): value.decode() for name, value in error_headers(error)}
            return Response(self.dialect.error_body(error), error.status, headers)

    async def _counted(self, body: bytes, headers: Headers) -> Response:
        asked = self.dialect.read(body, self.json_depth)
        for route in self.models.find(asked.model).routes:
            counter = self.counters.get(route.upstream)
            if counter is not None:
                own = self.dialect.own(asked.body)
                named = self.dialect.rewrite(own, route.model, asked.stream)
                told = self.ways.headers(route.upstream, self.dialect.name, headers)
                return await _asked(counter, named, told)
        return JSONResponse({"input_tokens": estimate(_body.decode(body))})


async def _asked(counter: Upstream, body: bytes, headers: Headers) -> Response:
    turn = await counter.open(body, headers)
    answer = b""
    try:
        async for data in turn:
            answer += data
            if len(answer) > ANSWER_BYTES:
                raise UpstreamError("The upstream's answer is too long for a number.")
    finally:
        await turn.aclose()
    return Response(answer, media_type="application/json")


def estimate(request: object) -> int:
    """Estimate tokens: four bytes of text are one, a picture is as many as a middling one has."""
    if isinstance(request, str):
        return -(-len(request.encode(errors="replace")) // BYTES_A_TOKEN)
    if isinstance(request, list):
        return sum(map(estimate, request))
    if not isinstance(request, dict):
        return 0 if request is None or isinstance(request, bool) else 1
    if request.get("type") in ("image", "base64"):
        return PICTURE_TOKENS
    return sum(estimate(value) + estimate(name) for name, value in request.items())
