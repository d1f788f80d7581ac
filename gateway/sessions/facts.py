"""What a session asks of a request: read on the spot, or once and for all where it is large."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from gateway.dialects.protocol import Dialect
from gateway.exchange.model import Asked, Mark, Requester, RequestFacts

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


class Sentinels:
    """Beginnings of texts that tell what a request is for.

    An agent asks for a summary of its conversation (compaction), or, without tools, for a title or
    the like (side call). Both are looked for in one pass over the body.
    """

    def __init__(self, compaction: tuple[str, ...], side_call: tuple[str, ...] = ()) -> None:
        self._compaction = tuple(text.casefold() for text in compaction)
        self._side_call = tuple(text.casefold() for text in side_call)
        starts = self._compaction + self._side_call
        # The longest word of each tells nearly as much, and most of them have it in common.
        words = {max(start.split() or [""], key=len) for start in starts}
        self._needles = [msgspec.json.encode(word)[1:-1] for word in sorted(words)]
        # Other letters can be written in several ways, so that their bytes tell nothing.
        self._tells = all(start.isascii() for start in starts)

    def find_mark(self, dialect: Dialect, body: bytes) -> Mark | None:
        """Return what begins what the user said last, or what instructs the model."""
        if self._tells:
            lowered = body.lower()
            for needle in self._needles:
                if needle in lowered:
                    break
            else:
                return None
        texts = (*dialect.newest_user(body)[1], *dialect.system_texts(body))
        begun = [text.lstrip().casefold() for text in texts]
        if any(text.startswith(self._compaction) for text in begun):
            return Mark.COMPACTION
        if any(text.startswith(self._side_call) for text in begun):
            return Mark.SIDE_CALL
        return None


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
