"""From a script to beats, in the voice of a dialect; sockets are somebody else's business."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Protocol

from gateway.demo.dialogue import Dialogue
from gateway.demo.output import Headers, Output, ResponseHead, apply_format
from gateway.demo.script import (
    Argue,
    Begin,
    Break,
    CallTool,
    Fail,
    FinishAnswer,
    Pause,
    Say,
    Script,
    Step,
    Write,
)

JSON: Headers = (("content-type", "application/json"),)
EVENTS: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)


@dataclass(frozen=True, slots=True)
class AnswerStamp:
    """What makes an answer different from all others: its number and its time."""

    number: int
    created: int


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request, read: the conversation and how the answer is wanted."""

    dialogue: Dialogue
    model: str
    stream: bool = False
    choices: int = 1
    usage: bool = False


@dataclass(frozen=True, slots=True)
class CompleteAnswer:
    """A whole answer, for those who do not stream."""

    text: str
    calls: tuple[tuple[str, str], ...]
    pieces: int
    reason: str


class RequestRefused(Exception):
    """A request that cannot be read; the step says why."""

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail.message)
        self.fail = fail


class FrameWriter(Protocol):
    """How one streamed answer is written in a dialect."""

    def begin(self, speaks: bool) -> bytes: ...

    def say(self, token: str) -> bytes: ...

    def call(self, name: str) -> bytes: ...

    def argue(self, piece: str) -> bytes: ...

    def fail(self, fail: Fail) -> bytes: ...

    def finish(self, finish: FinishAnswer) -> bytes: ...


class DialectModule(Protocol):
    """One wire language: how requests are read and answers written."""

    path: str

    def read(self, body: bytes) -> ModelRequest: ...

    def voice(self, ask: ModelRequest, stamp: AnswerStamp) -> FrameWriter: ...

    def whole(self, ask: ModelRequest, answer: CompleteAnswer, stamp: AnswerStamp) -> bytes: ...

    def error(self, fail: Fail) -> bytes: ...


def perform(
    script: Script, dialect: DialectModule, ask: ModelRequest, stamp: AnswerStamp
) -> Iterator[Output]:
    """Play a script for one request, in the manner it wants."""
    if script.wire_format.usage is not None:
        ask = replace(ask, usage=script.wire_format.usage)
    play = stream if ask.stream else deliver
    return apply_format(play(script, dialect, ask, stamp), script.wire_format)


def stream(
    script: Script, dialect: DialectModule, ask: ModelRequest, stamp: AnswerStamp
) -> Iterator[Output]:
    """Play a script as a stream of frames."""
    voice, begun = dialect.voice(ask, stamp), False
    for step in script.steps:
        if isinstance(step, Fail) and not begun:
            yield from refuse(step, dialect)
        elif isinstance(step, Begin):
            begun = True
            yield ResponseHead(200, EVENTS)
            yield voice.begin(step.speaks)
        else:
            yield from play_step(step, voice)


def play_step(step: Step, voice: FrameWriter) -> Iterator[Output]:
    """Play one step of an answer that has begun."""
    match step:
        case Say(pieces=pieces):
            yield from run(cycle(pieces) if step.forever else pieces, voice.say, step.every_ms)
        case Argue(pieces=pieces):
            yield from run(pieces, voice.argue, step.every_ms)
        case CallTool(name=name):
            yield voice.call(name)
        case Pause(ms=ms):
            yield ms / 1000
        case Write(data=data):
            yield data
        case Break():
            yield step
        case Fail():
            yield voice.fail(step)
        case FinishAnswer():
            yield voice.finish(step)


def run(pieces: Iterable[str], utter: Callable[[str], bytes], every_ms: int) -> Iterator[Output]:
    """Play a run of pieces, with a wait after each unless it is a burst."""
    if not every_ms:
        yield from map(utter, pieces)
        return
    gap = every_ms / 1000
    for piece in pieces:
        yield utter(piece)
        yield gap


def refuse(fail: Fail, dialect: DialectModule) -> Iterator[Output]:
    """Answer with an error and its status."""
    again = () if fail.retry_after is None else (("retry-after", str(fail.retry_after)),)
    yield from document(fail.status, dialect.error(fail), again)


def document(status: int, body: bytes, headers: Headers = ()) -> Iterator[Output]:
    """Answer with one JSON document."""
    yield ResponseHead(status, (*JSON, *headers), len(body))
    yield body


def deliver(
    script: Script, dialect: DialectModule, ask: ModelRequest, stamp: AnswerStamp
) -> Iterator[Output]:
    """Play a script for a client that does not stream: its pauses, then the whole answer."""
    begun = False
    for step in script.steps:
        match step:
            case Pause(ms=ms):
                yield ms / 1000
            case Begin():
                begun = True
            case Fail():
                yield from refuse(step, dialect)
                return
            case Say(forever=True):
                yield Break("hang")
            case Break() | FinishAnswer():
                body = dialect.whole(ask, assemble_answer(script.steps), stamp) if begun else b""
                yield from deliver_end(step, body)
                return


def deliver_end(step: Break | FinishAnswer, body: bytes) -> Iterator[Output]:
    """Send a whole answer, or half of it and then break off; with no body, not even that."""
    if isinstance(step, FinishAnswer):
        yield from document(200, body)
        return
    if body:
        yield ResponseHead(200, JSON, len(body))
        yield body[: len(body) // 2]
    yield step


def assemble_answer(steps: Iterable[Step]) -> CompleteAnswer:
    """Put together what a script says and calls, up to its end."""
    text: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    pieces, reason = 0, "stop"
    for step in steps:
        if isinstance(step, FinishAnswer):
            reason = step.reason
            break
        if isinstance(step, CallTool):
            calls.append((step.name, []))
        elif isinstance(step, Say | Argue):
            (text if isinstance(step, Say) else calls[-1][1]).extend(step.pieces)
            pieces += len(step.pieces)
    return CompleteAnswer(
        "".join(text), tuple((name, "".join(a)) for name, a in calls), pieces, reason
    )
