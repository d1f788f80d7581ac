"""What an upstream's error may repeat and a client must not read: our key, its address."""

from __future__ import annotations

from urllib.parse import urlsplit

from gateway.wire.http_client.upstream import Endpoint

BLOT = b"***"
SHORTEST = 6


def redact_secrets(body: bytes, endpoint: Endpoint) -> bytes:
    """Return an error body without the endpoint's credentials and address."""
    for secret in _secrets(endpoint):
        if len(secret) >= SHORTEST and secret in body:
            body = body.replace(secret, BLOT)
    return body


def _secrets(endpoint: Endpoint) -> list[bytes]:
    values = [value.rpartition(b" ")[2] for _, value in endpoint.headers]
    address = urlsplit(endpoint.url)
    # The longer form first, so that nothing of it is left.
    return [*values, address.netloc.encode(), (address.hostname or "").encode()]
