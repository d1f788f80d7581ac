"""The feed of the console: one stream of events with the state of all that a page shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

import anyio
import msgspec
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from gateway.api.admission import IncomingRequest, Keys, Owner, incoming_of
from gateway.api.event_stream import EventStreamResponse, FeedTimes, cut_off
from gateway.api.route import ApiRoute, EventStream, Parameter, Reply, bind_all
from gateway.console.feed import ConsoleFeed, FeedReader, TopicChanges, Viewer
from gateway.console.live_board import LiveBoard
from gateway.errors import HoldgateError
from gateway.outbox.wakeup import SubscriberLimit, Wakeup
from gateway.stores.documents import StoreUnavailable

TICK_SECONDS = 0.1
BEAT_SECONDS = 5.0
EVENTS = ("hello", "state", "beat", "reset", "bye")


class FeedHello(msgspec.Struct, frozen=True):
    """The first event: where the feed is, and who reads it."""

    epoch: str
    version: int
    now: int
    instance: str
    owner: str
    admin: bool
    draining: bool


class FeedBeat(msgspec.Struct, frozen=True):
    """Sent after the first state, and every five seconds: all that changed until now was told.

    `now` is the time in UTC milliseconds, `version` how far the feed is.
    """

    now: int
    version: int
    draining: bool


class FeedReset(msgspec.Struct, frozen=True):
    """What was read before counts no more: all rows follow."""


class FeedBye(msgspec.Struct, frozen=True):
    """The last event: why the stream ends."""

    reason: Literal["draining", "signed_out"]


FeedState = Mapping[str, TopicChanges]


@dataclass(slots=True)
class FeedServices:
    """What all streams of the feed use; it stays when the configuration is read again."""

    board: LiveBoard
    feed: ConsoleFeed
    subscribers: SubscriberLimit
    now: Callable[[], float]
    now_ms: Callable[[], int]
    instance: str
    is_draining: Callable[[], bool]
    find_owner: Callable[[IncomingRequest], Owner]
    """Finds the owner of a key as the configuration is now: a key may be removed meanwhile."""


@dataclass(frozen=True, slots=True)
class ConsoleFeedArea:
    """The route of the feed."""

    services: FeedServices
    keys: Keys
    times: FeedTimes

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def follow(self, request: WebRequest) -> Response:
        """Follow topics: all their rows at first, then those that change."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        viewer = Viewer(owner.name, owner.admin)
        given = request.query_params.get("topics", "").split(",")
        # What a topic is about may hold anything, also a comma.
        names = dict.fromkeys(unquote(one) for one in given)
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        reader = self.services.feed.open(viewer, tuple(one for one in names if one), after)
        stream = _FeedStream(self.services, reader, owner, incoming)
        return _FeedAnswer(stream, self.times)


class _FeedAnswer(Response):
    """The answer to a reader; it takes its place when it is sent, and gives it back."""

    def __init__(self, stream: _FeedStream, times: FeedTimes) -> None:
        super().__init__()
        self._stream = stream
        self._times = times

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until one of both leaves."""
        subscribers = self._stream.services.subscribers
        with subscribers.admit(self._stream.owner.name) as wakeup:
            frames = self._stream.frames(wakeup)
            answer = EventStreamResponse(frames, subscribers.left, self._times)
            answer.headers["cache-control"] = "no-store, no-transform"
            with suppress(SendTimeoutError):
                await answer(scope, receive, send)
            await cut_off(scope)


class _FeedStream:
    """The events for one reader."""

    def __init__(
        self,
        services: FeedServices,
        reader: FeedReader,
        owner: Owner,
        incoming: IncomingRequest,
    ) -> None:
        self.services = services
        self.owner = owner
        self._reader = reader
        self._incoming = incoming
        self._next_beat = services.now()
        self._is_draining = services.is_draining()

    async def frames(self, wakeup: Wakeup) -> AsyncGenerator[bytes]:
        """Yield events until the gateway leaves, or the key is no longer known."""
        yield self._write_hello()
        while not wakeup.over:
            frames = await self._read()
            for frame in frames or ():
                yield frame
            if self._is_beat_due():
                if not self._is_known():
                    yield _write("bye", FeedBye("signed_out"))
                    return
                # A page that hears no beat shows its figures as old: so they are.
                if frames is not None:
                    yield self._write_beat()
            with anyio.move_on_after(TICK_SECONDS):
                await wakeup.wait()
        # How the last answers ended is known at the next look.
        await anyio.sleep(TICK_SECONDS)
        for frame in await self._read() or ():
            yield frame
        yield _write("bye", FeedBye("draining"))

    def _is_beat_due(self) -> bool:
        """Whether five seconds passed, or the gateway has just begun to shut down."""
        began_to_drain = self.services.is_draining() and not self._is_draining
        return began_to_drain or self.services.now() >= self._next_beat

    def _write_beat(self) -> bytes:
        services = self.services
        self._next_beat = services.now() + BEAT_SECONDS
        self._is_draining = services.is_draining()
        beat = FeedBeat(services.now_ms(), services.feed.version, self._is_draining)
        return _write("beat", beat)

    def _write_hello(self) -> bytes:
        services = self.services
        hello = FeedHello(
            services.feed.epoch,
            services.feed.version,
            services.now_ms(),
            services.instance,
            self.owner.name,
            self.owner.admin,
            services.is_draining(),
        )
        return _write("hello", hello)

    async def _read(self) -> list[bytes] | None:
        """Write what changed; None if that can not be known now."""
        try:
            changes = await self._reader.read()
        except StoreUnavailable:
            # The page keeps what it has; the next look may find the store well.
            return None
        frames = [_write("reset", FeedReset())] if self._reader.take_reset(changes) else []
        if changes:
            frames.append(_write("state", changes, self._reader.place))
        return frames

    def _is_known(self) -> bool:
        """Whether the key still is the same owner's."""
        try:
            return self.services.find_owner(self._incoming) == self.owner
        except HoldgateError:
            return False


def _write(name: str, data: object, place: str = "") -> bytes:
    start = b"id: %b\n" % place.encode() if place else b""
    return start + b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data))


ROUTES = (
    ApiRoute(
        "get",
        "/api/console/feed",
        "followConsole",
        ConsoleFeedArea.follow,
        (
            Parameter(
                "topics",
                str,
                "What to follow, each URL-encoded, separated by commas.",
                required=True,
            ),
            Parameter("after", str, "The id of the last `state` event that was received."),
            Parameter("Last-Event-ID", str, "The same; it takes precedence.", "header"),
        ),
        errors={429: "The owner has too many streams."},
        replies=(
            Reply(
                "Events, until the client or the gateway leaves.",
                events=EventStream(
                    "What its data has depends on the event.",
                    EVENTS,
                    (FeedHello, dict[str, TopicChanges], FeedBeat, FeedReset, FeedBye),
                ),
            ),
        ),
    ),
)
