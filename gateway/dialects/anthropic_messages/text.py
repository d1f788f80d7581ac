"""Who said what in a Messages request.

What a tool returned comes in the user's name, but is not the user's word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.dialects.events import as_text
from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    raws_in,
    readable,
)
from gateway.dialects.text_editor import NOBODY, SpokenMessage

RESULT = b'"tool_result"'
CACHE = "cache_control"


class RequestBlock(msgspec.Struct):
    """What a block is, and which call it makes or answers."""

    type: str = ""
    id: Any = None
    tool_use_id: Any = None

    @property
    def call(self) -> str:
        """The id of the call it makes."""
        return as_text(self.id) or ""

    @property
    def answers(self) -> str:
        """The id of the call it is the result of."""
        return as_text(self.tool_use_id) or ""


_message = msgspec.json.Decoder(SpokenMessage)
_block = msgspec.json.Decoder(RequestBlock)


def messages_of(fields: Fields) -> Raws:
    """Return the messages of a request as raw slices."""
    return raws_in(fields.get("messages", NULL)) or []


def message_of(item: msgspec.Raw) -> SpokenMessage:
    """Read who speaks and what; an item that is no message is nobody's."""
    return readable(_message, item) or NOBODY


def block_of(item: msgspec.Raw) -> RequestBlock:
    """Read what a block is; what is no block is of no type."""
    return readable(_block, item) or RequestBlock()


def last_turn(messages: Raws) -> tuple[int, SpokenMessage]:
    """Return the last message of the user or the model, and where; nobody's if there is none.

    Instructions may follow it: clients put some after what they are about.
    """
    for at in range(len(messages) - 1, -1, -1):
        message = message_of(messages[at])
        if message.role != "system":
            return at, message
    return -1, NOBODY


def last_role(messages: msgspec.Raw) -> str:
    """Return who speaks last: `tool` where it is a tool's result; nothing if it cannot be told."""
    _, last = last_turn(raws_in(messages) or [])
    return "tool" if last.role == "user" and any(_results(last.content)) else last.role


def _results(content: msgspec.Raw) -> Iterator[bool]:
    """Tell of each block whether it is a tool's result."""
    if RESULT in bytes(content):
        for block in raws_in(content) or ():
            yield block_of(block).type == "tool_result"


def is_users(message: SpokenMessage) -> bool:
    """Whether the user says something, and not only tools."""
    results = tuple(_results(message.content))
    return message.role == "user" and not (results and all(results))
