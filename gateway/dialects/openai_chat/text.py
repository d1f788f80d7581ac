"""Who said what in a Chat Completions request, and changing what users said."""

from __future__ import annotations

import msgspec

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

SYSTEM_ROLES = ("system", "developer")


class _ChatMessage(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = NULL


_message = msgspec.json.Decoder(_ChatMessage)
_editor = TextEditor("text")


def last_role(messages: msgspec.Raw) -> str:
    """Return who speaks in the last message; nothing if that cannot be told."""
    items = raws_in(messages)
    last = readable(_message, items[-1]) if items else None
    role = "" if last is None else last.role
    # In the older form it is the function that speaks.
    return "tool" if role == "function" else role


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(body) if message.role == "user"]
    return len(contents), texts_in(contents[-1]) if contents else ()


def has_one_message(body: bytes) -> bool:
    """Whether the user says one thing, and nothing of a model or a tool is in the request."""
    speakers = [message.role for message in _messages(body) if message.role not in SYSTEM_ROLES]
    return speakers == ["user"]


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the texts of the system and developer messages."""
    told = (message.content for message in _messages(body) if message.role in SYSTEM_ROLES)
    return tuple(text for content in told for text in texts_in(content))


def edit_user_texts(body: bytes, edit: Edit) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is."""
    fields = fields_of(body)
    items = _slices(fields)
    edited = [_edit_message(item, edit) for item in items]
    if same(edited, items):
        return body
    fields["messages"] = raw(edited)
    return write_object(fields)


def _slices(fields: Fields) -> Raws:
    return raws_in(fields.get("messages", NULL)) or []


def _messages(body: bytes) -> list[_ChatMessage]:
    read = (readable(_message, item) for item in _slices(fields_of(body)))
    return [message for message in read if message is not None]


def _edit_message(item: msgspec.Raw, edit: Edit) -> msgspec.Raw:
    message = readable(_message, item)
    if message is None or message.role != "user":
        return item
    return _editor.message(item, message.content, edit)
