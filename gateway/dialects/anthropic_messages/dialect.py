"""Anthropic Messages: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.rebuild import find_call_ids, restore_turns
from gateway.dialects.anthropic_messages.stream import MessagesStream
from gateway.dialects.anthropic_messages.text import (
    CACHE,
    is_users,
    last_role,
    last_turn,
    message_of,
    messages_of,
    strip_foreign_reasoning,
)
from gateway.dialects.anthropic_messages.turn import read_disguised_error, shows_content
from gateway.dialects.anthropic_messages.whole import MessagesWhole
from gateway.dialects.base_dialect import BaseDialect, RequestWithMessages
from gateway.dialects.events import read_object
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    NULL,
    Fields,
    Raws,
    append_to,
    fields_of,
    forces_one,
    is_structured,
    members_of,
    quote_names,
    raw,
    raws_in,
    readable,
    write_object,
)
from gateway.dialects.statuses import messages_type_of
from gateway.dialects.text_editor import TextEditor
from gateway.errors import HoldgateError, UpstreamAnswered
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest

TEXT = b'{"type":"text","text":%b}'
FORCING = ("any", "tool")


class _OutputConfig(msgspec.Struct, gc=False):
    format: msgspec.Raw = ABSENT


class _MessagesRequest(RequestWithMessages, gc=False):
    identities = ("metadata",)
    output_config: msgspec.Raw = ABSENT
    output_format: msgspec.Raw = ABSENT

    def last_role(self) -> str:
        """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""
        return last_role(self.messages)

    def is_structured(self) -> bool:
        """Whether the answer has to have a form, as said by either of the two members for it."""
        if self.output_config is self.output_format:
            return False
        told = readable(_output_config, self.output_config)
        has_format = told is not None and is_structured(told.format)
        return has_format or is_structured(self.output_format)

    def takes_tools(self) -> bool:
        """Whether a tool can be added, as far as its form does not forbid it."""
        return self.tool_choice is ABSENT or not forces_one(self.tool_choice, FORCING)

    def wants_usage(self) -> bool:
        """Whether the client wants to be told the usage: it always is."""
        return True


_output_config = msgspec.json.Decoder(_OutputConfig)


class AnthropicMessages(BaseDialect):
    """Reads, changes and answers Messages requests."""

    name = "anthropic-messages"
    path = "/messages"
    request_decoder = msgspec.json.Decoder(_MessagesRequest)
    read_members = quote_names("model", "messages", "stream", "tools", "tool_choice")
    forced_types = ("tool",)
    instructions = "system"
    system_roles = ("system",)
    tool_members = ("tool_choice",)
    hosted_tools = ("web_search", "web_fetch", "code_execution", "mcp_toolset")
    error_event = "error"
    # Whoever marked a block wants the conversation cached up to there.
    editor = TextEditor("text", kept=CACHE)

    read_message = staticmethod(message_of)
    is_users = staticmethod(is_users)
    restore = staticmethod(restore_turns)
    find_call_ids = staticmethod(find_call_ids)
    strip_reasoning = staticmethod(strip_foreign_reasoning)
    shows_content = staticmethod(shows_content)
    read_disguised_error = staticmethod(read_disguised_error)

    def add(self, body: bytes, additions: tuple[Addition, ...], history_end: int = 0) -> bytes:
        """Put additions into a request: turns at the end, tools after the client's own.

        The user and the model take turns here. So what is added in the user's name goes to the end
        of the user's last turn, and begins a turn of its own only after the model's.
        """
        fields = fields_of(body)
        tools = [_declaration(a) for a in additions if isinstance(a, ToolDeclaration)]
        if tools:
            append_to(fields, "tools", tools)
        if len(tools) < len(additions):
            _converse(fields, additions)
        return write_object(fields)

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said; a blank text is refused as a block."""
        blocks = [{"type": "text", "text": text}] if text.strip() else []
        return AnsweredTurn({"role": "assistant", "content": blocks})

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer; the upstream's own words pass, in this shape."""
        message = error.message
        if isinstance(error, UpstreamAnswered):
            own = read_object(error.body) or {}
            if own.get("type") == "error" and isinstance(own.get("error"), dict):
                return error.body
            message = _sentence(own.get("error")) or message
        described = {"type": messages_type_of(error.status), "message": message}
        return msgspec.json.encode({"type": "error", "error": described})

    def splice(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return MessagesStream(asked, server_tools, event_bytes)
        return MessagesWhole(asked, server_tools, event_bytes)


def _sentence(error: object) -> str:
    told = error.get("message") if isinstance(error, dict) else error
    return told if isinstance(told, str) else ""


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
                message: Any = addition.message
                # A turn that said nothing cannot be told of: a message must have content.
                messages += [raw(message)] if message["content"] else []
                # A forced tool was called; kept, it would be called again in every follow-up.
                if forces_one(fields.get("tool_choice", NULL), FORCING):
                    del fields["tool_choice"]
            case UserText() | ToolResult():
                _say(messages, _block(addition), fields)
    fields["messages"] = raw(messages)


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


DIALECT = AnthropicMessages()
