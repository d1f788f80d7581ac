"""OpenAI Responses: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from gateway.dialects.openai_responses.content import shows_content
from gateway.dialects.openai_responses.errors import (
    error_body,
    read_disguised_error,
    render_failure,
)
from gateway.dialects.openai_responses.items import AnsweredItems, as_input, is_stored, text_in
from gateway.dialects.openai_responses.rebuild import find_call_ids, restore_turns, result_item
from gateway.dialects.openai_responses.stream import ResponsesStream
from gateway.dialects.openai_responses.text import (
    edit_user_texts,
    has_one_message,
    items_of,
    last_role,
    newest_user,
    strip_foreign_reasoning,
    system_texts,
    user_message,
)
from gateway.dialects.openai_responses.whole import ResponsesWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    Fields,
    append_items,
    array,
    drop_duplicates,
    fields_of,
    forces_one,
    is_structured,
    name_model,
    raw,
    read_as,
    readable,
    rename_model,
    write_object,
)
from gateway.dialects.seals import may_be_sealed
from gateway.dialects.strip_tools import strip_tools
from gateway.errors import BadRequest, HoldgateError, UpstreamError
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import Asked
from gateway.sessions.directives.reader import may_contain
from gateway.sessions.model import Kept


class _TextOptions(msgspec.Struct, gc=False):
    format: msgspec.Raw = ABSENT


class _ResponsesRequest(msgspec.Struct, gc=False):
    """The members the gateway looks at; what is long stays a raw slice."""

    model: str | None = None
    input: msgspec.Raw = ABSENT
    stream: bool | None = None
    background: bool | None = None
    tools: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    text: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT
    client_metadata: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT


_request = msgspec.json.Decoder(_ResponsesRequest)
_text = msgspec.json.Decoder(_TextOptions)
_tools = msgspec.json.Decoder(list[Any])

IDENTITY = ("metadata", "client_metadata", "conversation")
READ = (
    "model",
    "input",
    "stream",
    "background",
    "store",
    "tools",
    "tool_choice",
    "conversation",
    "previous_response_id",
)
PREVIOUS = "previous_response_id"
INPUTS = (b"", b"[", b'"', b"n")
# Not into the conversation that the upstream keeps either: there the client would find it.
TOOLING = ("tool_choice", "parallel_tool_calls", "background", "conversation")
# The tools that the upstream runs by itself.
HOSTED = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")


class OpenAIResponses:
    """Reads, changes and answers Responses requests."""

    name = "openai-responses"
    path = "/responses"

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> Asked:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request = read_as(_request, body, depth)
        body = drop_duplicates(body, READ)
        model, body = name_model(body, request.model, default_model)
        if bytes(memoryview(request.input)[:1]) not in INPUTS:
            raise BadRequest("`input` must be a text or an array of items.", param="input")
        said = request.stream
        structured = request.text is not ABSENT and _is_structured(request.text)
        choice = request.tool_choice
        return Asked(
            model=model,
            body=body,
            stream=prefers_stream if said is None else said,
            stream_implied=prefers_stream and said is None,
            tools=array(request.tools, "tools"),
            # What is answered in the background comes back to nobody who could run a tool.
            takes_tools=not (request.background or structured or _restricts(choice)),
            structured=structured,
            forces_one=choice is not ABSENT and forces_one(choice, "function", "custom"),
            last_role=last_role(request.input),
            directives=may_contain(body),
            identity=_identity(request),
        )

    def rewrite(self, body: bytes, model: str, stream: bool) -> bytes:
        """Name the model as the upstream knows it; a body that is right already stays as it is."""
        return rename_model(body, model, stream)

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> bytes:
        """Put additions into a request: items at the end, tools after the client's own."""
        fields = fields_of(body)
        items: list[bytes] = []
        tools: list[bytes] = []
        turns: list[AnsweredItems] = []
        for addition in additions:
            match addition:
                case ToolDeclaration():
                    tools.append(_declaration(addition))
                case UserText():
                    items.append(bytes(user_message(addition.text)))
                case ToolResult():
                    items.append(bytes(result_item(addition)))
                case _:
                    turns.append(_read_turn(addition))
        if turns:
            items[:0] = _going_on(fields, turns)
        if items:
            _append(fields, "input", items)
        if tools:
            _append(fields, "tools", tools)
        return write_object(fields)

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Take out reasoning that only an upstream of another dialect would take back."""
        return strip_foreign_reasoning(body) if may_be_sealed(body) else body

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said."""
        content = [{"type": "output_text", "text": text}]
        message = {"type": "message", "role": "assistant", "content": content}
        return AnsweredTurn(AnsweredItems([message] if text else []))

    def strip_tools(self, body: bytes) -> bytes:
        """Take out the client's tools, and what would answer into its own place."""
        return strip_tools(body, TOOLING, HOSTED)

    def declares(self, tools: bytes, name: str) -> bool:
        """Whether the client offers a tool of this name, or a namespace."""
        if not tools or name.encode() not in tools:
            return False
        return name in _tool_names(tools)

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

    def previous_id(self, body: bytes) -> str:
        """Return the id of the answer that the request goes on from; empty if it names none."""
        return text_in(fields_of(body), PREVIOUS) if PREVIOUS.encode() in body else ""

    def continue_from(self, body: bytes, previous_id: str) -> bytes:
        """Name the answer that the request goes on from as the upstream knows it."""
        return write_object({**fields_of(body), PREVIOUS: raw(previous_id)})

    def splice(self, asked: Asked, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return ResponsesStream(asked, server_tools, event_bytes)
        return ResponsesWhole(asked, server_tools, event_bytes)

    def shows_content(self, frames: bytes) -> bool:
        """Whether frames that a client is shown say anything."""
        return shows_content(frames)

    def read_disguised_error(self, body: bytes) -> UpstreamError:
        """Read a 2xx answer that is no answer."""
        return read_disguised_error(body)

    def error_body(self, error: HoldgateError) -> bytes:
        """Render an error as the whole answer."""
        return error_body(error)

    def error_frame(self, error: HoldgateError, splice: Splice | None = None) -> bytes:
        """Render an error inside a stream, as the end of this answer if something was shown."""
        if isinstance(splice, ResponsesStream):
            return splice.error_frame(error)
        return render_failure(error, None, (), 0)


def _is_structured(text: msgspec.Raw) -> bool:
    told = readable(_text, text)
    return told is not None and is_structured(told.format)


def _identity(request: _ResponsesRequest) -> Mapping[str, bytes]:
    if request.metadata is request.client_metadata is request.conversation:
        return {}
    members = {name: bytes(getattr(request, name)) for name in IDENTITY}
    return {name: value for name, value in members.items() if value}


def _tool_names(tools: bytes) -> list[object]:
    try:
        return [tool.get("name") for tool in _tools.decode(tools) if isinstance(tool, dict)]
    except msgspec.DecodeError:
        # It is the upstream's to say what is wrong with them.
        return []


def _restricts(tool_choice: msgspec.Raw) -> bool:
    """Whether a tool is forced, or only some may be called."""
    choice = bytes(tool_choice)
    return choice == b'"required"' or choice.startswith(b"{")


def _obey(fields: Fields) -> None:
    """Take a forced tool as called; kept, it would be called again in every follow-up."""
    choice = fields.get("tool_choice", ABSENT)
    if not _restricts(choice):
        return
    members = fields_of(choice) if bytes(choice) != b'"required"' else {}
    if text_in(members, "type") == "allowed_tools":
        fields["tool_choice"] = raw({**members, "mode": "auto"})
    else:
        del fields["tool_choice"]


def _append(fields: Fields, name: str, items: list[bytes]) -> None:
    present = bytes(fields.get(name, b"null"))
    if name == "input" and present.startswith(b'"'):
        present = msgspec.json.encode(items_of(fields))
    fields[name] = msgspec.Raw(append_items(b"[]" if present == b"null" else present, items))


def _read_turn(addition: AnsweredTurn) -> AnsweredItems:
    assert isinstance(addition.message, AnsweredItems)
    return addition.message


def _going_on(fields: Fields, turns: list[AnsweredItems]) -> list[bytes]:
    """Tell of the turns that were answered; what the request asked for is done with."""
    stored = is_stored(fields)
    _obey(fields)
    if stored and any(turn.remembered for turn in turns):
        # The upstream has put all of it into its conversation by itself.
        fields["input"] = raw([])
        return []
    return [item for turn in turns for item in as_input(turn.items, stored)]


@cache
def _declaration(tool: ToolDeclaration) -> bytes:
    function = {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": msgspec.Raw(tool.schema.encode()),
        "strict": tool.strict,
    }
    return msgspec.json.encode(function)


DIALECT = OpenAIResponses()
