"""The requests of one connection, as they come in: what the parser calls, and what it leaves."""

from __future__ import annotations

import asyncio
import re
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

import httptools

from gateway.wire.http_server.request_cycle import RequestCycle, Scope

Addresses = dict[str, Any]

MOST_UNREAD = 64 * 1024
EXPECT = b"expect"
_take_name = itemgetter(0)
_HTTP2_OFFER = re.compile(rb"\r\nupgrade:(?=[^\r\n]*h2c)(?![^\r\n]*websocket)", re.IGNORECASE)


class HttpRequestReader(asyncio.Protocol):
    """Makes cycles of what is read; who answers them says when and how by overriding."""

    __slots__ = (
        "_addresses",
        "_app_state",
        "_bare_bytes",
        "_begun",
        "_coming",
        "_expects",
        "_headers",
        "_heard_at",
        "_in_head",
        "_parser",
        "_reading",
        "_since",
        "_transport",
        "_url",
        "_waiting",
    )

    def __init__(self, app_state: dict[str, Any]) -> None:
        self._app_state = app_state
        self._transport: asyncio.Transport
        self._parser: Any = self._new_parser()
        self._addresses: Addresses | None = None
        self._coming: RequestCycle | None = None
        self._waiting: list[RequestCycle] = []
        self._reading = True
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._begun = False
        self._expects = False
        self._in_head = True
        # Bytes in a row that are no body: heads, and what may stand around chunks.
        self._bare_bytes = 0
        # When something came last, and since when the present request is coming.
        self._heard_at = self._since = 0.0

    # What the parser calls, in this order.

    def on_message_begin(self) -> None:
        """Start a request."""
        self._begun = True
        self._since = self._heard_at
        self._url = b""
        self._headers = []
        self._expects = False

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Have the request answered, or wait for its turn."""
        self._in_head = False
        parser, headers = self._parser, self._headers
        if EXPECT in map(_take_name, headers):
            found = [value.lower() for name, value in headers if name == EXPECT]
            self._expects = b"100-continue" in found
        version = parser.get_http_version()
        scope = build_scope(
            parser.get_method().decode("ascii"),
            self._url,
            version,
            headers,
            self._app_state,
            self._addresses or self._meet(),
        )
        # What comes as a trailer, behind the body, is no header of the request: it is dropped.
        self._headers = []
        lasts = version != "1.0" and parser.should_keep_alive()
        self._coming = self._accept(scope, lasts)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._bare_bytes = 0
        cycle = self._coming
        assert cycle is not None
        if cycle.ended:
            return
        unread = cycle.add_body(body)
        # A connection that is not read from does not show that its client left.
        if unread > MOST_UNREAD and not self._waiting and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._begun = False
        self._in_head = True
        self._bare_bytes = 0
        if self._coming is not None:
            self._coming.end_body()

    # What a connection says.

    def _accept(self, scope: Scope, lasts: bool) -> RequestCycle:
        """Have a request answered, or let it wait for its turn."""
        raise NotImplementedError

    # What a connection asks.

    def _parse(self, data: bytes) -> None:
        """Read on; raises what the parser does."""
        self._bare_bytes += len(data)
        if self._in_head:
            # Only the head is searched: a body that came with it is mostly longer.
            ends = data.find(b"\r\n\r\n")
            if data.find(b"h2c", 0, ends if ends >= 0 else len(data)) >= 0:
                data = _hide_http2_offer(data)
        self._parser.feed_data(data)

    def _new_parser(self) -> Any:
        parser = httptools.HttpRequestParser(self)
        # A request that asks to be the last may have another behind it; that one is dropped.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _meet(self) -> Addresses:
        """Say who speaks to whom."""
        ask = self._transport.get_extra_info
        self._addresses = {
            "server": _address(ask("sockname")),
            "client": _address(ask("peername")),
            "scheme": "https" if ask("sslcontext") else "http",
        }
        return self._addresses

    def _is_receiving(self) -> bool:
        """Whether a request has begun and did not come whole."""
        if self._in_head:
            return self._begun or self._bare_bytes > 0
        return self._coming is not None and self._coming.more_body


def _hide_http2_offer(data: bytes) -> bytes:
    """Hide an offer to go on in HTTP/2, which we may ignore: the parser would drop the body."""
    head, end, body = data.partition(b"\r\n\r\n")
    return _HTTP2_OFFER.sub(b"\r\nx-upgrade:", head) + end + body


def build_scope(
    method: str,
    url: bytes,
    version: str,
    headers: list[tuple[bytes, bytes]],
    state: dict[str, Any],
    addresses: Addresses,
) -> dict[str, Any]:
    """Return the scope of a request with these headers."""
    target, _, query = url.partition(b"?")
    if not target.startswith(b"/"):
        parts = httptools.parse_url(url)
        target, query = parts.path or b"", parts.query or b""
    path = target.decode("latin-1")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "method": method,
        "path": unquote(path) if "%" in path else path,
        "raw_path": target,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "state": state.copy(),
        **addresses,
    }


def _address(pair: Any) -> tuple[str, int] | None:
    return (str(pair[0]), int(pair[1])) if isinstance(pair, tuple) and len(pair) > 1 else None
