"""Every error of httpx and httpx2 has a sentence of ours."""

from __future__ import annotations

import socket
import ssl
from types import ModuleType

import httpx
import httpx2
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

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda module: module.__name__)
KINDS: list[tuple[str, type[UpstreamError]]] = [
    ("PoolTimeout", UpstreamBusy),
    ("ConnectTimeout", UpstreamUnreachable),
    ("ReadTimeout", UpstreamTimeout),
    ("WriteTimeout", UpstreamTimeout),
    ("ConnectError", UpstreamUnreachable),
    ("ReadError", UpstreamBroke),
    ("WriteError", UpstreamBroke),
    ("CloseError", UpstreamBroke),
    ("RemoteProtocolError", UpstreamBroke),
    ("LocalProtocolError", UpstreamBroke),
    ("ProxyError", UpstreamBroke),
    ("UnsupportedProtocol", UpstreamBroke),
]


@LIBRARIES
@pytest.mark.parametrize("foreign, ours", KINDS)
def test_the_kind_is_kept_and_the_text_is_not(
    library: ModuleType, foreign: str, ours: type[UpstreamError]
) -> None:
    error = upstream_error(getattr(library, foreign)(f"no luck with {CANARY}"))
    assert type(error) is ours
    assert CANARY not in error.message
    assert error.message.endswith(".")


@LIBRARIES
def test_every_error_of_the_library_has_a_row(library: ModuleType) -> None:
    def leaves(kind: type[Exception]) -> list[type[Exception]]:
        below = [leaf for child in kind.__subclasses__() for leaf in leaves(child)]
        return below or [kind]

    names = {
        kind.__name__
        for kind in leaves(library.TransportError)
        if kind.__module__ == library.__name__
    }
    # Of a reader of events in httpx2, which is not used here.
    assert names - {"SSEError"} == {foreign for foreign, _ in KINDS}


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
