"""Clients that ask again and again: raw protocols, so that the load costs little itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import cast

import anyio
import httptools

from bench.dialects import CHAT
from bench.frames import FrameCounter

MAX_SAMPLES = 1_000_000


class RequestFailed(Exception):
    """An answer was refused, broken or incomplete."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a user asks, and what a complete answer has at least."""

    host: str
    port: int
    request: bytes
    frames: int = 0
    leave_after: int = 0
    think_s: float = 0.0
    seed: int = 0
    source: str = ""
    """The address to come from, where one has not ports enough for all."""
    last: bytes = CHAT.last
    """The first line of the frame that ends a complete stream."""


@dataclass(slots=True)
class Tally:
    """What all users of one load have seen together."""

    requests: int = 0
    events: int = 0
    reads: int = 0
    left: int = 0
    first_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    measuring: bool = False
    stopping: bool = False


class User(asyncio.Protocol):
    """One client on one kept-alive connection, asking again as soon as it was answered."""

    def __init__(self, order: Order, tally: Tally) -> None:
        self.order = order
        self.tally = tally
        self._answering = False
        self._random = Random(order.seed)

    async def run(self) -> None:
        """Ask until told to stop; the first failure is noted and ends it."""
        try:
            while self._wants_more():
                await self._live_one_connection()
        except (OSError, RequestFailed) as error:
            self.tally.errors.append(f"{type(self).__name__}: {error or type(error).__name__}")

    def _wants_more(self) -> bool:
        return not self.tally.stopping

    async def _live_one_connection(self) -> None:
        self._failure: RequestFailed | None = None
        self._closed = anyio.Event()
        order, loop = self.order, asyncio.get_running_loop()
        source = (order.source, 0) if order.source else None
        transport, _ = await loop.create_connection(
            lambda: self, order.host, order.port, local_addr=source
        )
        try:
            await self._closed.wait()
        finally:
            transport.abort()
        if self._failure:
            raise self._failure

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answering:
            self._fail(f"the connection broke off in the middle ({exc or 'closed'})")
        self._closed.set()

    def data_received(self, data: bytes) -> None:
        self.tally.reads += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(f"the answer cannot be read: {error}")

    def on_headers_complete(self) -> None:
        """Refuse everything but 200 (called by the parser)."""
        if (status := self._parser.get_status_code()) != 200:
            self._fail(f"answered {status}")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the answer (called by the parser)."""

    def on_message_complete(self) -> None:
        """Check the answer and ask again (called by the parser)."""
        if not self._answering:
            return
        self._answering = False
        if problem := self._problem():
            self._fail(problem)
            return
        self.tally.requests += 1
        if self.order.think_s:
            pause = self._random.uniform(0, self.order.think_s)
            asyncio.get_running_loop().call_later(pause, self._go_on)
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self.tally.stopping or not self._parser.should_keep_alive():
            self._transport.close()
        elif not self._transport.is_closing():
            self._ask()

    def _ask(self) -> None:
        self._answering = True
        self._asked_at = perf_counter()
        self._transport.write(self.order.request)

    def _problem(self) -> str | None:
        return None

    def _fail(self, sentence: str) -> None:
        self._answering = False
        self._failure = self._failure or RequestFailed(sentence)
        self._transport.abort()


class JsonUser(User):
    """Asks for whole answers."""

    _size = 0

    def on_body(self, body: bytes) -> None:
        self._size += len(body)

    def _ask(self) -> None:
        self._size = 0
        super()._ask()

    def _problem(self) -> str | None:
        return None if self._size else "the answer is empty"


class ChatUser(User):
    """Asks for streams, counts their frames, and wants every one to its end."""

    def _ask(self) -> None:
        self._counter = FrameCounter(self.order.last)
        self._seen_at = 0.0
        super()._ask()

    def on_body(self, body: bytes) -> None:
        counter, tally = self._counter, self.tally
        before = counter.frames
        counter.feed(body)
        if counter.frames == before:
            return
        tally.events += counter.frames - before
        if tally.measuring:
            self._note_time(first=before == 0)

    def _note_time(self, first: bool) -> None:
        now = perf_counter()
        if first:
            self.tally.first_s.append(now - self._asked_at)
        elif self._seen_at and len(self.tally.gaps_s) < MAX_SAMPLES:
            self.tally.gaps_s.append(now - self._seen_at)
        self._seen_at = now

    def _problem(self) -> str | None:
        if not self._counter.done:
            return f"the stream ended without {self.order.last.decode().strip()}"
        if self._counter.frames < self.order.frames:
            return f"{self._counter.frames} frames came of {self.order.frames}"
        return None


class NewUser(ChatUser):
    """Asks for streams, each on a connection of its own."""

    def _go_on(self) -> None:
        self._transport.close()


class LeavingUser(ChatUser):
    """Asks for streams and hangs up in the middle of each."""

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self._answering and self._counter.frames >= self.order.leave_after:
            self._answering = False
            self.tally.left += 1
            self._transport.abort()


UserKind = Callable[[Order, Tally], User]

USERS: dict[str, UserKind] = {
    "json": JsonUser,
    "chat": ChatUser,
    "new": NewUser,
    "leaving": LeavingUser,
}
