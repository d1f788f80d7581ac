"""Posts the events of an owner's sessions to a URL of the operator.

Each event is posted until it is accepted: those of one session one after another, those of
different sessions in parallel. The position is stored a little later, so a process that dies posts
the last events again, and loses none.

A poster reads the owner's log in order and puts each event into the lane of its session; one task
works on each lane. The stored position is that of the lowest event that is not accepted, even if
later ones are: a restart begins there. So a receiver may get an event twice, with the same id, but
never the events of one session out of order. A receiver that fails delays the sessions whose events
it refuses, until the limit of events under way is reached; then nothing more is read.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import cast

import anyio
import httpx
from anyio.abc import TaskGroup

from gateway.clock.protocol import Clock
from gateway.outbox.feed import Feed
from gateway.outbox.text import encode_event
from gateway.outbox.wakeup import Wakeup
from gateway.stores.delivery_rows import EventLogRows, SessionEvent
from gateway.stores.documents import StoreUnavailable
from gateway.version import __version__
from gateway.wire.tls import default_context

Note = Callable[..., None]

DAY_MS = 24 * 60 * 60 * 1000
CONNECT_SECONDS = 10.0
# Events of a hook that are not accepted yet; more are read when some of these are.
MOST_UNDER_WAY = 64
MOST_AT_ONCE = 4
MOST_OF_ANSWER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Hook:
    """Where an owner's events are posted."""

    owner: str
    url: str
    secret: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """The name of its stored position; a digest, because a URL may contain a secret."""
        digest = hashlib.sha256(f"{self.owner}\0{self.url}".encode()).hexdigest()
        return f"webhook:{digest[:32]}"

    def headers(self, event: SessionEvent, timestamp: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of a post; the receiver can check its origin and time."""
        mac = hmac.new(self.secret, f"{timestamp}.".encode() + body, hashlib.sha256)
        return {
            "content-type": "application/json",
            "user-agent": f"holdgate/{__version__}",
            "x-holdgate-event": event.kind,
            "x-holdgate-event-id": str(event.seq),
            "x-holdgate-timestamp": str(timestamp),
            "x-holdgate-signature": f"sha256={mac.hexdigest()}",
        }


@dataclass(frozen=True, slots=True)
class Tries:
    """How often a post is tried, and time limits, in seconds."""

    delays: tuple[float, ...] = (1, 5, 30, 120, 300, 900, 1800, 3600, 7200, 14_400, 28_800)
    """The pause after each failure; after one more failure the event is dropped. In all < 1 day."""
    patience: float = 30.0
    """How long an answer may take."""
    store_retry: float = 5.0


USUAL = Tries()


class WebhookSender:
    """Posts single events to one hook; it is entered before the first and left after the last."""

    def __init__(self, hook: Hook, clock: Clock, note: Note, patience: float) -> None:
        self._hook = hook
        self._clock = clock
        self._note = note
        self._patience = patience
        self._client = _make_client(hook)
        self._host = httpx.URL(hook.url).host

    async def __aenter__(self) -> None:
        await self._client.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def post(self, event: SessionEvent) -> str:
        """Post an event once; return why it was not accepted, empty if it was."""
        body = encode_event(event)
        headers = self._hook.headers(event, self._clock.now_ms() // 1000, body)
        try:
            with anyio.fail_after(self._patience):
                async with self._client.stream(
                    "POST", self._hook.url, content=body, headers=headers
                ) as response:
                    await _read_some(response)
        except TimeoutError:
            return "no answer in time"
        except httpx.TransportError as error:
            return type(error).__name__
        return "" if response.is_success else f"answered {response.status_code}"

    def log(self, line: str, event: SessionEvent | None = None, **more: object) -> None:
        """Log what became of an event; never its text, nor the address of the hook."""
        about: dict[str, object] = {"owner": self._hook.owner, "host": self._host}
        if event is not None:
            about |= {"session": event.session, "kind": event.kind, "id": event.seq}
        self._note(line, **about, **more)


class Webhooks:
    """All hooks; a failing hook does not affect the others."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        log: EventLogRows,
        feed: Feed,
        clock: Clock,
        note: Note,
        tries: Tries = USUAL,
    ) -> None:
        self.hooks = tuple(hooks)
        self.log = log
        self.feed = feed
        self.clock = clock
        self.note = note
        self.tries = tries
        self._wakeup = Wakeup()

    def __repr__(self) -> str:
        return f"<Webhooks {len(self.hooks)}>"

    @property
    def owners(self) -> frozenset[str]:
        """Whose events are posted."""
        return frozenset(hook.owner for hook in self.hooks)

    async def replace(self, hooks: Iterable[Hook]) -> None:
        """Post to these hooks from now on; one that was there before goes on as it is."""
        self.hooks = tuple(hooks)
        await self.load()
        self._wakeup.rouse()

    async def load(self) -> None:
        """Store the start position of new hooks: they get all events from now on."""
        for hook in self.hooks:
            # If the store is down, that is done when it is back.
            with suppress(StoreUnavailable):
                await beginning(self.log, hook)

    async def run(self) -> None:
        """Post events forever, to the hooks that there are."""
        posting: dict[Hook, _PostingTask] = {}
        async with anyio.create_task_group() as tasks:
            while True:
                self._wakeup.look()
                wanted = dict.fromkeys(self.hooks)
                for hook in [hook for hook in posting if hook not in wanted]:
                    # Before a new one starts: both may post to the same URL.
                    await posting.pop(hook).stop()
                for hook in [hook for hook in wanted if hook not in posting]:
                    posting[hook] = _PostingTask()
                    tasks.start_soon(posting[hook].run, _WebhookPoster(self, hook))
                await self._wakeup.wait()


