"""Answers in the words of Chat Completions, for clients of another dialect's upstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Failed,
    Reasoning,
    Refusal,
    Refused,
    Said,
    Text,
    Thought,
    Tokens,
)
from gateway.dialects.objects import Json
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.collected_answer import CollectedAnswer
from gateway.dialects.translate.errors import openai_error
from gateway.exchange.model import Stop
from gateway.wire.sse import encode

REASONS = {
    Stop.STOP: "stop",
    Stop.LENGTH: "length",
    Stop.TOOL_CALLS: "tool_calls",
    Stop.FILTER: "content_filter",
}
DONE = encode(b"[DONE]")
APART = "\n\n"

_encode = msgspec.json.encode


class ChatAnswerWriter:
    """Writes one answer, chunk by chunk or as one body."""

    __slots__ = ("_apart", "_calls", "_context", "_envelope", "_prefix", "_refused", "_said")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        self._context = context
        self._envelope: Json = {}
        self._prefix = b""
        self._calls: dict[int, tuple[int, bool]] = {}
        self._refused = False
        self._said = False
        self._apart = False
        """Whether something else came since the last text."""

    def say(self, text: str) -> bytes:
        """Write a piece of text."""
        if self._apart:
            text, self._apart = APART + text, False
        self._said = True
        return b'%b{"content":%b},"finish_reason":null}]}\n\n' % (self._prefix, _encode(text))

    def write(self, event: Event) -> bytes:
        """Write an event."""
        return WRITES[type(event)](self, event)

    def whole(self, answer: CollectedAnswer) -> bytes:
        """Write an answer as one body."""
        refused = any(isinstance(part, Refusal) for part in answer.parts)
        choice = {
            "index": 0,
            "message": _message(answer),
            "logprobs": None,
            "finish_reason": _reason(answer.ended, refused),
        }
        body = {**self._named(answer.began, "chat.completion"), "choices": [choice]}
        if answer.ended.tokens is not None:
            body["usage"] = usage_of(answer.ended.tokens)
        return _encode(body)

    def _named(self, began: Began, kind: str) -> Json:
        return {
            "id": self._context.ident("chatcmpl-", began.id),
            "object": kind,
            "created": began.created or self._context.created,
            "model": began.model or self._context.model,
        }

    def _begin(self, began: Began) -> bytes:
        self._envelope = self._named(began, "chat.completion.chunk")
        opening = _encode({**self._envelope, "choices": []}).removesuffix(b"]}")
        self._prefix = b'data: %b{"index":0,"delta":' % opening
        return self._delta({"role": "assistant", "content": ""})

    def _text(self, said: Said) -> bytes:
        return self.say(said.text)

    def _think(self, thought: Thought) -> bytes:
        """Write reasoning; there is no place for what proves it."""
        return self._other({"reasoning_content": thought.text}) if thought.text else b""

    def _refuse(self, refused: Refused) -> bytes:
        self._refused = True
        return self._other({"refusal": refused.text})

    def _begin_call(self, began: CallBegan) -> bytes:
        index = len(self._calls)
        self._calls[began.number] = index, began.custom
        call = _call(Call(began.id, began.name, "", began.custom))
        return self._other({"tool_calls": [{"index": index, **call}]})

    def _go_on(self, went: CallWent) -> bytes:
        index, custom = self._calls[went.number]
        more = {"custom": {"input": went.arguments}}
        if not custom:
            more = {"function": {"arguments": went.arguments}}
        return self._other({"tool_calls": [{"index": index, **more}]})

    def _end_call(self, ended: CallEnded) -> bytes:
        return b""

    def _end(self, ended: Ended) -> bytes:
        finish = _encode(_reason(ended, self._refused))
        end = b'%b{},"finish_reason":%b}]}\n\n' % (self._prefix, finish)
        if self._context.usage and ended.tokens is not None:
            usage = usage_of(ended.tokens)
            end += encode(_encode({**self._envelope, "choices": [], "usage": usage}))
        return end + DONE

    def _fail(self, failure: Failed) -> bytes:
        return encode(openai_error(failure))

    def _other(self, delta: Json) -> bytes:
        self._apart = self._said
        return self._delta(delta)

    def _delta(self, delta: Json) -> bytes:
        return b'%b%b,"finish_reason":null}]}\n\n' % (self._prefix, _encode(delta))


WRITES: dict[type[Event], Callable[[ChatAnswerWriter, Any], bytes]] = {
    Began: ChatAnswerWriter._begin,
    Said: ChatAnswerWriter._text,
    Thought: ChatAnswerWriter._think,
    Refused: ChatAnswerWriter._refuse,
    CallBegan: ChatAnswerWriter._begin_call,
    CallWent: ChatAnswerWriter._go_on,
    CallEnded: ChatAnswerWriter._end_call,
    Ended: ChatAnswerWriter._end,
    Failed: ChatAnswerWriter._fail,
}


def usage_of(tokens: Tokens) -> Json:
    """Write a usage object."""
    told = {"cached_tokens": tokens.cached}
    if tokens.written:
        told["cache_write_tokens"] = tokens.written
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": told,
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def _reason(ended: Ended, refused: bool) -> str:
    """Say why it ended: where the model refuses in words of its own, it just stops."""
    if ended.stop is Stop.FILTER and refused:
        return REASONS[Stop.STOP]
    return ended.word or REASONS.get(ended.stop, REASONS[Stop.STOP])


def _call(call: Call) -> Json:
    if call.custom:
        custom = {"name": call.name, "input": call.arguments}
        return {"id": call.id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _message(answer: CollectedAnswer) -> Json:
    parts = answer.parts
    texts = [part.text for part in parts if isinstance(part, Text)]
    message: Json = {
        "role": "assistant",
        "content": APART.join(texts) if texts else None,
        "refusal": "".join(part.text for part in parts if isinstance(part, Refusal)) or None,
    }
    if thought := "".join(part.text for part in parts if isinstance(part, Reasoning)):
        message["reasoning_content"] = thought
    if calls := [_call(part) for part in parts if isinstance(part, Call)]:
        message["tool_calls"] = calls
    elif not texts and not message["refusal"]:
        message["content"] = ""
    return message
