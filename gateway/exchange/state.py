"""The mutable state of one running exchange, shared by the functions that perform its effects."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
import msgspec
from anyio.to_thread import run_sync

from gateway.dialects.protocol import Splice, Tap
from gateway.dialects.translators import Translator
from gateway.dialects.unread import UnreadAnswer
from gateway.errors import Headers, HoldgateError, UpstreamAnswered
from gateway.exchange.additions import (
    NO_SIGNATURES,
    Addition,
    GatewayParts,
    ToolDeclaration,
    UserText,
    parts_of,
)
from gateway.exchange.machine import Exchange
from gateway.exchange.model import ExchangeInfo, Usage
from gateway.exchange.observer import (
    NOBODY,
    Committed,
    Happening,
    Heartbeat,
    Observer,
    Released,
    RequestExtended,
    TurnBroke,
    UpstreamClosed,
    Wants,
    join_wants,
)
from gateway.exchange.ports import Client, ExchangeTrace, Request, Services
from gateway.exchange.trail import Trail
from gateway.reminders.server_tools import NO_TOOLS, SERVER_TOOLS, ServerTools
from gateway.reminders.turn_claim import TurnClaims
from gateway.wire.http_client.failures import describe_failure
from gateway.wire.http_client.headers import towards_client
from gateway.wire.http_client.upstream import Turn, Upstream

CLEAN_UP = 2.0
# A history is mostly text, of which a fifth is left; in small requests it is not worth the while.
PACKED_ABOVE = 16 * 1024
# What takes more than a millisecond or two is done beside the event loop.
ASIDE_ABOVE = 128 * 1024
# Of what a request gained, that which may have to be written otherwise later.
LASTING = (ToolDeclaration, UserText)
T = TypeVar("T")


_compress = partial(zlib.compress, level=1)


async def _run_aside(work: Callable[[bytes], bytes], data: bytes) -> bytes:
    if len(data) <= ASIDE_ABOVE:
        return work(data)
    return await run_sync(work, data, abandon_on_cancel=True)


@dataclass(slots=True, eq=False, repr=False)
class ExchangeState:
    """One exchange under way: its turn, its answer so far, and who is there."""

    request: Request
    client: Client
    observer: Observer = NOBODY
    trace: ExchangeTrace | None = None
    trail: Trail | None = None
    services: Services = field(init=False)
    wants: Wants = field(init=False)
    info: ExchangeInfo = field(init=False)
    upstreams: Mapping[str, Upstream] = field(init=False)
    tools: ServerTools | None = field(init=False)
    exchange: Exchange = field(init=False)
    splice: Splice = field(init=False)
    body: bytes = field(init=False)
    """The request as it stands."""
    body_turn: int = field(init=False)
    """Up to which turn it stands so."""
    packed: bool = False
    additions: tuple[Addition, ...] = ()
    """What the request has gained, to be written otherwise for another upstream."""
    tap: Tap | None = None
    turn: Turn | None = None
    turn_bytes: int = 0
    """How many bytes of the turn were read so far."""
    turn_reads: int = 0
    """In how many reads they came."""
    turn_began: float = 0.0
    """When its first frame was in."""
    first_reads: int = 0
    """How many reads there were by then."""
    past_bytes: int = 0
    """How many bytes of earlier turns and tries were read."""
    tries: int = 0
    """How often an upstream was asked."""
    translator: Translator | None = None
    lost: tuple[str, ...] = ()
    signatures: dict[str, str] | None = None
    """What the calls of the request are signed with; None: no upstream wants to know yet."""
    remark: str = ""
    """What is to be said with the next note."""
    first: bytes = b""
    headers: Headers = ()
    has_slot: bool = False
    ending: bool = False
    """Whether the client left, or the gateway has to go."""
    gone: bool = False
    cut: HoldgateError | None = None
    error: HoldgateError | None = None
    status: int = 200
    usage: Usage | None = None
    begun: float = field(init=False)
    first_at: float | None = None

    def __post_init__(self) -> None:
        request = self.request
        services = self.services = request.services
        asked, limits, trail = request.asked, services.limits, self.trail
        self.begun = services.now() if trail is None else trail.begun
        routes = request.routes
        if len(routes) > 1:
            routes = services.health.order(routes, self.begun)
        self.wants = self.observer.wants
        if trail is not None:
            self.wants = join_wants(self.wants, Trail.wants)
        self.info = ExchangeInfo(
            request.exchange_id,
            request.id,
            request.owner,
            request.session_id,
            asked.model,
            request.dialect.name if request.unread_at is None else request.source.path,
            asked.stream,
        )
        self.tools = request.tools
        self.exchange = Exchange(routes, services.rules, limits.turns)
        if request.unread_at is None:
            size = limits.event_bytes if asked.stream else limits.answer_bytes
            names = NO_TOOLS if request.tools is None else request.tools.names
            self.splice = request.dialect.splice(asked, names, size)
            self.upstreams = services.upstreams
        else:
            self.splice = UnreadAnswer(limits.event_bytes)
            self.upstreams = request.unread_at
        self.body = asked.body
        self.body_turn = 1 if request.tools is None else 0

    def begin_try(self) -> None:
        """Count that an upstream is asked; what is read from now on belongs to this try."""
        self.past_bytes += self.turn_bytes
        self.turn_bytes = self.turn_reads = 0
        self.tries += 1

    def choose_client_headers(self, headers: Headers) -> Headers:
        """Return what a client is told of an upstream's headers.

        Whoever has limits here hears of these: what is left of the upstream's is not theirs.
        """
        passed = towards_client(headers)
        allowance = self.request.allowance
        if allowance is None or not (own := allowance.headers()):
            return passed
        return (*[pair for pair in passed if b"ratelimit-" not in pair[0]], *own)

    async def let_go(self) -> None:
        """Close the upstream at once, whatever else is being cancelled."""
        self.release_slot()
        turn, self.turn = self.turn, None
        if turn is not None:
            number, route = self.exchange.number, self.exchange.route
            with anyio.move_on_after(CLEAN_UP, shield=True):
                await turn.aclose()
                if UpstreamClosed in self.wants:
                    await self.tell(UpstreamClosed(number, was_cut=True))
                if self.turn_reads and TurnBroke in self.wants:
                    await self.tell(TurnBroke(number, route, self.info, self._count_broken()))

    def _count_broken(self) -> Usage | None:
        """Return the tokens that were reported of a turn which broke off; they were used."""
        usage = None if self.tap is None else self.tap.usage_so_far()
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
        return usage

    async def add(self, body: bytes, additions: tuple[Addition, ...]) -> None:
        """Put additions into the request."""
        offload = self.services.offload
        if len(body) <= offload.above:
            self._add_now(body, additions)
        else:
            add = partial(self.request.dialect.add, body, additions)
            self.body = await offload.send(self.request.owner, len(body), add)
            self._note_additions(additions)
        self.packed = False
        if RequestExtended in self.wants:
            await self.tell(RequestExtended(additions))

    def begin_now(self) -> bool:
        """Put into a first request what is added to it; False: it is large, or something is due.

        It saves the coroutines for what nearly no request needs.
        """
        tools, body, most = self.tools, self.body, self.services.offload.above
        if tools is None or len(body) > most or RequestExtended in self.wants:
            return False
        additions = tools.begin_now()
        if additions is None:
            return False
        if additions:
            self._add_now(body, additions)
        self.body_turn = 1
        return True

    def _add_now(self, body: bytes, additions: tuple[Addition, ...]) -> None:
        asked = self.request.asked
        end = asked.history_end if body is asked.body else 0
        self.body = self.request.dialect.add(body, additions, end)
        self._note_additions(additions)

    async def work(self, size: int, work: Callable[[], T]) -> T:
        """Do work on a request of this size: beside the loop, if it is large."""
        return await self.services.offload.run(self.request.owner, size, work)

    async def extend(self, additions: tuple[Addition, ...]) -> None:
        """Take note of what the conversation gained, and tell of it."""
        self._note_additions(additions)
        if RequestExtended in self.wants:
            await self.tell(RequestExtended(additions))

    def _note_additions(self, additions: tuple[Addition, ...]) -> None:
        self.additions += tuple([a for a in additions if isinstance(a, LASTING)])

    async def tell(self, happening: Happening) -> None:
        """Tell the observer what it wants to hear."""
        at, kind = self.services.now(), type(happening)
        if self.trail is not None and kind in self.trail.wants:
            self.trail.observe(at, happening)
        pending = self.observer.observe(at, happening) if kind in self.observer.wants else None
        if pending is not None:
            await pending

    async def tell_heartbeat(self) -> None:
        """Tell that the client got a heartbeat."""
        await self.tell(Heartbeat(self.exchange.number, self.info))

    async def pack(self) -> None:
        """Keep, for a long wait, only what the exchange goes on with: its request, as bytes."""
        request, tap = self.request, self.tap
        assert tap is not None
        answered = (tap.rebuild_turn(),)
        body = await self.work(len(self.body), partial(request.dialect.add, self.body, answered))
        await self.extend(answered)
        self.packed = len(body) > PACKED_ABOVE
        # A copy, since the encoder leaves half as much room again behind what it wrote.
        self.body = await _run_aside(_compress, body) if self.packed else memoryview(body).tobytes()
        self.tap = self.translator = None
        self.splice.rest()
        self.client.rest()
        self.first = b""
        if request.session_id is not None:
            # They are read again; without a session only this exchange knows them all.
            self.signatures = None
        if self.client.started:
            self.headers = ()
        bare = msgspec.structs.replace(request.asked.with_body(b""), tools=b"")
        self.request = msgspec.structs.replace(request, asked=bare)

    async def unpack(self) -> bytes:
        """Return the request that was packed."""
        return await _run_aside(zlib.decompress, self.body)

    def gateway_parts(self) -> GatewayParts:
        """Say what of the request the gateway wrote."""
        tools, request = NO_TOOLS if self.tools is None else self.tools.names, self.request
        if not tools:
            # Without tools in this request, earlier turns may still have called them.
            declares, offered = request.dialect.declares, request.asked.tools
            tools = frozenset([name for name in SERVER_TOOLS if not declares(offered, name)])
        signatures = self.signatures or NO_SIGNATURES
        return parts_of(self.additions, tools, request.is_composed, signatures)

    def hide_usage(self) -> None:
        """Keep the usage that a translated stream always tells from a client that did not ask."""
        asked = self.request.asked
        if asked.stream:
            self.splice.hides_usage = not asked.wants_usage

    async def acquire_slot(self) -> None:
        """Wait for a place among the follow-ups of due reminders, which may be many at once."""
        if not self.has_slot:
            await self.services.follow_up_slots.acquire()
            self.has_slot = True
            if self.tools is not None:
                await self.tools.policy.calm()

    def release_slot(self) -> None:
        """Leave it to the next."""
        if self.has_slot:
            self.has_slot = False
            self.services.follow_up_slots.release()

    async def commit_claim(self, claims: TurnClaims) -> None:
        """Count what the turn at hand carries to its session as delivered."""
        await claims.commit()
        if Committed in self.wants:
            await self.tell(Committed())

    def is_clean(self) -> bool:
        """Whether it holds nothing that would have to be given back."""
        tools = self.tools
        return self.turn is None and not self.has_slot and (tools is None or tools.claims.is_empty)

    async def release_claim(self) -> None:
        """Give back what a turn carried that came to nothing."""
        tools = self.tools
        if tools is not None and tools.claims.current is not None:
            tools.claims.release()
            await tools.claims.settle()
            if Released in self.wants:
                await self.tell(Released())

    def note_failure(self, upstream: str, error: HoldgateError) -> HoldgateError:
        """Keep an error, and return it as it is told: without the upstream's address or key."""
        endpoint = self.upstreams[upstream].endpoint
        error = self.error = describe_failure(error, endpoint, self.request.client_key)
        translator = self.translator if self.turn is None else None
        if isinstance(error, UpstreamAnswered) and translator is not None:
            error.body = translator.error(error.body, error.status)
        return error
