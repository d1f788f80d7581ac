"""What cannot be read as a request, or is not let in: answered and told without an application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from gateway.errors import BadRequest, Headers, HoldgateError, RequestTimeout, TooManyConnections

# Whoever connects again and again would otherwise fill the log.
FOLD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServerRefusal:
    """An error, and the answer that says it."""

    error_class: type[HoldgateError]
    message: str
    head: bytes
    body: bytes

    def write_answer(self, headers: Headers = ()) -> bytes:
        """Write the answer, with headers of this one."""
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"%b%b\r\n%b" % (self.head, lines, self.body)

    def make_error(self) -> HoldgateError:
        """Return the error anew: one that is raised again keeps all that it has passed."""
        return self.error_class(self.message)


def _refusal(kind: type[HoldgateError], message: str, *lines: str) -> ServerRefusal:
    error = {"message": message, "type": kind.kind, "param": None, "code": kind.code}
    body = json.dumps({"error": error}).encode()
    status = f"HTTP/1.1 {kind.status} {HTTPStatus(kind.status).phrase}"
    head = (status, "content-type: application/json", "connection: close", *lines)
    written = "\r\n".join((*head, f"content-length: {len(body)}", "")).encode()
    return ServerRefusal(kind, message, written, body)


TOO_SLOW = _refusal(RequestTimeout, "The request did not arrive in time.")
TOO_LONG = _refusal(BadRequest, "The headers are too large.")
UNREADABLE = _refusal(BadRequest, "This is not valid HTTP.")
TOO_MANY = _refusal(
    TooManyConnections,
    "The gateway has too many connections; try again shortly.",
    "retry-after: 1",
)


class RefusalListener(Protocol):
    """Hears of what no application hears of."""

    def tell_request(self, error: HoldgateError) -> Headers:
        """Take note of something that did not become a request; return what names it."""

    def tell_connections(self, count: int, error: HoldgateError) -> None:
        """Take note of connections that were not let in."""


class NullRefusalListener:
    """Lets it go unheard."""

    def tell_request(self, error: HoldgateError) -> Headers:
        """Name nothing."""
        return ()

    def tell_connections(self, count: int, error: HoldgateError) -> None:
        """Do nothing."""


class RefusedConnections:
    """Tells of connections that were refused, of all in a second at once."""

    def __init__(self, tell: Callable[[int, HoldgateError], None]) -> None:
        self._tell = tell
        self._count = 0

    def add(self, loop: asyncio.AbstractEventLoop) -> None:
        """Count one more."""
        self._count += 1
        if self._count == 1:
            loop.call_later(FOLD_SECONDS, self._report)

    def _report(self) -> None:
        count, self._count = self._count, 0
        self._tell(count, TOO_MANY.make_error())
