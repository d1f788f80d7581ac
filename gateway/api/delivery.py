"""Deliveries over HTTP: a stream of events, an inbox that can be waited for, and its receipts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta
from sse_starlette.sse import SendTimeoutError
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from gateway.api.admission import Keys
from gateway.api.event_stream import USUAL_TIMES, EventStreamResponse, FeedTimes, cut_off
from gateway.api.requests import find_session, receive_small_body
from gateway.api.route import ApiRoute, EventStream, Parameter, Reply, bind_all
from gateway.api.sessions import SESSION, SESSION_ID
from gateway.dialects.raw_json import Fields, read_as
from gateway.errors import BadRequest
from gateway.outbox.feed import KINDS, Feed, Subscription
from gateway.outbox.inbox import Inbox, Page, Seen, read_cursor
from gateway.outbox.text import DeliveryView, EventView, encode_event
from gateway.reminders.notifier import DueNotifier
from gateway.reminders.shared_notifier import SharedDueNotifier
from gateway.stores.delivery_rows import SessionEvent
from gateway.stores.documents import LATEST, SessionKey, StoreUnavailable
from gateway.wire.http_server.request_body import BodyLimits
from gateway.wire.http_server.request_cycle import CYCLE
from gateway.wire.http_server.response import ClientResponse, Message

LONGEST_WAIT_MS = 120_000
MOST_IDS = 1000
LONGEST_ID = 256
EVENT_ID = "x-holdgate-event-id"
PART = "inbox"

_fields = msgspec.json.Decoder(Fields)


class Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    """What a client has got."""

    ids: Annotated[list[str], Meta(extra_json_schema={"maxItems": MOST_IDS})]


class InboxPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What waits for a session, the oldest first."""

    session_id: str
    items: tuple[DeliveryView, ...]
    cursor: str


class Acknowledged(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The ids of those that were still waiting."""

    session_id: str
    acked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeliveryArea:
    """The routes about what waits for a session and what happens in it.

    Each owner sees only their own. They stand before those of sessions, whose names may hold
    anything, `/inbox` too.
    """

    feed: Feed
    due_notifier: DueNotifier | SharedDueNotifier
    inbox: Inbox
    keys: Keys
    limits: BodyLimits
    times: FeedTimes = USUAL_TIMES

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def subscribe(self, request: WebRequest) -> Response:
        """Subscribe to what happens in a session."""
        owner, name = find_session(self.keys, request, PART)
        # A client that comes back asks for the same address, and says in a header what it got.
        given = (request.headers.get("last-event-id"), request.query_params.get("after"))
        cursors = [_read_number(text, "after") for text in given if text]
        return _EventsAnswer(self, (owner, name), cursors[0] if cursors else None)

    async def look(self, request: WebRequest) -> InboxPage | Response:
        """Show what waits for a session, or wait for it. Looking does not remove it."""
        owner, name = find_session(self.keys, request, PART)
        seen = _read_cursor(request.query_params.get("after", ""))
        wait_ms = _read_number(request.query_params.get("wait_ms", "") or "0", "wait_ms")
        if wait_ms > LONGEST_WAIT_MS:
            raise BadRequest(f"`wait_ms` must be at most {LONGEST_WAIT_MS}.", param="wait_ms")
        now = await self.inbox.look(owner, name, seen)
        page = now if now.items else await self._wait(request, owner, name, seen, wait_ms / 1000)
        if page is None:
            return Response(status_code=204)
        return InboxPage(name, page.items, str(page.seen))

    async def _wait(
        self, request: WebRequest, owner: str, name: str, seen: Seen, seconds: float
    ) -> Page | None:
        if not seconds:
            return None
        with self.inbox.subscribers.admit(owner) as wakeup:
            forget = _watch_for_leaving(request, wakeup.end)
            try:
                return await self.inbox.wait(owner, name, seen, seconds, wakeup)
            finally:
                forget()

    async def acknowledge(self, request: WebRequest) -> Acknowledged:
        """Say what was received, so that no request of the session brings it as well."""
        owner, name = find_session(self.keys, request, PART)
        body = await receive_small_body(request, self.limits)
        acked = await self.inbox.acknowledge(owner, name, _read_ids(body, self.limits.depth))
        return Acknowledged(name, acked)


class _EventsAnswer(Response):
    """The answer to a subscription; it takes its place when it is sent, and gives it back."""

    def __init__(self, area: DeliveryArea, key: SessionKey, after: int | None) -> None:
        super().__init__()
        self._area = area
        self._key = key
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until one of both leaves."""
        area = self._area
        with area.feed.subscribe(*self._key) as subscription:
            # First where to read on: what the notifier then tells is news.
            await subscription.begin(self._after)
            await area.due_notifier.attend(*self._key)
            stream = EventStreamResponse(
                self._frames(subscription), area.feed.subscribers.left, area.times
            )
            stream.headers[EVENT_ID] = str(subscription.after)
            with suppress(SendTimeoutError):
                await stream(scope, receive, send)
            await cut_off(scope)

    async def _frames(self, subscription: Subscription) -> AsyncGenerator[bytes]:
        try:
            async with aclosing(subscription.events()) as events:
                async for event in events:
                    yield _frame(event)
        except StoreUnavailable as error:
            # The client comes back, and says how far it was.
            owner, session = self._key
            self._area.feed.note("events_not_read", owner=owner, session=session, why=error.message)


def _frame(event: SessionEvent) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (
        event.seq,
        event.kind.encode(),
        encode_event(event),
    )


def _watch_for_leaving(request: WebRequest, left: Callable[[], None]) -> Callable[[], object]:
    """Have this called when the client leaves; return how to stop that."""
    direct = request.scope.get("extensions", {}).get(CYCLE)
    return ClientResponse(request.receive, _unsent, (), direct).watch(left)


async def _unsent(message: Message) -> None:
    raise AssertionError("Nothing is sent before it is known what.")


def _read_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:20]) <= LATEST):
        raise BadRequest(f"`{name}` must be a number, 0 or more.", param=name)
    return int(text)


