"""Who said what in a Messages request, and changing what users said.

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
    fields_of,
    raw,
    raws_in,
    readable,
    same,
    write_object,
)
from gateway.dialects.text_editor import Edit, TextEditor, texts_in

RESULT = b'"tool_result"'
CACHE = "cache_control"


class SpokenMessage(msgspec.Struct):
    """Who speaks, and what."""

    role: str = ""
    content: msgspec.Raw = NULL


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


NOBODY = SpokenMessage()
_message = msgspec.json.Decoder(SpokenMessage)
_block = msgspec.json.Decoder(RequestBlock)
# Whoever marked a block wants the conversation cached up to there.
_editor = TextEditor("text", kept=CACHE)


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


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(body) if _is_users(message)]
    return len(contents), texts_in(contents[-1]) if contents else ()


def has_one_message(body: bytes) -> bool:
    """Whether the user says one thing, and nothing of a model or a tool is in the request."""
    speakers = [message.role for message in _messages(body) if message.role != "system"]
    return speakers == ["user"]


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the texts of the system prompt, and of system messages in the conversation."""
    told = [message.content for message in _messages(body) if message.role == "system"]
    system = fields_of(body).get("system", NULL)
    return tuple(text for content in (system, *told) for text in texts_in(content))


def edit_user_texts(body: bytes, edit: Edit) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is."""
    fields = fields_of(body)
    items = messages_of(fields)
    edited = [_edit_message(item, edit) for item in items]
    if same(edited, items):
        return body
    fields["messages"] = raw(edited)
    return write_object(fields)


def _messages(body: bytes) -> Iterator[SpokenMessage]:
    return map(message_of, messages_of(fields_of(body)))


def _results(content: msgspec.Raw) -> Iterator[bool]:
    """Tell of each block whether it is a tool's result."""
    if RESULT in bytes(content):
        for block in raws_in(content) or ():
            yield block_of(block).type == "tool_result"


def _is_users(message: SpokenMessage) -> bool:
    """Whether the user says something, and not only tools."""
    results = tuple(_results(message.content))
    return message.role == "user" and not (results and all(results))


def _edit_message(item: msgspec.Raw, edit: Edit) -> msgspec.Raw:
    message = message_of(item)
    return _editor.message(item, message.content, edit) if message.role == "user" else item
