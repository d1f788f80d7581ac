"""Who said what in a Chat Completions request, and changing what users said.

Messages and their parts are looked at as raw slices; only the text that has to change is written
again, and all beside it stays as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.core.directives import may_contain
from gateway.dialects.body import Fields, fields_of, raw, written

T = TypeVar("T")

SYSTEM_ROLES = ("system", "developer")
NULL = msgspec.Raw(b"null")


class _Message(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = NULL


_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_members: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_message = msgspec.json.Decoder(_Message)
_text = msgspec.json.Decoder(str)


def last_role(messages: msgspec.Raw) -> str:
    """Return who speaks in the last message; nothing if that cannot be told."""
    try:
        items = _items.decode(messages)
        role = _message.decode(items[-1]).role if items else ""
    except msgspec.DecodeError:
        # It is the upstream's to judge.
        role = ""
    # In the older form it is the function that speaks.
    return "tool" if role == "function" else role


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(body) if message.role == "user"]
    return len(contents), _texts(contents[-1]) if contents else ()


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the texts of the system and developer messages."""
    told = (message.content for message in _messages(body) if message.role in SYSTEM_ROLES)
    return tuple(text for content in told for text in _texts(content))


def edit_user_texts(body: bytes, edit: Callable[[str], str]) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is.

    A message of which nothing is left becomes a dot: without it another role would come first.
    """
    fields = fields_of(body)
    items = _slices(fields)
    edited = [_edited(item, edit) for item in items]
    if _same(edited, items):
        return body
    fields["messages"] = raw(edited)
    return written(fields)


def _slices(fields: Fields) -> list[msgspec.Raw]:
    return _read(_items, fields.get("messages", NULL)) or []


def _messages(body: bytes) -> list[_Message]:
    read = (_read(_message, item) for item in _slices(fields_of(body)))
    return [message for message in read if message is not None]


def _read(decoder: msgspec.json.Decoder[T], value: msgspec.Raw) -> T | None:
    """Read a value if it is what it should be; if not, it is the upstream's to judge."""
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return None


def _same(after: list[msgspec.Raw], before: list[msgspec.Raw]) -> bool:
    return all(new is old for new, old in zip(after, before, strict=True))


def _texts(content: msgspec.Raw) -> tuple[str, ...]:
    text = _read(_text, content)
    if text is not None:
        return (text,)
    parts = (_part(item) for item in _read(_items, content) or ())
    return tuple(text for _, text in parts if text is not None)


def _part(item: msgspec.Raw) -> tuple[Fields, str | None]:
    """Return the members of a part, and its text if it has one."""
    members = _read(_members, item) or {}
    return members, _read(_text, members.get("text", NULL))


def _edited(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    if not may_contain(bytes(item)):
        return item
    message = _read(_message, item)
    if message is None or message.role != "user":
        return item
    content = _edited_content(message.content, edit)
    if content is message.content:
        return item
    return raw({**_members.decode(item), "content": content})


def _edited_content(content: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    text = _read(_text, content)
    if text is not None:
        changed = edit(text)
        return content if changed == text else raw(changed or ".")
    items = _read(_items, content) or []
    parts = [_edited_part(item, edit) for item in items]
    kept = [part for part in parts if part is not None]
    if len(kept) == len(items) and _same(kept, items):
        return content
    return raw(kept or [{"type": "text", "text": "."}])


def _edited_part(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw | None:
    """Change the text of a part; return None when nothing is left of it."""
    members, text = _part(item)
    changed = edit(text) if text is not None else None
    if changed == text:
        return item
    return raw({**members, "text": changed}) if changed else None
