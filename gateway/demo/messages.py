"""The Anthropic Messages dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    Json,
    UnreadableRequest,
    decode_request,
    encode_json,
    find_texts,
    merge_turns,
    write_event,
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.wire import sse

path = "/v1/messages"

UNREADABLE = "The request body is not valid JSON."
THINKING = ("thinking", "redacted_thinking")
REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


class ContentBlock(msgspec.Struct):
    """One block of a message; other kinds use other members."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: Any = None


class MessagesMessage(msgspec.Struct):
    """One message of a request."""

    role: Literal["user", "assistant", "system"]
    content: str | list[ContentBlock]

    @property
    def blocks(self) -> Sequence[ContentBlock]:
        """The content as blocks; a text is one."""
        return (
            (ContentBlock("text", self.content),) if isinstance(self.content, str) else self.content
        )


class MessagesTool(msgspec.Struct):
    """One tool on offer."""

    name: str = ""


class ToolChoice(msgspec.Struct):
    """Whether tools are to be used."""

    type: str


class MessagesInput(msgspec.Struct):
    """The fields of a request that change the demo's answer."""

    model: str
    max_tokens: int
    messages: list[MessagesMessage]
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: ToolChoice | None = None


def read(body: bytes) -> DialogueRequest:
    """Read a request's body, or refuse what the real service refuses."""
    request = decode_request(MessagesInput, body, UNREADABLE)
    if not request.messages:
        raise refusal("messages", "there must be at least one message")
    check_contents(request.messages)
    check_results(request.messages)
    choice = request.tool_choice
    offered = () if choice is not None and choice.type == "none" else request.tools or ()
    told = find_texts(request.system)
    system = (DialogueMessage("system", told),) if told else ()
    said = (part for message in request.messages for part in read_message(message))
    dialogue = Dialogue(
        messages=(*system, *merge_turns(said)),
        tools=frozenset(tool.name for tool in offered if tool.name),
        limit=request.max_tokens,
    )
    return DialogueRequest(dialogue, request.model, bool(request.stream), usage=True)


def refusal(field: str, why: str) -> UnreadableRequest:
    """Make a refusal as the real service words it: the field, then what is wrong."""
    return UnreadableRequest(f"{field}: {why}.", param=field)


def check_contents(messages: Sequence[MessagesMessage]) -> None:
    """Refuse messages without content, blank texts, and turns that end in a thought."""
    for at, message in enumerate(messages):
        blocks, field = message.blocks, f"messages.{at}"
        if not blocks:
            raise refusal(field, "a message must have content")
        if any(block.type == "text" and not block.text.strip() for block in blocks):
            raise refusal(field, "a text must hold more than white space")
        if message.role == "assistant" and blocks[-1].type in THINKING:
            raise refusal(field, "an assistant's message must not end in a thought")


def check_results(messages: Sequence[MessagesMessage]) -> None:
    """Refuse calls whose results do not open the user's next turn, and results without calls."""
    waiting: dict[str, int] = {}
    answering = False
    for at, message in enumerate(messages):
        if message.role == "assistant":
            if answering:
                refuse_waiting(waiting)
            answering = False
            waiting |= {block.id: at for block in message.blocks if block.type == "tool_use"}
        elif message.role == "user":
            answering = True
            check_answers(at, message.blocks, waiting)
    refuse_waiting(waiting)


def check_answers(at: int, blocks: Iterable[ContentBlock], waiting: dict[str, int]) -> None:
    """Take the results that a user's message brings off the calls that wait for them."""
    for block in blocks:
        if block.type != "tool_result":
            refuse_waiting(waiting)
        elif waiting.pop(block.tool_use_id, None) is None:
            raise refusal(f"messages.{at}", f"no tool_use has the id {block.tool_use_id!r}")


def refuse_waiting(waiting: dict[str, int]) -> None:
    """Refuse the first call that was not answered in time."""
    for ident, at in waiting.items():
        raise refusal(f"messages.{at}", f"the tool_use {ident!r} has no result right after it")


