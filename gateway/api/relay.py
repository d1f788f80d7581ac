"""The model endpoints: raw ASGI, one per dialect."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import quote

import anyio
from anyio.lowlevel import checkpoint

from gateway.api.admission import CLIENT_LEFT, INTERNAL_ERROR, KEY, IncomingRequest, Keys
from gateway.dialects.protocol import Chained, Dialect
from gateway.errors import Headers, HoldgateError, MethodNotAllowed, Unavailable
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.model import ModelRequest, RequestSource
from gateway.exchange.observer import NOBODY, NullObserver, RequestAnswered, RequestRefused
from gateway.exchange.ports import Request, error_headers
from gateway.exchange.prepare import (
    ExchangeInput,
    ExchangePreparer,
    ModelRequestReader,
    ReadingRules,
)
from gateway.exchange.runner import LiveExchanges
from gateway.reminders.server_tools import SERVER_TOOLS
from gateway.reminders.tool_scope import ServerTool
from gateway.sessions.directives.memory import NO_ATTEMPT, Attempt
from gateway.sessions.service import SessionView
from gateway.wire.http_client.headers import (
    TRACE_PARENT,
    query_towards_upstream,
    read_trace_context,
    towards_upstream,
)
from gateway.wire.http_server.request_body import BodyLimits, BodyUnpacker, ClientLeft, receive_body
from gateway.wire.http_server.request_cycle import CYCLE
from gateway.wire.http_server.response import ClientResponse, Receive, Send

log = logging.getLogger("holdgate.api")
LONGEST_COUNT = 9
SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
_is_plain = re.compile(r"[A-Za-z0-9._:-]+").fullmatch


class ToolOffer(Protocol):
    """Knows which tools a client's session is offered beside the clock."""

    def for_client(self, owner: str, session: str | None) -> tuple[ServerTool, ...]:
        """Return the tools."""


@dataclass(frozen=True, slots=True)
class RelayServices:
    """What all model endpoints work with."""

    exchanges: LiveExchanges
    preparer: ExchangePreparer
    keys: Keys
    offer: ToolOffer | None
    answers: AnswerIds
    limits: BodyLimits

    def make_reader(self, dialect: Dialect) -> ModelRequestReader:
        """Return what reads the requests of a dialect."""
        preparer, offload = self.preparer, self.exchanges.services.offload
        added = {tool.name for tool in preparer.services.settings.standard_tools}
        own_tools, default = SERVER_TOOLS | added, preparer.models.default_name
        rules = ReadingRules(self.limits.depth, default, own_tools, preparer.sessions.sentinels)
        return ModelRequestReader(dialect, offload, rules)


class BaseModelEndpoint(ABC):
    """Takes requests in, has them run, and says what goes wrong; a kind of it reads them."""

    def __init__(self, dialect: Dialect, services: RelayServices) -> None:
        self.dialect = dialect
        self._log_name = dialect.name
        self._exchanges = services.exchanges
        self._preparer = services.preparer
        self._keys = services.keys
        self._limit = services.limits.size
        self._offload = services.exchanges.services.offload
        self._small = self._offload.above
        self._unpacking = BodyUnpacker(self._limit, self._offload)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong is said in the client's dialect."""
        incoming: IncomingRequest = scope[KEY]
        # What is told of a request that does not become an exchange; then nobody needs it any more.
        refused: IncomingRequest | None = incoming
        request_id, headers, limit = incoming.request_id, incoming.headers, self._limit
        direct = scope.get("extensions", {}).get(CYCLE)
        answer = ClientResponse(receive, send, incoming.answer_headers, direct)
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"Send a POST to {scope['path']}.", "POST")
            body = direct.take_json_body(headers, limit) if direct is not None else None
            forwarded = towards_upstream(incoming.listed)
            owner = incoming.owner = self._keys.owner(incoming).name
            if body is None:
                self._exchanges.check_open()
                body = await receive_body(headers, receive, limit)
            is_large = len(body) > self._small or b"content-encoding" in headers
            read = self._read_large if is_large else self._read
            request = await read(incoming, owner, body, forwarded, answer)
            driving, refused = self._exchanges.run(request, answer), None
            # A held answer may be one of thousands: what it lets go of must not stay here.
            del scope, incoming, headers, body, forwarded, request
            await driving
            if not answer.ended:
                await cut_off(answer)
        except Exception as error:  # noqa: BLE001 - the outer loop of a request
            if refused is not None:
                told = tell_failure(error, refused, self._log_name, self._exchanges, answer)
            else:
                told = log_crash(error, request_id, answer)
            if told is not None:
                await self._say(told, answer)

    async def _read_large(
        self,
        incoming: IncomingRequest,
        owner: str,
        body: bytes,
        forwarded: Headers,
        answer: ClientResponse,
    ) -> Request:
        """Read a request that may take its time, as long as the client is there."""
        with anyio.CancelScope() as scope:
            unwatch = answer.watch(scope.cancel)
            try:
                body = await self._unpacking.unpack(incoming.headers, body, owner)
                return await self._read(incoming, owner, body, forwarded, answer)
            finally:
                unwatch()
        raise ClientLeft

    @abstractmethod
    async def _read(
        self,
        incoming: IncomingRequest,
        owner: str,
        body: bytes,
        forwarded: Headers,
        answer: ClientResponse,
    ) -> Request:
        """Read a request whose body is unpacked."""

    async def _say(self, error: HoldgateError, answer: ClientResponse) -> None:
        if answer.started:
            await answer.end(self.dialect.error_frame(error))
            return
        await refuse_body(error, answer, self.dialect)


