"""What kind of request asks, as it is kept with what the request sets or takes."""

from __future__ import annotations

from hashlib import sha256

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import Asked, Requester

DIGITS = 32


def digest_system(dialect: Dialect, asked: Asked) -> str:
    """Return a digest of the texts that instruct the model."""
    return digest_texts(dialect, asked.body) if asked.facts is None else asked.facts.system


def digest_texts(dialect: Dialect, body: bytes) -> str:
    """Read the texts that instruct the model, and return their digest."""
    system = "\0".join(dialect.system_texts(body))
    return sha256(system.encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def requester_of(dialect: Dialect, asked: Asked) -> Requester:
    """Return what kind of request this is."""
    return Requester(bool(asked.tools), digest_system(dialect, asked))
