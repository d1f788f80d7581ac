"""OpenAI Responses: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from gateway.dialects.base_dialect import (
    NO_MEMBERS,
    BaseDialect,
    RequestMembers,
    describe_function,
)
from gateway.dialects.openai_responses.errors import (
    error_body,
    read_disguised_error,
    render_failure,
)
from gateway.dialects.openai_responses.items import (
    AnsweredItems,
    as_input,
    is_stored,
    shows_content,
    text_in,
)
from gateway.dialects.openai_responses.rebuild import find_call_ids, restore_turns, result_item
from gateway.dialects.openai_responses.stream import ResponsesStream
from gateway.dialects.openai_responses.text import (
    items_of,
    last_role,
    read_message,
    strip_foreign_reasoning,
    user_message,
)
from gateway.dialects.openai_responses.whole import ResponsesWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    Fields,
    append_to,
    fields_of,
    is_structured,
    quote_names,
    raw,
    readable,
    restricts_tools,
    splice_in,
    text_of,
    write_object,
)
from gateway.dialects.text_editor import Edit, TextEditor
from gateway.errors import BadRequest, HoldgateError
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest


class _TextOptions(msgspec.Struct, gc=False):
    format: msgspec.Raw = ABSENT


class _ResponsesRequest(RequestMembers, gc=False):
    input: msgspec.Raw = ABSENT
    background: bool | None = None
    text: msgspec.Raw = ABSENT
    client_metadata: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT

    def check(self) -> None:
        """Raise `BadRequest` if the input is neither a text nor items."""
        if bytes(memoryview(self.input)[:1]) not in INPUTS:
            raise BadRequest("`input` must be a text or an array of items.", param="input")

    def identity(self) -> Mapping[str, bytes]:
        """Return the members that may name a session, as JSON."""
        # The fast twin of what follows, for most requests, in which a header names it or nothing.
        if self.metadata is self.client_metadata is self.conversation is ABSENT:
            return NO_MEMBERS
        return RequestMembers.identity(self)

    def last_role(self) -> str:
        """Return who speaks last: `tool` for a tool's result; nothing if it cannot be told."""
        return last_role(self.input)

    def is_structured(self) -> bool:
        """Whether the answer has to have a form."""
        told = readable(_text, self.text) if self.text is not ABSENT else None
        return told is not None and is_structured(told.format)

    def takes_tools(self) -> bool:
        """Whether a tool can be added, as far as its form does not forbid it."""
        # What is answered in the background comes back to nobody who could run a tool.
        if self.background:
            return False
        return self.tool_choice is ABSENT or not restricts_tools(self.tool_choice)

    def wants_usage(self) -> bool:
        """Whether the client wants to be told the usage: it always is."""
        return True


_text = msgspec.json.Decoder(_TextOptions)

PREVIOUS = "previous_response_id"
INPUTS = (b"", b"[", b'"', b"n")
# What a first turn adds.
SPLICED = frozenset({ToolDeclaration, UserText})


class OpenAIResponses(BaseDialect):
    """Reads, changes and answers Responses requests."""

    name = "openai-responses"
    path = "/responses"
    history = "input"
    quoted_history = b'"input"'
    splices = True
    instructions = "instructions"
    request_decoder = msgspec.json.Decoder(_ResponsesRequest)
    read_members = quote_names(
        *("model", "input", "stream", "background", "store", "tools", "tool_choice"),
        *("conversation", PREVIOUS),
    )
    # Not into the conversation that the upstream keeps either: there the client would find it.
    tool_members = ("tool_choice", "parallel_tool_calls", "background", "conversation")
    hosted_tools = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp")
    editor = TextEditor("input_text")

    read_message = staticmethod(read_message)
    items_of = staticmethod(items_of)
    restore = staticmethod(restore_turns)
    find_call_ids = staticmethod(find_call_ids)
    strip_reasoning = staticmethod(strip_foreign_reasoning)
    shows_content = staticmethod(shows_content)
    read_disguised_error = staticmethod(read_disguised_error)
    error_body = staticmethod(error_body)

    def add(self, body: bytes, additions: tuple[Addition, ...], history_end: int = 0) -> bytes:
        """Put additions into a request: items at the end, tools after the client's own."""
        if history_end and SPLICED.issuperset(map(type, additions)):
            # The fast twin of what follows: it saves reading and writing the whole request
            # (test_fast_paths.py).
            said: list[bytes] = []
            offered: list[bytes] = []
            for addition in additions:
                if isinstance(addition, ToolDeclaration):
                    offered.append(_declaration(addition))
                else:
                    assert isinstance(addition, UserText)
                    said.append(bytes(user_message(addition.text)))
            return splice_in(body, history_end, said, offered)
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
                    assert isinstance(addition.message, AnsweredItems)
                    turns.append(addition.message)
        if turns:
            items[:0] = _going_on(fields, turns)
        if items:
            if bytes(fields.get("input", ABSENT)).startswith(b'"'):
                # A list stays as it came; one text becomes a list of one message.
                fields["input"] = raw(items_of(fields))
            append_to(fields, "input", items)
        if tools:
            append_to(fields, "tools", tools)
        return write_object(fields)

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said."""
        content = [{"type": "output_text", "text": text}]
        message = {"type": "message", "role": "assistant", "content": content}
        return AnsweredTurn(AnsweredItems([message] if text else []))

    def edit_history(self, fields: Fields, edit: Edit) -> bool:
        """Change what users said; the input may be one text of theirs."""
        before = fields.get(self.history, ABSENT)
        if text_of(before) is None:
            return super().edit_history(fields, edit)
        fields[self.history] = self.editor.content(before, edit)
        return fields[self.history] is not before

    def previous_id(self, body: bytes) -> str:
        """Return the id of the answer that the request goes on from; empty if it names none."""
        return text_in(fields_of(body), PREVIOUS) if body.find(PREVIOUS.encode()) >= 0 else ""

    def continue_from(self, body: bytes, previous_id: str) -> bytes:
        """Name the answer that the request goes on from as the upstream knows it."""
        return write_object({**fields_of(body), PREVIOUS: raw(previous_id)})

    def splice(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return ResponsesStream(asked, server_tools, event_bytes)
        return ResponsesWhole(asked, server_tools, event_bytes)

    def error_frame(self, error: HoldgateError, splice: Splice | None = None) -> bytes:
        """Render an error inside a stream, as the end of this answer if something was shown."""
        if isinstance(splice, ResponsesStream):
            return splice.error_frame(error)
        return render_failure(error, None, (), 0)


def _obey(fields: Fields) -> None:
    """Take a forced tool as called; kept, it would be called again in every follow-up."""
    choice = fields.get("tool_choice", ABSENT)
    if not restricts_tools(choice):
        return
    members = fields_of(choice) if bytes(choice) != b'"required"' else {}
    if text_in(members, "type") == "allowed_tools":
        fields["tool_choice"] = raw({**members, "mode": "auto"})
    else:
        del fields["tool_choice"]


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
    return msgspec.json.encode({"type": "function", **describe_function(tool)})


DIALECT = OpenAIResponses()
