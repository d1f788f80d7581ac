"""What an upstream of Chat Completions answers, as events of no dialect.

A stream is a row of chunks; each adds to the one message of its first choice. Servers differ in
almost everything else: which member holds the reasoning, whether a usage comes and when, whether
`[DONE]` ends the stream, what stands in a member that is empty. So every member is read as it comes
and judged where it is used, and only two things are insisted on: JSON that can be read, and an end
that was meant (a reason to finish, or `[DONE]`); an answer without one was cut short.

The first chunk with a choice begins the answer, the first reason to finish settles why it ended;
the end itself is told when the stream ends, since the usage follows the last choice. A whole body
is read as one such chunk.

Upstreams do not tell when a call has ended (`ChatCallReader`). It has when another thing begins and
the arguments are a whole object; if they are not, their pieces may be mixed, and it ends with the
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.dialects.canonical import (
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Reasoning,
    Refusal,
    Text,
)
from gateway.dialects.events import (
    NO_ARGUMENTS,
    Json,
    NewId,
    as_text,
    check_call_count,
    objects_in,
    read_object,
    text_in,
)
from gateway.dialects.openai_chat.signatures import EXTRA, signature_of
from gateway.dialects.openai_chat.turn import UNFINISHED, Calls, ChatCall, function_of, stop_of
from gateway.dialects.translate.answer_context import AnswerContext, ByteBudget
from gateway.dialects.translate.answer_reader import (
    NEVER_BEGAN,
    OTHER_SHAPE,
    AnswerReader,
    read_openai_usage,
)
from gateway.dialects.translate.errors import read_failure
from gateway.dialects.translate.event_data import decode_event
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Stop

DONE = b"[DONE]"


class _ChatDelta(msgspec.Struct, gc=False):
    """What a chunk adds, or a whole message; any of it may be of a type we do not expect."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None


class _ChatChoice(msgspec.Struct, gc=False):
    index: Any = 0
    delta: _ChatDelta | None = None
    message: _ChatDelta | None = None
    finish_reason: Any = None
    stop_reason: Any = None
    """Some tell here which stop sequence it was."""


class _ChatChunk(msgspec.Struct, gc=False):
    choices: list[_ChatChoice] | None = None
    usage: Any = None
    error: Any = None


class _FirstChunk(_ChatChunk, gc=False):
    """A chunk that is also read for who answers; later ones tell nothing new of that."""

    id: Any = None
    model: Any = None
    created: Any = None


_chunk = msgspec.json.Decoder(_ChatChunk)
_first = msgspec.json.Decoder(_FirstChunk)


