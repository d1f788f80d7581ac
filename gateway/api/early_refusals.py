"""What the server refused by itself: no endpoint heard of it, and it is logged and counted here."""

from __future__ import annotations

from collections.abc import Callable

from gateway.api.admission import Tell, new_exchange_id
from gateway.errors import Headers, HoldgateError
from gateway.exchange.model import ExchangeInfo
from gateway.exchange.observer import RequestRefused


class EarlyRefusals:
    """Tells of what did not become a request, and of connections that were not let in."""

    def __init__(self, tell: Tell, note: Callable[..., None]) -> None:
        self._tell = tell
        self._note = note

    def tell_request(self, error: HoldgateError) -> Headers:
        """Tell that something was refused of which no more is known than the error."""
        name = new_exchange_id()
        self._tell(RequestRefused(ExchangeInfo(name, name), "", "", error))
        return ((b"x-request-id", name.encode()), (b"x-holdgate-exchange", name.encode()))

    def tell_connections(self, count: int, error: HoldgateError) -> None:
        """Note how many connections were refused since this was last told."""
        self._note(
            "connections_refused",
            connections=count,
            status=error.status,
            code=error.code,
            says=error.message,
        )
