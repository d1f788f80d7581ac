"""What upstreams send: JSON events, read as clients read them, and the tape that records a turn.

Nothing in an event is what it should be before it was looked at: the functions here return what is
there, or nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.wire.sse import split_events

Json = dict[str, Any]

# Some upstreams send nothing where a call has no arguments, and refuse it when it is sent back.
NO_ARGUMENTS = "{}"

_decode = msgspec.json.Decoder(Json).decode


def read_object(data: bytes) -> Json | None:
    """Parse a JSON object, or return None when it is none."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def mend_json(data: bytes) -> bytes | None:
    """Write JSON as clients read it that a strict reader refuses; None when it is none.

    Invalid UTF-8 and halves of surrogate pairs become replacement characters, raw control
    characters in a text are escaped, a number that is none becomes null.
    """
    try:
        value = json.loads(data.decode(errors="replace"), strict=False, parse_constant=_no_number)
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _no_number(name: str) -> None:
    return None


def read_event(data: bytes) -> Json | None:
    """Parse the JSON object of an upstream's event as clients do, or return None."""
    event = read_object(data)
    if event is None and (mended := mend_json(data)) is not None:
        event = read_object(mended)
    return event


def event_name(frame: bytes) -> str:
    """Return the name that a frame gives its event, empty if none."""
    if b"event:" not in frame:
        return ""
    names = [line[6:].strip() for line in frame.splitlines() if line.startswith(b"event:")]
    return names[-1].decode(errors="replace") if names else ""


def read_named(frame: bytes, data: bytes) -> Json | None:
    """Parse a frame's event; one without a type that is a text has that of its name."""
    event = read_event(data)
    if event is not None and not isinstance(event.get("type"), str):
        event["type"] = event_name(frame)
    return event


def read_events(frames: bytes) -> Iterator[Json]:
    """Parse the events in whole frames; what is no JSON object is left out."""
    for frame, data in split_events(frames):
        event = read_named(frame, data) if data is not None else None
        if event is not None:
            yield event


def as_text(value: object) -> str | None:
    """Return a text as it is, and anything else but nothing as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def objects_in(value: object) -> list[Json]:
    """Return the objects of a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text_in(value: object) -> str:
    """Return a text, whether it came in one piece or as a list of parts; else nothing."""
    if isinstance(value, str):
        return value
    texts = (part.get("text") for part in objects_in(value))
    return "".join(text for text in texts if isinstance(text, str))


def part_of(whole: Json, name: str) -> Json:
    """Return a member that should be an object, or an empty one."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def number_in(whole: Json, name: str) -> int:
    """Return a member that should be a number, or 0."""
    value = whole.get(name)
    return value if isinstance(value, int) else 0


def sum_usage(usages: Iterable[Json | None]) -> Json | None:
    """Add usage objects up, number by number; other values are the last turn's."""
    total: Json | None = None
    for usage in usages:
        if usage:
            total = usage if total is None else _sum(total, usage)
    return total


def _sum(one: Json, other: Json) -> Json:
    total = {**one, **{name: value for name, value in other.items() if value is not None}}
    for name in one.keys() & other.keys():
        mine, theirs = one[name], other[name]
        if isinstance(mine, dict) and isinstance(theirs, dict):
            total[name] = _sum(mine, theirs)
        elif isinstance(mine, int | float) and isinstance(theirs, int | float):
            total[name] = mine + theirs
    return total


@dataclass(slots=True, eq=False)
class Tape:
    """Recorded bytes of one turn; past its limit it forgets everything and says so."""

    _limit: int
    _size: int = 0
    batches: list[bytes] = field(default_factory=list)
    whole: bool = True

    def record(self, batch: bytes) -> None:
        """Keep what was sent."""
        self._size += len(batch)
        if self._size <= self._limit:
            self.batches.append(batch)
        elif self.whole:
            self.whole = False
            self.batches.clear()

    def contains(self, needle: bytes) -> bool:
        """Whether a recorded piece holds this; a filter, to be judged by parsing."""
        return any(needle in batch for batch in self.batches)
