"""OpenAI Chat Completions: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from gateway.dialects.openai_chat.content import shows_content
from gateway.dialects.openai_chat.rebuild import find_call_ids, restore_turns
from gateway.dialects.openai_chat.stream import ChatStream
from gateway.dialects.openai_chat.text import (
    edit_user_texts,
    has_one_message,
    last_role,
    newest_user,
    system_texts,
)
from gateway.dialects.openai_chat.turn import read_disguised_error
from gateway.dialects.openai_chat.whole import ChatWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    NOTHING,
    Fields,
    append_items,
    array,
    drop_duplicates,
    fields_of,
    forces_one,
    is_structured,
    name_model,
    read_as,
    rename_model,
    write_object,
)
from gateway.dialects.strip_tools import strip_tools
from gateway.errors import BadRequest, HoldgateError, UpstreamAnswered, UpstreamError
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import Asked
from gateway.sessions.directives.reader import may_contain
from gateway.sessions.model import Kept
from gateway.wire.sse import encode


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
_tools = msgspec.json.Decoder(list[Any])
_error = msgspec.json.Decoder(dict[str, msgspec.Raw])

IDENTITY = ("metadata", "client_metadata", "conversation")
READ = ("model", "messages", "stream", "n", "tools", "tool_choice", "stream_options")
TOOLING = ("tool_choice", "parallel_tool_calls", "functions", "function_call", "n")


class OpenAIChat:
    """Reads, changes and answers Chat Completions requests."""

    name = "openai-chat"
    path = "/chat/completions"

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> Asked:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request = read_as(_request, body, depth)
        body = drop_duplicates(body, READ)
        model, body = name_model(body, request.model, default_model)
        if bytes(memoryview(request.messages)[:1]) != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")
        said = request.stream
        form, choice = request.response_format, request.tool_choice
        structured = form is not ABSENT and is_structured(form)
        return Asked(
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

    def rewrite(self, body: bytes, model: str, stream: bool) -> bytes:
        """Name the model as the upstream knows it; a body that is right already stays as it is."""
        return rename_model(body, model, stream)

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
            _append(fields, "messages", messages)
        if tools:
            _append(fields, "tools", tools)
        if _forces_tool(fields) and any(isinstance(a, AnsweredTurn) for a in additions):
            # It has been obeyed; kept, it would be obeyed again in every follow-up.
            del fields["tool_choice"]
        return write_object(fields)

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Return the body: here reasoning needs no proof, and so carries none."""
        return body

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said."""
        return AnsweredTurn({"role": "assistant", "content": text})

    def strip_tools(self, body: bytes) -> bytes:
        """Take out the client's tools, in the older form too, and all answers but one."""
        return strip_tools(body, TOOLING)

    def declares(self, tools: bytes, name: str) -> bool:
        """Whether the client offers a tool of this name."""
        if not tools or (name.encode() not in tools and b"\\u" not in tools):
            return False
        return name in map(_tool_name, _read_tools(tools))

    def restore_turns(self, body: bytes, kept: tuple[Kept, ...]) -> bytes:
        """Put kept calls and results back into the turns they were taken from."""
        return restore_turns(body, tuple(item for item in kept if item.dialect == self.name))

    def find_call_ids(self, body: bytes) -> tuple[str, ...]:
        """Return the first call's id of each turn in the history that called tools."""
        return find_call_ids(body)

    def newest_user(self, body: bytes) -> tuple[int, tuple[str, ...]]:
        """Return the ordinal and the texts of the newest user message."""
        return newest_user(body)

    def has_one_message(self, body: bytes) -> bool:
        """Whether the user says one thing, and nothing of a model or a tool is in the request."""
        return has_one_message(body)

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

    def shows_content(self, frames: bytes) -> bool:
        """Whether frames that a client is shown say anything."""
        return shows_content(frames)

    def read_disguised_error(self, body: bytes) -> UpstreamError:
        """Read a 2xx answer that is no answer."""
        return read_disguised_error(body)

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer; the upstream's own words pass if they are JSON."""
        if isinstance(error, UpstreamAnswered) and _is_error(error.body):
            return error.body
        return msgspec.json.encode({"error": _describe_error(error)})

    def error_frame(self, error: HoldgateError, splice: Splice | None = None) -> bytes:
        """Render an error inside a stream."""
        return encode(self.error_body(error).replace(b"\n", b" ").replace(b"\r", b" "))


def _choices(choices: int | None) -> int:
    if choices is not None and choices < 1:
        raise BadRequest("`n` must be at least 1.", param="n")
    return choices or 1


def _identity(request: _ChatRequest) -> Mapping[str, bytes]:
    if request.metadata is request.client_metadata is request.conversation:
        return {}
    members = {name: bytes(getattr(request, name)) for name in IDENTITY}
    return {name: value for name, value in members.items() if value}


def _read_tools(tools: bytes) -> list[Any]:
    try:
        return _tools.decode(tools)
    except msgspec.DecodeError:
        # It is the upstream's to say what is wrong with them.
        return []


def _tool_name(tool: object) -> object:
    inner = (tool.get("function") or tool.get("custom")) if isinstance(tool, dict) else None
    return inner.get("name") if isinstance(inner, dict) else None


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


def _append(fields: Fields, name: str, items: list[bytes]) -> None:
    present = bytes(fields.get(name, b"[]"))
    fields[name] = msgspec.Raw(append_items(b"[]" if present == b"null" else present, items))


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


def _describe_error(error: HoldgateError) -> dict[str, str | None]:
    return {
        "message": error.message,
        "type": error.kind,
        "param": error.param,
        "code": error.code,
    }


DIALECT = OpenAIChat()
