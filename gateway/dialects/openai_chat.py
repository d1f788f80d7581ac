"""OpenAI Chat Completions: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.core.additions import (
    Addition,
    AnsweredTurn,
    ToolDeclaration,
    ToolResult,
    UserText,
)
from gateway.core.directives import may_contain
from gateway.core.model import Asked
from gateway.dialects.base import Splice
from gateway.dialects.body import (
    Fields,
    appended,
    decoded,
    fields_of,
    raw,
    without_duplicates,
    written,
)
from gateway.dialects.openai_chat_stream import ChatStream
from gateway.dialects.openai_chat_turn import said
from gateway.dialects.openai_chat_whole import ChatWhole
from gateway.dialects.openai_chat_words import edit_user_texts, newest_user, system_texts
from gateway.errors import BadRequest, HoldgateError, UpstreamAnswered, UpstreamError
from gateway.sse import encode


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


_text: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_flag: msgspec.json.Decoder[bool | None] = msgspec.json.Decoder(bool | None)
_count = msgspec.json.Decoder(int | None)
_options = msgspec.json.Decoder(_StreamOptions | None)
_error = msgspec.json.Decoder(dict[str, msgspec.Raw])

IDENTITY = ("metadata", "client_metadata", "conversation")
READ = ("model", "messages", "stream", "n", "tools", "tool_choice", "stream_options")


class OpenAIChat:
    """Reads, changes and answers Chat Completions requests."""

    name = "openai-chat"
    path = "/chat/completions"

    def read(self, body: bytes, depth: int, prefers_stream: bool = False) -> Asked:
        """Read a client's request, or raise `BadRequest` naming the field."""
        fields = fields_of(body, depth)
        body = without_duplicates(body, fields, READ)
        if bytes(fields.get("messages", b"")).strip()[:1] != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")
        said = decoded(fields, "stream", _flag, None)
        return Asked(
            model=_model(fields),
            body=body,
            stream=prefers_stream if said is None else said,
            stream_implied=prefers_stream and said is None,
            choices=_choices(fields),
            wants_usage=_wants_usage(fields),
            has_tools=bytes(fields.get("tools", b"null")).strip() not in (b"null", b"[]"),
            directives=may_contain(bytes(fields["messages"])),
            identity={name: bytes(fields[name]) for name in IDENTITY if name in fields},
        )

    def rewrite(self, body: bytes, model: str, stream: bool) -> bytes:
        """Name the model as the upstream knows it; a body that is right already stays as it is."""
        fields = fields_of(body)
        streams = bool(decoded(fields, "stream", _flag, None))
        if _model(fields) == model and streams == stream:
            return body
        fields["model"] = raw(model)
        if streams != stream:
            fields["stream"] = raw(stream)
        return written(fields)

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> bytes:
        """Put additions into a request: messages at the end, tools after the client's own."""
        fields = fields_of(body)
        messages = [msgspec.json.encode(m) for a in additions if (m := _message(a)) is not None]
        tools = [_declaration(a) for a in additions if isinstance(a, ToolDeclaration)]
        if messages:
            _append(fields, "messages", messages)
        if tools:
            _append(fields, "tools", tools)
        if _forces_tool(fields) and any(isinstance(a, AnsweredTurn) for a in additions):
            # It has been obeyed; kept, it would be obeyed again in every follow-up.
            del fields["tool_choice"]
        return written(fields)

    def newest_user(self, body: bytes) -> tuple[int, tuple[str, ...]]:
        """Return the ordinal and the texts of the newest user message."""
        return newest_user(body)

    def system_texts(self, body: bytes) -> tuple[str, ...]:
        """Return the texts that instruct the model."""
        return system_texts(body)

    def edit_user_texts(self, body: bytes, edit: Callable[[str], str]) -> bytes:
        """Change what users said."""
        return edit_user_texts(body, edit)

    def splice(self, asked: Asked, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return ChatStream(asked, server_tools, event_bytes)
        return ChatWhole(asked, server_tools, event_bytes)

    def refusal(self, body: bytes) -> UpstreamError:
        """Read a 2xx answer that is no answer."""
        return said(body)

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer; the upstream's own words pass if they are JSON."""
        if isinstance(error, UpstreamAnswered) and _is_error(error.body):
            return error.body
        return msgspec.json.encode({"error": _described(error)})

    def error_frame(self, error: HoldgateError) -> bytes:
        """Render an error inside a stream."""
        return encode(self.error_body(error).replace(b"\n", b" ").replace(b"\r", b" "))


def _model(fields: Fields) -> str:
    model = decoded(fields, "model", _text, None)
    if not model:
        raise BadRequest("`model` is missing; name a model, see GET /v1/models.", param="model")
    return model


def _choices(fields: Fields) -> int:
    choices = decoded(fields, "n", _count, None)
    if choices is not None and choices < 1:
        raise BadRequest("`n` must be at least 1.", param="n")
    return choices or 1


def _forces_tool(fields: Fields) -> bool:
    choice = bytes(fields.get("tool_choice", b"null")).strip()
    return choice == b'"required"' or choice.startswith(b"{")


def _wants_usage(fields: Fields) -> bool:
    options = decoded(fields, "stream_options", _options, None)
    return bool(options and options.include_usage)


def _append(fields: Fields, name: str, items: list[bytes]) -> None:
    present = bytes(fields.get(name, b"[]"))
    fields[name] = msgspec.Raw(appended(b"[]" if present == b"null" else present, items))


def _message(addition: Addition) -> Any:
    match addition:
        case AnsweredTurn():
            return addition.message
        case UserText():
            return {"role": "user", "content": addition.text}
        case ToolResult():
            return {"role": "tool", "tool_call_id": addition.call_id, "content": addition.text}
    return None


def _declaration(tool: ToolDeclaration) -> bytes:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema.encode()),
        "strict": True,
    }
    return msgspec.json.encode({"type": "function", "function": function})


def _is_error(body: bytes) -> bool:
    try:
        return "error" in _error.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _described(error: HoldgateError) -> dict[str, str | None]:
    return {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.code,
    }


DIALECT = OpenAIChat()
