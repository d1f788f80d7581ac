"""What happens in an exchange, told as values, and who hears it.

The runner tells each thing once, when it has happened, with the time of the clock it was given.
Whoever wants to know something of an exchange is an observer: logs and metrics, the notes that a
client may ask for, the frames of `/api/chat` and the conversation kept of it, snapshots for jobs.
Observers decide nothing, and nobody reads facts back out of text.

To hear of something has a price, so an observer says which kinds it `wants`: logs and metrics only
how a turn and an exchange ended. A value that nobody wants is not even made. `NOBODY` is the null
object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Protocol

import msgspec

from gateway.errors import HoldgateError
from gateway.exchange.additions import Addition
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.machine import State
from gateway.exchange.model import ExchangeInfo, Route, ToolCall, TurnEnd, Usage


class StateChanged(msgspec.Struct, frozen=True, gc=False):
    """The exchange came into another state, or into the same one again by another route."""

    state: State
    turn: int
    reason: str = ""
    """What cut the answer short, or why it does not go on, if something did."""


class RouteTried(msgspec.Struct, frozen=True, gc=False):
    """A route is asked for a turn."""

    turn: int
    route: Route


class FirstFrame(msgspec.Struct, frozen=True, gc=False):
    """The first frame of a turn is in."""

    turn: int


class RequestExtended(msgspec.Struct, frozen=True, gc=False):
    """The conversation gained this, in order: what answered, what tools returned, what was told."""

    additions: tuple[Addition, ...]


class TurnEnded(msgspec.Struct, frozen=True, gc=False):
    """A turn is over. Its words are had by asking: to read them costs more than relaying them."""

    turn: TurnEnd
    read_text: Callable[[], str]
    bytes: int
    """How many bytes of it were read, in the client's dialect."""
    reads: int
    """In how many reads they came."""
    number: int
    route: Route
    seconds: float
    """From its first frame to its last."""
    info: ExchangeInfo
    first_reads: int = 1
    """How many of the reads came up to its first frame."""


class TurnBroke(msgspec.Struct, frozen=True, gc=False):
    """A turn that had begun ended before its end: it failed, or nobody listens any more."""

    number: int
    route: Route
    info: ExchangeInfo
    usage: Usage | None = None
    """What the upstream had reported by then, if anything: in Messages, the input."""


class UsageRefused(msgspec.Struct, frozen=True, gc=False):
    """An upstream refuses to be asked for usage, so it is not asked again."""

    upstream: str


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """The client had got nothing for a while and was sent a heartbeat, in this turn or after it.

    It is told by the task that beats for all clients, so it names the exchange itself.
    """

    turn: int
    info: ExchangeInfo


class Spliced(msgspec.Struct, frozen=True, gc=False):
    """A follow-up was joined on to the answer."""

    turn: int


class UpstreamClosed(msgspec.Struct, frozen=True, gc=False):
    """The connection of a turn was given back, or cut off before the turn's end."""

    turn: int
    was_cut: bool


class ToolStarted(msgspec.Struct, frozen=True, gc=False):
    """A tool of the gateway's begins."""

    call: ToolCall


class ToolReturned(msgspec.Struct, frozen=True, gc=False):
    """It returned, after so many milliseconds."""

    call: ToolCall
    text: str
    ms: int
    error: str = ""
    """What went wrong, in a sentence, if something did."""


class HeldUntil(msgspec.Struct, frozen=True, gc=False):
    """The answer is kept open until then, in UTC milliseconds; what is large is let go of now."""

    until_ms: int
    now_ms: int


class HoldMoved(msgspec.Struct, frozen=True, gc=False):
    """The answer is kept open until then instead: reminders were set or cancelled meanwhile."""

    until_ms: int
    now_ms: int


class StopMessageFired(msgspec.Struct, frozen=True, gc=False):
    """The session's stop message is sent, for the n-th time of so many."""

    n: int
    of: int


class Committed(msgspec.Struct, frozen=True, gc=False):
    """What a turn carried to its session counts as delivered."""


