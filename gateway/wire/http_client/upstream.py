"""What the exchange needs of an upstream: open a turn, read its bytes, close it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, Self

from gateway.errors import Headers


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds: to connect, for the first byte, between bytes.

    `connect` also bounds the wait for a free connection. `first_byte` counts from the request
    sent to the first byte of the answer's body. `settle` is how long first frames without content
    are kept back where another route may have to answer.
    """

    connect: float = 10.0
    first_byte: float = 120.0
    idle: float = 120.0
    settle: float = 0.1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one upstream lives and what it is told on every request."""

    id: str
    url: str
    """In its path, `{model}` stands for the name of the model that is asked."""
    headers: Headers = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_connections: int = 1000
    transport: str = "fast"
    secrets: Callable[[], tuple[bytes, ...]] = tuple
    """What no client may read of its answers, beside the values of headers."""
    takes_client_key: bool = False
    """Whether it is sent the client's own key, in place of one of the operator's."""


class Turn(Protocol):
    """One upstream answer: its headers now, its bytes as they come."""

    @property
    def headers(self) -> Headers:
        """The answer's headers, names in lower case."""

    @property
    def over(self) -> bool:
        """Whether all of it was read, as far as that is known without reading on."""

    def __aiter__(self) -> Turn: ...

    async def __anext__(self) -> bytes:
        """Return all bytes that have arrived, at least one; stop at the end of the answer.

        After a cancelled read a turn can only be closed.
        """

    def pause(self) -> None:
        """Read nothing ahead until more is asked for."""

    async def release(self) -> None:
        """Say that no more is wanted of a turn that ended well; its connection may be reused."""

    async def aclose(self) -> None:
        """Close the connection at once, unless the answer was read to its end."""


class WrappedTurn:
    """A turn that is read through something; a kind of it says how it is read."""

    __slots__ = ("headers", "turn")

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.headers = turn.headers

    def __aiter__(self) -> Self:
        return self

    def pause(self) -> None:
        """Read nothing ahead until more is asked for."""
        self.turn.pause()

    async def release(self) -> None:
        """Give the connection back."""
        await self.turn.release()

    async def aclose(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        await self.turn.aclose()


class Upstream(Protocol):
    """One who answers."""

    endpoint: Endpoint

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> Turn:
        """Send one POST and wait for a 2xx start line, or raise an `UpstreamError`.

        Header names are in lower case; what the endpoint says of itself wins over `headers`.
        `query` is put at the end of the endpoint's URL, `model` into its path if it has a place.
        """

    def copy_with_url(self, url: str) -> Upstream:
        """Return the same upstream at another URL of its host; both share their connections."""

    @property
    def busy(self) -> int:
        """How many connections are in use now."""

    async def retire(self) -> None:
        """Close connections that are not in use, and the others when their answers have ended.

        It can still be asked, by exchanges that began before; no connection outlives its answer.
        """

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
