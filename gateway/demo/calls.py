"""What tools were asked to do, and the JSON that they speak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gateway.demo.conversation import Call

T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True):
    """What an earlier call asked a tool to do."""

    action: str = ""


ASKED = msgspec.json.Decoder(Asked)


def actions_of(calls: Iterable[Call], tool: str) -> frozenset[str]:
    """Tell what a tool was already asked to do."""
    asked = (decoded(ASKED, call.arguments) for call in calls if call.name == tool)
    return frozenset(one.action if one else "" for one in asked)


def decoded(decoder: msgspec.json.Decoder[T], text: str) -> T | None:
    """Read JSON of a known shape; anything else is nothing."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
