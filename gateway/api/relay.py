"""The model endpoints: raw ASGI, one per dialect."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol
from urllib.parse import quote

import anyio
import msgspec

from gateway.api.admission import KEY, IncomingRequest
from gateway.api.auth import Keys
from gateway.dialects.protocol import Chained, Dialect
from gateway.errors import Draining, Headers, HoldgateError, MethodNotAllowed, NoRoute, Unavailable
from gateway.exchange.answer_ids import Answers
from gateway.exchange.live import LiveExchanges
from gateway.exchange.model import Asked, Route
from gateway.exchange.ports import Onlooker, Request, error_headers
from gateway.exchange.request_reader import ModelRequestReader, ReadingRules
from gateway.outbox.queue import Deliveries
from gateway.reminders.timepiece import Timepiece, Timepieces
from gateway.reminders.tool_scope import ServerTool, ToolScope
from gateway.routing import Models, PublicModel
from gateway.sessions.directives.memory import NO_ATTEMPT, Attempt
from gateway.sessions.directives.routing import NOTHING, candidates, no_route
from gateway.sessions.service import Sessions, SessionView
from gateway.sessions.session_request import KIND, Kind, SessionRequest
from gateway.stores.documents import DocumentKey
from gateway.wire.http_client.headers import query_towards_upstream, towards_upstream
from gateway.wire.http_server.request_body import BodyUnpacker, ClientLeft, receive_body
from gateway.wire.http_server.request_cycle import CYCLE
from gateway.wire.http_server.response import ClientResponse, Receive, Send

log = logging.getLogger("holdgate.relay")
# Who is told the time right after the results of tools may answer nothing at all.
SHY = frozenset({"anthropic-messages"})
TOOL = "tool"
LONGEST_COUNT = 9
SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
_is_plain = re.compile(r"[A-Za-z0-9._:-]+").fullmatch


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """What a client may send."""

    body_bytes: int
    json_depth: int
    own_tools: frozenset[str] = frozenset()
    """The tools a request may be given, beside the operator's own."""


class Snapshots(Protocol):
    """Remembers what sessions asked last."""

    def onlooker(
        self,
        owner: str,
        session: str,
        dialect: str,
        asked: Asked,
        headers: Headers,
        is_side_call: Callable[[], bool] | None,
    ) -> Onlooker | None:
        """Return who is to hear how a request is answered."""


@dataclass(frozen=True, slots=True)
class Giving:
    """What a relay may give to an exchange beside the model's answer."""

    timepieces: Timepieces
    deliveries: Deliveries
    clock: bool
    """Whether models get the clock."""
    tools: Callable[[str, str | None], tuple[ServerTool, ...]]
    """Which tools a session is offered beside the clock."""
    snapshots: Snapshots | None


def reading_rules(
    models: Models, sessions: Sessions, giving: Giving, limits: RelayLimits
) -> ReadingRules:
    """Return by what requests are read."""
    added = {tool.name for tool in giving.timepieces.settings.standard_tools}
    own_tools = limits.own_tools | added
    return ReadingRules(limits.json_depth, models.default_name, own_tools, sessions.sentinels)


