"""How many tokens a Messages request has: asked of an upstream that knows, else estimated.

What is counted is what would be sent: the clock and other tools of the gateway, and the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.api.admission import IncomingRequest, incoming_of
from gateway.api.models import UPSTREAM_ERRORS, TokenCountBody
from gateway.api.relay import RelayServices
from gateway.api.requests import BODY_INCOMPLETE
from gateway.api.route import ApiRoute, bind_all
from gateway.dialects.protocol import Dialect
from gateway.errors import BadRequest, UpstreamError
from gateway.exchange.prepare import ExchangeInput, ModelRequestReader
from gateway.wire.http_client.failures import describe_failure
from gateway.wire.http_client.headers import query_towards_upstream, towards_upstream
from gateway.wire.http_client.upstream import Turn, Upstream
from gateway.wire.http_server.request_body import BodyUnpacker, ClientLeft, receive_body

ANSWER_BYTES = 64 * 1024
BYTES_A_TOKEN = 4
# What a picture takes is not told by its bytes.
PICTURE_TOKENS = 1_500
_body = msgspec.json.Decoder(dict[str, Any])


class TokenCount(msgspec.Struct):
    """How many tokens a request has, counted or estimated."""

    input_tokens: int


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """The route that counts tokens."""

    dialect: Dialect
    services: RelayServices
    reader: ModelRequestReader
    counters: Mapping[str, Upstream]
    """The upstreams that can count, by their ids."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def count(self, request: WebRequest) -> TokenCount | Response:
        """Count the tokens of a Messages request, or estimate them."""
        incoming = incoming_of(request.scope)
        owner = incoming.owner = self.services.keys.owner(incoming).name
        most, offload = self.services.limits.size, self.services.exchanges.services.offload
        try:
            body = await receive_body(incoming.headers, request.receive, most)
        except ClientLeft:
            raise BadRequest(BODY_INCOMPLETE) from None
        body = await BodyUnpacker(most, offload).unpack(incoming.headers, body, owner)
        return await self._count(incoming, owner, body)

    async def _count(
        self, incoming: IncomingRequest, owner: str, body: bytes
    ) -> TokenCount | Response:
        read = await self.reader.read(body, False, incoming.listed, owner)
        asked, who, preparer = read.asked, read.who, self.services.preparer
        offer = self.services.offer
        given = ExchangeInput(
            id=incoming.request_id,
            exchange_id=incoming.exchange_id,
            owner=owner,
            session=who.session,
            asked=asked,
            dialect=self.dialect,
            main=who.main,
            tools=() if offer is None else offer.for_client(owner, who.main or who.session),
            takes_over=False,
            adds=incoming.headers.get(b"x-holdgate-clock") != b"off",
            # What is due is not claimed by a count.
            collects=False,
        )
        incoming.session, incoming.model = who.session, asked.model
        model = preparer.models.of(owner).find(asked.model)
        view = await preparer.preview(given)
        client_key = self.services.keys.client_key(incoming.headers)
        counters = self._choose_counters(bool(client_key))
        to = next((r for r in model.routes if r.upstream in counters), model.routes[0])
        run = partial(preparer.exchange_services.offload.run, owner, len(body))
        tools = preparer.give_tools(given, view, model, to)
        additions = (tools.begin_now() or ()) if tools is not None else ()
        sent = view.asked.body
        if additions:
            sent = await run(partial(self.dialect.add, sent, additions))
        counter = counters.get(to.upstream)
        if counter is None:
            return TokenCount(await run(partial(estimate_body, sent)))
        own = await run(partial(self.dialect.strip_foreign_reasoning, sent))
        named = await run(partial(self.dialect.rewrite, own, to.model, asked.stream))
        return await self._ask_within_limits(counter, named, to.model, incoming)

    def _choose_counters(self, has_client_key: bool) -> Mapping[str, Upstream]:
        """Return who can be asked: some only with the client's own key."""
        client_keyed = self.services.preparer.client_keyed
        if has_client_key or not client_keyed:
            return self.counters
        return {name: one for name, one in self.counters.items() if name not in client_keyed}

    async def _ask_within_limits(
        self, counter: Upstream, body: bytes, model: str, incoming: IncomingRequest
    ) -> Response:
        """Ask an upstream if the owner may ask one now, or raise `LimitExceeded`."""
        limits = self.services.preparer.limits
        allowance = limits.open(incoming.owner, self.dialect.name) if limits else None
        if allowance is None:
            return await self._ask(counter, body, model, incoming)
        allowance.take_turn(1)
        try:
            answer = await self._ask(counter, body, model, incoming)
        finally:
            allowance.end()
        for name, value in allowance.headers():
            answer.headers[name.decode()] = value.decode()
        return answer

    async def _ask(
        self, counter: Upstream, body: bytes, model: str, incoming: IncomingRequest
    ) -> Response:
        dialect, endpoint = self.dialect.name, counter.endpoint
        client_key = self.services.keys.client_key(incoming.headers)
        headers = self.services.preparer.exchange_services.translators.select_headers(
            endpoint.id, dialect, towards_upstream(incoming.listed)
        )
        if endpoint.takes_client_key:
            headers += client_key
        try:
            query = query_towards_upstream(dialect, incoming.query)
            turn = await counter.open(body, headers, query, model)
        except UpstreamError as error:
            raise describe_failure(error, endpoint, client_key) from None
        return await _read_answer(turn)


async def _read_answer(turn: Turn) -> Response:
    answer = b""
    try:
        async for data in turn:
            answer += data
            if len(answer) > ANSWER_BYTES:
                raise UpstreamError("The upstream's answer is too long for a token count.")
    finally:
        await turn.aclose()
    return Response(answer, media_type="application/json")


def estimate_body(body: bytes) -> int:
    """Estimate the tokens of a request."""
    return estimate(_body.decode(body))


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


ROUTES = (
    ApiRoute(
        "post",
        "/v1/messages/count_tokens",
        "countTokens",
        TokenCounter.count,
        body=TokenCountBody,
        errors=UPSTREAM_ERRORS,
        error="MessagesError",
    ),
)
