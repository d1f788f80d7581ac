"""Who said what in a Chat Completions request, and changing what users said.

Messages are looked at as raw slices; only one that has to change is read whole and written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.core.directives import may_contain
from gateway.dialects.body import Fields, decoded, fields_of, raw, written

SYSTEM_ROLES = ("system", "developer")


class _Message(msgspec.Struct):
    role: str = ""
    content: msgspec.Raw = msgspec.Raw(b"null")


_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_message = msgspec.json.Decoder(_Message)
_any = msgspec.json.Decoder(Any)


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [content for role, content in _messages(fields_of(body)) if role == "user"]
    return len(contents), _texts(contents[-1]) if contents else ()


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the texts of the system and developer messages."""
    messages = _messages(fields_of(body))
    return tuple(
        text for role, content in messages if role in SYSTEM_ROLES for text in _texts(content)
    )


def edit_user_texts(body: bytes, edit: Callable[[str], str]) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is.

    A message of which nothing is left becomes a dot: without it another role would come first.
    """
    fields = fields_of(body)
    items = [_edited(item, edit) for item in _slices(fields)]
    fields["messages"] = raw(items)
    return written(fields)


def _slices(fields: Fields) -> list[msgspec.Raw]:
    return decoded(fields, "messages", _items, [])


def _messages(fields: Fields) -> list[tuple[str, msgspec.Raw]]:
    found = []
    for item in _slices(fields):
        try:
            message = _message.decode(item)
        except msgspec.DecodeError:
            # What is no message is the upstream's to judge.
            continue
        found.append((message.role, message.content))
    return found


def _texts(content: msgspec.Raw) -> tuple[str, ...]:
    value = _any.decode(content)
    if isinstance(value, str):
        return (value,)
    parts = value if isinstance(value, list) else []
    return tuple(part["text"] for part in parts if _is_text(part))


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _edited(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    if not may_contain(bytes(item)):
        return item
    message = _any.decode(item)
    if not isinstance(message, dict) or message.get("role") != "user":
        return item
    content = _edited_content(message.get("content"), edit)
    return item if content == message.get("content") else raw({**message, "content": content})


def _edited_content(content: Any, edit: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return edit(content) or "."
    if not isinstance(content, list):
        return content
    parts = [{**p, "text": edit(p["text"])} if _is_text(p) else p for p in content]
    kept = [p for p, before in zip(parts, content, strict=True) if p == before or p["text"]]
    return kept or [{"type": "text", "text": "."}]