def read_message(message: MessagesMessage) -> Iterator[DialogueMessage]:
    """Say what a message holds, free of this dialect: each result, then what was said."""
    said: list[ContentBlock] = []
    for block in message.blocks:
        if block.type == "tool_result":
            yield DialogueMessage("tool", find_texts(block.content), answers=block.tool_use_id)
        else:
            said.append(block)
    calls = [
        DialogueCall(block.id, block.name, encode_json(block.input).decode())
        for block in said
        if block.type == "tool_use"
    ]
    if said:
        texts = tuple(block.text for block in said if block.text)
        yield DialogueMessage(message.role, texts, tuple(calls))


class MessagesReplyWriter:
    """One answer; in a stream blocks come one after the other, each with beginning and end."""

    def __init__(self, request: DialogueRequest, stamp: AnswerStamp) -> None:
        self._request = request
        self._stamp = stamp
        self._open = ""
        self._index = -1
        self._calls = 0
        self._pieces = 0

    def begin(self, speaks: bool) -> bytes:
        """Write the frames that open the message."""
        message = self._write_message([], None, 1)
        start = write_event({"type": "message_start", "message": message})
        return start + write_event({"type": "ping"})

    def say(self, token: str) -> bytes:
        """Write one token."""
        self._pieces += 1
        opening = b"" if self._open == "text" else self._open_block({"type": "text", "text": ""})
        return opening + self._write_delta({"type": "text_delta", "text": token})

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        at, self._calls = self._calls, self._calls + 1
        opening = self._open_block(self._write_call(at, name, {}))
        return opening + self._write_delta({"type": "input_json_delta", "partial_json": ""})

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        self._pieces += 1
        return self._write_delta({"type": "input_json_delta", "partial_json": piece})

    def fail(self, fail: Fail) -> bytes:
        """Write the error frame."""
        return sse.encode(write_error(fail), "error")

    def finish(self, reason: str, ends: int = 1) -> bytes:
        """Write the end of the open block, the reason with the usage, and the end mark."""
        delta = {"stop_reason": REASONS.get(reason, reason), "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, **self._write_usage(self._pieces)}
        stop = write_event({"type": "message_stop"}) * ends
        return self._close_block() + write_event(end) + stop

    def write_whole(self, answer: CompleteAnswer) -> bytes:
        """Write an answer as one document."""
        content: list[Json] = [{"type": "text", "text": answer.text}] if answer.text else []
        for at, (name, arguments) in enumerate(answer.calls):
            content.append(self._write_call(at, name, parse_arguments(arguments)))
        reason = REASONS.get(answer.reason, answer.reason)
        return encode_json(self._write_message(content, reason, answer.pieces))

    def _write_delta(self, delta: Json) -> bytes:
        event = {"type": "content_block_delta", "index": self._index, "delta": delta}
        return write_event(event)

    def _open_block(self, block: Json) -> bytes:
        end = self._close_block()
        self._open = block["type"]
        self._index += 1
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return end + write_event(start)

    def _close_block(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return write_event({"type": "content_block_stop", "index": self._index})

    def _write_message(self, content: list[Json], reason: str | None, pieces: int) -> Json:
        return {
            "id": f"msg_demo{self._stamp.number:08d}",
            "type": "message",
            "role": "assistant",
            "model": self._request.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            **self._write_usage(pieces, service_tier="standard"),
        }

    def _write_call(self, at: int, name: str, given: object) -> Json:
        ident = f"toolu_demo{self._stamp.number:08d}_{at}"
        return {"type": "tool_use", "id": ident, "name": name, "input": given}

    def _write_usage(self, pieces: int, **more: str) -> Json:
        """Write the usage member, if it is wanted."""
        if not self._request.usage:
            return {}
        counts = {
            "input_tokens": self._request.prompt_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": pieces,
        }
        return {"usage": {**counts, **more}}


open_answer = MessagesReplyWriter


def parse_arguments(arguments: str) -> object:
    """Return what a call is made with; what is no JSON stays the text that it is."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


# What the real service says with each status.
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def write_error(fail: Fail) -> bytes:
    """Write an error as the real service does; it has no codes, so one stands in the details."""
    default = "api_error" if fail.status >= 500 else "invalid_request_error"
    details = {"code": fail.code} if fail.code else None
    kind = KINDS.get(fail.status, default)
    shown = {"details": details, "type": kind, "message": fail.message}
    return encode_json({"type": "error", "error": shown})
