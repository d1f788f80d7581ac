"""Answers in the words of Responses, for clients of another dialect's upstream."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.dialects.canonical import (
    Began,
    Ended,
    Failed,
    Refusal,
    Text,
    Tokens,
)
from gateway.dialects.events import Json
from gateway.dialects.raw_json import fields_of, write_object
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_writer import (
    AnswerBlock,
    BlockAnswerWriter,
    CollectedAnswer,
    Piece,
)
from gateway.dialects.translate.errors import responses_failure
from gateway.dialects.translate.responses_answer_items import (
    COMPLETED,
    IN_PROGRESS,
    ITEMS,
    ItemPlace,
    MessageItem,
    ResponseOutput,
    prefix_of,
    whole_item,
)
from gateway.exchange.model import Stop

INCOMPLETE = "incomplete"
REASONS = {Stop.LENGTH: "max_output_tokens", Stop.FILTER: "content_filter"}
ENDS_WELL = (Stop.STOP, Stop.TOOL_CALLS)
# What an answer repeats of its request, and what stands there if the request is silent. Tools and
# instructions may be long and nobody reads them here, so they are not repeated.
ECHO: Json = {
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
# What is so of every answer that was translated.
CONSTANT: Json = {
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "previous_response_id": None,
    "store": False,
    "tools": [],
    "usage": None,
}


# Of what is longer nothing is repeated: every event about the whole answer carries it.
LONGEST_REPEATED = 64 * 1024


def keep_echo(body: bytes) -> bytes:
    """Return what is left of a large request for its answer to repeat."""
    fields = fields_of(body)
    found = {name: fields[name] for name in ECHO if name in fields}
    return write_object({n: v for n, v in found.items() if len(memoryview(v)) <= LONGEST_REPEATED})


class ResponsesAnswerWriter(BlockAnswerWriter):
    """Writes one answer, event by event or as one body."""

    __slots__ = ("_id", "_output", "_refused", "_response", "_text")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._id = ""
        self._response: Json = {}
        self._output = ResponseOutput(budget)
        self._text: MessageItem | None = None
        self._refused = False

    def say(self, text: str) -> bytes:
        """Write a piece of text."""
        if self._key is Text and self._text is not None:
            return self._text.text.add(text)
        return self._add(Text(text))

    def whole(self, answer: CollectedAnswer) -> bytes:
        """Write an answer as one body."""
        response = self._describe(answer.began)
        refused = any(isinstance(part, Refusal) for part in answer.parts)
        output = [
            whole_item(self._ident(prefix_of(part), at), part)
            for at, part in enumerate(answer.parts)
        ]
        return msgspec.json.encode({**response, **_end_of(answer.ended, refused), "output": output})

    def _describe(self, began: Began) -> Json:
        self._id = began.id
        fields = fields_of(self._context.request)
        return {
            "id": self._context.ident("resp_", began.id),
            "object": "response",
            "created_at": began.created or self._context.created,
            "status": IN_PROGRESS,
            "model": began.model or self._context.model,
            "output": [],
            **CONSTANT,
            **{name: fields.get(name, usual) for name, usual in ECHO.items()},
        }

    def _ident(self, prefix: str, at: int) -> str:
        return self._context.ident(prefix, self._id, at)

    def _begin(self, began: Began) -> bytes:
        self._response = self._describe(began)
        return self._lifecycle("created") + self._lifecycle(IN_PROGRESS)

    def _lifecycle(self, verb: str, **news: Any) -> bytes:
        response = {**self._response, **news}
        return self._output.frame(f"response.{verb}", {"response": response})

    def _make_block(self, index: int, piece: Piece) -> AnswerBlock:
        self._refused = self._refused or isinstance(piece, Refusal)
        place = ItemPlace(self._ident(prefix_of(piece), index), index)
        item = ITEMS[type(piece)](self._output, place, piece)
        self._text = item if isinstance(item, MessageItem) else None
        return item

    def _end(self, ended: Ended) -> bytes:
        news = _end_of(ended, self._refused)
        self._output.status = news["status"]
        last = self._end_block()
        return last + self._lifecycle(news["status"], **news, output=self._output.items)

    def _fail(self, failure: Failed) -> bytes:
        error = responses_failure(failure)
        output = self._output.items
        return self._lifecycle("failed", status="failed", error=error, output=output)


def usage_of(tokens: Tokens) -> Json:
    """Write a usage object."""
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.written,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def _end_of(ended: Ended, refused: bool) -> Json:
    """Say how it ended: where the model refuses in words of its own, the answer is complete."""
    news: Json = {"status": COMPLETED}
    if ended.stop not in ENDS_WELL and not (ended.stop is Stop.FILTER and refused):
        reason = REASONS.get(ended.stop) or ended.word
        news = {"status": INCOMPLETE, "incomplete_details": {"reason": reason}}
    if ended.tokens is not None:
        news["usage"] = usage_of(ended.tokens)
    return news
