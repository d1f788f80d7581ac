"""What an upstream of Messages answers, as events of no dialect.

A message is a row of numbered blocks, each with a start, deltas and a stop. Texts and thoughts pass
as they come. A call is open from its block's start to its stop; its arguments come as pieces of
JSON, or, from some servers and in whole bodies, at once with the start: what came with the start
counts only if no piece follows. A signature is kept until its block stops, since the canonical form
has the proof of a thought with its end.

Nothing is told before the answer began: what comes without `message_start` begins it. Whatever is
open when the message stops is ended then, so that every call ends before its answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.dialects.anthropic_messages.turn import stop_of
from gateway.dialects.canonical import (
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Reasoning,
    Text,
    Tokens,
)
from gateway.dialects.events import NO_ARGUMENTS, as_text, check_call_count, text_in
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_reader import NEVER_BEGAN, OTHER_SHAPE, AnswerReader
from gateway.dialects.translate.errors import read_body
from gateway.dialects.translate.event_data import decode_event, number_in
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Stop

NOTHING = (b"null", b"{}", b'""')


class _ContentBlock(msgspec.Struct, gc=False):
    """A block, or what a delta adds to one; any of it may be of a type we do not expect."""

    type: Any = None
    text: Any = None
    thinking: Any = None
    signature: Any = None
    data: Any = None
    id: Any = None
    name: Any = None
    input: msgspec.Raw = msgspec.Raw(b"null")
    partial_json: Any = None
    stop_reason: Any = None
    stop_sequence: Any = None


class _MessagesBody(msgspec.Struct, gc=False):
    """A message, or what is known of it when it begins."""

    type: Any = None
    id: Any = None
    model: Any = None
    content: list[_ContentBlock] | None = None
    stop_reason: Any = None
    stop_sequence: Any = None
    usage: Any = None
    error: Any = None


class _MessagesEvent(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _ContentBlock | None = None
    content_block: _ContentBlock | None = None
    message: _MessagesBody | None = None
    usage: Any = None
    error: Any = None


_event = msgspec.json.Decoder(_MessagesEvent)
_message = msgspec.json.Decoder(_MessagesBody)


@dataclass(slots=True)
class _OpenCall:
    """A call that has not ended."""

    number: int
    given: str
    """The arguments that came with its beginning, if no others do."""
    argued: bool = False


class MessagesAnswerReader(AnswerReader):
    """Reads one answer, event by event or as one body."""

    __slots__ = ("_called", "_calls", "_sequence", "_signatures", "_stop", "_usage")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._calls: dict[int, _OpenCall] = {}
        self._called = 0
        self._signatures: dict[int, str] = {}
        self._stop = ""
        self._sequence = ""
        self._usage: dict[str, Any] = {}

    def read(self, data: bytes) -> Sequence[Event]:
        """Read one event's data."""
        event = decode_event(_event, data)
        if event is None or self.ended:
            return ()
        delta = event.delta
        if delta is not None and delta.type == "text_delta" and self.began:
            # The usual case, the text of any block: the fast twin of `_on_block_delta`, which saves
            # a quarter of the time to read it; test_fast_paths.py shows that both tell the same.
            return (Text(delta.text),) if isinstance(delta.text, str) and delta.text else ()
        if event.type == "error":
            return self._fail(read_body(data))
        # Pings, and events that are new, say nothing that another dialect could.
        handler = HANDLERS.get(event.type)
        return handler(self, event) if handler is not None else ()

    def close(self) -> Sequence[Event]:
        """Take the end of the bytes: an answer without its stop reason was cut short."""
        # Some servers leave `message_stop` out.
        return self._finish() if self._stop and not self.ended else super().close()

    def whole(self, body: bytes) -> Sequence[Event]:
        """Read an answer that came as one body."""
        message = decode_event(_message, body)
        if message is not None and (message.type == "error" or message.error):
            return self._fail(read_body(body))
        if message is None or message.content is None:
            raise UpstreamBroke(OTHER_SHAPE)
        events = [*self._begin(message), *self._read_blocks(message.content)]
        self._note_end(message.stop_reason, message.stop_sequence)
        return [*events, *self._finish()]

    def _on_message_start(self, event: _MessagesEvent) -> Sequence[Event]:
        if self.began:
            return ()
        message = event.message or _MessagesBody()
        return [*self._begin(message), *self._read_blocks(message.content or [])]

    def _read_blocks(self, blocks: Sequence[_ContentBlock]) -> Sequence[Event]:
        """Read blocks that are whole; a message may begin with some."""
        told: list[Event] = []
        for at, block in enumerate(blocks):
            told += (*self._begin_block(at, block), *self._end_block(at))
        return told

    def _begin(self, message: _MessagesBody) -> Sequence[Event]:
        if self.began:
            return ()
        self._count(message.usage)
        tokens = read_usage(self._usage) if self._usage else None
        return (self._begin_answer(message.id, message.model, tokens=tokens),)

    def _on_block_start(self, event: _MessagesEvent) -> Sequence[Event]:
        # A block that was not ended itself is ended by the next one of its number.
        before = [*self._begin(_MessagesBody()), *self._end_block(event.index)]
        return [*before, *self._begin_block(event.index, event.content_block or _ContentBlock())]

    def _begin_block(self, at: int, block: _ContentBlock) -> Sequence[Event]:
        match block.type:
            case "text":
                return (Text(text),) if (text := text_in(block.text)) else ()
            case "thinking":
                # Whole blocks have it here; in a stream it is empty, and comes as a delta.
                self._signatures[at] = text_in(block.signature)
                return (Reasoning(text),) if (text := text_in(block.thinking)) else ()
            # It never comes in pieces.
            case "redacted_thinking":
                return (Reasoning(encrypted=text_in(block.data), redacted=True),)
            case "tool_use":
                return (self._begin_call(at, block),)
        # What else there is comes of tools that only Messages has.
        return ()

    def _begin_call(self, at: int, block: _ContentBlock) -> Event:
        number = self._called
        self._called += 1
        check_call_count(self._called)
        self._calls[at] = _OpenCall(number, _read_input(block.input))
        ident = as_text(block.id) or self._make_call_id(number)
        return CallBegan(number, ident, as_text(block.name) or "")

    def _on_block_delta(self, event: _MessagesEvent) -> Sequence[Event]:
        delta, begun = event.delta or _ContentBlock(), self._begin(_MessagesBody())
        return [*begun, *self._read_delta(event.index, delta)]

    def _read_delta(self, at: int, delta: _ContentBlock) -> Sequence[Event]:
        if text := text_in(delta.text):
            return (Text(text),)
        if thought := text_in(delta.thinking):
            return (Reasoning(thought),)
        # Compatible servers send it in pieces, and nobody says how many.
        if signature := text_in(delta.signature):
            self._budget.spend(len(signature))
            self._signatures[at] = self._signatures.get(at, "") + signature
        call, arguments = self._calls.get(at), text_in(delta.partial_json)
        if call is None or not arguments:
            return ()
        call.argued = True
        return (CallWent(call.number, arguments),)

    def _on_block_stop(self, event: _MessagesEvent) -> Sequence[Event]:
        return self._end_block(event.index)

    def _end_block(self, at: int) -> Sequence[Event]:
        if signature := self._signatures.pop(at, ""):
            return (Reasoning(signature=signature),)
        call = self._calls.pop(at, None)
        if call is None:
            return ()
        ended = CallEnded(call.number)
        # A call without arguments has no delta, or an empty one; clients still want an object.
        return (ended,) if call.argued else (CallWent(call.number, call.given), ended)

    def _on_message_delta(self, event: _MessagesEvent) -> Sequence[Event]:
        """Take what ends the message; before there is a reason, it only counts tokens."""
        begun, delta = self._begin(_MessagesBody()), event.delta or _ContentBlock()
        self._count(event.usage)
        self._note_end(delta.stop_reason, delta.stop_sequence)
        return begun

    def _count(self, usage: Any) -> None:
        """Bring the usage up to date: what is told later counts from the beginning."""
        # The counts are totals, not sums; the last event may leave out what the first one told.
        told = usage if isinstance(usage, dict) else {}
        self._usage |= {name: value for name, value in told.items() if value is not None}

    def _note_end(self, reason: Any, sequence: Any) -> None:
        self._stop = as_text(reason) or self._stop
        self._sequence = as_text(sequence) or self._sequence

    def _on_message_stop(self, event: _MessagesEvent) -> Sequence[Event]:
        if not self.began:
            raise UpstreamBroke(NEVER_BEGAN)
        return self._finish()

    def _finish(self) -> Sequence[Event]:
        self.ended = True
        left = [event for at in (*self._signatures, *self._calls) for event in self._end_block(at)]
        stop = stop_of(self._stop)
        if not self._stop:
            # Some servers stop without a reason: what was said tells which it must have been.
            stop = Stop.TOOL_CALLS if self._called else Stop.STOP
        ended = Ended(
            stop,
            read_usage(self._usage) if self._usage else None,
            self._sequence if self._stop == "stop_sequence" else "",
            self._stop if stop is Stop.UNKNOWN else "",
        )
        return [*left, ended]


