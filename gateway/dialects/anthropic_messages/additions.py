"""Putting additions into a Messages request.

The user and the model take turns here. So what is added in the user's name goes to the end of the
user's last turn, and begins a turn of its own only after the model's.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.text import CACHE, last_turn, messages_of
from gateway.dialects.raw_json import (
    NULL,
    Fields,
    Raws,
    append_to,
    fields_of,
    members_of,
    raw,
    raws_in,
    write_object,
)
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText

TEXT = b'{"type":"text","text":%b}'
FORCING = frozenset({"any", "tool"})


class _ToolChoice(msgspec.Struct):
    type: str = ""


_choice = msgspec.json.Decoder(_ToolChoice)


def forces(tool_choice: msgspec.Raw) -> bool:
    """Whether a tool must be called."""
    try:
        return _choice.decode(tool_choice).type in FORCING
    except msgspec.DecodeError:
        return False


def add_to_request(body: bytes, additions: tuple[Addition, ...]) -> bytes:
    """Put additions into a request: turns at the end, tools after the client's own."""
    fields = fields_of(body)
    tools = [_declaration(a) for a in additions if isinstance(a, ToolDeclaration)]
    if tools:
        append_to(fields, "tools", tools)
    if len(tools) < len(additions):
        _converse(fields, additions)
    return write_object(fields)


@cache
def _declaration(tool: ToolDeclaration) -> bytes:
    # Not `strict`: all strict tools of a request are compiled into one grammar of limited size,
    # and not every model takes it; a tool of ours must not make the client's request fail.
    declared = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": msgspec.Raw(tool.schema.encode()),
    }
    return msgspec.json.encode(declared)


def _converse(fields: Fields, additions: tuple[Addition, ...]) -> None:
    """Add the turns that are told of."""
    messages = messages_of(fields)
    for addition in additions:
        match addition:
            case AnsweredTurn():
                messages += _write_turn(addition.message)
                _obey(fields)
            case UserText() | ToolResult():
                _say(messages, _block(addition), fields)
    fields["messages"] = raw(messages)


def _obey(fields: Fields) -> None:
    """Take a forced tool as called; kept, it would be called again in every follow-up."""
    if forces(fields.get("tool_choice", NULL)):
        del fields["tool_choice"]


def _write_turn(message: Any) -> Raws:
    # A turn that said nothing cannot be told of: a message must have content.
    return [raw(message)] if message["content"] else []


def _block(addition: UserText | ToolResult) -> dict[str, str]:
    if isinstance(addition, UserText):
        return {"type": "text", "text": addition.text}
    return {"type": "tool_result", "tool_use_id": addition.call_id, "content": addition.text}


def _say(messages: Raws, block: dict[str, str], fields: Fields) -> None:
    """Let the user say one more thing."""
    at, last = last_turn(messages)
    said = _read_blocks(last.content) if last.role == "user" else None
    if said is None:
        messages.append(raw({"role": "user", "content": [block]}))
        return
    said = _move_cache_mark(said, fields)
    messages[at] = raw({**members_of(messages[at]), "content": [*said, block]})


def _read_blocks(content: msgspec.Raw) -> Raws | None:
    """Return content as blocks; None when it is neither blocks nor text."""
    text = bytes(content)
    if not text.startswith(b'"'):
        return raws_in(content)
    return [msgspec.Raw(TEXT % text)] if text != b'""' else []


def _move_cache_mark(said: Raws, fields: Fields) -> Raws:
    """Put the mark that stands for "up to the end" where the client's own words end.

    What is added after them is gone in the next request, and nothing up to it would be found again.
    """
    mark = fields.get(CACHE, NULL)
    if bytes(mark) == b"null" or not said or not (block := members_of(said[-1])):
        return said
    del fields[CACHE]
    return [*said[:-1], raw({CACHE: mark, **block})]