class Released(msgspec.Struct, frozen=True, gc=False):
    """What a turn carried was given back."""


class ExchangeFailed(msgspec.Struct, frozen=True, gc=False):
    """The answer ends with this error."""

    error: HoldgateError


class ExchangeEnded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How the exchange went, at its end: no text, no secret."""

    info: ExchangeInfo
    state: State
    route: Route
    turns: int
    tries: int
    """How often an upstream was asked: for a turn more than once where a route failed."""
    status: int
    seconds: float
    first_seconds: float | None
    bytes: int
    """How many bytes of upstreams' answers were read, in the client's dialect."""
    usage: Usage | None
    error: HoldgateError | None = None
    lost: tuple[str, ...] = ()
    """What of the request the upstream's dialect cannot say."""

    @property
    def code(self) -> str:
        """The code of the error it ended with, if it did."""
        return "" if self.error is None else self.error.code


class RequestRefused(msgspec.Struct, frozen=True, gc=False):
    """A request did not become an exchange."""

    info: ExchangeInfo
    method: str
    """Empty, as is the path, of what could not be read as a request."""
    path: str
    error: HoldgateError


class RequestAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request that asks no model was answered."""

    info: ExchangeInfo
    method: str
    path: str
    status: int
    seconds: float


Happening = (
    StateChanged
    | RouteTried
    | RouteFailed
    | FirstFrame
    | RequestExtended
    | TurnEnded
    | TurnBroke
    | UsageRefused
    | Heartbeat
    | Spliced
    | UpstreamClosed
    | ToolStarted
    | ToolReturned
    | HeldUntil
    | HoldMoved
    | HoldEnded
    | ReminderDue
    | StopMessageFired
    | Committed
    | Released
    | ExchangeFailed
    | ExchangeEnded
    | RequestRefused
    | RequestAnswered
)


Wants = frozenset[type[Happening]]


class Observer(Protocol):
    """Hears what happens in exchanges."""

    @property
    def wants(self) -> Wants:
        """The kinds of happenings that it hears of."""

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        """Hear what happened; whoever has to write of it to a client returns what to wait for.

        How an exchange ended is told without waiting for anybody.
        """


class NullObserver:
    """Hears nothing."""

    wants: Wants = frozenset()

    def observe(self, at: float, happening: Happening) -> None:
        """Hear nothing."""


NOBODY = NullObserver()


class ObserverGroup:
    """Several observers, told in order."""

    def __init__(self, *observers: Observer) -> None:
        self.wants: Wants = frozenset().union(*[observer.wants for observer in observers])
        self._hearers = {
            kind: tuple(observer.observe for observer in observers if kind in observer.wants)
            for kind in self.wants
        }

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        """Tell those who want it; wait for those that have to write of it."""
        waiting = None
        for observe in self._hearers[type(happening)]:
            if (pending := observe(at, happening)) is not None:
                waiting = pending if waiting is None else _wait_for(waiting, pending)
        return waiting


async def _wait_for(first: Awaitable[None], second: Awaitable[None]) -> None:
    await first
    await second


class ObserverPair:
    """Two observers, told in order; made for each exchange, so it prepares nothing."""

    __slots__ = ("_one", "_other", "wants")

    def __init__(self, one: Observer, other: Observer) -> None:
        self._one = one
        self._other = other
        self.wants = join_wants(one.wants, other.wants)

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        """Tell those who want it; wait for those that have to write of it."""
        kind, one, other = type(happening), self._one, self._other
        waiting = one.observe(at, happening) if kind in one.wants else None
        pending = other.observe(at, happening) if kind in other.wants else None
        if waiting is None or pending is None:
            return pending if waiting is None else waiting
        return _wait_for(waiting, pending)


@lru_cache(maxsize=256)
def join_wants(one: Wants, other: Wants) -> Wants:
    """Return what either wants to hear; the same few pairs come with every request."""
    return one | other


def combine(one: Observer, other: Observer) -> Observer:
    """Make one observer of two, of which either may be nobody."""
    if one is NOBODY:
        return other
    return one if other is NOBODY else ObserverPair(one, other)
