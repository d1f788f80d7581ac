"""What a client is asked and what it read, in no client's own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, and how it is to be read."""

    prompt: str
    model: str = "demo"
    stream: bool = True
    usage: bool = False
    tools: tuple[str, ...] = ()
    leave_after: int | None = None
    """After so many pieces of text the client leaves."""
    retries: int = 0
    session: str = ""
    idle: float = 120
    """After so many seconds without a chunk the client gives up, if it is one that can."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the client put it together."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the answer cost, as the client was told."""

    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What the client raised, or was told instead of an answer."""

    message: str
    status: int | None = None
    name: str = ""
    """The exception's class; empty for clients that have none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a client made of one answer."""

    text: str = ""
    role: str = ""
    finishes: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    tokens: Tokens | None = None
    ids: tuple[str, ...] = ()
    """Every id the answer went by; a coherent one has one."""
    arrivals: tuple[float, ...] = ()
    """When each piece of text was handed over, in seconds."""
    beats: int = 0
    """How many heartbeats came as events."""
    end_marks: int = 0
    """How often the stream said that it ends, where the client shows it."""
    failure: Failure | None = None


Read = Callable[[str, Sequence[Ask]], list[Reading]]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to use a client: reads the answers to some asks, one after the other."""

    client: str
    name: str
    read: Read
    needs: tuple[str, ...] = ()
    """Fixtures that see to it that the client is there."""
    reads_whole: bool = False
    """Whether it can also ask for an answer that is not streamed."""

    def __str__(self) -> str:
        return f"{self.client} {self.name}"


@dataclass(frozen=True, slots=True)
class Client:
    """A real client, unmodified."""

    name: str
    version: Callable[[], str]
    forms: tuple[Form, ...]
    is_sdk: bool = True
    """Whether it knows the dialect: raises its own exceptions and tries again by itself."""
