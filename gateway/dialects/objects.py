"""JSON objects as they are sent: nothing in them is what it should be before it was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

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


def as_text(value: object) -> str | None:
    """Return a text as it is, and anything else but nothing as JSON."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def part_of(whole: Json, name: str) -> Json:
    """Return a member that should be an object, or an empty one."""
    part = whole.get(name)
    return part if isinstance(part, dict) else {}


def number_in(whole: Json, name: str) -> int:
    """Return a member that should be a number, or 0."""
    value = whole.get(name)
    return value if isinstance(value, int) else 0


def summed(usages: Iterable[Json | None]) -> Json | None:
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
