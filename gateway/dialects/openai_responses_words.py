"""Who said what in a Responses request, and changing what users said.

The input is one text, or a list of items of which messages are one kind. Items and their parts are
looked at as raw slices; only the text that has to change is written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from gateway.core.directives import may_contain
from gateway.dialects.body import Fields, fields_of, raw, written

T = TypeVar("T")
Raws = list[msgspec.Raw]

SYSTEM_ROLES = ("system", "developer")
NULL = msgspec.Raw(b"null")
SPOKEN = b'{"type":"message","role":"user","content":[{"type":"input_text","text":%b}]}'
# What the model made that has no other sign of it in its name.
MODELS_OWN = ("reasoning", "compaction", "mcp_list_tools", "mcp_approval_request", "program")


class Item(msgspec.Struct):
    """What is looked at of an item; one without a type is a message."""

    type: str = "message"
    role: str = ""
    content: msgspec.Raw = NULL
    call_id: Any = None


_items: msgspec.json.Decoder[Raws] = msgspec.json.Decoder(Raws)
_members: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_item = msgspec.json.Decoder(Item)
_text = msgspec.json.Decoder(str)


def readable(decoder: msgspec.json.Decoder[T], value: bytes | msgspec.Raw) -> T | None:
    """Read a value if it is what it should be; if not, it is the upstream's to judge."""
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return None


def items_of(fields: Fields) -> Raws:
    """Return the items of a request's input; a text is one message of the user."""
    asked = fields.get("input", NULL)
    if bytes(memoryview(asked)[:1]) == b'"':
        return [user_message(asked)]
    return readable(_items, asked) or []


def item_of(item: msgspec.Raw) -> Item:
    """Read what an item is; what is none is of no kind."""
    return readable(_item, item) or Item(type="")


def members_of(item: msgspec.Raw) -> Fields:
    """Read the members of an object; of anything else there are none."""
    return readable(_members, item) or {}


def user_message(text: str | msgspec.Raw) -> msgspec.Raw:
    """Write a text as a message of the user."""
    return msgspec.Raw(SPOKEN % msgspec.json.encode(text))


def last_role(asked: msgspec.Raw) -> str:
    """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""
    items = items_of({"input": asked})
    last = item_of(items[-1]) if items else Item()
    if last.type == "message":
        return last.role
    if last.type.endswith("_output") or last.type == "mcp_approval_response":
        return "tool"
    return "assistant" if last.type.endswith("_call") or last.type in MODELS_OWN else ""


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(fields_of(body)) if _is_users(message)]
    return len(contents), _texts(contents[-1]) if contents else ()


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the instructions, and the texts of system and developer messages."""
    fields = fields_of(body)
    told = [message.content for message in _messages(fields) if message.role in SYSTEM_ROLES]
    contents = (fields.get("instructions", NULL), *told)
    return tuple(text for content in contents for text in _texts(content))


def edit_user_texts(body: bytes, edit: Callable[[str], str]) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is.

    A message of which nothing is left becomes a dot: without it another role would come first.
    """
    fields = fields_of(body)
    before = fields.get("input", NULL)
    after = _edited_input(before, edit)
    if after is before:
        return body
    fields["input"] = after
    return written(fields)


def _edited_input(asked: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    if readable(_text, asked) is not None:
        return _edited_content(asked, edit)
    items = readable(_items, asked) or []
    edited = [_edited(item, edit) for item in items]
    return asked if _same(edited, items) else raw(edited)


def _messages(fields: Fields) -> list[Item]:
    return [item for item in map(item_of, items_of(fields)) if item.type == "message"]


def _is_users(item: Item) -> bool:
    return item.type == "message" and item.role == "user"


def _texts(content: msgspec.Raw) -> tuple[str, ...]:
    text = readable(_text, content)
    if text is not None:
        return (text,)
    texts = (_text_in(members_of(part)) for part in readable(_items, content) or ())
    return tuple(text for text in texts if text is not None)


def _text_in(part: Fields) -> str | None:
    return readable(_text, part.get("text", NULL))


def _same(after: Raws, before: Raws) -> bool:
    return all(new is old for new, old in zip(after, before, strict=True))


def _edited(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    if not may_contain(bytes(item)):
        return item
    message = item_of(item)
    if not _is_users(message):
        return item
    content = _edited_content(message.content, edit)
    if content is message.content:
        return item
    return raw({**members_of(item), "content": content})


def _edited_content(content: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    text = readable(_text, content)
    if text is not None:
        changed = edit(text)
        return content if changed == text else raw(changed or ".")
    items = readable(_items, content) or []
    parts = [_edited_part(item, edit) for item in items]
    kept = [part for part in parts if part is not None]
    if len(kept) == len(items) and _same(kept, items):
        return content
    return raw(kept or [{"type": "input_text", "text": "."}])


def _edited_part(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw | None:
    """Change the text of a part; return None when nothing is left of it."""
    members = members_of(item)
    text = _text_in(members)
    changed = edit(text) if text is not None else None
    if changed == text:
        return item
    return raw({**members, "text": changed}) if changed else None
