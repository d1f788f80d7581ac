"""Answers of an upstream, in the dialect of a client that speaks another.

Events of no dialect stand in between: a reader makes them of what the upstream sends, and a writer
makes of them what the client reads. Nothing waits for more than its own frame, except what one
dialect cannot say before it is whole: pieces of calls that are mixed with another's, and the
arguments that become plain text. All that is kept of an answer is bounded.

A tool that takes plain text is offered to the upstream as a function with one text, `input`
(`tools.py`). A call is shown in the form of the tool that the client offered, whatever form the
upstream gave it: see `CustomCallConverter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from gateway.dialects.canonical import (
    Began,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Failed,
    Text,
    Tokens,
)
from gateway.dialects.events import read_object
from gateway.dialects.raw_json import readable
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_reader import AnswerReader
from gateway.dialects.translate.answer_writer import AnswerWriter, collect_answer
from gateway.dialects.translate.chat_answer_reader import ChatAnswerReader
from gateway.dialects.translate.chat_answer_writer import ChatAnswerWriter
from gateway.dialects.translate.errors import (
    describe_error,
    messages_error,
    openai_error,
    read_body,
)
from gateway.dialects.translate.event_data import extract_data
from gateway.dialects.translate.messages_answer_reader import MessagesAnswerReader
from gateway.dialects.translate.messages_answer_writer import MessagesAnswerWriter
from gateway.dialects.translate.responses_answer_reader import ResponsesAnswerReader
from gateway.dialects.translate.responses_answer_writer import ResponsesAnswerWriter
from gateway.dialects.translate.tools import INPUT
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.wire.sse import Framer

READERS: dict[str, type[AnswerReader]] = {
    "openai-chat": ChatAnswerReader,
    "openai-responses": ResponsesAnswerReader,
    "anthropic-messages": MessagesAnswerReader,
}
WRITERS: dict[str, type[AnswerWriter]] = {
    "openai-chat": ChatAnswerWriter,
    "openai-responses": ResponsesAnswerWriter,
    "anthropic-messages": MessagesAnswerWriter,
}
ERRORS: dict[str, Callable[[Failed], bytes]] = {
    "openai-chat": openai_error,
    "openai-responses": openai_error,
    "anthropic-messages": messages_error,
}


class AnswerTranslator:
    """What translates one answer: bytes of the upstream in, bytes for the client out."""

    __slots__ = ("_custom_calls", "_limit", "_reader", "_target", "_writer", "failure", "tokens")

    def __init__(self, source: str, target: str, context: AnswerContext, limit: int) -> None:
        budget = ByteBudget(limit)
        self._reader = READERS[source](context, budget)
        self._writer = WRITERS[target](context, budget)
        self._custom_calls = CustomCallConverter(context.custom, budget)
        self._target = target
        self._limit = limit
        self.failure: UpstreamAnswered | None = None
        """What the upstream said went wrong, with the status it would have had as an answer."""
        self.tokens: Tokens | None = None
        """What the turn used, once that is known, even if the client did not ask for it."""

    @property
    def signatures(self) -> Mapping[str, str]:
        """What the upstream signed calls with, by their ids."""
        return self._reader.signatures

    def _answer_failure(self, failed: Failed) -> UpstreamAnswered:
        return UpstreamAnswered(failed.status, (), ERRORS[self._target](failed))


class StreamTranslator(AnswerTranslator):
    """Translates one streamed answer, frame by frame."""

    __slots__ = ("_begun", "_framer", "_read", "_say", "ended")

    def __init__(self, source: str, target: str, context: AnswerContext, limit: int) -> None:
        super().__init__(source, target, context, limit)
        self._framer = Framer(limit)
        # Looked up once: they are called for every event.
        self._read = self._reader.read
        self._say = self._writer.say
        self._begun = False
        self.ended = False
        """Whether the end of the answer is in, or its failure."""

    def feed(self, data: bytes) -> bytes:
        """Take upstream bytes; return the frames they become."""
        batch = self._framer.batch(data)
        if not batch or self.ended:
            return b""
        frames: list[bytes] = []
        try:
            self._translate(batch, frames)
        except UpstreamBroke as error:
            if not self._begun:
                raise
            # What came before it in the same read is still to be shown.
            frames.append(self._write(describe_error(error)))
        return b"".join(frames)

    def close(self) -> bytes:
        """Take the end of the upstream's bytes. Raises `UpstreamError` if it came too early."""
        frames: list[bytes] = []
        self._translate(b"" if self.ended else self._framer.flush(), frames)
        if not self.ended:
            frames += [self._write(event) for event in self._reader.close()]
        return b"".join(frames)

    def _translate(self, batch: bytes, frames: list[bytes]) -> None:
        """Add what the frames of a batch become; this is the hot path."""
        for data in extract_data(batch):
            for event in self._read(data):
                # A text needs no note and no conversion: `_write` would return the same, as
                # test_fast_paths.py shows, after three more calls for nearly every event.
                said = self._say(event.text) if type(event) is Text else self._write(event)
                frames.append(said)

    def _write(self, event: Event) -> bytes:
        self._note(event)
        return b"".join([self._writer.write(shown) for shown in self._custom_calls.convert(event)])

    def _note(self, event: Event) -> None:
        if isinstance(event, Began):
            self._begun = True
        elif isinstance(event, Ended):
            self.ended, self.tokens = True, event.tokens
        elif isinstance(event, Failed):
            self.ended = True
            self.failure = self._answer_failure(event)
            if not self._begun:
                raise self.failure