def _read_cursor(text: str) -> Seen:
    seen = read_cursor(text) if text else Seen()
    if seen is None:
        raise BadRequest("`after` must be the `cursor` of an earlier answer.", param="after")
    return seen


def _read_ids(body: bytes, depth: int) -> tuple[str, ...]:
    fields = read_as(_fields, body, depth)
    if unknown := [name for name in fields if name != "ids"]:
        raise BadRequest(f"Unknown: `{unknown[0][:40]}`; send only `ids`.", param=unknown[0][:40])
    try:
        ids = msgspec.json.decode(msgspec.json.encode(fields), type=Acknowledgement).ids
    except msgspec.DecodeError:
        raise BadRequest(
            "`ids` must be a list of ids, as the inbox shows them.", param="ids"
        ) from None
    if len(ids) > MOST_IDS:
        raise BadRequest(f"`ids` must have at most {MOST_IDS} items.", param="ids")
    return tuple(one for one in ids if len(one) <= LONGEST_ID)


PLACE = Annotated[int, Meta(ge=0, le=LATEST)]
WAIT_MS = Annotated[int, Meta(ge=0, le=LONGEST_WAIT_MS)]
ROUTES = (
    ApiRoute(
        "get",
        SESSION + "/events",
        "subscribe",
        DeliveryArea.subscribe,
        (
            SESSION_ID,
            Parameter("after", PLACE, "The id of the last event that was received."),
            Parameter("Last-Event-ID", PLACE, "The same; it takes precedence.", "header"),
        ),
        errors={429: "The owner has too many subscriptions."},
        replies=(
            Reply(
                "Events, until the client or the gateway leaves.",
                events=EventStream("What its data has depends on the event.", KINDS, EventView),
            ),
        ),
    ),
    ApiRoute(
        "get",
        SESSION + "/inbox",
        "lookIntoInbox",
        DeliveryArea.look,
        (
            SESSION_ID,
            Parameter("wait_ms", WAIT_MS, "How long to wait, in milliseconds; 0 by default."),
            Parameter("after", str, "The `cursor` of an earlier answer."),
        ),
        errors={429: "The owner has too many requests that wait."},
        replies=(Reply("Nothing waits.", status=204),),
    ),
    ApiRoute(
        "post",
        SESSION + "/inbox/ack",
        "acknowledge",
        DeliveryArea.acknowledge,
        (SESSION_ID,),
        Acknowledgement,
    ),
)
