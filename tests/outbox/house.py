"""All parts of delivery put together, as the gateway does it, behind a real socket if asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import uvicorn

from gateway.api.admission import Admission, AdmissionMiddleware, Keys, Owner
from gateway.api.delivery import DeliveryArea
from gateway.api.error_router import ErrorRouter
from gateway.api.event_stream import FeedTimes
from gateway.clock import ManualClock, TimerQueue
from gateway.outbox.feed import Feed
from gateway.outbox.inbox import Inbox, Seen
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.webhooks import USUAL, Hook, Tries, Webhooks
from gateway.reminders.model import ReminderRequest, Rules
from gateway.reminders.notifier import DueNotifier
from gateway.reminders.service import ReminderService
from gateway.stores import Memory, open_rows
from gateway.stores.delivery_rows import DeliveryRows, EventLogRows, OutboxItem
from gateway.wire.http_server.connection import build_connection_class
from gateway.wire.http_server.limits import ConnectionLimits
from gateway.wire.http_server.refusals import NullRefusalListener
from gateway.wire.http_server.request_body import BodyLimits
from gateway.wire.http_server.server import Server, listen, server_config
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.run import TestServer, plain_failures


class LoneRows(DeliveryRows, EventLogRows, Protocol):
    """The rows of deliveries of one process."""


NOW = 1_770_067_358_229
MINUTE = 60_000
WEEK = 7 * 24 * 60 * MINUTE
OWNER, SESSION = "local", "s"
RULES = Rules(due_window_ms=0)
SOON = 0.1
"""How long it may take to hear of something, in seconds."""


class Notes:
    """What was noted in the log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    def of(self, event: str) -> list[dict[str, Any]]:
        """Return the particulars of all notes of one kind."""
        return [fields for name, fields in self.lines if name == event]


@dataclass(slots=True)
class House:
    """The parts, and what a test does with them."""

    rows: LoneRows
    clock: ManualClock
    reminders: ReminderService
    notes: Notes
    deliveries: OutboxQueue
    feed: Feed
    timers: TimerQueue
    due_notifier: DueNotifier
    inbox: Inbox
    webhooks: Webhooks
    numbers: list[int] = field(default_factory=list)

    async def result(
        self, text: str = "done", session: str = SESSION, owner: str = OWNER, name: str = "check"
    ) -> OutboxItem:
        """Have a run end with this result, as the scheduler does."""
        self.numbers.append(1)
        number = len(self.numbers)
        item = OutboxItem(
            f"run-{number}", owner, session, self.clock.now_ms(), text, "job-1", f"r{number}", name
        )
        kept = await self.rows.add(item)
        self.deliveries.announce(kept)
        return kept

    async def remind(
        self, text: str, in_ms: int = 0, session: str = SESSION, owner: str = OWNER
    ) -> str:
        """Set a reminder, and return its id."""
        wanted = ReminderRequest(self.clock.now_ms() + in_ms, text)
        (task,) = await self.reminders.schedule(owner, session, (wanted,))
        return task.id

    async def happen(self, key: str, session: str = SESSION, owner: str = OWNER) -> None:
        """Publish something."""
        assert await self.feed.publish(owner, session, "run.finished", key, {"run_id": key})

    async def shown(self, session: str = SESSION, owner: str = OWNER) -> list[Any]:
        """Return the texts of what waits."""
        page = await self.inbox.look(owner, session, Seen())
        return [item.text for item in page.items]

    async def published(self, session: str = SESSION, owner: str = OWNER) -> list[tuple[str, str]]:
        """Return kind and key of all events of a session."""
        found = await self.rows.events(owner, session, 0, 10_000)
        return [(event.kind, event.key) for event in found]

    async def come_to(self, fact: Any) -> None:
        """Wait until something that is asked of the store is so."""
        while not await fact():  # noqa: ASYNC110 - stores have no event for that
            await anyio.sleep(0.001)

    async def run(self) -> None:
        """Do all that runs beside requests."""
        async with anyio.create_task_group() as tasks:
            for part in (self.timers, self.deliveries, self.due_notifier, self.webhooks):
                tasks.start_soon(part.run)


