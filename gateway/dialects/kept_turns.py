"""Turns that were kept since the client was shown only a part of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from gateway.dialects.raw_json import Raws, edit_items, fields_of, write_object
from gateway.sessions.model import KeptTurn

T = TypeVar("T")

# An id of other characters may be written in more than one way.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")


def may_hold(body: bytes, kept: KeptTurn) -> bool:
    """Whether a request may tell of a kept turn: a filter, to be judged by parsing."""
    return any(not _PLAIN.fullmatch(call) or call.encode() in body for call in kept.calls[:1])


def restore_messages(
    body: bytes,
    kept: tuple[KeptTurn, ...],
    read: Callable[[KeptTurn], T],
    restore: Callable[[Raws, list[T]], Raws],
) -> bytes:
    """Put kept turns back into a request's messages; one without them is returned as it is."""
    turns = [read(item) for item in kept if may_hold(body, item)]
    if not turns:
        return body
    fields = fields_of(body)
    is_changed = edit_items(fields, "messages", lambda messages: restore(messages, turns))
    return write_object(fields) if is_changed else body


def place_missing(
    missing: list[tuple[int, msgspec.Raw]], present: Iterable[tuple[int, msgspec.Raw]]
) -> Raws:
    """Put what is missing before the first that stood after it, and the rest at the end."""
    after: Raws = []
    for place, item in present:
        while missing and missing[0][0] < place:
            after.append(missing.pop(0)[1])
        after.append(item)
    return after + [item for _, item in missing]
