"""Every error of httpx has a sentence of ours."""

from __future__ import annotations

import socket
import ssl

import httpx
import pytest

from gateway.errors import (
    UpstreamBroke,
    UpstreamBusy,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from gateway.wire.http_client.failures import upstream_error

CANARY = "canary.example:8443"

KINDS: list[tuple[type[httpx.TransportError], type[UpstreamError]]] = [
    (httpx.PoolTimeout, UpstreamBusy),
    (httpx.ConnectTimeout, UpstreamUnreachable),
    (httpx.ReadTimeout, UpstreamTimeout),
    (httpx.WriteTimeout, UpstreamTimeout),
    (httpx.ConnectError, UpstreamUnreachable),
    (httpx.ReadError, UpstreamBroke),
    (httpx.WriteError, UpstreamBroke),
    (httpx.CloseError, UpstreamBroke),
    (httpx.RemoteProtocolError, UpstreamBroke),
    (httpx.LocalProtocolError, UpstreamBroke),
    (httpx.ProxyError, UpstreamBroke),
    (httpx.UnsupportedProtocol, UpstreamBroke),
]


@pytest.mark.parametrize("foreign, ours", KINDS)
def test_the_kind_is_kept_and_the_text_is_not(
    foreign: type[httpx.TransportError], ours: type[UpstreamError]
) -> None:
    error = upstream_error(foreign(f"no luck with {CANARY}"))
    assert type(error) is ours
    assert CANARY not in error.message
    assert error.message.endswith(".")


def test_every_error_of_httpx_has_a_row() -> None:
    rows = [foreign for foreign, _ in KINDS]

    def leaves(kind: type[httpx.TransportError]) -> list[type[httpx.TransportError]]:
        below = [leaf for child in kind.__subclasses__() for leaf in leaves(child)]
        return below or [kind]

    ours = [kind for kind in leaves(httpx.TransportError) if kind.__module__ == "httpx"]
    assert set(ours) <= set(rows)


CAUSES: list[tuple[OSError, str]] = [
    (ssl.SSLCertVerificationError(1, CANARY), "certificate"),
    (ssl.SSLError(1, CANARY), "TLS"),
    (socket.gaierror(1, CANARY), "resolved"),
    (ConnectionRefusedError(1, CANARY), "refused"),
    (OSError(1, CANARY), "reached"),
]


@pytest.mark.parametrize("cause, word", CAUSES)
def test_why_nobody_was_reached_is_said(cause: OSError, word: str) -> None:
    error = httpx.ConnectError(CANARY)
    error.__cause__ = httpx.NetworkError(CANARY)
    error.__cause__.__context__ = cause
    assert word in upstream_error(error).message
