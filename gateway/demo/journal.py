"""What the demo upstream received and what became of it, for tests that count from outside."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import anyio
import msgspec

Headers = tuple[tuple[str, str], ...]
MOST_KEPT = 64 * 1024 * 1024


class EventKind(StrEnum):
    """Everything that is noted."""

    OPENED = "opened"
    REQUEST = "request"
    FINISHED = "finished"
    BROKE = "broke"
    CLOSED_BY_CLIENT = "closed_by_client"
    CLOSED = "closed"


class RequestEvent(NamedTuple):
    """Something that happened to a request, at a Unix time in seconds."""

    name: EventKind
    at: float


@dataclass(eq=False, slots=True)
class ReceivedRequest:
    """One request, and what happened to it so far."""

    number: int
    connection: int
    method: str
    target: str
    headers: Headers
    body: bytes
    events: list[RequestEvent] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def created(self) -> int:
        """When it came, in Unix seconds."""
        return int(self.events[0].at)

    @property
    def json(self) -> Any:
        """The body, parsed when somebody asks."""
        return msgspec.json.decode(self.body)

    def header(self, name: str) -> str | None:
        """Return the first header of this name, written in lower case."""
        return next((value for known, value in self.headers if known == name), None)

    def when(self, name: str) -> float | None:
        """Return when something happened to it, if it did."""
        return next((event.at for event in self.events if event.name == name), None)


class RequestJournal:
    """A bounded memory of requests, counts of everything, and lines for a log file."""

    def __init__(
        self,
        keep: int = 1000,
        write: Callable[[bytes], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.requests: deque[ReceivedRequest] = deque()
        self.counts: Counter[EventKind] = Counter()
        self._most = keep
        self._size = 0
        self._write = write
        self._clock = clock
        self._changed: anyio.Event | None = None

    def note(
        self, name: EventKind, connection: int, received: ReceivedRequest | None = None
    ) -> None:
        """Note something that happened to a connection or to a request on it."""
        at = self._clock()
        self.counts[name] += 1
        if received is not None:
            received.events.append(RequestEvent(name, at))
            if name is EventKind.REQUEST:
                self._keep(received)
        if self._write is not None:
            self._write(line(name, at, connection, received))
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _keep(self, received: ReceivedRequest) -> None:
        self.requests.append(received)
        self._size += len(received.body)
        while self.requests and (len(self.requests) > self._most or self._size > MOST_KEPT):
            self._size -= len(self.requests.popleft().body)

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait until something that is noted here makes a fact true."""
        while not fact():
            self._changed = self._changed or anyio.Event()
            await self._changed.wait()


def line(name: EventKind, at: float, connection: int, received: ReceivedRequest | None) -> bytes:
    """Write one happening as a line of JSON."""
    shown: dict[str, object] = {"at": at, "event": name, "connection": connection}
    if received is not None:
        shown["request"] = received.number
        if name is EventKind.REQUEST:
            shown |= {"method": received.method, "target": received.target}
            shown |= {"headers": received.headers, "body": body_of(received)}
    return msgspec.json.encode(shown) + b"\n"


def body_of(received: ReceivedRequest) -> object:
    """Return the body as JSON if it is, else as text."""
    try:
        return received.json
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return received.body.decode("utf-8", "replace")
