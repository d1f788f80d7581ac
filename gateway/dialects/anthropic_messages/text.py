"""Who said what in a Messages request.

What a tool returned comes in the user's name, but is not the user's word. Thinking in the history
that its upstream did not sign is taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.turn import THINKING
from gateway.dialects.events import as_text
from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    edit_items,
    fields_of,
    members_of,
    raw,
    raws_in,
    readable,
    write_object,
)
from gateway.dialects.seals import is_sealed, may_be_sealed
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


CLEARING = b'"clear_thinking'


class _Signed(msgspec.Struct):
    signature: Any = None


class _Thinking(msgspec.Struct):
    type: Any = None


_signed = msgspec.json.Decoder(_Signed)
_thinking = msgspec.json.Decoder(_Thinking)


def strip_foreign_reasoning(body: bytes) -> bytes:
    """Take out thinking that is marked for another dialect's upstream."""
    fields = fields_of(body)
    if not edit_items(fields, "messages", _strip_messages):
        return body
    if last_role(fields["messages"]) == "tool" and not _began_with_thinking(messages_of(fields)):
        _think_no_more(fields)
    return write_object(fields)


def _strip_messages(messages: Raws) -> Raws:
    return [kept for message in messages for kept in _strip_message(message)]


def _strip_message(message: msgspec.Raw) -> Raws:
    """Return a message without such thinking; none if that was all it had."""
    if not may_be_sealed(bytes(message)):
        return [message]
    blocks = raws_in(message_of(message).content) or []
    kept = [block for block in blocks if not _is_sealed(block)]
    if len(kept) == len(blocks):
        return [message]
    return [raw({**members_of(message), "content": kept})] if kept else []


def _is_sealed(block: msgspec.Raw) -> bool:
    found = readable(_signed, block)
    return found is not None and is_sealed(found.signature)


def _began_with_thinking(messages: Raws) -> bool:
    """Whether the turn that waits for its results did."""
    turns = (message_of(item) for item in reversed(messages))
    turn = next((turn for turn in turns if turn.role == "assistant"), NOBODY)
    blocks = raws_in(turn.content) or [NULL]
    return block_of(blocks[0]).type in THINKING


def _think_no_more(fields: Fields) -> None:
    """Ask for no thinking: a turn that waits for its results must have begun with some.

    A model that decides for itself how much to think does not ask for that.
    """
    asked = readable(_thinking, fields.get("thinking", NULL))
    if asked is None or asked.type != "enabled":
        return
    del fields["thinking"]
    if CLEARING in bytes(fields.get("context_management", NULL)):
        del fields["context_management"]
