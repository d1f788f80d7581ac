"""The one way into an exchange: every request to a model becomes a `Request` here.

Requests come from `/v1/…`, from `/api/chat` and from runs of jobs. Each of these ways reads its
request and says in an `ExchangeInput` what is special about it; all that follows is the same for
all of them, in this order:

1. The session is entered. Directives act, if a user wrote them; else only what is in force counts.
2. The model is found, and the routes to it as far as the session's directives and the operator
   allow. A directive can choose among what the operator offers, and nothing else.
3. The gateway's own tools, the clock, and what waits for the session are given.
4. Who observes the exchange is put together: who handed it over, and the snapshot kept for jobs.

Requests of clients are read here, too, before all this: `ModelRequestReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from gateway.dialects.protocol import Chained, Dialect
from gateway.dialects.raw_json import raws_in
from gateway.errors import Headers, NoRoute, Unauthorized
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.model import JOB_RUN, ModelRequest, RequestSource, Route
from gateway.exchange.observer import NOBODY, Observer, combine
from gateway.exchange.ports import LimitChecker, Request, Services
from gateway.offload import Offload
from gateway.reminders.server_tools import ServerTools, ToolServices
from gateway.reminders.tool_scope import ServerTool, ToolScope
from gateway.routing import LONGEST_NAME, Models, PublicModel
from gateway.sessions.directives.memory import NO_ATTEMPT, Attempt
from gateway.sessions.directives.routing import NOTHING, candidates, no_route
from gateway.sessions.identity import Identity, identify
from gateway.sessions.request_kind import Sentinels, read_facts
from gateway.sessions.service import Sessions, SessionView
from gateway.sessions.session_request import KIND, Kind, SessionRequest
from gateway.stores.documents import DocumentKey, StoreUnavailable
from gateway.stores.entries import SessionEntries
from gateway.stores.hints import SessionHints
from gateway.wire.http_client.upstream import Upstream

# Upstreams of this dialect may answer nothing at all when the time follows the results of tools.
SILENT_AFTER_TIME = frozenset({"anthropic-messages"})
TOOL = "tool"
NO_CLIENT = (
    "Upstream {} is asked with the client's own key, and no client asks in a job or for an agent; "
    "use a model with another route."
)
NO_CLIENT_KEY = (
    "Upstream {} is asked with your own key: send it as Authorization or x-api-key, and the "
    "gateway's key as x-holdgate-key."
)

AWAY = "The database cannot be used now; try again."
NO_PATH = "No upstream of model '{}' has {}."


class ExchangeInput(msgspec.Struct, frozen=True, gc=False):
    """A request to a model as one of the ways in hands it over; the defaults are a client's."""

    id: str
    exchange_id: str
    """What all turns of the exchange have in common."""
    owner: str
    session: str | None
    """The session that is entered; None: nothing of a session is read or kept."""
    asked: ModelRequest
    dialect: Dialect
    main: str = ""
    """The main session, if this is a request of one of its sub-agents."""
    belongs_to: str | None = None
    """The session the exchange ends with when that is deleted, if it is not the one entered."""
    headers: Headers = ()
    query: bytes = b""
    client_key: Headers | None = None
    """The client's own key for an upstream, which is not stored; None: no client asks."""
    attempt: Attempt = NO_ATTEMPT
    answers: AnswerIds | None = None
    tools: tuple[ServerTool, ...] = ()
    """What the model is offered beside the clock."""
    notes: bool = False
    acts: bool = True
    """Whether directives in its text act: a user wrote it."""
    takes_over: bool = True
    """Whether it ends the hold of its session: the user has gone on."""
    adds: bool = True
    """Whether anything may be added to it."""
    may_hold: bool = True
    collects: bool = True
    """Whether it takes what waits for the session; a run of a job leaves that to the client."""
    wants_clock: bool = False
    """Whether the clock is asked for by name, whatever is said of the model."""
    is_composed: bool = False
    """Whether the gateway wrote all of it, as for an agent."""
    source: RequestSource = JOB_RUN


Begin = Callable[[SessionView], Observer]


