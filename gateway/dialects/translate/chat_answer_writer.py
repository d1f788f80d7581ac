"""Answers in the words of Chat Completions, for clients of another dialect's upstream."""

from __future__ import annotations

import msgspec

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Failed,
    Reasoning,
    Refusal,
    Text,
    Tokens,
)
from gateway.dialects.events import Json
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_writer import AnswerWriter, CollectedAnswer, Piece
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


class ChatAnswerWriter(AnswerWriter):
    """Writes one answer, chunk by chunk or as one body."""

    __slots__ = ("_apart", "_calls", "_envelope", "_prefix", "_refused", "_said")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
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
        # As `_delta` writes it, without making an object of it (test_fast_paths.py).
        return b'%b{"content":%b},"finish_reason":null}]}\n\n' % (self._prefix, _encode(text))

    def whole(self, answer: CollectedAnswer) -> bytes:
        """Write an answer as one body."""
        refused = any(isinstance(part, Refusal) for part in answer.parts)
        choice = {
            "index": 0,
            "message": _message(answer),
            "logprobs": None,
            "finish_reason": _reason(answer.ended, refused),
        }
        body = {**self._describe(answer.began, "chat.completion"), "choices": [choice]}
        if answer.ended.tokens is not None:
            body["usage"] = usage_of(answer.ended.tokens)
        return _encode(body)

    def _describe(self, began: Began, kind: str) -> Json:
        return {
            "id": self._context.ident("chatcmpl-", began.id),
            "object": kind,
            "created": began.created or self._context.created,
            "model": began.model or self._context.model,
        }

    def _begin(self, began: Began) -> bytes:
        self._envelope = self._describe(began, "chat.completion.chunk")
        opening = _encode({**self._envelope, "choices": []}).removesuffix(b"]}")
        self._prefix = b'data: %b{"index":0,"delta":' % opening
        return self._delta({"role": "assistant", "content": ""})

    def _add(self, piece: Piece | CallEnded) -> bytes:
        match piece:
            case Reasoning():
                # There is no place for what proves it.
                return self._other({"reasoning_content": piece.text}) if piece.text else b""
            case Refusal():
                self._refused = True
                return self._other({"refusal": piece.text})
            case CallBegan():
                index = len(self._calls)
                self._calls[piece.number] = index, piece.custom
                call = _call(Call(piece.id, piece.name, "", piece.custom))
                return self._other({"tool_calls": [{"index": index, **call}]})
            case CallWent():
                index, custom = self._calls[piece.number]
                more = {"custom": {"input": piece.arguments}}
                if not custom:
                    more = {"function": {"arguments": piece.arguments}}
                return self._other({"tool_calls": [{"index": index, **more}]})
        # No chunk says that a call is whole.
        return b""

    def _end(self, ended: Ended) -> bytes:
        finish = _encode(_reason(ended, self._refused))
        end = b'%b{},"finish_reason":%b}]}\n\n' % (self._prefix, finish)
        if ended.tokens is not None:
            # It is counted, and kept from clients that did not ask for it (`hides_usage`).
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


def usage_of(tokens: Tokens) -> Json:
    """Write a usage object."""
    sent = {"cached_tokens": tokens.cached}
    if tokens.written:
        sent["cache_write_tokens"] = tokens.written
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": sent,
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