class _PostingTask:
    """The task that posts to one hook, which can be stopped."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def run(self, poster: _WebhookPoster) -> None:
        """Post events until stopped."""
        try:
            with self._scope:
                await poster.run()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Post nothing more, and wait until that is so."""
        self._scope.cancel()
        await self._ended.wait()


class _WebhookPoster:
    """Posts the events of one hook."""

    def __init__(self, parts: Webhooks, hook: Hook) -> None:
        self._parts = parts
        self._hook = hook
        self._sender = WebhookSender(hook, parts.clock, parts.note, parts.tries.patience)
        self._rows = parts.log
        self._wakeup = Wakeup()
        self._limit = anyio.CapacityLimiter(MOST_AT_ONCE)
        # The events that are not accepted yet, by session; and their numbers, the lowest first.
        self._lanes: dict[str, deque[SessionEvent]] = {}
        self._under_way: dict[int, None] = {}
        self._read_to: int | None = None
        self._kept = 0

    async def run(self) -> None:
        """Read the log as it grows, and post each event."""
        unwatch = self._parts.feed.watch(self._hook.owner, self._wakeup.rouse)
        try:
            async with self._sender, anyio.create_task_group() as tasks:
                while True:
                    self._wakeup.look()
                    try:
                        has_more = await self._read_on(tasks)
                    except StoreUnavailable as error:
                        self._sender.log("webhook_store_down", why=error.message)
                        await anyio.sleep(self._parts.tries.store_retry)
                        continue
                    if not has_more:
                        await self._wakeup.wait()
        finally:
            unwatch()

    async def _read_on(self, tasks: TaskGroup) -> bool:
        """Store the position, and take new events; return whether there may be more."""
        if self._read_to is None:
            self._read_to = self._kept = await beginning(self._rows, self._hook)
        done = next(iter(self._under_way), self._read_to + 1) - 1
        if done > self._kept:
            await self._keep(done)
        room = MOST_UNDER_WAY - len(self._under_way)
        if not room:
            return False
        found = await self._rows.events_since(self._hook.owner, self._read_to, room)
        for event in found:
            self._read_to = event.seq
            self._take(event, tasks)
        return bool(found)

    async def _keep(self, done: int) -> None:
        # The stored number is that of the next event, since 0 means that none is stored.
        await self._rows.move(self._hook.name, done + 1)
        self._kept = done

    def _take(self, event: SessionEvent, tasks: TaskGroup) -> None:
        self._under_way[event.seq] = None
        lane = self._lanes.get(event.session)
        if lane is not None:
            lane.append(event)
            return
        self._lanes[event.session] = deque((event,))
        tasks.start_soon(self._serve, event.session)

    async def _serve(self, session: str) -> None:
        """Post the events of one session, one after another."""
        lane = self._lanes[session]
        while lane:
            await self._insist(lane[0])
            del self._under_way[lane.popleft().seq]
            self._wakeup.rouse()
        del self._lanes[session]

    async def _insist(self, event: SessionEvent) -> None:
        """Post an event until it is accepted, or is too old or tried too often."""
        for attempt, delay in enumerate((*self._parts.tries.delays, None), 1):
            async with self._limit:
                why = await self._sender.post(event)
            if not why:
                self._sender.log("webhook_posted", event, attempt=attempt)
                return
            if delay is None or self._parts.clock.now_ms() - event.at_ms > DAY_MS:
                self._sender.log("webhook_given_up", event, attempt=attempt, why=why)
                return
            self._sender.log("webhook_failed", event, attempt=attempt, why=why, again_in=delay)
            await anyio.sleep(delay)


async def beginning(rows: EventLogRows, hook: Hook) -> int:
    """Return after which event a hook continues; a new hook starts after the last event."""
    following = await rows.position(hook.name)
    if following:
        return following - 1
    last = await rows.last_event(hook.owner, "")
    await rows.move(hook.name, last + 1)
    return last


async def _read_some(response: httpx.Response) -> None:
    """Read an answer up to a limit; after a short one the connection can be used again."""
    left = MOST_OF_ANSWER
    async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as pieces:
        async for piece in pieces:
            left -= len(piece)
            if left < 0:
                break


def _make_client(hook: Hook) -> httpx.AsyncClient:
    # Loading certificates takes long, so it is skipped if the hook needs none.
    is_secure = hook.url.startswith("https:")
    context = default_context() if is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.AsyncClient(
        verify=context,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=MOST_AT_ONCE),
    )
