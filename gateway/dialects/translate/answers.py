"""Answers of an upstream, in the dialect of a client that speaks another.

Events of no dialect stand in between: a reader makes them of what the upstream sends, and a writer
makes of them what the client reads. Nothing waits for more than its own frame, except what one
dialect cannot say before it is whole: pieces of calls that are mixed with another's, and the
arguments that become plain text. All that is kept of an answer is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gateway.dialects.canonical import Began, Ended, Event, Failed, Said, Tokens
from gateway.dialects.events import read_object
from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.answer_reader import AnswerReader
from gateway.dialects.translate.answer_writer import AnswerWriter
from gateway.dialects.translate.byte_budget import ByteBudget
from gateway.dialects.translate.chat_answer_reader import ChatAnswerReader
from gateway.dialects.translate.chat_answer_writer import ChatAnswerWriter
from gateway.dialects.translate.collected_answer import collect_answer
from gateway.dialects.translate.custom_calls import CustomCallConverter
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
                said = self._say(event.text) if type(event) is Said else self._write(event)
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
