"""Makes an upstream from its endpoint, with the transport that the configuration names."""

from __future__ import annotations

import ssl

from gateway.wire.http_client.fast import FastUpstream
from gateway.wire.http_client.httpx_upstream import HttpxUpstream
from gateway.wire.http_client.upstream import Endpoint, Upstream

_TRANSPORTS: dict[str, type[FastUpstream] | type[HttpxUpstream]] = {
    "fast": FastUpstream,
    "httpx": HttpxUpstream,
}


def connect(endpoint: Endpoint, ssl_context: ssl.SSLContext | None = None) -> Upstream:
    """Return the upstream behind an endpoint; nothing is dialled before the first turn."""
    if endpoint.transport not in _TRANSPORTS:
        known = " or ".join(_TRANSPORTS)
        raise ValueError(f"Upstream {endpoint.id} has an unknown transport; choose {known}.")
    return _TRANSPORTS[endpoint.transport](endpoint, ssl_context)
