"""What a session asks of a request: read on the spot, or once and for all where it is large."""

from __future__ import annotations

from gateway.core.model import Asked, Facts, Mark
from gateway.dialects.base import Dialect
from gateway.dialects.requester import digest_texts
from gateway.sessions.sentinels import Sentinels

MOST_LOOKED_UP = 64


def find_mark(dialect: Dialect, asked: Asked, sentinels: Sentinels) -> Mark | None:
    """Return what the beginning of a request's text says of it."""
    if asked.facts is not None:
        return asked.facts.mark
    return sentinels.find_mark(dialect, asked.body)


def last_calls(dialect: Dialect, asked: Asked) -> tuple[str, ...]:
    """Return the first call's id of each of the last turns that called tools."""
    if asked.facts is not None:
        return asked.facts.calls
    return dialect.called(asked.body)[-MOST_LOOKED_UP:]


def read_facts(dialect: Dialect, body: bytes, named: bool, sentinels: Sentinels) -> Facts:
    """Read all that a session will ask of a large request, as one piece of work."""
    return Facts(
        system=digest_texts(dialect, body),
        mark=sentinels.find_mark(dialect, body),
        calls=() if named else dialect.called(body)[-MOST_LOOKED_UP:],
    )
