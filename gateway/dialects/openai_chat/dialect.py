"""OpenAI Chat Completions: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from gateway.dialects.base_dialect import (
    NO_MEMBERS,
    BaseDialect,
    RequestMembers,
    RequestWithMessages,
    describe_function,
)
from gateway.dialects.openai_chat.rebuild import CALLS, find_call_ids, restore_turns
from gateway.dialects.openai_chat.stream import ChatStream
from gateway.dialects.openai_chat.turn import read_disguised_error, shows_content
from gateway.dialects.openai_chat.whole import ChatWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    NOTHING,
    NULL,
    append_to,
    fields_of,
    is_structured,
    members_of,
    quote_names,
    raw,
    raws_in,
    read_last,
    readable,
    restricts_tools,
    splice_in,
    write_object,
)
from gateway.dialects.statuses import describe_error
from gateway.dialects.text_editor import SpokenMessage
from gateway.errors import BadRequest, HoldgateError, UpstreamAnswered
from gateway.exchange.additions import Addition, AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest

STREAM_OPTIONS = b'"stream_options"'
# How nearly all messages begin.
ROLE = b'{"role":'
# What a first turn adds.
SPLICED = frozenset({ToolDeclaration, UserText})
# A request has other members, so there is always something to separate it from.
ASK_USAGE = b',"stream_options":{"include_usage":true}'


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


class _ChatRequest(RequestWithMessages, gc=False):
    n: int | None = None
    stream_options: _StreamOptions | None = None
    functions: msgspec.Raw = ABSENT
    response_format: msgspec.Raw = ABSENT
    client_metadata: msgspec.Raw = ABSENT
    conversation: msgspec.Raw = ABSENT

    def identity(self) -> Mapping[str, bytes]:
        """Return the members that may name a session, as JSON."""
        # The fast twin of what follows, for most requests, in which a header names it or nothing.
        if self.metadata is self.client_metadata is self.conversation is ABSENT:
            return NO_MEMBERS
        return RequestMembers.identity(self)

    def last_role(self) -> str:
        """Return who speaks in the last message; nothing if that cannot be told."""
        last = read_last(_spoken, self.messages, ROLE)
        if last is None:
            items = raws_in(self.messages)
            last = read_message(items[-1]) if items else None
        role = "" if last is None else last.role
        # In the older form it is the function that speaks.
        return "tool" if role == "function" else role

    def is_structured(self) -> bool:
        """Whether the answer has to have a form."""
        return self.response_format is not ABSENT and is_structured(self.response_format)

    def takes_tools(self) -> bool:
        """Whether a tool can be added: not beside the older form, nor where a tool is forced."""
        if self.n is not None and self.n > 1:
            return False
        if self.tool_choice is ABSENT and self.functions is ABSENT:
            return True
        return bytes(self.functions) in NOTHING and not restricts_tools(self.tool_choice)

    def choices(self) -> int:
        """Return how many answers are wanted."""
        if self.n is not None and self.n < 1:
            raise BadRequest("`n` must be at least 1.", param="n")
        return self.n or 1

    def wants_usage(self) -> bool:
        """Whether the client wants to be told the usage at the end of a stream."""
        return bool(self.stream_options and self.stream_options.include_usage)


_spoken = msgspec.json.Decoder(SpokenMessage)


def read_message(item: msgspec.Raw) -> SpokenMessage | None:
    """Read who speaks and what; None for what is no message."""
    return readable(_spoken, item)


class OpenAIChat(BaseDialect):
    """Reads, changes and answers Chat Completions requests."""

    name = "openai-chat"
    path = "/chat/completions"
    splices = True
    request_decoder = msgspec.json.Decoder(_ChatRequest)
    read_members = quote_names(
        *("model", "messages", "stream", "n", "tools", "tool_choice", "stream_options")
    )
    # In the older form too, and of several answers one.
    tool_members = ("tool_choice", "parallel_tool_calls", "functions", "function_call", "n")

    read_message = staticmethod(read_message)
    restore = staticmethod(restore_turns)
    shows_content = staticmethod(shows_content)
    read_disguised_error = staticmethod(read_disguised_error)

    def add(self, body: bytes, additions: tuple[Addition, ...], history_end: int = 0) -> bytes:
        """Put additions into a request: messages at the end, tools after the client's own."""
        if history_end and SPLICED.issuperset(map(type, additions)):
            # The fast twin of what follows: it saves reading and writing the whole request
            # (test_fast_paths.py).
            said: list[bytes] = []
            offered: list[bytes] = []
            for addition in additions:
                if isinstance(addition, ToolDeclaration):
                    offered.append(_declaration(addition))
                else:
                    said.append(_message(addition))
            return splice_in(body, history_end, said, offered)
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
        forced = restricts_tools(fields.get("tool_choice", ABSENT))
        if forced and any(isinstance(addition, AnsweredTurn) for addition in additions):
            # It has been obeyed; kept, it would be obeyed again in every follow-up.
            del fields["tool_choice"]
        return write_object(fields)

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Return the body: here reasoning needs no proof, and so carries none."""
        return body

    strip_reasoning = strip_foreign_reasoning

    def ask_usage(self, body: bytes) -> bytes:
        """Have a stream end with a chunk that tells its usage."""
        if body.find(STREAM_OPTIONS) < 0:
            # The fast twin of what follows, which writes all members (test_stream_usage.py). At the
            # end, where it counts: a client may have written the name with an escape.
            ends = body.rindex(b"}")
            return b"%b%b%b" % (body[:ends], ASK_USAGE, body[ends:])
        fields = fields_of(body)
        options = members_of(fields.get("stream_options", NULL))
        fields["stream_options"] = raw({**options, "include_usage": True})
        return write_object(fields)

    def tool_name(self, tool: dict[str, Any]) -> object:
        """Return what a tool is called, which stands inside of it."""
        inner = tool.get("function") or tool.get("custom")
        return inner.get("name") if isinstance(inner, dict) else None

    def find_call_ids(self, body: bytes) -> tuple[str, ...]:
        """Return the first call's id of each turn in the history that called tools."""
        # The search saves parsing a history without calls (test_fast_paths.py).
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
        if isinstance(error, UpstreamAnswered) and "error" in members_of(error.body):
            return error.body
        return describe_error(error)


def _message(addition: UserText | ToolResult | AnsweredTurn) -> bytes:
    if isinstance(addition, UserText):
        return b'{"role":"user","content":%b}' % msgspec.json.encode(addition.text)
    if isinstance(addition, AnsweredTurn):
        return msgspec.json.encode(addition.message)
    result = {"role": "tool", "tool_call_id": addition.call_id, "content": addition.text}
    return msgspec.json.encode(result)


@cache
def _declaration(tool: ToolDeclaration) -> bytes:
    return msgspec.json.encode({"type": "function", "function": describe_function(tool)})


DIALECT = OpenAIChat()