class ChatAnswerReader(AnswerReader):
    """Reads one answer, chunk by chunk or as one body."""

    __slots__ = ("_calls", "_end", "_refused", "_usage")

    def __init__(self, context: AnswerContext, budget: ByteBudget) -> None:
        super().__init__(context, budget)
        self._calls = ChatCallReader(self._make_call_id, budget)
        self._refused = False
        self._end: _ChatChoice | None = None
        """The choice that told why the answer ended."""
        self._usage: Any = None

    def read(self, data: bytes) -> Sequence[Event]:
        """Read one event's data."""
        if self.ended:
            return ()
        if data.strip() == DONE:
            return self._finish()
        # Who answers is read once: later chunks repeat it, and decoding it costs every one of them.
        chunk = decode_event(_chunk, data) if self.began else decode_event(_first, data)
        return self._read(chunk) if chunk is not None else ()

    def close(self) -> Sequence[Event]:
        """Take the end of the bytes: an answer without its finish was cut short."""
        # Not every server sends `[DONE]`; a reason to finish is as good.
        return self._finish() if self._end and not self.ended else super().close()

    def whole(self, body: bytes) -> Sequence[Event]:
        """Read an answer that came as one body."""
        events = self.read(body)
        if self.ended:
            return events
        if not self.began:
            raise UpstreamBroke(OTHER_SHAPE)
        return [*events, *self._finish()]

    @property
    def signatures(self) -> Mapping[str, str]:
        """What the upstream signed calls with, by their ids."""
        return self._calls.signatures

    def _read(self, chunk: _ChatChunk) -> Sequence[Event]:
        if chunk.usage is not None:
            self._usage = chunk.usage
        choice = chunk.choices[0] if chunk.choices else None
        # One answer was asked for (`n` is 1), so other choices are of no client's.
        if choice is None or choice.index or chunk.error:
            return self._read_error(chunk)
        # Most chunks: no edge, so nothing but the delta is looked at.
        if self.began and choice.finish_reason is None and choice.delta is not None:
            return self._read_delta(choice.delta)
        return self._read_edge(chunk, choice)

    def _read_error(self, chunk: _ChatChunk) -> Sequence[Event]:
        """Read what is no part of the answer: only an error means anything."""
        if not chunk.error:
            return ()
        return self._fail(read_failure({"error": chunk.error}))

    def _read_edge(self, chunk: _ChatChunk, choice: _ChatChoice) -> Sequence[Event]:
        """Read a chunk that begins or ends the answer, or does both."""
        events: list[Event] = []
        if isinstance(chunk, _FirstChunk):
            events.append(self._begin_answer(chunk.id, chunk.model, chunk.created))
        if choice.delta is not None:
            events += self._read_delta(choice.delta)
        if choice.message is not None:
            events += self._read_delta(_number_calls(choice.message))
        # Some servers repeat the reason with the usage, and some send an empty one with each chunk.
        if choice.finish_reason not in UNFINISHED and self._end is None:
            self._end = choice
            events += self._calls.end()
        return events

    def _read_delta(self, delta: _ChatDelta) -> Sequence[Event]:
        content = delta.content
        # The fast twin of what follows: it saves half of the time that a chunk takes to be read.
        # test_fast_paths.py shows that both tell the same.
        if type(content) is str and content and self._is_plain(delta):
            return (Text(content),)
        events: list[Event] = []
        if thought := text_in(delta.reasoning_content) or text_in(delta.reasoning):
            events.append(Reasoning(thought))
        # Reasoning comes before the text that follows from it, whatever the order of the members.
        if isinstance(content, list):
            events += _parts(content)
        elif text := text_in(content):
            events.append(Text(text))
        if refusal := text_in(delta.refusal):
            self._refused = True
            events.append(Refusal(refusal))
        if events:
            # Where something else begins, the calls before it have ended, and are told so first.
            events = [*self._calls.pause(), *events]
        return events + self._calls.take(delta.tool_calls)

    def _is_plain(self, delta: _ChatDelta) -> bool:
        """Whether a delta is a piece of text and nothing else, as most are."""
        return (
            delta.tool_calls is None
            and delta.reasoning_content is None
            and delta.refusal is None
            and delta.reasoning is None
            and not self._calls.under_way
        )

    def _finish(self) -> Sequence[Event]:
        if not self.began:
            raise UpstreamBroke(NEVER_BEGAN)
        self.ended = True
        # Some upstreams mark the end, but give no reason for it.
        reason = self._end.finish_reason if self._end else "stop"
        stop, word = stop_of(reason), as_text(reason) or ""
        if stop is Stop.STOP:
            stop = self._plain_stop()
        # vLLM tells the stop sequence here, or a token's number, which no other dialect has.
        sequence = self._end.stop_reason if self._end else None
        ended = Ended(
            stop,
            read_openai_usage(self._usage, "prompt", "completion"),
            sequence if stop is Stop.STOP and isinstance(sequence, str) else "",
            word if stop is Stop.UNKNOWN else "",
        )
        return [*self._calls.end(), ended]

    def _plain_stop(self) -> Stop:
        """Return why an answer ended that just stopped: some say so after calls as well."""
        if self._calls.any:
            return Stop.TOOL_CALLS
        return Stop.FILTER if self._refused else Stop.STOP


def _parts(content: list[Any]) -> list[Event]:
    """Read content that is a list: Mistral puts its reasoning there, beside the text."""
    events: list[Event] = []
    for part in objects_in(content):
        if thought := text_in(part.get("thinking")):
            events.append(Reasoning(thought))
        if text := text_in(part.get("text")):
            events.append(Text(text))
    return events