HANDLERS: dict[str, Callable[[MessagesAnswerReader, _MessagesEvent], Sequence[Event]]] = {
    "message_start": MessagesAnswerReader._on_message_start,
    "content_block_start": MessagesAnswerReader._on_block_start,
    "content_block_delta": MessagesAnswerReader._on_block_delta,
    "content_block_stop": MessagesAnswerReader._on_block_stop,
    "message_delta": MessagesAnswerReader._on_message_delta,
    "message_stop": MessagesAnswerReader._on_message_stop,
}


def _read_input(value: msgspec.Raw) -> str:
    """Return arguments as they were written; a text stands for itself."""
    written = bytes(value)
    # In a stream the start has an empty object, which is no argument yet.
    if written in NOTHING:
        return NO_ARGUMENTS
    # They are passed as they were written: to decode and encode them might change a number.
    text = msgspec.json.decode(written) if written.startswith(b'"') else None
    return text if isinstance(text, str) else written.decode(errors="replace")


def read_usage(usage: dict[str, Any]) -> Tokens:
    """Translate a usage object: here what a cache has to do with is counted apart."""
    cached = number_in(usage, "cache_read_input_tokens")
    written = number_in(usage, "cache_creation_input_tokens")
    return Tokens(
        input=number_in(usage, "input_tokens") + cached + written,
        output=number_in(usage, "output_tokens"),
        cached=cached,
        written=written,
        reasoning=number_in(usage, "output_tokens_details", "thinking_tokens"),
    )