def build(
    rows: LoneRows,
    clock: ManualClock | None = None,
    store: Memory | None = None,
    rules: Rules = RULES,
    hooks: Iterable[Hook] = (),
    most: int = 20,
    most_polls: int = 100,
    tries: Tries = USUAL,
) -> House:
    """Put the parts together."""
    clock, notes = clock or ManualClock(NOW), Notes()
    store = store or Memory(clock.now_ms, lambda name, reason: None)
    reminders = ReminderService(store, clock, rules, notes)
    deliveries = OutboxQueue(rows, notes, retry_after=0.001)
    feed = Feed(rows, clock, notes, most)
    timers = TimerQueue(clock)
    webhooks = Webhooks(hooks, rows, feed, clock, notes, tries)
    due_notifier = DueNotifier(feed, reminders, timers, clock, webhooks.owners)
    inbox = Inbox(deliveries, reminders, feed, timers, clock, most_polls)
    return House(
        rows, clock, reminders, notes, deliveries, feed, timers, due_notifier, inbox, webhooks
    )


@asynccontextmanager
async def living(rows: LoneRows | None = None, **options: Any) -> AsyncIterator[House]:
    """Have all parts at work, on rows in memory unless others are given."""
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        stack.enter_context(anyio.fail_after(20))
        if rows is None:
            rows = await stack.enter_async_context(rows_in_memory())
        house = build(rows, **options)
        await house.deliveries.load()
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(house.run)
        yield house
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def rows_in_memory() -> AsyncIterator[LoneRows]:
    """Open the rows of a store in memory."""
    documents = Memory(lambda: NOW, lambda name, reason: None)
    rows = await open_rows("memory:", Path(), documents, now_ms=lambda: NOW)
    try:
        yield cast("LoneRows", rows.deliveries)
    finally:
        await rows.aclose()


# On a socket.


class _Server(TestServer):
    """The real server around a site, or a stranger's."""

    def __init__(self, app: Any, is_ours: bool) -> None:
        protocol = build_connection_class(ConnectionLimits(), NullRefusalListener())
        config = server_config(app, protocol, 1.0)
        if not is_ours:
            config = uvicorn.Config(app, http="h11", ws="none", log_config=None)
        Server.__init__(self, config, lambda left: left())
        self.up, self.over = anyio.Event(), anyio.Event()
        self.listening = lambda url: self.up.set()


@asynccontextmanager
async def _no_lifespan(app: Any) -> AsyncIterator[None]:
    yield


async def answer_of(client: Client) -> Answer:
    """Read an answer to its end, which for some is the end of the head."""
    head = await client.head()
    return await client.answer(bodyless=head.status == 204)


class Open:
    """A house with a door: what clients see of it."""

    def __init__(self, house: House, port: int) -> None:
        self.house = house
        self.port = port
        self.clients: list[Client] = []

    async def start(self, asked: bytes, **options: Any) -> Client:
        """Send a request on a connection of its own."""
        client = await Client.connected(self.port, **options)
        self.clients.append(client)
        await client.send(asked)
        return client

    async def fetch(self, asked: bytes) -> Answer:
        """Send a request and read its answer to the end."""
        client = await self.start(asked)
        answer = await answer_of(client)
        client.leave()
        return answer

    async def inbox(self, query: str = "", *headers: str, session: str = SESSION) -> Answer:
        """Look into an inbox."""
        return await self.fetch(get(f"/api/sessions/{session}/inbox{query}", *headers))

    async def ack(self, body: Any, *headers: str, session: str = SESSION) -> Answer:
        """Say what was got."""
        path, kind = f"/api/sessions/{session}/inbox/ack", "content-type: application/json"
        return await self.fetch(
            request("POST", path, kind, *headers, body=json.dumps(body).encode())
        )

    async def subscribe(
        self, query: str = "", *headers: str, session: str = SESSION, **options: Any
    ) -> Client:
        """Subscribe to events, and read the head of the answer."""
        asked = get(f"/api/sessions/{session}/events{query}", *headers)
        client = await self.start(asked, **options)
        answer = await client.head()
        assert answer.status == 200, bytes(answer.body)
        return client


@asynccontextmanager
async def open_house(
    keys: Mapping[str, str] | None = None,
    times: FeedTimes | None = None,
    is_ours: bool = True,
    **options: Any,
) -> AsyncIterator[Open]:
    """Have all parts at work behind a real socket; keys are of owners."""
    owners = {sha256(key.encode()).hexdigest(): Owner(name) for key, name in (keys or {}).items()}
    async with living(**options) as house:
        limits = BodyLimits(size=20_000, depth=16)
        area = DeliveryArea(
            house.feed, house.due_notifier, house.inbox, Keys(owners), limits, times or FeedTimes()
        )
        app = AdmissionMiddleware(
            ErrorRouter(area.routes(), lifespan=_no_lifespan), Admission(), {}
        )
        server, sock = _Server(app, is_ours), listen("127.0.0.1", 0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [sock])
            await server.up.wait()
            opened = Open(house, sock.getsockname()[1])
            try:
                yield opened
            finally:
                for client in opened.clients:
                    client.leave()
                server.over.set()
