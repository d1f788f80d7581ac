"""Anthropic Messages: requests, errors, and the dialect's entry in the registry."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.dialects.anthropic_messages.additions import add_to_request, forces
from gateway.dialects.anthropic_messages.errors import error_body, read_disguised_error
from gateway.dialects.anthropic_messages.rebuild import find_call_ids, restore_turns
from gateway.dialects.anthropic_messages.stream import MessagesStream
from gateway.dialects.anthropic_messages.text import CACHE, is_users, last_role, message_of
from gateway.dialects.anthropic_messages.thinking import strip_foreign_reasoning
from gateway.dialects.anthropic_messages.turn import shows_content
from gateway.dialects.anthropic_messages.whole import MessagesWhole
from gateway.dialects.base_dialect import BaseDialect
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
)
from gateway.dialects.text_editor import TextEditor
from gateway.errors import BadRequest
from gateway.exchange.additions import Addition, AnsweredTurn
from gateway.exchange.model import ModelRequest
from gateway.sessions.directives.reader import may_contain


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

READ = ("model", "messages", "stream", "tools", "tool_choice")


class AnthropicMessages(BaseDialect):
    """Reads, changes and answers Messages requests."""

    name = "anthropic-messages"
    path = "/messages"
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
    error_body = staticmethod(error_body)

    def read(
        self, body: bytes, depth: int, prefers_stream: bool = False, default_model: str = ""
    ) -> ModelRequest:
        """Read a client's request, or raise `BadRequest` naming the field."""
        request = read_as(_request, body, depth)
        body = drop_duplicates(body, READ)
        model, body = name_model(body, request.model, default_model)
        if bytes(memoryview(request.messages)[:1]) != b"[":
            raise BadRequest("`messages` must be an array of messages.", param="messages")
        stream = request.stream
        structured, choice = _is_structured(request), request.tool_choice
        return ModelRequest(
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

    def add(self, body: bytes, additions: tuple[Addition, ...]) -> bytes:
        """Put additions into a request."""
        return add_to_request(body, additions)

    def make_assistant_turn(self, text: str) -> AnsweredTurn:
        """Make an assistant's turn of what it said; a blank text is refused as a block."""
        blocks = [{"type": "text", "text": text}] if text.strip() else []
        return AnsweredTurn({"role": "assistant", "content": blocks})

    def splice(self, asked: ModelRequest, server_tools: frozenset[str], event_bytes: int) -> Splice:
        """Begin an answer."""
        if asked.stream:
            return MessagesStream(asked, server_tools, event_bytes)
        return MessagesWhole(asked, server_tools, event_bytes)


def _is_structured(request: _MessagesRequest) -> bool:
    """Whether the answer has to have a form, as said by either of the two members for it."""
    if request.output_config is request.output_format:
        return False
    told = readable(_output_config, request.output_config)
    return is_structured(request.output_format) or (told is not None and is_structured(told.format))


def _identity(request: _MessagesRequest) -> Mapping[str, bytes]:
    return {} if request.metadata is ABSENT else {"metadata": bytes(request.metadata)}


DIALECT = AnthropicMessages()
