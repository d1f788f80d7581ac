"""Who said what in a Messages request, and changing what users said.

Messages and their blocks are looked at as raw slices; only the text that has to change is written
again, and all beside it stays as it came. What a tool returned comes in the user's name, but is
not the user's word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from gateway.core.directives import may_contain
from gateway.dialects.body import Fields, fields_of, raw, written
from gateway.dialects.openai_chat_calls import as_text

T = TypeVar("T")
Raws = list[msgspec.Raw]

NULL = msgspec.Raw(b"null")
RESULT = b'"tool_result"'
CACHE = "cache_control"


class Message(msgspec.Struct):
    """Who speaks, and what."""

    role: str = ""
    content: msgspec.Raw = NULL


class Block(msgspec.Struct):
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


_items: msgspec.json.Decoder[Raws] = msgspec.json.Decoder(Raws)
_members: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_message = msgspec.json.Decoder(Message)
_block = msgspec.json.Decoder(Block)
_text = msgspec.json.Decoder(str)


def readable(decoder: msgspec.json.Decoder[T], value: bytes | msgspec.Raw) -> T | None:
    """Read a value if it is what it should be; if not, it is the upstream's to judge."""
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        return None


def messages_of(fields: Fields) -> Raws:
    """Return the messages of a request as raw slices."""
    return readable(_items, fields.get("messages", NULL)) or []


def message_of(item: msgspec.Raw) -> Message:
    """Read who speaks and what; an item that is no message is nobody's."""
    return readable(_message, item) or Message()


def members_of(item: msgspec.Raw) -> Fields:
    """Read the members of an object; of anything else there are none."""
    return readable(_members, item) or {}


def text_of(content: msgspec.Raw) -> str | None:
    """Return content that is plain text."""
    return readable(_text, content)


def blocks_of(content: msgspec.Raw) -> Raws | None:
    """Return content that is a list of blocks."""
    return readable(_items, content)


def block_of(item: msgspec.Raw) -> Block:
    """Read what a block is; what is no block is of no type."""
    return readable(_block, item) or Block()


def last_turn(messages: Raws) -> int:
    """Return where the last message of the user or the model stands, -1 if there is none.

    Instructions may follow it: clients put some after what they are about.
    """
    at = len(messages) - 1
    while at >= 0 and message_of(messages[at]).role == "system":
        at -= 1
    return at


def last_role(messages: msgspec.Raw) -> str:
    """Return who speaks last: `tool` where it is a tool's result; nothing if it cannot be told."""
    items = readable(_items, messages) or []
    at = last_turn(items)
    last = message_of(items[at]) if at >= 0 else Message()
    return "tool" if last.role == "user" and any(_results(last.content)) else last.role


def newest_user(body: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the ordinal and the texts of the newest user message; 0 and none if there is none."""
    contents = [message.content for message in _messages(body) if _is_users(message)]
    return len(contents), _texts(contents[-1]) if contents else ()


def system_texts(body: bytes) -> tuple[str, ...]:
    """Return the texts of the system prompt, and of system messages in the conversation."""
    told = [message.content for message in _messages(body) if message.role == "system"]
    system = fields_of(body).get("system", NULL)
    return tuple(text for content in (system, *told) for text in _texts(content))


def edit_user_texts(body: bytes, edit: Callable[[str], str]) -> bytes:
    """Change the texts of all user messages that may hold a directive; keep the rest as it is.

    A message of which nothing is left becomes a dot, as does a text that ends a cached prefix.
    """
    fields = fields_of(body)
    items = messages_of(fields)
    edited = [_edited(item, edit) for item in items]
    if _same(edited, items):
        return body
    fields["messages"] = raw(edited)
    return written(fields)


def _messages(body: bytes) -> Iterator[Message]:
    return map(message_of, messages_of(fields_of(body)))


def _results(content: msgspec.Raw) -> Iterator[bool]:
    """Tell of each block whether it is a tool's result."""
    if RESULT in bytes(content):
        for block in blocks_of(content) or ():
            yield block_of(block).type == "tool_result"


def _is_users(message: Message) -> bool:
    """Whether the user says something, and not only tools."""
    results = tuple(_results(message.content))
    return message.role == "user" and not (results and all(results))


def _texts(content: msgspec.Raw) -> tuple[str, ...]:
    text = text_of(content)
    if text is not None:
        return (text,)
    texts = (_text_in(members_of(block)) for block in blocks_of(content) or ())
    return tuple(text for text in texts if text is not None)


def _text_in(block: Fields) -> str | None:
    return text_of(block.get("text", NULL))


def _same(after: Raws, before: Raws) -> bool:
    return all(new is old for new, old in zip(after, before, strict=True))


def _edited(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    if not may_contain(bytes(item)):
        return item
    message = message_of(item)
    if message.role != "user":
        return item
    content = _edited_content(message.content, edit)
    if content is message.content:
        return item
    return raw({**members_of(item), "content": content})


def _edited_content(content: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw:
    text = text_of(content)
    if text is not None:
        changed = edit(text)
        return content if changed == text else raw(changed or ".")
    items = blocks_of(content) or []
    blocks = [_edited_block(item, edit) for item in items]
    kept = [block for block in blocks if block is not None]
    if len(kept) == len(items) and _same(kept, items):
        return content
    return raw(kept or [{"type": "text", "text": "."}])


def _edited_block(item: msgspec.Raw, edit: Callable[[str], str]) -> msgspec.Raw | None:
    """Change the text of a block; return None when nothing is left of it."""
    block = members_of(item)
    text = _text_in(block)
    changed = edit(text) if text is not None else None
    if changed == text:
        return item
    # Whoever marked it wants the conversation cached up to here.
    if not changed and CACHE not in block:
        return None
    return raw({**block, "text": changed or "."})
