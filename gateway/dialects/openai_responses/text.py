"""Who said what in a Responses request, and changing what users said.

The input is one text, or a list of items of which messages are one kind. Items and their parts are
looked at as raw slices.
"""

from __future__ import annotations

from typing import Any

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
    text_of,
    write_object,
)
from gateway.dialects.seals import is_sealed
from gateway.dialects.text_editor import Edit, TextEditor, texts_in

SYSTEM_ROLES = ("system", "developer")
SPOKEN = b'{"type":"message","role":"user","content":[{"type":"input_text","text":%b}]}'
# What the model made that has no other sign of it in its name.
MODELS_OWN = ("reasoning", "compaction", "mcp_list_tools", "mcp_approval_request", "program")


class ResponsesItem(msgspec.Struct):
    """What is looked at of an item; one without a type is a message."""

    type: str = "message"
    role: str = ""
    content: msgspec.Raw = NULL
    call_id: Any = None
    encrypted_content: Any = None


_item = msgspec.json.Decoder(ResponsesItem)
_editor = TextEditor("input_text")


def items_of(fields: Fields) -> Raws:
    """Return the items of a request's input; a text is one message of the user."""
    asked = fields.get("input", NULL)
    if bytes(memoryview(asked)[:1]) == b'"':
        return [user_message(asked)]
    return raws_in(asked) or []


def item_of(item: msgspec.Raw) -> ResponsesItem:
    """Read what an item is; what is none is of no kind."""
    return readable(_item, item) or ResponsesItem(type="")


def user_message(text: str | msgspec.Raw) -> msgspec.Raw:
    """Write a text as a message of the user."""
    return msgspec.Raw(SPOKEN % msgspec.json.encode(text))


def last_role(asked: msgspec.Raw) -> str:
    """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""
    items = items_of({"input": asked})
    last = item_of(items[-1]) if items else ResponsesItem()
    if last.type == "message":
        return last.role
    if last.type.endswith("_output") or last.type == "mcp_approval_response":
        return "tool"
    return "assistant" if last.type.endswith("_call") or last.type in MODELS_OWN else ""


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(fields_of(body)) if _is_users(message)]
    return len(contents), texts_in(contents[-1]) if contents else ()


def has_one_message(body: bytes) -> bool:
    """Whether the user says one thing, and nothing of a model or a tool is in the request."""
    items = map(item_of, items_of(fields_of(body)))
    said = [item for item in items if item.type != "message" or item.role not in SYSTEM_ROLES]
    return len(said) == 1 and _is_users(said[0])


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the instructions, and the texts of system and developer messages."""
    fields = fields_of(body)
    told = [message.content for message in _messages(fields) if message.role in SYSTEM_ROLES]
    contents = (fields.get("instructions", NULL), *told)
    return tuple(text for content in contents for text in texts_in(content))


def edit_user_texts(body: bytes, edit: Edit) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is."""
    fields = fields_of(body)
    before = fields.get("input", NULL)
    after = _edit_input(before, edit)
    if after is before:
        return body
    fields["input"] = after
    return write_object(fields)


def strip_foreign_reasoning(body: bytes) -> bytes:
    """Take out reasoning that another dialect's upstream proved, or none."""
    fields = fields_of(body)
    items = items_of(fields)
    kept = [item for item in items if not is_sealed(item_of(item).encrypted_content)]
    if len(kept) == len(items):
        return body
    fields["input"] = raw(kept)
    return write_object(fields)


def _edit_input(asked: msgspec.Raw, edit: Edit) -> msgspec.Raw:
    if text_of(asked) is not None:
        return _editor.content(asked, edit)
    items = raws_in(asked) or []
    edited = [_edit_item(item, edit) for item in items]
    return asked if same(edited, items) else raw(edited)


def _messages(fields: Fields) -> list[ResponsesItem]:
    return [item for item in map(item_of, items_of(fields)) if item.type == "message"]


def _is_users(item: ResponsesItem) -> bool:
    return item.type == "message" and item.role == "user"


def _edit_item(item: msgspec.Raw, edit: Edit) -> msgspec.Raw:
    message = item_of(item)
    return _editor.message(item, message.content, edit) if _is_users(message) else item
