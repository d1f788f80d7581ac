"""How far an exchange has come: all that its workers know of it and leave behind."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import anyio
import msgspec
from anyio.to_thread import run_sync

from gateway.core.additions import Addition
from gateway.core.exchange import Exchange
from gateway.core.model import Usage
from gateway.dialects.base import Passage, Splice, Tap
from gateway.driver.values import Client, Request, Services
from gateway.errors import Headers, HoldgateError, UpstreamAnswered
from gateway.upstream.base import Turn
from gateway.upstream.blot import blotted

CLEAN_UP = 2.0
# A history is mostly text, of which a fifth is left; in small requests it is not worth the while.
PACKED_ABOVE = 16 * 1024
# What takes more than a millisecond or two is done beside the event loop.
ASIDE_ABOVE = 128 * 1024
NO_TOOLS: frozenset[str] = frozenset()


_compress = partial(zlib.compress, level=1)


async def _worked(work: Callable[[bytes], bytes], data: bytes) -> bytes:
    if len(data) <= ASIDE_ABOVE:
        return work(data)
    return await run_sync(work, data, abandon_on_cancel=True)


class Course:
    """One exchange under way: its turn, its answer so far, and who is there."""

    __slots__ = (
        "begun",
        "body",
        "body_turn",
        "client",
        "cut",
        "ending",
        "error",
        "exchange",
        "first",
        "first_at",
        "gone",
        "has_place",
        "headers",
        "lost",
        "packed",
        "passage",
        "request",
        "services",
        "splice",
        "status",
        "tap",
        "time",
        "turn",
        "usage",
    )

    def __init__(self, services: Services, request: Request, client: Client) -> None:
        asked, limits = request.asked, services.limits
        routes = services.health.order(request.routes, services.now())
        size = limits.event_bytes if asked.stream else limits.answer_bytes
        tools = NO_TOOLS if request.time is None else request.time.tools
        self.services = services
        self.request = request
        self.client = client
        self.time = request.time
        self.exchange = Exchange(routes, services.rules, limits.turns)
        self.splice: Splice = request.dialect.splice(asked, tools, size)
        # The request as it stands, and up to which turn.
        self.body = asked.body
        self.packed = False
        self.body_turn = 1 if request.time is None else 0
        self.tap: Tap | None = None
        self.turn: Turn | None = None
        self.passage: Passage | None = None
        self.lost: tuple[str, ...] = ()
        self.first = b""
        self.headers: Headers = ()
        self.has_place = False
        # Whether the client left, or the gateway has to go.
        self.ending = False
        self.gone = False
        self.cut: HoldgateError | None = None
        self.error: HoldgateError | None = None
        self.status = 200
        self.usage: Usage | None = None
        self.begun = services.now()
        self.first_at: float | None = None

    async def let_go(self) -> None:
        """Close the upstream at once, whatever else is being cancelled."""
        self.leave_place()
        turn, self.turn = self.turn, None
        if turn is not None:
            with anyio.move_on_after(CLEAN_UP, shield=True):
                await turn.aclose()

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> None:
        """Put additions into the request."""
        self.body, self.packed = self.request.dialect.add(body, additions), False
        self.told(additions)

    def told(self, additions: tuple[Addition, ...]) -> None:
        """Let whoever keeps the conversation know what it gained."""
        if self.request.witness is not None:
            self.request.witness.told(additions)

    async def pack(self) -> None:
        """Keep, for a long wait, only what the exchange goes on with: its request, as bytes."""
        request, tap = self.request, self.tap
        assert tap is not None
        answered = (tap.answered(),)
        body = request.dialect.add(self.body, answered)
        self.told(answered)
        self.packed = len(body) > PACKED_ABOVE
        # A copy, since the encoder leaves half as much room again behind what it wrote.
        self.body = await _worked(_compress, body) if self.packed else memoryview(body).tobytes()
        self.tap = self.passage = None
        if request.onlooker is not None:
            request.onlooker.rest()
        self.splice.rest()
        self.client.rest()
        self.first = b""
        if self.client.started:
            self.headers = ()
        bare = msgspec.structs.replace(request.asked, body=b"", tools=b"")
        self.request = msgspec.structs.replace(request, asked=bare)

    async def unpack(self) -> bytes:
        """Return the request that was packed."""
        return await _worked(zlib.decompress, self.body)

    async def take_place(self) -> None:
        """Wait for a place among the follow-ups of due reminders, which may be many at once."""
        if not self.has_place:
            await self.services.places.acquire()
            self.has_place = True
            if self.time is not None:
                await self.time.calm()

    def leave_place(self) -> None:
        """Leave it to the next."""
        if self.has_place:
            self.has_place = False
            self.services.places.release()

    def note_failure(self, upstream: str, error: HoldgateError) -> None:
        """Keep an error to be told, without what it may say of the upstream's address or key."""
        self.error = error
        if isinstance(error, UpstreamAnswered):
            error.body = blotted(error.body, self.services.upstreams[upstream].endpoint)
            if self.passage is not None and self.turn is None:
                error.body = self.passage.error(error.body, error.status)