class Relay(BaseModelEndpoint):
    """Answers the model requests of one dialect."""

    def __init__(self, dialect: Dialect, services: RelayServices) -> None:
        super().__init__(dialect, services)
        self._offer = services.offer
        self._answers = services.answers
        self._chain = dialect if isinstance(dialect, Chained) else None
        self._reader = services.make_reader(dialect)
        # Most requests are part of no trace, and share this.
        self._source = RequestSource(f"/v1{dialect.path}")

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
        headers = incoming.headers
        prefers_stream = headers.get(b"accept", b"").find(b"text/event-stream") >= 0
        # Nearly all requests are read at once, which saves a coroutine.
        read = self._reader.read_now(body, prefers_stream, incoming.listed)
        if read is None:
            read = await self._reader.read(body, prefers_stream, incoming.listed, owner)
        asked, who = read.asked, read.who
        incoming.session, incoming.model = who.session, asked.model
        if read.previous:
            asked = await self._go_on_from(read.previous, asked, owner)
        offer = self._offer
        # The first ones by place: with more than fifteen names, Python makes a dict for the call.
        given = ExchangeInput(
            incoming.request_id,
            incoming.exchange_id,
            owner,
            who.session,
            asked,
            self.dialect,
            main=who.main,
            headers=forwarded,
            query=query_towards_upstream(self.dialect.name, incoming.query)
            if incoming.query
            else b"",
            client_key=self._keys.client_key(headers) if self._preparer.client_keyed else (),
            attempt=_attempt(incoming) if asked.directives else NO_ATTEMPT,
            answers=self._answers if self._chain is not None else None,
            # Jobs outlive a sub-agent, so they are the main session's.
            tools=offer.for_client(owner, who.main or who.session) if offer is not None else (),
            notes=headers.get(b"x-holdgate-notes") == b"1",
            adds=headers.get(b"x-holdgate-clock") != b"off",
            may_hold=headers.get(b"x-holdgate-hold") != b"off",
            source=self._find_source(incoming) if TRACE_PARENT in headers else self._source,
        )
        return await self._preparer.prepare(given, partial(_begin, answer, who.session))

    def _find_source(self, incoming: IncomingRequest) -> RequestSource:
        return RequestSource(self._source.path, read_trace_context(incoming.listed))

    async def _go_on_from(self, previous: str, asked: ModelRequest, owner: str) -> ModelRequest:
        """Name the answer a request goes on from as the upstream knows it."""
        real = await self._answers.upstream_id(owner, previous)
        if self._chain is None or real == previous:
            return asked
        work = partial(self._chain.continue_from, asked.body, real)
        going_on = await self._offload.run(owner, len(asked.body), work)
        return asked.with_body(going_on)


def tell_failure(
    error: Exception,
    incoming: IncomingRequest,
    dialect: str,
    exchanges: LiveExchanges,
    answer: ClientResponse,
) -> HoldgateError | None:
    """Tell why a request failed; return what is to be said of it, if anybody is there to hear."""
    info, method, path = incoming.describe(dialect), incoming.method, incoming.path
    if isinstance(error, ClientLeft):
        exchanges.tell(RequestAnswered(info, method, path, CLIENT_LEFT, 0.0))
        return None
    told = (
        error if isinstance(error, HoldgateError) else log_crash(error, incoming.request_id, answer)
    )
    # Of an answer that has started, its exchange told.
    if told is not None and not answer.started:
        exchanges.tell(RequestRefused(info, method, path, told))
    return told


def log_crash(error: Exception, request_id: str, answer: ClientResponse) -> HoldgateError | None:
    """Log a bug of ours; return what is to be said of it, if the answer has not ended."""
    log.exception("request %s failed", request_id, exc_info=error)
    return None if answer.ended else Unavailable(INTERNAL_ERROR)


async def refuse_body(error: HoldgateError, answer: ClientResponse, dialect: Dialect) -> None:
    """Answer with an error, and close the connection."""
    # What is left of a refused body must not be read as the next request.
    headers = (*error_headers(error), (b"connection", b"close"))
    await answer.whole(error.status, headers, dialect.error_body(error))


async def cut_off(answer: ClientResponse) -> None:
    """End the connection of an answer that has no end: what was sent must not look whole."""
    if answer.scope is not None:
        answer.scope.cancel()
        await checkpoint()


def _attempt(incoming: IncomingRequest) -> Attempt:
    """Return what tells whether a request is sent again."""
    headers = incoming.headers
    key = headers.get(b"idempotency-key") or headers.get(b"x-idempotency-key") or b""
    retries = headers.get(b"x-stainless-retry-count", b"")
    return Attempt(
        incoming.request_id,
        key.decode("latin-1"),
        int(retries) if len(retries) < LONGEST_COUNT and retries.isdigit() else 0,
    )


def _begin(answer: ClientResponse, session: str | None, view: SessionView) -> NullObserver:
    """Have the answer tell its session, and what became of directives."""
    if session is not None or view.report:
        headers = () if session is None else session_header(session)
        if view.is_away:
            headers += ((b"x-holdgate-state", b"away"),)
        if view.report:
            headers += ((b"x-holdgate-directive", view.report.encode("ascii", "replace")),)
        answer.also(headers)
    return NOBODY


@lru_cache(maxsize=4096)
def session_header(session: str) -> Headers:
    """Return the header that names the session of an answer."""
    # An id is any text; a header takes only some of it as it is.
    shown = session if _is_plain(session) else quote(session, safe=SAFE)
    return ((b"x-holdgate-session", shown.encode()),)
