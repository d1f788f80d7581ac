"""The Anthropic Messages dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from gateway.demo.chat import field_in, words_in
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.demo.play import AnswerStamp, CompleteAnswer, ModelRequest, RequestRefused
from gateway.demo.script import Fail, FinishAnswer

path = "/v1/messages"

THINKING = ("thinking", "redacted_thinking")
REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
encode = msgspec.json.encode
Json = dict[str, Any]


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


class MessagesRequest(msgspec.Struct):
    """The fields of a request that change the demo's answer."""

    model: str
    max_tokens: int
    messages: list[MessagesMessage]
    system: str | list[ContentBlock] | None = None
    stream: bool | None = None
    tools: list[MessagesTool] | None = None
    tool_choice: ToolChoice | None = None


DECODER = msgspec.json.Decoder(MessagesRequest)


def read(body: bytes) -> ModelRequest:
    """Read a request's body, or refuse it with a sentence."""
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as problem:
        raise RequestRefused(Fail(400, f"{problem}.", param=field_in(str(problem)))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(Fail(400, "The request body is not valid JSON.")) from None
    if not request.messages:
        raise refusal("messages", "there must be at least one message")
    check_contents(request.messages)
    check_results(request.messages)
    return ask_of(request)


def refusal(field: str, why: str) -> RequestRefused:
    """Make a refusal as the real service words it: the field, then what is wrong."""
    return RequestRefused(Fail(400, f"{field}: {why}.", param=field))


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


def ask_of(request: MessagesRequest) -> ModelRequest:
    """Say what a request asks, free of this dialect."""
    unused = request.tool_choice is not None and request.tool_choice.type == "none"
    offered = () if unused else request.tools or ()
    told = texts_of(request.system)
    system = (DialogueMessage("system", told),) if told else ()
    dialogue = Dialogue(
        messages=(*system, *merge_turns(said for m in request.messages for said in messages_of(m))),
        tools=frozenset(tool.name for tool in offered if tool.name),
        limit=request.max_tokens,
    )
    return ModelRequest(dialogue, request.model, bool(request.stream), usage=True)


def texts_of(content: str | Iterable[ContentBlock] | None) -> tuple[str, ...]:
    """Return the texts in a text, in blocks, or in nothing."""
    if isinstance(content, str):
        return (content,)
    return tuple(block.text for block in content or () if block.text)


def messages_of(message: MessagesMessage) -> Iterator[DialogueMessage]:
    """Say what a message holds, free of this dialect: each result, then what was said."""
    said: list[ContentBlock] = []
    calls: list[DialogueCall] = []
    for block in message.blocks:
        if block.type == "tool_result":
            yield DialogueMessage("tool", result_texts(block.content), answers=block.tool_use_id)
            continue
        if block.type == "tool_use":
            calls.append(DialogueCall(block.id, block.name, encode(block.input).decode()))
        said.append(block)
    if said:
        yield DialogueMessage(message.role, texts_of(said), tuple(calls))


def result_texts(content: object) -> tuple[str, ...]:
    """Return the texts of a result."""
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(part["text"] for part in parts if isinstance(part, dict) and "text" in part)


def merge_turns(messages: Iterable[DialogueMessage]) -> Iterator[DialogueMessage]:
    """Make one turn of messages that the model said in a row."""
    last: DialogueMessage | None = None
    for message in messages:
        if last is not None and last.role == message.role == "assistant":
            message = DialogueMessage(
                "assistant", last.texts + message.texts, last.calls + message.calls
            )
        elif last is not None:
            yield last
        last = message
    if last is not None:
        yield last


def usage_of(ask: ModelRequest, output: int) -> Json:
    """Write the usage block."""
    return {
        "input_tokens": words_in(ask.dialogue),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output,
    }


def message_with(
    ask: ModelRequest, stamp: AnswerStamp, content: list[Json], reason: str | None, out: int
) -> Json:
    """Write a message."""
    message: Json = {
        "id": f"msg_demo{stamp.number:08d}",
        "type": "message",
        "role": "assistant",
        "model": ask.model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
    }
    counted = {"usage": {**usage_of(ask, out), "service_tier": "standard"}}
    return {**message, **counted} if ask.usage else message


def call_of(stamp: AnswerStamp, at: int, name: str, parse_arguments: object) -> Json:
    """Write one tool call."""
    ident = f"toolu_demo{stamp.number:08d}_{at}"
    return {"type": "tool_use", "id": ident, "name": name, "input": parse_arguments}


def frame(event: Json) -> bytes:
    """Write an event under its name."""
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), encode(event))