class SnapshotTaker(Protocol):
    """Remembers what sessions asked last."""

    def observer(
        self,
        owner: str,
        session: str,
        dialect: str,
        asked: ModelRequest,
        headers: Headers,
        is_side_call: Callable[[], bool] | None,
    ) -> Observer:
        """Return who is to hear how a request is answered."""


@dataclass(frozen=True, slots=True)
class ExchangePreparer:
    """Makes exchange requests of what the ways in hand over."""

    models: Models
    sessions: Sessions
    services: ToolServices
    exchange_services: Services
    """What the exchanges are run with."""
    clock: bool = True
    """Whether models that may have a clock get one."""
    snapshots: SnapshotTaker | None = None
    client_keyed: frozenset[str] = frozenset()
    """The upstreams that are asked with the client's own key."""
    limits: LimitChecker | None = None
    """What bounds owners, if anything does."""

    async def prepare(self, given: ExchangeInput, begin: Begin) -> Request:
        """Enter the session, find the routes, and give the exchange all that it may have.

        `begin` hears what the session says of the request before anything else can go wrong, and
        returns who observes. Raises `LimitExceeded` before anything acts, and `ModelNotFound` etc.
        """
        limits = self.limits
        if limits is not None:
            limits.check(given.owner, given.dialect.name)
        request = _in_session(given, self.sessions.states.hints)
        entries, session = self.sessions.states.store.entries, given.session
        if entries is not None and session is not None and not await _look(entries, given):
            given, request = self._leave_session(given, entries)
        if not given.acts:
            view = await self.sessions.look(request)
        elif (seen := self.sessions.glance(request)) is not None:
            view = seen
        else:
            view = await self.sessions.enter(request, self.exchange_services.upstreams)
        if session != given.session:
            view = self.sessions.go_without(view, given.owner, session)
        observer = begin(view)
        models = self.models.of(given.owner)
        model = models.find(given.asked.model)
        routes = _find_routes(models, model, view)
        if self.client_keyed:
            routes = self._skip_keyless(routes, given.client_key)
        # By place: with more than fifteen names, Python makes a dict for the call.
        return Request(
            self.exchange_services,
            given.id,
            given.exchange_id,
            given.owner,
            view.asked,
            given.dialect,
            routes,
            given.headers,
            given.query,
            given.client_key or (),
            notes=given.notes,
            session=view.session,
            answers=given.answers,
            signatures=self.sessions.states.signatures,
            tools=self.give_tools(given, view, model, routes[0]),
            observer=combine(observer, self._take_snapshot(given, view)),
            session_id=given.belongs_to or given.session,
            is_composed=given.is_composed,
            allowance=limits.open(given.owner, given.dialect.name) if limits else None,
            source=given.source,
        )

    def _leave_session(
        self, given: ExchangeInput, entries: SessionEntries
    ) -> tuple[ExchangeInput, SessionRequest]:
        """Return a request that goes on without its session, since the database is away.

        The gateway keeps the conversations of agents, so there is nothing to go on with.
        """
        session = given.session
        assert session is not None
        if entries.refuses or given.is_composed:
            raise StoreUnavailable(AWAY, retry_after=1)
        if given.takes_over:
            self.services.holds.end(given.owner, session)
        belongs_to = given.belongs_to or session
        given = msgspec.structs.replace(given, session=None, main="", belongs_to=belongs_to)
        return given, _in_session(given, self.sessions.states.hints)

    def prepare_unread(
        self, given: ExchangeInput, path: str, upstreams: Mapping[str, Upstream]
    ) -> Request:
        """Find the routes of a request that is passed on unread to upstreams that have this path.

        It has no session, and nothing is added to it. Raises the same as `prepare`.
        """
        limits = self.limits
        if limits is not None:
            limits.check(given.owner, given.dialect.name)
        model = self.models.of(given.owner).find(given.asked.model)
        routes = tuple([route for route in model.routes if route.upstream in upstreams])
        if not routes:
            raise NoRoute(NO_PATH.format(model.name[:LONGEST_NAME], path))
        return Request(
            services=self.exchange_services,
            id=given.id,
            exchange_id=given.exchange_id,
            owner=given.owner,
            asked=given.asked,
            dialect=given.dialect,
            routes=self._skip_keyless(routes, given.client_key) if self.client_keyed else routes,
            headers=given.headers,
            client_key=given.client_key or (),
            unread_at=upstreams,
            source=given.source,
            allowance=limits.open(given.owner, given.dialect.name) if limits else None,
        )

    async def preview(self, given: ExchangeInput) -> SessionView:
        """Say what would be sent of a request; nothing acts and nothing is kept."""
        request = _in_session(given, self.sessions.states.hints)
        return await self.sessions.preview(request, self.exchange_services.upstreams)

    def _skip_keyless(
        self, routes: tuple[Route, ...], client_key: Headers | None
    ) -> tuple[Route, ...]:
        """Leave out routes that need a key of the client's which is not there.

        It is a key for one upstream, the first that wants one, and no other may see it.
        """
        wanting = [route.upstream for route in routes if route.upstream in self.client_keyed]
        skipped = self.client_keyed - {wanting[0]} if wanting and client_key else self.client_keyed
        left = tuple(route for route in routes if route.upstream not in skipped)
        if not left:
            sentence = NO_CLIENT if client_key is None else NO_CLIENT_KEY
            raise Unauthorized(sentence.format(wanting[0]))
        return left

    def give_tools(
        self, given: ExchangeInput, view: SessionView, model: PublicModel, to: Route
    ) -> ServerTools | None:
        """Give the exchange its clock and tools, and what waits for its session; None: nothing."""
        kind, owner, session = view.kind, given.owner, given.session
        if kind is Kind.AUXILIARY and not given.is_composed:
            return None
        # Who wants an answer of a certain form cannot take over what the session is held for.
        is_free = kind is not Kind.STRUCTURED
        if given.takes_over and session is not None and is_free:
            self.services.end_hold(owner, session)
        if kind is Kind.COMPACTION or not given.adds:
            return None
        asked, translators = view.asked, self.exchange_services.translators
        tools = given.tools if is_free else ()
        has_clock = self.clock and (model.clock or given.wants_clock)
        collects = given.collects and is_free and not asked.forces_one
        waits = session is not None and collects and not self.services.queue.idle(owner, session)
        if not (has_clock or tools or waits):
            return None
        scope = ToolScope(
            owner=owner,
            session=session,
            exchange_id=given.exchange_id,
            last_role=asked.last_role,
            streams=asked.stream,
            may_hold=given.may_hold and is_free,
            tags_results=asked.last_role != TOOL
            or translators.find_dialect(to.upstream) not in SILENT_AFTER_TIME,
            clock=has_clock,
            collects=collects,
            main=given.main,
            asker=None if given.is_composed else view.session,
        )
        return ServerTools(self.services, scope, asked, given.dialect, tools)

    def _take_snapshot(self, given: ExchangeInput, view: SessionView) -> Observer:
        """Return who remembers what the session asked, for jobs that go on from it."""
        session, snapshots = view.session, self.snapshots
        if snapshots is None or session is None or given.session is None or given.is_composed:
            return NOBODY
        # What a sub-agent asked is nothing to go on from when it is no more.
        if given.main or view.kind is Kind.COMPACTION:
            return NOBODY
        asked = view.asked
        is_side_call = None if asked.tools else session.is_auxiliary
        dialect, headers = given.dialect.name, given.headers
        return snapshots.observer(given.owner, given.session, dialect, asked, headers, is_side_call)


