"""The OpenAI chat completions dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.demo.play import AnswerStamp, CompleteAnswer, ModelRequest, RequestRefused
from gateway.demo.script import Fail, FinishAnswer

path = "/v1/chat/completions"

FINGERPRINT = "fp_holdgate_demo"
MOST_CHOICES = 128
encode = msgspec.json.encode


class Part(msgspec.Struct):
    """One part of a message's content."""

    type: str
    text: str | None = None


class Function(msgspec.Struct):
    """A function's name, and its arguments in a call."""

    name: str
    arguments: str = ""


class ChatToolCall(msgspec.Struct):
    """A tool call in an assistant's message."""

    id: str
    function: Function | None = None


class ChatMessage(msgspec.Struct):
    """One message of a request."""

    role: str
    content: str | list[Part] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None


class ChatTool(msgspec.Struct):
    """One tool on offer."""

    type: str
    function: Function | None = None


class StreamOptions(msgspec.Struct):
    """What is wanted of the stream."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """The fields of a request that change the demo's answer."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    tools: list[ChatTool] | None = None
    tool_choice: Any = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


DECODER = msgspec.json.Decoder(ChatRequest)


def read(body: bytes) -> ModelRequest:
    """Read a request's body, or refuse it with a sentence."""
    try:
        request = DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise RequestRefused(Fail(400, f"{error}.", param=field_in(str(error)))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(
            Fail(400, "We could not parse the JSON body of your request.")
        ) from None
    check(request)
    return ask_of(request)


def field_in(problem: str) -> str | None:
    """Find the field a validation error speaks of."""
    field = problem.rpartition("at `$.")[2].rstrip("`") if "at `$." in problem else None
    if field is None and "required field `" in problem:
        return problem.partition("required field `")[2].partition("`")[0]
    return field


def check(request: ChatRequest) -> None:
    """Refuse what the real service refuses."""
    if not request.messages:
        raise RequestRefused(Fail(400, "The list of messages is empty.", "empty_array", "messages"))
    if not 1 <= (request.n or 1) <= MOST_CHOICES:
        raise RequestRefused(Fail(400, f"n must lie between 1 and {MOST_CHOICES}.", param="n"))
    check_results(request.messages)


def check_results(messages: Sequence[ChatMessage]) -> None:
    """Refuse tool calls without results right after them, and results without calls."""
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise refuse_message(at, "a message of role 'tool' must answer a call before it")
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            raise refuse_message(
                at, f"the tool calls {sorted(open_calls)} must be answered before it"
            )
        open_calls |= {call.id for call in message.tool_calls or ()}
    if open_calls:
        raise refuse_message(
            len(messages) - 1, f"the tool calls {sorted(open_calls)} have no results"
        )


def refuse_message(at: int, why: str) -> RequestRefused:
    """Make the refusal of a message that stands in the wrong place."""
    return RequestRefused(Fail(400, f"Invalid messages[{at}]: {why}.", param=f"messages[{at}]"))


def ask_of(request: ChatRequest) -> ModelRequest:
    """Say what a request asks, free of this dialect."""
    offered = () if request.tool_choice == "none" else request.tools or ()
    dialogue = Dialogue(
        messages=tuple(message_of(message) for message in request.messages),
        tools=frozenset(tool.function.name for tool in offered if tool.function),
        limit=request.max_completion_tokens or request.max_tokens,
    )
    usage = request.stream_options is not None and bool(request.stream_options.include_usage)
    return ModelRequest(dialogue, request.model, bool(request.stream), request.n or 1, usage)


def message_of(message: ChatMessage) -> DialogueMessage:
    """Say what a message holds, free of this dialect."""
    if isinstance(message.content, str):
        texts: tuple[str, ...] = (message.content,)
    else:
        texts = tuple(part.text for part in message.content or () if part.text)
    calls = tuple(
        DialogueCall(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
        if call.function
    )
    return DialogueMessage(message.role, texts, calls, message.tool_call_id)


def words_in(dialogue: Dialogue) -> int:
    """Count a prompt's tokens the simple way: words, and one for each message."""
    return sum(1 + text.count(" ") for message in dialogue.messages for text in message.texts)


def usage_of(ask: ModelRequest, completion: int) -> dict[str, object]:
    """Write the usage block."""
    prompt = words_in(ask.dialogue)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def completion_id(stamp: AnswerStamp) -> str:
    """Name an answer."""
    return f"chatcmpl-demo{stamp.number:08d}"


def call_of(
    stamp: AnswerStamp, choice: int, at: int, name: str, arguments: str
) -> dict[str, object]:
    """Write one tool call."""
    return {
        "id": f"call_demo{stamp.number:08d}_{choice}_{at}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


class ChatFrameWriter:
    """One streamed answer: compact chunks, each a frame."""

    def __init__(self, ask: ModelRequest, stamp: AnswerStamp) -> None:
        self._ask = ask
        self._stamp = stamp
        self._calls = 0
        self._pieces = 0
        head = encode(
            {
                "id": completion_id(stamp),
                "object": "chat.completion.chunk",
                "created": stamp.created,
                "model": ask.model,
                "service_tier": "default",
                "system_fingerprint": FINGERPRINT,
            }
        )
        self._envelope = b"data: " + head[:-1] + b',"choices":['
        self._starts = tuple(
            self._envelope + b'{"index":%d,"delta":' % choice for choice in range(ask.choices)
        )
        self._close = b',"usage":null}\n\n' if ask.usage else b"}\n\n"
        self._end = b',"logprobs":null,"finish_reason":null}]' + self._close
        self._content = tuple(start + b'{"content":' for start in self._starts)
        self._content_end = b"}" + self._end

    def begin(self, speaks: bool) -> bytes:
        """Write the frame that names the role."""
        delta = {"role": "assistant", "content": "" if speaks else None, "refusal": None}
        return b"".join(start + encode(delta) + self._end for start in self._starts)

    def say(self, token: str) -> bytes:
        """Write one token."""
        self._pieces += 1
        text, end = encode(token), self._content_end
        if len(self._content) == 1:
            return self._content[0] + text + end
        return b"".join(start + text + end for start in self._content)

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        at, self._calls = self._calls, self._calls + 1
        return b"".join(
            self._tool_frame(start, {"index": at, **call_of(self._stamp, choice, at, name, "")})
            for choice, start in enumerate(self._starts)
        )

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        self._pieces += 1
        delta: dict[str, object] = {"index": self._calls - 1, "function": {"arguments": piece}}
        return b"".join(self._tool_frame(start, delta) for start in self._starts)

    def fail(self, fail: Fail) -> bytes:
        """Write the error frame."""
        return b"data: " + error(fail) + b"\n\n"

    def finish(self, finish: FinishAnswer) -> bytes:
        """Write the finish frame, the usage if it is wanted, and the end mark."""
        reason = b'{},"logprobs":null,"finish_reason":' + encode(finish.reason) + b"}]"
        frames = [start + reason + self._close for start in self._starts]
        if self._ask.usage:
            usage = usage_of(self._ask, self._pieces * self._ask.choices)
            frames.append(self._envelope + b'],"usage":' + encode(usage) + b"}\n\n")
        return b"".join(frames) + b"data: [DONE]\n\n" * finish.ends

    def _tool_frame(self, start: bytes, call: dict[str, object]) -> bytes:
        return start + encode({"tool_calls": [call]}) + self._end


def voice(ask: ModelRequest, stamp: AnswerStamp) -> ChatFrameWriter:
    """Lend a voice to one answer."""
    return ChatFrameWriter(ask, stamp)


def whole(ask: ModelRequest, told: CompleteAnswer, stamp: AnswerStamp) -> bytes:
    """Write an answer as one document."""
    return encode(
        {
            "id": completion_id(stamp),
            "object": "chat.completion",
            "created": stamp.created,
            "model": ask.model,
            "choices": [choice_of(told, stamp, index) for index in range(ask.choices)],
            "usage": usage_of(ask, told.pieces * ask.choices),
            "service_tier": "default",
            "system_fingerprint": FINGERPRINT,
        }
    )


def choice_of(told: CompleteAnswer, stamp: AnswerStamp, index: int) -> dict[str, object]:
    """Write one choice of a whole answer."""
    message: dict[str, object] = {
        "role": "assistant",
        "content": None if told.calls and not told.text else told.text,
        "refusal": None,
        "annotations": [],
    }
    if told.calls:
        message["tool_calls"] = [
            call_of(stamp, index, at, *call) for at, call in enumerate(told.calls)
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": told.reason,
    }


# What the real service says with each status, where the script has no code of its own.
KINDS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "overloaded"),
}


def error(fail: Fail) -> bytes:
    """Write an error as the real service does."""
    default = "server_error" if fail.status >= 500 else "invalid_request_error"
    kind, code = KINDS.get(fail.status, (default, None))
    shown = {
        "message": fail.message,
        "type": kind,
        "param": fail.param,
        "code": fail.code or code,
    }
    return encode({"error": shown})