class MessagesFrameWriter:
    """One streamed answer: blocks one after the other, each with its beginning and its end."""

    def __init__(self, ask: ModelRequest, stamp: AnswerStamp) -> None:
        self._ask = ask
        self._stamp = stamp
        self._open = ""
        self._index = -1
        self._calls = 0
        self._pieces = 0
        self._start = b""

    def begin(self, speaks: bool) -> bytes:
        """Write the frames that open the message."""
        message = message_with(self._ask, self._stamp, [], None, 1)
        return frame({"type": "message_start", "message": message}) + frame({"type": "ping"})

    def say(self, token: str) -> bytes:
        """Write one token."""
        self._pieces += 1
        opened = b"" if self._open == "text" else self._open_block({"type": "text", "text": ""})
        return opened + self._start + b'{"type":"text_delta","text":' + encode(token) + b"}}\n\n"

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        at, self._calls = self._calls, self._calls + 1
        return self._open_block(call_of(self._stamp, at, name, {})) + self._write_arguments("")

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        self._pieces += 1
        return self._write_arguments(piece)

    def fail(self, fail: Fail) -> bytes:
        """Write the error frame."""
        return b"event: error\ndata: " + error(fail) + b"\n\n"

    def finish(self, finish: FinishAnswer) -> bytes:
        """Write the end of the open block, the reason with the usage, and the end mark."""
        reason = REASONS.get(finish.reason, finish.reason)
        ended: Json = {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
        }
        if self._ask.usage:
            ended["usage"] = usage_of(self._ask, self._pieces)
        return self._close_block() + frame(ended) + frame({"type": "message_stop"}) * finish.ends

    def _write_arguments(self, piece: str) -> bytes:
        told = b'{"type":"input_json_delta","partial_json":' + encode(piece) + b"}}\n\n"
        return self._start + told

    def _open_block(self, block: Json) -> bytes:
        closed = self._close_block()
        self._open = block["type"]
        self._index += 1
        self._start = b"event: content_block_delta\ndata: " + (
            b'{"type":"content_block_delta","index":%d,"delta":' % self._index
        )
        began = {"type": "content_block_start", "index": self._index, "content_block": block}
        return closed + frame(began)

    def _close_block(self) -> bytes:
        if not self._open:
            return b""
        self._open = ""
        return frame({"type": "content_block_stop", "index": self._index})


def voice(ask: ModelRequest, stamp: AnswerStamp) -> MessagesFrameWriter:
    """Lend a voice to one answer."""
    return MessagesFrameWriter(ask, stamp)


def whole(ask: ModelRequest, told: CompleteAnswer, stamp: AnswerStamp) -> bytes:
    """Write an answer as one document."""
    content: list[Json] = [{"type": "text", "text": told.text}] if told.text else []
    for at, (name, arguments) in enumerate(told.calls):
        content.append(call_of(stamp, at, name, parse_arguments(arguments)))
    reason = REASONS.get(told.reason, told.reason)
    return encode(message_with(ask, stamp, content, reason, told.pieces))


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


def error(fail: Fail) -> bytes:
    """Write an error as the real service does; it has no codes, so one stands in the details."""
    default = "api_error" if fail.status >= 500 else "invalid_request_error"
    details = {"code": fail.code} if fail.code else None
    kind = KINDS.get(fail.status, default)
    told = {"details": details, "type": kind, "message": fail.message}
    return encode({"type": "error", "error": told})
