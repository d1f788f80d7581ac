"""Answers in the words of Messages, for clients of another dialect's upstream."""

from __future__ import annotations

import msgspec

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallWent,
    Ended,
    Failed,
    Reasoning,
    Refusal,
    Text,
    Tokens,
)
from gateway.dialects.events import Json, read_object
from gateway.dialects.seals import UNPROVEN, as_signature
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_writer import (
    AnswerBlock,
    AnswerPart,
    BlockAnswerWriter,
    CollectedAnswer,
    Piece,
)
from gateway.dialects.translate.errors import messages_error
from gateway.exchange.model import Stop
from gateway.wire.sse import encode

REASONS = {
    Stop.STOP: "end_turn",
    Stop.LENGTH: "max_tokens",
    Stop.TOOL_CALLS: "tool_use",
    Stop.FILTER: "refusal",
}
STOP = encode(b'{"type":"message_stop"}', "message_stop")
DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{'
TEXT = DELTA + b'"type":"text_delta","text":'
NO_TOKENS = {"input_tokens": 0, "output_tokens": 0}

_encode = msgspec.json.encode


class MessagesAnswerWriter(BlockAnswerWriter):
    """Writes one answer, event by event or as one body."""

    __slots__ = ("_text",)

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._text = b""

    def say(self, text: str) -> bytes:
        """Write a piece of text."""
        # As `_WrittenBlock.add` writes it, without making objects of it (test_fast_paths.py).
        if self._key is Text:
            return b"%b%b}}\n\n" % (self._text, _encode(text))
        return self._add(Text(text))

    def whole(self, answer: CollectedAnswer) -> bytes:
        """Write an answer as one body."""
        message = self._message(answer.began)
        message["content"] = [_block(part) for part in answer.parts]
        message |= _end_of(answer.ended)
        message["usage"] = {**NO_TOKENS, **usage_of(answer.ended.tokens)}
        return _encode(message)

    def _message(self, began: Began) -> Json:
        return {
            "id": self._context.ident("msg_", began.id),
            "type": "message",
            "role": "assistant",
            "model": began.model or self._context.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**NO_TOKENS, **usage_of(began.tokens)},
        }

    def _begin(self, began: Began) -> bytes:
        return _frame({"type": "message_start", "message": self._message(began)})

    def _make_block(self, index: int, piece: Piece) -> AnswerBlock:
        self._text = TEXT % index
        return _WrittenBlock(index, piece)

    def _end(self, ended: Ended) -> bytes:
        usage = {"output_tokens": 0, **usage_of(ended.tokens)}
        end = {"type": "message_delta", "delta": _end_of(ended), "usage": usage}
        return self._end_block() + _frame(end) + STOP

    def _fail(self, failure: Failed) -> bytes:
        return encode(messages_error(failure), "error")


class _WrittenBlock:
    """One block of the message."""

    __slots__ = ("_first", "_index", "_proven")

    def __init__(self, index: int, first: Piece) -> None:
        self._index = index
        self._first = first
        self._proven = not isinstance(first, Reasoning) or first.redacted

    def begin(self) -> bytes:
        """Write its beginning."""
        block = _begin_block(self._first)
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return _frame(start)

    def add(self, piece: Piece) -> bytes:
        """Write a piece of it."""
        self._proven = self._proven or (isinstance(piece, Reasoning) and bool(as_signature(piece)))
        return b"".join([self._delta(delta) for delta in _deltas(piece)])

    def end(self) -> bytes:
        """Write its end; a thought that nothing proves says so."""
        unproven = b"" if self._proven else self._delta(_signature(UNPROVEN))
        return unproven + _frame({"type": "content_block_stop", "index": self._index})

    def _delta(self, delta: Json) -> bytes:
        return _frame({"type": "content_block_delta", "index": self._index, "delta": delta})


def _begin_block(piece: Piece) -> Json:
    """Write a block that is still empty; only redacted thinking comes whole."""
    if isinstance(piece, CallBegan):
        return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
    if not isinstance(piece, Reasoning):
        return {"type": "text", "text": ""}
    if piece.redacted:
        return {"type": "redacted_thinking", "data": piece.encrypted}
    return {"type": "thinking", "thinking": "", "signature": ""}


def _deltas(piece: Piece) -> list[Json]:
    match piece:
        case Text() | Refusal():
            return [{"type": "text_delta", "text": piece.text}]
        case CallWent():
            return [{"type": "input_json_delta", "partial_json": piece.arguments}]
        case CallBegan():
            return []
    signature = as_signature(piece)
    deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece.text}] if piece.text else []
    return [*deltas, _signature(signature)] if signature else deltas


def _signature(signature: str) -> Json:
    return {"type": "signature_delta", "signature": signature}


def _block(part: AnswerPart) -> Json:
    """Write a whole block; a refusal is a text like any other."""
    if isinstance(part, Call):
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)}
    if not isinstance(part, Reasoning):
        return {"type": "text", "text": part.text}
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.encrypted}
    return {"type": "thinking", "thinking": part.text, "signature": as_signature(part) or UNPROVEN}


def _input(call: Call) -> msgspec.Raw | str:
    """Return a call's input as the model wrote it; what is no object stays a text."""
    arguments = call.arguments.encode()
    return call.arguments if read_object(arguments) is None else msgspec.Raw(arguments)


def _end_of(ended: Ended) -> Json:
    reason = ended.word or REASONS.get(ended.stop, REASONS[Stop.STOP])
    if ended.sequence:
        reason = "stop_sequence"
    return {"stop_reason": reason, "stop_sequence": ended.sequence or None}


def usage_of(tokens: Tokens | None) -> Json:
    """Write a usage object: what a cache has to do with is counted apart."""
    if tokens is None:
        return {}
    usage: Json = {
        "input_tokens": max(tokens.input - tokens.cached - tokens.written, 0),
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
    }
    if tokens.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": tokens.reasoning}
    return usage


def _frame(event: Json) -> bytes:
    return encode(_encode(event), event["type"])
