"""What an application is told of a request: the scope of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

import httptools

Addresses = dict[str, Any]


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


def addresses_of(transport: asyncio.Transport) -> Addresses:
    """Say who speaks to whom."""
    told = transport.get_extra_info
    return {
        "server": _address(told("sockname")),
        "client": _address(told("peername")),
        "scheme": "https" if told("sslcontext") else "http",
    }


def offers_websocket(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a request asks to go on as a WebSocket."""
    return any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers)


def _address(pair: Any) -> tuple[str, int] | None:
    return (str(pair[0]), int(pair[1])) if isinstance(pair, tuple) and len(pair) > 1 else None
