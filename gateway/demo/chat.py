"""The OpenAI chat completions dialect of the demo upstream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.wire import sse

path = "/v1/chat/completions"

FINGERPRINT = "fp_holdgate_demo"
MOST_CHOICES = 128
UNREADABLE = "We could not parse the JSON body of your request."


class ChatPart(msgspec.Struct):
    """One part of a message's content."""

    type: str
    text: str | None = None


class ChatFunction(msgspec.Struct):
    """A function's name, and its arguments in a call."""

    name: str
    arguments: str = ""


class ChatToolCall(msgspec.Struct):
    """A tool call in an assistant's message."""

    id: str
    function: ChatFunction | None = None


class ChatMessage(msgspec.Struct):
    """One message of a request."""

    role: str
    content: str | list[ChatPart] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None


class ChatTool(msgspec.Struct):
    """One tool on offer."""

    type: str
    function: ChatFunction | None = None


class StreamOptions(msgspec.Struct):
    """What is wanted of the stream."""

    include_usage: bool | None = None


class ChatInput(msgspec.Struct):
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


def read(body: bytes) -> DialogueRequest:
    """Read a request's body, or refuse what the real service refuses."""
    request = decode_request(ChatInput, body, UNREADABLE)
    if not request.messages:
        raise UnreadableRequest("The list of messages is empty.", "empty_array", "messages")
    if not 1 <= (request.n or 1) <= MOST_CHOICES:
        raise UnreadableRequest(f"n must lie between 1 and {MOST_CHOICES}.", param="n")
    check_results(request.messages)
    offered = () if request.tool_choice == "none" else request.tools or ()
    dialogue = Dialogue(
        messages=tuple(map(read_message, request.messages)),
        tools=frozenset(tool.function.name for tool in offered if tool.function),
        limit=request.max_completion_tokens or request.max_tokens,
    )
    usage = request.stream_options is not None and bool(request.stream_options.include_usage)
    return DialogueRequest(dialogue, request.model, bool(request.stream), request.n or 1, usage)


def check_results(messages: Sequence[ChatMessage]) -> None:
    """Refuse tool calls without results right after them, and results without calls."""
    open_calls: set[str] = set()
    for at, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise refuse_message(at, "a message of role 'tool' must answer a call before it")
            open_calls.discard(message.tool_call_id)
        elif open_calls:
            why = f"the tool calls {sorted(open_calls)} must be answered before it"
            raise refuse_message(at, why)
        open_calls |= {call.id for call in message.tool_calls or ()}
    if open_calls:
        why = f"the tool calls {sorted(open_calls)} have no results"
        raise refuse_message(len(messages) - 1, why)


def refuse_message(at: int, why: str) -> UnreadableRequest:
    """Make the refusal of a message that stands in the wrong place."""
    return UnreadableRequest(f"Invalid messages[{at}]: {why}.", param=f"messages[{at}]")


def read_message(message: ChatMessage) -> DialogueMessage:
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


class ChatReplyWriter:
    """One answer; in a stream each choice has a chunk, and each chunk is a frame."""

    def __init__(self, request: DialogueRequest, stamp: AnswerStamp) -> None:
        self._request = request
        self._stamp = stamp
        self._calls = 0
        self._pieces = 0
        self._service = {"service_tier": "default", "system_fingerprint": FINGERPRINT}
        self._envelope = {**self._write_envelope("chat.completion.chunk"), **self._service}
        self._no_usage: Json = {"usage": None} if request.usage else {}

    def begin(self, speaks: bool) -> bytes:
        """Write the frame that names the role."""
        content = "" if speaks else None
        return self._write({"role": "assistant", "content": content, "refusal": None})

    def say(self, token: str) -> bytes:
        """Write one token."""
        self._pieces += 1
        return self._write({"content": token})

    def call(self, name: str) -> bytes:
        """Open a tool call."""
        at, self._calls = self._calls, self._calls + 1
        calls = (
            {"index": at, **self._write_call(choice, at, name, "")}
            for choice in range(self._request.choices)
        )
        return self._write_each({"tool_calls": [call]} for call in calls)

    def argue(self, piece: str) -> bytes:
        """Write a piece of the open call's arguments."""
        self._pieces += 1
        call = {"index": self._calls - 1, "function": {"arguments": piece}}
        return self._write({"tool_calls": [call]})

    def fail(self, fail: Fail) -> bytes:
        """Write the error frame."""
        return sse.encode(write_error(fail))

    def finish(self, reason: str, ends: int = 1) -> bytes:
        """Write the finish frame, the usage if it is wanted, and the end mark."""
        frames = self._write({}, reason)
        if self._request.usage:
            usage = self._write_usage(self._pieces)
            frames += sse.encode(encode_json({**self._envelope, "choices": [], "usage": usage}))
        return frames + sse.encode(b"[DONE]") * ends

    def write_whole(self, answer: CompleteAnswer) -> bytes:
        """Write an answer as one document."""
        choices = [self._write_choice(answer, at) for at in range(self._request.choices)]
        return encode_json(
            {
                **self._write_envelope("chat.completion"),
                "choices": choices,
                "usage": self._write_usage(answer.pieces),
                **self._service,
            }
        )

    def _write(self, delta: Json, reason: str | None = None) -> bytes:
        return self._write_each([delta] * self._request.choices, reason)

    def _write_each(self, deltas: Iterable[Json], reason: str | None = None) -> bytes:
        """Write a chunk for each choice, which has its own delta."""
        end = {"logprobs": None, "finish_reason": reason}
        choices = ({"index": at, "delta": delta, **end} for at, delta in enumerate(deltas))
        chunks = ({**self._envelope, "choices": [choice], **self._no_usage} for choice in choices)
        return b"".join(sse.encode(encode_json(chunk)) for chunk in chunks)

    def _write_choice(self, answer: CompleteAnswer, index: int) -> Json:
        """Write one choice of a whole answer."""
        content = None if answer.calls and not answer.text else answer.text
        said = {"role": "assistant", "content": content}
        message: Json = {**said, "refusal": None, "annotations": []}
        if answer.calls:
            calls = enumerate(answer.calls)
            message["tool_calls"] = [self._write_call(index, at, *call) for at, call in calls]
        end = {"logprobs": None, "finish_reason": answer.reason}
        return {"index": index, "message": message, **end}

    def _write_envelope(self, kind: str) -> Json:
        """Write what a chunk and a whole answer begin with."""
        ident, created = f"chatcmpl-demo{self._stamp.number:08d}", self._stamp.created
        return {"id": ident, "object": kind, "created": created, "model": self._request.model}

    def _write_call(self, choice: int, at: int, name: str, arguments: str) -> Json:
        return {
            "id": f"call_demo{self._stamp.number:08d}_{choice}_{at}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }

    def _write_usage(self, pieces: int) -> Json:
        prompt, completion = self._request.prompt_tokens, pieces * self._request.choices
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


open_answer = ChatReplyWriter


# What the real service says with each status, where the script has no code of its own.
KINDS: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "overloaded"),
}


def write_error(fail: Fail) -> bytes:
    """Write an error as the real service does."""
    default = "server_error" if fail.status >= 500 else "invalid_request_error"
    kind, code = KINDS.get(fail.status, (default, None))
    shown = {"message": fail.message, "type": kind, "param": fail.param, "code": fail.code or code}
    return encode_json({"error": shown})
