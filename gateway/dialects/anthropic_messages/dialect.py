"""Anthropic Messages: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.additions import add_to_request, forces
from gateway.dialects.anthropic_messages.content import shows_content
from gateway.dialects.anthropic_messages.errors import error_body, error_frame, read_disguised_error
from gateway.dialects.anthropic_messages.rebuild import find_call_ids, restore_turns
from gateway.dialects.anthropic_messages.stream import MessagesStream
from gateway.dialects.anthropic_messages.text import (
    edit_user_texts,
    has_one_message,
    last_role,
    newest_user,
    system_texts,
)
from gateway.dialects.anthropic_messages.thinking import strip_foreign_reasoning
from gateway.dialects.anthropic_messages.whole import MessagesWhole
from gateway.dialects.protocol import Splice
from gateway.dialects.raw_json import (
    ABSENT,
    array,
    drop_duplicates,
    forces_one,
    is_structured,
    name_model,
    read_as,
    readable,
    rename_model,
)
from gateway.dialects.seals import may_be_sealed
from gateway.dialects.strip_tools import strip_tools
from gateway.errors import BadRequest, HoldgateError, UpstreamError
from gateway.exchange.additions import Addition, AnsweredTurn
from gateway.exchange.model import Asked
from gateway.sessions.directives.reader import may_contain
from gateway.sessions.model import Kept


class _OutputConfig(msgspec.Struct, gc=False):
    format: msgspec.Raw = ABSENT


class _MessagesRequest(msgspec.Struct, gc=False):
    """The members the gateway looks at; what is long stays a raw slice."""

    model: str | None = None
    messages: msgspec.Raw = ABSENT
    stream: bool | None = None
    tools: msgspec.Raw = ABSENT
    tool_choice: msgspec.Raw = ABSENT
    output_config: msgspec.Raw = ABSENT
    output_format: msgspec.Raw = ABSENT
    metadata: msgspec.Raw = ABSENT


_request = msgspec.json.Decoder(_MessagesRequest)
_output_config = msgspec.json.Decoder(_OutputConfig)
_tools = msgspec.json.Decoder(list[Any])

READ = ("model", "messages", "stream", "tools", "tool_choice")
TOOLING = ("tool_choice",)
# The tools that the upstream runs by itself.
HOSTED = ("web_search", "web_fetch", "code_execution", "mcp_toolset")


class AnthropicMessages:
    """Reads, changes and answers Messages requests."""

    name = "anthropic-messages"
    path = "/messages"

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> Asked:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request = read_as(_request, body, depth)
        body = drop_duplicates(body, READ)
        model, body = name_model(body, request.model, default_model)
        if bytes(memoryview(request.messages)[:1]) != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")
        stream = request.stream
        structured, choice = _is_structured(request), request.tool_choice
        return Asked(
            model=model,
            body=body,
            stream=prefers_stream if stream is None else stream,
            stream_implied=prefers_stream and stream is None,
            wants_usage=True,
            tools=array(request.tools, "tools"),
            takes_tools=not (structured or (choice is not ABSENT and forces(choice))),
            structured=structured,
            forces_one=choice is not ABSENT and forces_one(choice, "tool"),
            last_role=last_role(request.messages),
            directives=may_contain(body),
            identity=_identity(request),
        )

    def rewrite(self, body: bytes, model: str, stream: bool) -> bytes:
        """Name the model as the upstream knows it; a body that is right already stays as it is."""
        return rename_model(body, model, stream)

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> bytes:
        """Put additions into a request."""
        return add_to_request(body, additions)

    def strip_foreign_reasoning(self, body: bytes) -> bytes:
        """Take out thinking that only an upstream of another dialect would take back."""
        return strip_foreign_reasoning(body) if may_be_sealed(body) else body

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said; a blank text is refused as a block."""
        blocks = [{"type": "text", "text": text}] if text.strip() else []
        return AnsweredTurn({"role": "assistant", "content": blocks})

    def strip_tools(self, body: bytes) -> bytes:
        """Take out the client's tools."""
        return strip_tools(body, TOOLING, HOSTED)

    def declares(self, tools: bytes, name: str) -> bool:
        """Whether the client offers a tool of this name."""
        if not tools or (name.encode() not in tools and b"\\u" not in tools):
            return False
        return name in map(_tool_name, readable(_tools, tools) or ())

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
            return MessagesStream(asked, server_tools, event_bytes)
        return MessagesWhole(asked, server_tools, event_bytes)

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
        """Render an error inside a stream."""
        return error_frame(error)


def _is_structured(request: _MessagesRequest) -> bool:
    """Whether the answer has to have a form, as said by either of the two members for it."""
    if request.output_config is request.output_format:
        return False
    told = readable(_output_config, request.output_config)
    return is_structured(request.output_format) or (told is not None and is_structured(told.format))


def _identity(request: _MessagesRequest) -> Mapping[str, bytes]:
    return {} if request.metadata is ABSENT else {"metadata": bytes(request.metadata)}


def _tool_name(tool: object) -> object:
    return tool.get("name") if isinstance(tool, dict) else None


DIALECT = AnthropicMessages()
