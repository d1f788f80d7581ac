"""What went wrong below, said in the gateway's own words.

What an upstream itself says of an error may repeat our key and its address: no client reads those.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from gateway.errors import (
    Headers,
    HoldgateError,
    UpstreamAnswered,
    UpstreamAuth,
    UpstreamBroke,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from gateway.wire.http_client.upstream import Endpoint

BLOT = b"***"
AUTH_STATUSES = (401, 403)
SHORTEST = 6

# First match wins; no text of a library is passed on, since it may name an address. The errors of
# httpx2 are other classes with the same names, and it need not be installed.
_ERRORS: tuple[tuple[str, type[UpstreamError], str], ...] = (
    ("PoolTimeout", UpstreamBusy, "All connections to the upstream are busy; try again."),
    ("ConnectTimeout", UpstreamUnreachable, "The upstream did not accept a connection."),
    ("TimeoutException", UpstreamTimeout, "The upstream was silent for too long."),
    ("RemoteProtocolError", UpstreamBroke, "The upstream's answer broke off or is not HTTP."),
    ("NetworkError", UpstreamBroke, "The connection to the upstream broke."),
)

_CONNECT_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (ssl.SSLCertVerificationError, "The upstream's certificate is not trusted."),
    (ssl.SSLError, "The TLS handshake with the upstream failed."),
    (socket.gaierror, "The upstream's host name cannot be resolved."),
    (ConnectionRefusedError, "The upstream refused the connection."),
)


def upstream_error(error: Exception) -> UpstreamError:
    """Map a `TransportError` of httpx or httpx2 to an error that a client can be shown."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "ConnectError" in names:
        return UpstreamUnreachable(explain_unreachable(error))
    for name, ours, sentence in _ERRORS:
        if name in names:
            return ours(sentence)
    return UpstreamBroke("The request to the upstream failed.")


def explain_unreachable(error: BaseException) -> str:
    """Say why no connection could be made, without naming an address."""
    causes = tuple(_causes(error))
    for kind, sentence in _CONNECT_CAUSES:
        if any(isinstance(cause, kind) for cause in causes):
            return sentence
    return "The upstream could not be reached."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def describe_failure(
    error: HoldgateError, endpoint: Endpoint, client_key: Headers = ()
) -> HoldgateError:
    """Return an error as clients are told of it: without the upstream's address or any key.

    That the operator's key is refused is not the client's fault, and not told as one.
    """
    if not isinstance(error, UpstreamAnswered):
        return error
    if error.status in AUTH_STATUSES and not endpoint.takes_client_key:
        return UpstreamAuth(
            f"Upstream {endpoint.id} refused the gateway's key ({error.status}); "
            "whoever runs the gateway has to check that key."
        )
    error.body = redact_secrets(error.body, endpoint, client_key)
    return error


def redact_secrets(body: bytes, endpoint: Endpoint, client_key: Headers = ()) -> bytes:
    """Return an error body without the endpoint's credentials and address, and any key."""
    for secret in _secrets(endpoint, client_key):
        if len(secret) >= SHORTEST and secret in body:
            body = body.replace(secret, BLOT)
    return body


def _secrets(endpoint: Endpoint, client_key: Headers) -> list[bytes]:
    values = [value.rpartition(b" ")[2] for _, value in (*endpoint.headers, *client_key)]
    address = urlsplit(endpoint.url)
    values += [value.encode() for _, value in parse_qsl(address.query)]
    values += endpoint.secrets()
    # The longer form first, so that nothing of it is left.
    return [*values, address.netloc.encode(), (address.hostname or "").encode()]
