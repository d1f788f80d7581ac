"""Chat Completions as scripts of Node read them, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .chat import Notes, body_of
from .node import told
from .reading import Ask, Failure, Read, Reading


class Refusal(msgspec.Struct):
    """An answer with an error status."""

    status: int
    body: str


class Seen(msgspec.Struct):
    """One line of a script: what the client showed for one of the asks, and when."""

    index: int
    at: float
    chunk: Any = None
    whole: Any = None
    event: str | None = None
    failure: Failure | None = None
    refusal: Refusal | None = None


SEEN = msgspec.json.Decoder(Seen)


def reading(script: str, form: str) -> Read:
    """Make one way to read."""

    def read(url: str, asks: Sequence[Ask]) -> list[Reading]:
        taken = [Notes(ask) for ask in asks]
        printed = told(script, {"url": url, "form": form, "asks": [_asked(ask) for ask in asks]})
        for line in printed.splitlines():
            seen = SEEN.decode(line)
            _note(taken[seen.index], seen)
        return [notes.reading() for notes in taken]

    return read


def _asked(ask: Ask) -> dict[str, Any]:
    options = {"maxRetries": ask.retries}
    return {"body": body_of(ask), "options": options, "leave_after": ask.leave_after}


def _note(notes: Notes, seen: Seen) -> None:
    if seen.chunk is not None:
        notes.chunk(seen.chunk, seen.at)
    elif seen.whole is not None:
        notes.whole(seen.whole)
    elif seen.event is not None:
        notes.event(seen.event, seen.at)
    elif seen.refusal is not None:
        notes.refused(seen.refusal.status, seen.refusal.body.encode())
    elif seen.failure is not None:
        notes.failed(seen.failure)
