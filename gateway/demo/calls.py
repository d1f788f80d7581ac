"""What tools were asked to do, and the JSON that they speak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gateway.demo.dialogue import DialogueCall

T = TypeVar("T")


class ToolAction(msgspec.Struct, frozen=True):
    """What an earlier call asked a tool to do."""

    action: str = ""


ASKED = msgspec.json.Decoder(ToolAction)


def actions_of(calls: Iterable[DialogueCall], tool: str) -> frozenset[str]:
    """Tell what a tool was already asked to do."""
    asked = (decode_json(ASKED, call.arguments) for call in calls if call.name == tool)
    return frozenset(one.action if one else "" for one in asked)


def decode_json(decoder: msgspec.json.Decoder[T], text: str) -> T | None:
    """Read JSON of a known shape; anything else is nothing."""
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
