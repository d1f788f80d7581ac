"""Turns that were kept since the client was shown only a part of them."""

from __future__ import annotations

import re

from gateway.sessions.model import Kept

# An id of other characters may be written in more than one way.
_PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")


def may_hold(body: bytes, kept: Kept) -> bool:
    """Whether a request may tell of a kept turn: a filter, to be judged by parsing."""
    return any(not _PLAIN.fullmatch(call) or call.encode() in body for call in kept.calls[:1])