class Relay:
    """Answers the model requests of one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        driver: LiveExchanges,
        models: Models,
        keys: Keys,
        sessions: Sessions,
        giving: Giving,
        answers: Answers,
        limits: RelayLimits,
        draining: Callable[[], bool],
    ) -> None:
        self.dialect = dialect
        self._driver = driver
        self._models = models
        self._keys = keys
        self._sessions = sessions
        self._giving = giving
        self._answers = answers
        self._chain = dialect if isinstance(dialect, Chained) else None
        self._limits = limits
        self._draining = draining
        offload = driver.services.offload
        self._small = offload.above
        self._unpacking = BodyUnpacker(limits.body_bytes, offload)
        rules = reading_rules(models, sessions, giving, limits)
        self._reader = ModelRequestReader(dialect, offload, rules)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong is said in the client's dialect."""
        note: IncomingRequest = scope[KEY]
        request_id = note.request_id
        direct = scope.get("extensions", {}).get(CYCLE)
        answer = ClientResponse(receive, send, note.answer_headers, direct)
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"Send a POST to {scope['path']}.", "POST")
            owner = self._keys.owner(note.headers)
            self._refuse_while_draining()
            headers, limit = note.headers, self._limits.body_bytes
            body = direct.take_json_body(headers, limit) if direct is not None else None
            if body is None:
                body = await receive_body(headers, receive, limit)
                self._refuse_while_draining()
            if len(body) > self._small or b"content-encoding" in note.headers:
                request = await self._read_large(note, owner.name, body, answer)
            else:
                request = await self._read(note, owner.name, body, answer)
            driving = self._driver.run(request, answer)
            # A held answer may be one of thousands: what it lets go of must not stay here.
            del scope, note, headers, body, request
            await driving
        except HoldgateError as error:
            await self._say(error, answer)
        except ClientLeft:
            return
        except Exception as error:
            # The outer loop of a request: a bug of ours must not look like a finished answer.
            log.exception("request %s failed", request_id, exc_info=error)
            if not answer.ended:
                await self._say(Unavailable("Something went wrong inside the gateway."), answer)

    async def _read_large(
        self, note: IncomingRequest, owner: str, body: bytes, answer: ClientResponse
    ) -> Request:
        """Read a request that may take its time, as long as the client is there."""
        with anyio.CancelScope() as scope:
            unwatch = answer.watch(scope.cancel)
            try:
                body = await self._unpacking.unpack(note.headers, body, owner)
                return await self._read(note, owner, body, answer)
            finally:
                unwatch()
        raise ClientLeft

    async def _read(
        self, note: IncomingRequest, owner: str, body: bytes, answer: ClientResponse
    ) -> Request:
        headers, listed = note.headers, note.listed
        prefers_stream = b"text/event-stream" in headers.get(b"accept", b"")
        read = await self._reader.read(body, prefers_stream, listed, owner)
        asked, who = read.asked, read.who
        name = who.session
        if read.previous:
            asked = await self._go_on_from(read.previous, asked, owner)
        key = None if name is None else DocumentKey(KIND, owner, name)
        attempt = _attempt(note) if asked.directives else NO_ATTEMPT
        visit = SessionRequest(
            owner, name, asked, self.dialect, note.exchange_id, key, attempt, who.main
        )
        entry = self._sessions.glance(visit)
        if entry is None:
            entry = await self._sessions.enter(visit, self._driver.services.upstreams.keys())
        if name is not None or entry.told:
            answer.also(_told(name, entry.told))
        model = self._models.find(asked.model)
        plainly = entry.routing is NOTHING and entry.forced is None
        routes = model.routes if plainly else self._routes(model, entry)
        passed = towards_upstream(listed)
        has_clock = self._giving.clock and model.clock
        return Request(
            id=note.request_id,
            owner=owner,
            asked=entry.asked,
            dialect=self.dialect,
            routes=routes,
            headers=passed,
            query=query_towards_upstream(self.dialect.name, note.query) if note.query else b"",
            notes=headers.get(b"x-holdgate-notes") == b"1",
            session=entry.session,
            answers=self._answers if self._chain is not None else None,
            time=self._time(visit, entry, headers, has_clock, routes[0]),
            onlooker=self._onlooker(visit, entry, passed),
            session_id=name,
        )

    async def _go_on_from(self, previous: str, asked: Asked, owner: str) -> Asked:
        """Name the answer a request goes on from as the upstream knows it."""
        real = await self._answers.upstream_id(owner, previous)
        if self._chain is None or real == previous:
            return asked
        work = partial(self._chain.going_on_from, asked.body, real)
        offload = self._driver.services.offload
        going_on = await offload.run(owner, len(asked.body), work)
        return msgspec.structs.replace(asked, body=going_on)

    def _onlooker(
        self, visit: SessionRequest, entry: SessionView, headers: Headers
    ) -> Onlooker | None:
        """Return who remembers what the session asked, for jobs that go on from it."""
        snapshots = self._giving.snapshots
        if snapshots is None or visit.name is None or entry.session is None:
            return None
        # What a sub-agent asked is nothing to go on from when it is no more.
        if visit.main or entry.kind is Kind.COMPACTION:
            return None
        is_side_call = None if entry.asked.tools else entry.session.is_auxiliary
        name = self.dialect.name
        return snapshots.onlooker(visit.owner, visit.name, name, entry.asked, headers, is_side_call)

    def _time(
        self,
        visit: SessionRequest,
        entry: SessionView,
        headers: Mapping[bytes, bytes],
        has_clock: bool,
        to: Route,
    ) -> Timepiece | None:
        """Give the exchange its clock and tools, unless it is not to have any."""
        giving = self._giving
        if entry.kind is Kind.AUXILIARY:
            return None
        owner, name = visit.owner, visit.name
        # Who wants an answer of a certain form cannot take over what the session is held for.
        is_free = entry.kind is not Kind.STRUCTURED
        if name is not None and is_free:
            giving.timepieces.arrive(owner, name)
        if entry.kind is Kind.COMPACTION or headers.get(b"x-holdgate-clock") == b"off":
            return None
        # Jobs outlive a sub-agent, so they are the main session's.
        extras = giving.tools(owner, visit.main or name) if is_free else ()
        if not (has_clock or extras) and (name is None or giving.deliveries.idle(owner, name)):
            return None
        errand = ToolScope(
            owner=owner,
            session=name,
            chain=visit.chain,
            asked=entry.asked,
            dialect=self.dialect,
            may_hold=is_free and headers.get(b"x-holdgate-hold") != b"off",
            tags_results=entry.asked.last_role != TOOL
            or self._driver.services.translators.find_dialect(to.upstream) not in SHY,
            clock=has_clock,
            extras=extras,
            collects=is_free and not entry.asked.forces_one,
            main=visit.main,
            asker=entry.session,
        )
        return giving.timepieces.give(errand)

    def _refuse_while_draining(self) -> None:
        if self._draining():
            raise Draining("The gateway is shutting down; try again shortly.", retry_after=1)

    def _routes(self, model: PublicModel, entry: SessionView) -> tuple[Route, ...]:
        """Return whom to ask: where the model leads, as far as the session's directives go."""
        public = model.routes
        routing = entry.routing
        if entry.forced is None and routing == NOTHING:
            return public
        # What a session prefers may be gone from the configuration since, or was never offered.
        routes = tuple(
            route
            for route in candidates(public, entry.routing, entry.forced)
            if route in public or self._models.offers(route)
        )
        if not routes and entry.forced is not None:
            raise NoRoute(f"No upstream offers {entry.forced}; GET /v1/models lists what there is.")
        if not routes:
            raise NoRoute(no_route(entry.asked.model, entry.routing))
        return routes

    async def _say(self, error: HoldgateError, answer: ClientResponse) -> None:
        if answer.started:
            await answer.end(self.dialect.error_frame(error))
            return
        # What is left of a refused body must not be read as the next request.
        headers = (*error_headers(error), (b"connection", b"close"))
        await answer.whole(error.status, headers, self.dialect.error_body(error))


def _attempt(note: IncomingRequest) -> Attempt:
    """Return what tells whether a request is sent again."""
    headers = note.headers
    key = headers.get(b"idempotency-key") or headers.get(b"x-idempotency-key") or b""
    retries = headers.get(b"x-stainless-retry-count", b"")
    return Attempt(
        note.request_id,
        key.decode("latin-1"),
        int(retries) if len(retries) < LONGEST_COUNT and retries.isdigit() else 0,
    )


def _told(session: str | None, directives: str) -> Headers:
    headers = () if session is None else _named(session)
    if directives:
        headers += ((b"x-holdgate-directive", directives.encode("ascii", "replace")),)
    return headers


@lru_cache(maxsize=4096)
def _named(session: str) -> Headers:
    # An id is any text; a header takes only some of it as it is.
    shown = session if _is_plain(session) else quote(session, safe=SAFE)
    return ((b"x-holdgate-session", shown.encode()),)