def _find_routes(models: Models, model: PublicModel, view: SessionView) -> tuple[Route, ...]:
    """Return whom to ask: where the model leads, as far as the session's directives go."""
    public, routing, forced = model.routes, view.routing, view.forced
    if forced is None and (routing is NOTHING or routing == NOTHING):
        return public
    # A directive is a user's text. It may name what the operator took out of the configuration
    # since, or what was never in it, or not for this owner: only what is offered is asked.
    routes = tuple(
        route
        for route in candidates(public, routing, forced)
        if route in public or models.offers(route)
    )
    if routes:
        return routes
    if forced is not None:
        raise NoRoute(f"No upstream offers {forced}; GET /v1/models lists what there is.")
    raise NoRoute(no_route(view.asked.model, routing))


async def _look(entries: SessionEntries, given: ExchangeInput) -> bool:
    """Find in one round trip all that the request needs to know of its session."""
    keys = [(given.owner, name) for name in (given.session, given.main) if name]
    return await entries.look(*keys)


def _in_session(given: ExchangeInput, hints: SessionHints) -> SessionRequest:
    return SessionRequest(
        given.owner,
        given.session,
        given.asked,
        given.dialect,
        given.exchange_id,
        None if given.session is None else DocumentKey(KIND, given.owner, given.session),
        attempt=given.attempt,
        main=given.main,
        mark=hints.mark(),
    )


