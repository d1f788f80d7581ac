"""The texts of a request's messages: reading them, and changing what users said.

Only what has to change is written again, and all beside it stays as it came.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gateway.dialects.raw_json import NULL, Fields, members_of, raw, raws_in, same, text_of
from gateway.sessions.directives.reader import may_contain

Edit = Callable[[str], str]
"""Changes a text; nothing may be left of it."""

DOT = "."


class SpokenMessage(msgspec.Struct):
    """Who speaks, and what."""

    role: str = ""
    content: msgspec.Raw = NULL


NOBODY = SpokenMessage()


def texts_in(content: msgspec.Raw) -> tuple[str, ...]:
    """Return what content says: a text, or the texts of its parts."""
    text = text_of(content)
    if text is not None:
        return (text,)
    texts = (_text_in(members_of(part)) for part in raws_in(content) or ())
    return tuple(text for text in texts if text is not None)


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
        if same(left, items):
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
