"""Requests that are passed through unread, to upstreams that have their path.

Of the body only the name of the model is found, which chooses the routes as for any other request.
There is no session, no directive and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from gateway.api.admission import IncomingRequest
from gateway.api.models import UPSTREAM_ERRORS, ModelName
from gateway.api.relay import BaseModelEndpoint, RelayServices
from gateway.api.route import ApiRoute, EventStream, Reply
from gateway.dialects import DIALECTS
from gateway.dialects.unread import read_large_unread, read_unread
from gateway.errors import Headers
from gateway.exchange.model import ModelRequest, RequestSource
from gateway.exchange.ports import Request
from gateway.exchange.prepare import ExchangeInput
from gateway.wire.http_client.headers import read_trace_context
from gateway.wire.http_client.upstream import Upstream
from gateway.wire.http_server.response import ClientResponse


class PassThroughBody(msgspec.Struct):
    """A request of which only the model is read; all other members are passed on."""

    model: ModelName | UnsetType | None = UNSET


class PassThrough(BaseModelEndpoint):
    """Passes the requests of one path through; its own errors have OpenAI's form."""

    def __init__(
        self, path: str, upstreams: Mapping[str, Upstream], services: RelayServices
    ) -> None:
        super().__init__(DIALECTS["openai-chat"], services)
        # As in the line of its exchanges: which of the paths it was.
        self._path = self._log_name = path
        self._upstreams = upstreams
        self._depth = services.limits.depth

    async def _read(
        self,
        incoming: IncomingRequest,
        owner: str,
        body: bytes,
        forwarded: Headers,
        answer: ClientResponse,
    ) -> Request:
        # While a body came, the gateway may have begun to drain.
        self._exchanges.check_open()
        given = ExchangeInput(
            id=incoming.request_id,
            exchange_id=incoming.exchange_id,
            owner=owner,
            session=None,
            asked=await self._find_model(body, owner),
            dialect=self.dialect,
            headers=forwarded,
            client_key=self._keys.client_key(incoming.headers)
            if self._preparer.client_keyed
            else (),
            source=RequestSource(self._path, read_trace_context(incoming.listed)),
        )
        incoming.model = given.asked.model
        return self._preparer.prepare_unread(given, self._path, self._upstreams)

    async def _find_model(self, body: bytes, owner: str) -> ModelRequest:
        default = self._preparer.models.default_name
        if len(body) <= self._small:
            return read_unread(body, self._depth, default)
        work = partial(read_large_unread, body, self._depth, default)
        asked = await self._offload.send(owner, len(body), work)
        return asked if asked.body else msgspec.structs.replace(asked, body=body)


def _describe(path: str, name: str, summary: str, events: EventStream | None = None) -> ApiRoute:
    return ApiRoute(
        "post",
        path,
        name,
        PassThrough.__call__,
        body=PassThroughBody,
        errors=UPSTREAM_ERRORS,
        replies=(Reply("The upstream's answer, as it is.", dict[str, Any], events),),
        summary=f"{summary} Passed through unread to an upstream that has it.",
    )


ROUTES = (
    _describe("/v1/embeddings", "embeddings", "Embed texts."),
    _describe(
        "/v1/completions",
        "completions",
        "Complete a prompt, as the older OpenAI API does.",
        EventStream("Frames of the upstream; an error ends it early."),
    ),
    _describe("/v1/responses/compact", "compactResponses", "Compact a conversation."),
)