Pairs = Sequence[tuple[bytes, bytes]]
Question = tuple[bytes, bool, Headers]
"""A body, whether a stream is preferred, and the headers."""


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """What is known of a request before its session is looked at."""

    asked: ModelRequest
    who: Identity
    previous: str = ""
    """The id of the answer it goes on from, if it names one."""


class ReadingRules(msgspec.Struct, frozen=True):
    """By what all requests are read."""

    depth: int
    default_model: str
    own_tools: frozenset[str]
    """The names of the gateway's tools, which a client may have declared as well."""
    sentinels: Sentinels


class ModelRequestReader:
    """Reads the requests of one dialect, large ones beside the loop."""

    def __init__(self, dialect: Dialect, offload: Offload, rules: ReadingRules) -> None:
        self._dialect = dialect
        self._chained = dialect if isinstance(dialect, Chained) else None
        self._offload = offload
        self._rules = rules

    async def read(
        self, body: bytes, prefers_stream: bool, headers: Pairs, owner: str
    ) -> ReadRequest:
        """Read a request, or raise `BadRequest` naming the field."""
        if (small := self.read_now(body, prefers_stream, headers)) is not None:
            return small
        question = (body, prefers_stream, tuple(headers))
        work = partial(_read_large, self._dialect, self._chained, question, self._rules)
        found = await self._offload.send(owner, len(body), work)
        if found.asked.body:
            return found
        asked = msgspec.structs.replace(found.asked, body=body)
        return msgspec.structs.replace(found, asked=asked)

    def read_now(self, body: bytes, prefers_stream: bool, headers: Pairs) -> ReadRequest | None:
        """Read a request that is not large; None: it is.

        The fast twin of `_read_large`: what else may be asked of it is read when it is asked.
        """
        if len(body) > self._offload.above:
            return None
        rules = self._rules
        asked = self._dialect.read(body, rules.depth, prefers_stream, rules.default_model)
        return _identify(asked, self._chained, headers)


def _identify(asked: ModelRequest, chained: Chained | None, headers: Pairs) -> ReadRequest:
    previous = chained.previous_id(asked.body) if chained is not None else ""
    return ReadRequest(asked, identify(headers, asked.identity), previous)


def _read_large(
    dialect: Dialect, chained: Chained | None, question: Question, rules: ReadingRules
) -> ReadRequest:
    """Read all that is asked of a request later; a body that is unchanged is not sent back."""
    body, prefers_stream, headers = question
    asked = dialect.read(body, rules.depth, prefers_stream, rules.default_model)
    found = _identify(asked, chained, headers)
    facts = read_facts(dialect, asked.body, found.who.session is not None, rules.sentinels)
    tools = relevant_tools(dialect, asked.tools, rules.own_tools)
    left = b"" if asked.body is body else asked.body
    asked = msgspec.structs.replace(asked, body=left, tools=tools, identity={}, facts=facts)
    return msgspec.structs.replace(found, asked=asked)


def relevant_tools(dialect: Dialect, tools: bytes, names: Collection[str]) -> bytes:
    """Return the tools of these names alone; if there are others only, something that is none."""
    items = raws_in(msgspec.Raw(tools)) if tools else None
    if not items:
        return tools
    kept: dict[str, msgspec.Raw] = {}
    for item in items:
        alone = b"[%b]" % bytes(item)
        kept |= {name: item for name in names if dialect.declares(alone, name)}
    return msgspec.json.encode(list(kept.values()) or ["another"])
