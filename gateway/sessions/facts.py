"""What a session asks of a request: read on the spot, or once and for all where it is large."""

from __future__ import annotations

from gateway.core.model import Asked, Facts
from gateway.dialects.base import Dialect
from gateway.dialects.requester import digest_texts
from gateway.sessions.sentinels import Sentinels

MOST_LOOKED_UP = 64


def is_compaction(dialect: Dialect, asked: Asked, sentinels: Sentinels) -> bool:
    """Whether a request asks for a summary of the conversation."""
    if asked.facts is not None:
        return asked.facts.compaction
    return sentinels.begin(dialect, asked.body)


def last_calls(dialect: Dialect, asked: Asked) -> tuple[str, ...]:
    """Return the first call's id of each of the last turns that called tools."""
    if asked.facts is not None:
        return asked.facts.calls
    return dialect.called(asked.body)[-MOST_LOOKED_UP:]


def read_facts(dialect: Dialect, body: bytes, named: bool, sentinels: Sentinels) -> Facts:
    """Read all that a session will ask of a large request, as one piece of work."""
    return Facts(
        system=digest_texts(dialect, body),
        compaction=sentinels.begin(dialect, body),
        calls=() if named else dialect.called(body)[-MOST_LOOKED_UP:],
    )
