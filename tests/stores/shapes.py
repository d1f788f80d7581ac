"""Values small enough to be seen through: a count, some text, a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gateway.stores import DocumentKey, Shape


@dataclass(frozen=True, slots=True)
class Notes:
    """What a test keeps with a session."""

    count: int = 0
    text: str = ""
    due_ms: int | None = None


def written(notes: Notes) -> Mapping[str, object]:
    return {"count": notes.count, "text": notes.text, "dueMs": notes.due_ms}


def read(fields: Mapping[str, Any]) -> Notes:
    if type(fields["count"]) is not int:
        raise TypeError("count")
    return Notes(fields["count"], fields["text"], fields["dueMs"])


def due(notes: Notes) -> int | None:
    return notes.due_ms


CLOCK = Shape("clock", 1, Notes(), written, read, due)
SESSION = Shape("session", 1, Notes(), written, read, due)
SHAPES = (CLOCK, SESSION)


def clock(session: str, owner: str = "local") -> DocumentKey:
    return DocumentKey("clock", owner, session)


def plus_one(notes: Notes) -> Notes:
    return replace(notes, count=notes.count + 1)


def cleared(notes: Notes) -> Notes:
    return Notes()
