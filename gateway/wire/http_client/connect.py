"""Makes an upstream from its endpoint, with the transport that the configuration names."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from importlib import import_module

from gateway.wire.http_client.fast import FastUpstream
from gateway.wire.http_client.httpx_upstream import HttpxUpstream
from gateway.wire.http_client.upstream import Endpoint, Upstream


def connect_by_httpx2(endpoint: Endpoint, ssl_context: ssl.SSLContext | None) -> Upstream:
    """Make an upstream that is asked through httpx2, which only this transport needs."""
    return HttpxUpstream(endpoint, ssl_context, import_module("httpx2"))


_TRANSPORTS: dict[str, Callable[[Endpoint, ssl.SSLContext | None], Upstream]] = {
    "fast": FastUpstream,
    "httpx": HttpxUpstream,
    "httpx2": connect_by_httpx2,
}


def connect(endpoint: Endpoint, ssl_context: ssl.SSLContext | None = None) -> Upstream:
    """Return the upstream behind an endpoint; nothing is dialled before the first turn."""
    if endpoint.transport not in _TRANSPORTS:
        known = " or ".join(_TRANSPORTS)
        raise ValueError(f"Upstream {endpoint.id} has an unknown transport; choose {known}.")
    return _TRANSPORTS[endpoint.transport](endpoint, ssl_context)