class BodyTranslator(AnswerTranslator):
    """Translates one answer that is one body."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, source: str, target: str, context: AnswerContext, limit: int) -> None:
        super().__init__(source, target, context, limit)
        self._size = 0
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> bytes:
        """Take upstream bytes; nothing can be said before the end."""
        self._size += len(data)
        if self._size > self._limit:
            raise UpstreamBroke(f"The upstream's answer is longer than {self._limit} bytes.")
        self._pieces.append(data)
        return b""

    def close(self) -> bytes:
        """Take the end of the body; return it in the client's dialect. Raises `UpstreamError`."""
        return self._write_whole(self._reader.whole(b"".join(self._pieces)))

    def _write_whole(self, events: Sequence[Event]) -> bytes:
        answer = collect_answer(self._convert_events(events))
        self.tokens = answer.ended.tokens
        return self._writer.whole(answer)

    def _convert_events(self, events: Sequence[Event]) -> list[Event]:
        """Return what the client is told of it, or raise the error that it is."""
        for event in events:
            if isinstance(event, Failed):
                raise self._answer_failure(event)
        return [shown for event in events for shown in self._custom_calls.convert(event)]


class BodyToStreamTranslator(BodyTranslator):
    """Makes a stream of an answer that came as one body, though a stream was asked for."""

    def close(self) -> bytes:
        """Take the end of the body; return it as frames. Raises `UpstreamError`."""
        shown = self._convert_events(self._reader.whole(b"".join(self._pieces)))
        return b"".join([self._writer.write(event) for event in shown])


class StreamToBodyTranslator(BodyTranslator):
    """Makes one body of an answer that came as a stream, though none was asked for."""

    def close(self) -> bytes:
        """Take the end of the stream; return it as one body. Raises `UpstreamError`."""
        framer, reader = Framer(self._size + 1), self._reader
        events: list[Event] = []
        for batch in (framer.batch(b"".join(self._pieces)), framer.flush()):
            for data in extract_data(batch):
                events += reader.read(data)
        return self._write_whole([*events, *reader.close()])


def error_body(body: bytes, from_dialect: str, to_dialect: str, status: int = 0) -> bytes:
    """Say an upstream's error answer in the client's dialect; its status may be left out."""
    is_shared = ERRORS[from_dialect] is ERRORS[to_dialect]
    if is_shared and isinstance((read_object(body) or {}).get("error"), dict):
        return body
    return ERRORS[to_dialect](read_body(body, status))


_texts = msgspec.json.Decoder(dict[str, str])
_OPENING, _CLOSING = f'{{"{INPUT}":"', '"}'


@dataclass(slots=True, eq=False)
class CustomCallConverter:
    """Turns functions' arguments into plain text, and plain text into arguments."""

    _names: frozenset[str]
    _budget: ByteBudget
    _unwrapped: dict[int, list[str]] = field(default_factory=dict)
    _wrapped: set[int] = field(default_factory=set)

    def convert(self, event: Event) -> Sequence[Event]:
        """Return the event as the client is to see it; arguments wait until they are whole."""
        match event:
            case CallBegan():
                return self._begin(event)
            case CallWent():
                return self._go_on(event)
            case CallEnded():
                return self._end(event)
        return (event,)

    def _begin(self, began: CallBegan) -> Sequence[Event]:
        is_custom = began.name in self._names
        if began.custom is is_custom:
            return (began,)
        shown = CallBegan(began.number, began.id, began.name, is_custom)
        if is_custom:
            self._unwrapped[began.number] = []
            return (shown,)
        self._wrapped.add(began.number)
        return (shown, CallWent(began.number, _OPENING))

    def _go_on(self, went: CallWent) -> Sequence[Event]:
        if went.number in self._unwrapped:
            self._budget.spend(len(went.arguments))
            self._unwrapped[went.number].append(went.arguments)
            return ()
        if went.number in self._wrapped:
            # A piece of a JSON string, which has its quotes already.
            escaped = msgspec.json.encode(went.arguments)[1:-1].decode()
            return (CallWent(went.number, escaped),)
        return (went,)

    def _end(self, ended: CallEnded) -> Sequence[Event]:
        if ended.number in self._unwrapped:
            arguments = "".join(self._unwrapped.pop(ended.number))
            return (CallWent(ended.number, unwrap_input(arguments)), ended)
        if ended.number in self._wrapped:
            return (CallWent(ended.number, _CLOSING), ended)
        return (ended,)


def unwrap_input(arguments: str) -> str:
    """Return the text that a function was called with instead; broken arguments are the text."""
    texts = readable(_texts, arguments) or {}
    return texts[INPUT] if texts.keys() == {INPUT} else arguments
