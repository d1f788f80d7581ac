"""OpenAI Chat Completions: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from gateway.dialects.base_dialect import BaseDialect
from gateway.dialects.openai_chat.rebuild import CALLS, find_call_ids, restore_turns
from gateway.dialects.openai_chat.stream import ChatStream
from gateway.dialects.openai_chat.text import last_role, read_message
from gateway.dialects.openai_chat.turn import read_disguised_error, shows_content
from gateway.dialects.openai_chat.whole import ChatWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    NOTHING,
    Fields,
    append_to,
    array,
    drop_duplicates,
    fields_of,
    forces_one,
    is_structured,
    name_model,
    read_as,
    write_object,
)
from gateway.dialects.statuses import describe_error
from gateway.errors import BadRequest, HoldgateError, UpstreamAnswered
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest
from gateway.sessions.directives.reader import may_contain


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


class _ChatRequest(msgspec.Struct, gc=False):
    """The members the gateway looks at; what is long stays a raw slice."""

    model: str | None = None
    messages: msgspec.Raw = ABSENT
    stream: bool | None = None
    n: int | None = None
    stream_options: _StreamOptions | None = None
    tools: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    functions: msgspec.Raw = ABSENT
    response_format: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT
    client_metadata: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT


_request = msgspec.json.Decoder(_ChatRequest)
_error = msgspec.json.Decoder(dict[str, msgspec.Raw])

IDENTITY = ("metadata", "client_metadata", "conversation")
READ = ("model", "messages", "stream", "n", "tools", "tool_choice", "stream_options")


class OpenAIChat(BaseDialect):
    """Reads, changes and answers Chat Completions requests."""

    name = "openai-chat"
    path = "/chat/completions"
    # In the older form too, and of several answers one.
    tool_members = ("tool_choice", "parallel_tool_calls", "functions", "function_call", "n")

    read_message = staticmethod(read_message)
    restore = staticmethod(restore_turns)
    shows_content = staticmethod(shows_content)
    read_disguised_error = staticmethod(read_disguised_error)

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> ModelRequest:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request = read_as(_request, body, depth)
        body = drop_duplicates(body, READ)
        model, body = name_model(body, request.model, default_model)
        if bytes(memoryview(request.messages)[:1]) != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")
        said = request.stream
        form, choice = request.response_format, request.tool_choice
        structured = form is not ABSENT and is_structured(form)
        return ModelRequest(
            model=model,
            body=body,
            stream=prefers_stream if said is None else said,
            stream_implied=prefers_stream and said is None,
            choices=1 if request.n is None else _choices(request.n),
            wants_usage=bool(request.stream_options and request.stream_options.include_usage),
            tools=array(request.tools, "tools"),
            takes_tools=_takes_tools(request) and not structured,
            structured=structured,
            forces_one=choice is not ABSENT and forces_one(choice, "function", "custom"),
            last_role=last_role(request.messages),
            directives=may_contain(body),
            identity=_identity(request),
        )

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> bytes:
        """Put additions into a request: messages at the end, tools after the client's own."""
        fields = fields_of(body)
        messages: list[bytes] = []
        tools: list[bytes] = []
        for addition in additions:
            if isinstance(addition, ToolDeclaration):
                tools.append(_declaration(addition))
            else:
                messages.append(_message(addition))
        if messages:
            append_to(fields, "messages", messages)
        if tools:
            append_to(fields, "tools", tools)
        if _forces_tool(fields) and any(isinstance(a, AnsweredTurn) for a in additions):
            # It has been obeyed; kept, it would be obeyed again in every follow-up.
            del fields["tool_choice"]
        return write_object(fields)

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Return the body: here reasoning needs no proof, and so carries none."""
        return body

    strip_reasoning = strip_foreign_reasoning

    def tool_name(self, tool: dict[str, Any]) -> object:
        """Return what a tool is called, which stands inside of it."""
        inner = tool.get("function") or tool.get("custom")
        return inner.get("name") if isinstance(inner, dict) else None

    def find_call_ids(self, body: bytes) -> tuple[str, ...]:
        """Return the first call's id of each turn in the history that called tools."""
        return find_call_ids(body) if CALLS in body else ()

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said."""
        return AnsweredTurn({"role": "assistant", "content": text})

    def splice(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return ChatStream(asked, server_tools, event_bytes)
        return ChatWhole(asked, server_tools, event_bytes)

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer; the upstream's own words pass if they are JSON."""
        if isinstance(error, UpstreamAnswered) and _is_error(error.body):
            return error.body
        return describe_error(error)


def _choices(choices: int | None) -> int:
    if choices is not None and choices < 1:
        raise BadRequest("`n` must be at least 1.", param="n")
    return choices or 1


def _identity(request: _ChatRequest) -> Mapping[str, bytes]:
    if request.metadata is request.client_metadata is request.conversation:
        return {}
    members = {name: bytes(getattr(request, name)) for name in IDENTITY}
    return {name: value for name, value in members.items() if value}


def _takes_tools(request: _ChatRequest) -> bool:
    """Whether a tool can be added: not beside the older form, nor where a tool is forced."""
    if request.n is not None and request.n > 1:
        return False
    if request.tool_choice is ABSENT and request.functions is ABSENT:
        return True
    return bytes(request.functions) in NOTHING and not _forces(request.tool_choice)


def _forces_tool(fields: Fields) -> bool:
    return "tool_choice" in fields and _forces(fields["tool_choice"])


def _forces(tool_choice: msgspec.Raw) -> bool:
    choice = bytes(tool_choice).strip()
    return choice == b'"required"' or choice.startswith(b"{")


def _message(addition: UserText | ToolResult | AnsweredTurn) -> bytes:
    if isinstance(addition, UserText):
        return b'{"role":"user","content":%b}' % msgspec.json.encode(addition.text)
    if isinstance(addition, AnsweredTurn):
        return msgspec.json.encode(addition.message)
    result = {"role": "tool", "tool_call_id": addition.call_id, "content": addition.text}
    return msgspec.json.encode(result)


@cache
def _declaration(tool: ToolDeclaration) -> bytes:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema.encode()),
        "strict": tool.strict,
    }
    return msgspec.json.encode({"type": "function", "function": function})


def _is_error(body: bytes) -> bool:
    try:
        return "error" in _error.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


DIALECT = OpenAIChat()
