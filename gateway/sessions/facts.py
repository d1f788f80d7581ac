"""What a session asks of a request: read on the spot, or once and for all where it is large."""

from __future__ import annotations

from gateway.dialects.protocol import Dialect
from gateway.dialects.requester import digest_texts
from gateway.exchange.model import Asked, Mark, RequestFacts
from gateway.sessions.sentinels import Sentinels

MOST_LOOKED_UP = 64
LONGEST_CALL = 16 * 1024


def find_mark(dialect: Dialect, asked: Asked, sentinels: Sentinels) -> Mark | None:
    """Return what the beginning of a request's text says of it."""
    if asked.facts is not None:
        return asked.facts.mark
    return sentinels.find_mark(dialect, asked.body)


def last_calls(dialect: Dialect, asked: Asked) -> tuple[str, ...]:
    """Return the first call's id of each of the last turns that called tools."""
    if asked.facts is not None:
        return asked.facts.calls
    return _read_last_calls(dialect, asked.body)


def read_facts(dialect: Dialect, body: bytes, named: bool, sentinels: Sentinels) -> RequestFacts:
    """Read all that a session will ask of a large request, as one piece of work."""
    return RequestFacts(
        system=digest_texts(dialect, body),
        mark=sentinels.find_mark(dialect, body),
        calls=() if named else _read_last_calls(dialect, body),
    )


def _read_last_calls(dialect: Dialect, body: bytes) -> tuple[str, ...]:
    # To look for a name takes time by its length, and a client may send one of megabytes.
    return tuple(c for c in dialect.find_call_ids(body)[-MOST_LOOKED_UP:] if len(c) <= LONGEST_CALL)