def _number_calls(message: _ChatDelta) -> _ChatDelta:
    """Give the calls of a whole message their places."""
    # In deltas a call is known by its index, which a whole message leaves out.
    calls = objects_in(message.tool_calls)
    message.tool_calls = [{**call, "index": at} for at, call in enumerate(calls)]
    return message


@dataclass(slots=True)
class _SentCall:
    """How much of a call was passed on."""

    number: int
    custom: bool
    pieces: list[str] = field(default_factory=list)
    began: bool = False
    ended: bool = False


class ChatCallReader:
    """Tells of calls as their fragments come; one begins with its arguments: its name is whole."""

    __slots__ = ("_budget", "_calls", "_sent", "signatures", "under_way")

    def __init__(self, new_id: NewId, budget: ByteBudget) -> None:
        self._calls = Calls(frozenset(), new_id)
        self._budget = budget
        self._sent: dict[ChatCall, _SentCall] = {}
        self.signatures: dict[str, str] = {}
        """What the upstream signed calls with, by their ids."""
        self.under_way = 0
        """How many calls have begun and not ended."""

    @property
    def any(self) -> bool:
        """Whether there are calls at all."""
        return any(sent.began for sent in self._sent.values())

    def take(self, fragments: Any) -> list[Event]:
        """Take fragments of calls."""
        events: list[Event] = []
        for fragment in objects_in(fragments):
            events += self._take(_as_function(fragment), custom="custom" in fragment)
        return events

    def pause(self) -> list[Event]:
        """Take the beginning of something else: calls that are whole have ended."""
        under_way = [sent for sent in self._sent.values() if sent.began and not sent.ended]
        return [event for sent in under_way if _is_whole(sent) for event in self._end(sent)]

    def end(self) -> list[Event]:
        """Take the end of the answer: all calls have ended; those that nobody named are none."""
        events: list[Event] = []
        for call, sent in self._sent.items():
            if call.name and not sent.ended:
                events += () if sent.began else self._begin(call, sent)
                events += self._end(sent)
        return events

    def _take(self, fragment: Json, custom: bool) -> Iterator[Event]:
        call = self._calls.take(fragment)
        sent = self._sent.get(call)
        if sent is None:
            sent = self._sent[call] = _SentCall(len(self._sent), custom)
            check_call_count(len(self._sent))
        if EXTRA in fragment and (signature := signature_of(fragment)):
            self._budget.spend(len(signature))
            self.signatures[call.id] = signature
        arguments = function_of(fragment).get("arguments") or ""
        if not arguments:
            return
        if sent.ended:
            if arguments.strip():
                raise UpstreamBroke(
                    "The upstream went on with a call after its arguments were whole."
                )
            return
        self._budget.spend(len(arguments))
        sent.pieces.append(arguments)
        if sent.began:
            yield CallWent(sent.number, arguments)
        elif call.name:
            yield from self.pause()
            yield from self._begin_up_to(sent)

    def _begin_up_to(self, last: _SentCall) -> Iterator[Event]:
        """Begin a call, and before it those that were named before it."""
        for call, sent in self._sent.items():
            if call.name and not sent.began and sent.number <= last.number:
                yield from self._begin(call, sent)

    def _begin(self, call: ChatCall, sent: _SentCall) -> list[Event]:
        sent.began = True
        self.under_way += 1
        events: list[Event] = [CallBegan(sent.number, call.id, call.name, sent.custom)]
        if sent.pieces:
            events.append(CallWent(sent.number, "".join(sent.pieces)))
        return events

    def _end(self, sent: _SentCall) -> list[Event]:
        sent.ended = True
        self.under_way -= 1
        if not sent.pieces and not sent.custom:
            return [CallWent(sent.number, NO_ARGUMENTS), CallEnded(sent.number)]
        sent.pieces.clear()
        return [CallEnded(sent.number)]


def _as_function(fragment: Json) -> Json:
    """Read a call of a tool that takes plain text like any other."""
    custom = fragment.get("custom")
    if not isinstance(custom, dict):
        return fragment
    return {**fragment, "function": {"name": custom.get("name"), "arguments": custom.get("input")}}


def _is_whole(sent: _SentCall) -> bool:
    return not sent.custom and read_object("".join(sent.pieces).encode()) is not None
