"""From a script to output, in the frames of a dialect; sockets are somebody else's business."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle

from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialectModule,
    DialogueRequest,
    FrameWriter,
)
from gateway.demo.output import Headers, Outputs, ResponseHead, apply_format
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


def perform(
    script: Script, dialect: DialectModule, request: DialogueRequest, stamp: AnswerStamp
) -> Outputs:
    """Play a script for one request, in the wire format it wants."""
    if script.wire_format.usage is not None:
        request = replace(request, usage=script.wire_format.usage)
    play = stream if request.stream else deliver
    return apply_format(play(script, dialect, request, stamp), script.wire_format)


def stream(
    script: Script, dialect: DialectModule, request: DialogueRequest, stamp: AnswerStamp
) -> Outputs:
    """Play a script as a stream of frames."""
    writer, begun = dialect.open_stream(request, stamp), False
    for step in script.steps:
        if isinstance(step, Fail) and not begun:
            yield from refuse(step, dialect)
        elif isinstance(step, Begin):
            begun = True
            yield ResponseHead(200, EVENTS)
            yield writer.begin(step.speaks)
        else:
            yield from play_step(step, writer)


def play_step(step: Step, writer: FrameWriter) -> Outputs:
    """Play one step of an answer that has begun."""
    match step:
        case Say(pieces=pieces) | Argue(pieces=pieces):
            write = writer.say if isinstance(step, Say) else writer.argue
            forever = isinstance(step, Say) and step.forever
            for piece in cycle(pieces) if forever else pieces:
                yield write(piece)
                if step.every_ms:
                    yield step.every_ms / 1000
        case CallTool(name=name):
            yield writer.call(name)
        case Pause(ms=ms):
            yield ms / 1000
        case Write(data=data):
            yield data
        case Break():
            yield step
        case Fail():
            yield writer.fail(step)
        case FinishAnswer():
            yield writer.finish(step)


def deliver(
    script: Script, dialect: DialectModule, request: DialogueRequest, stamp: AnswerStamp
) -> Outputs:
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
            case FinishAnswer():
                answer = assemble_answer(script.steps)
                yield from send_document(200, dialect.write_whole(request, answer, stamp))
                return
            case Break():
                if begun:
                    answer = assemble_answer(script.steps)
                    body = dialect.write_whole(request, answer, stamp)
                    yield document_head(200, body)
                    yield body[: len(body) // 2]
                yield step
                return


def refuse(fail: Fail, dialect: DialectModule) -> Outputs:
    """Answer with an error and its status."""
    again = () if fail.retry_after is None else (("retry-after", str(fail.retry_after)),)
    return send_document(fail.status, dialect.write_error(fail), again)


def send_document(status: int, body: bytes, headers: Headers = ()) -> Outputs:
    """Answer with one JSON document."""
    yield document_head(status, body, headers)
    yield body


def document_head(status: int, body: bytes, headers: Headers = ()) -> ResponseHead:
    """Return the head of an answer that is one JSON document."""
    return ResponseHead(status, (*JSON, ("content-length", str(len(body))), *headers))


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
    whole_calls = tuple((name, "".join(arguments)) for name, arguments in calls)
    return CompleteAnswer("".join(text), whole_calls, pieces, reason)
