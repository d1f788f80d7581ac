"""Turns that were kept since the client was shown only a part of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from gateway.dialects.raw_json import NULL, Raws, fields_of, raw, raws_in, same, write_object
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
    before = raws_in(fields.get("messages", NULL)) or []
    after = restore(before, turns)
    if same(after, before):
        return body
    fields["messages"] = raw(after)
    return write_object(fields)
