"""Parts of a request, looked at as raw slices.

Only what has to change is written again, and all beside it stays as it came. What is not as it
should be is the upstream's to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from gateway.dialects.body import Fields, raw
from gateway.sessions.directives.reader import may_contain

T = TypeVar("T")
Raws = list[msgspec.Raw]
Edit = Callable[[str], str]
"""Changes a text; nothing may be left of it."""

NULL = msgspec.Raw(b"null")
DOT = "."

_items: msgspec.json.Decoder[Raws] = msgspec.json.Decoder(Raws)
_members: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_text = msgspec.json.Decoder(str)


def readable(decoder: msgspec.json.Decoder[T], value: bytes | msgspec.Raw) -> T | None:
    """Read a value if it is what it should be."""
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return None


def raws_in(value: msgspec.Raw) -> Raws | None:
    """Return the items of a list."""
    return readable(_items, value)


def members_of(item: msgspec.Raw) -> Fields:
    """Return the members of an object; of anything else there are none."""
    return readable(_members, item) or {}


def text_of(value: msgspec.Raw) -> str | None:
    """Return a text."""
    return readable(_text, value)


def texts_in(content: msgspec.Raw) -> tuple[str, ...]:
    """Return what content says: a text, or the texts of its parts."""
    text = text_of(content)
    if text is not None:
        return (text,)
    texts = (_text_in(members_of(part)) for part in raws_in(content) or ())
    return tuple(text for text in texts if text is not None)


def same(after: Raws, before: Raws) -> bool:
    """Whether nothing was changed; both are as long."""
    return all(new is old for new, old in zip(after, before, strict=True))


class TextEditor:
    """Changes what users said, in one dialect's words.

    A message of which nothing is left becomes a dot: without it another role would come first. So
    does a part that carries a member which must not be lost (`kept`).
    """

    def __init__(self, text_type: str, kept: str | None = None) -> None:
        self._dot = {"type": text_type, "text": DOT}
        self._kept = kept

    def content(self, content: msgspec.Raw, edit: Edit) -> msgspec.Raw:
        """Change content; return the same if there was nothing to change."""
        text = text_of(content)
        if text is not None:
            changed = edit(text)
            return content if changed == text else raw(changed or DOT)
        items = raws_in(content) or []
        parts = [self._part(item, edit) for item in items]
        left = [part for part in parts if part is not None]
        if len(left) == len(items) and same(left, items):
            return content
        return raw(left or [self._dot])

    def message(self, item: msgspec.Raw, content: msgspec.Raw, edit: Edit) -> msgspec.Raw:
        """Change a message that has this content."""
        if not may_contain(bytes(item)):
            return item
        changed = self.content(content, edit)
        return item if changed is content else raw({**members_of(item), "content": changed})

    def _part(self, item: msgspec.Raw, edit: Edit) -> msgspec.Raw | None:
        """Change the text of a part; return None when nothing is left of it."""
        members = members_of(item)
        text = _text_in(members)
        changed = edit(text) if text is not None else None
        if changed == text:
            return item
        if not changed and self._kept not in members:
            return None
        return raw({**members, "text": changed or DOT})


def _text_in(part: Fields) -> str | None:
    return text_of(part.get("text", NULL))
