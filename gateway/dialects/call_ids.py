"""Ids for tool calls that came without one."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec

NewId = Callable[[int], str]
"""Makes the id of a turn's n-th call."""

MOST_CALLS = 1000
"""How many a turn may make."""

# Upstreams refuse ids of more than 40 characters, and some all but letters, digits, "_" and "-".
ID_DIGITS = 24


class CallIds(msgspec.Struct, gc=False):
    """Makes up ids for calls that came without one: each time the same for the same call."""

    _body: bytes
    """What was asked, until its digest is taken: most answers need none."""
    _digest: str = ""

    def make(self, answer: object, turn: int, ordinal: int) -> str:
        """Make the id of a call; no other call of the conversation has it."""
        # Some upstreams name every answer alike, so what was asked tells them apart as well.
        self.rest()
        told = f"{self._digest} {answer} {turn} {ordinal}".encode()
        return f"call_{sha256(told).hexdigest()[:ID_DIGITS]}"

    def rest(self) -> None:
        """Let go of what was asked: from here on its digest is enough."""
        if not self._digest:
            self._digest, self._body = sha256(self._body).hexdigest(), b""
