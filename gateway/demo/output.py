"""From a script to what goes over the wire, and when, in the frames of a dialect.

Output is bytes to write, seconds to wait, the head of an answer, or a break. The steps of a script
become output first; then its orders may change how the bytes look, whatever they say. Sockets are
somebody else's business.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from gateway.demo import steps
from gateway.demo.dialect import (
    AnswerStamp,
    AnswerWriter,
    CompleteAnswer,
    DialectModule,
    DialogueRequest,
)
from gateway.demo.orders import NO_ORDERS, Orders, Script
from gateway.demo.steps import Break, Fail, Step

Headers = tuple[tuple[str, str], ...]
JSON: Headers = (("content-type", "application/json"),)
EVENTS: Headers = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
)
BOM = b"\xef\xbb\xbf"
GZIP = 31
BATCH = 64 * 1024


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The status and headers of an answer; without a length the body comes in chunks."""

    status: int
    headers: Headers


Output = bytes | float | ResponseHead | Break
Outputs = Iterator[Output]


def perform(
    script: Script, dialect: DialectModule, request: DialogueRequest, stamp: AnswerStamp
) -> Outputs:
    """Play a script for one request, in the wire format it wants."""
    orders = script.orders
    if orders.usage or orders.no_usage:
        request = replace(request, usage=not orders.no_usage)
    play = stream if request.stream else deliver
    return apply_format(play(script.steps, dialect, dialect.open_answer(request, stamp)), orders)


def stream(answer: Sequence[Step], dialect: DialectModule, writer: AnswerWriter) -> Outputs:
    """Play steps as a stream of frames."""
    begun = False
    for step in answer:
        if isinstance(step, Fail) and not begun:
            yield from refuse(step, dialect)
        elif isinstance(step, steps.Begin):
            begun = True
            yield ResponseHead(200, EVENTS)
            yield writer.begin(step.speaks)
        else:
            yield from play_step(step, writer)


def play_step(step: Step, writer: AnswerWriter) -> Outputs:
    """Play one step of an answer that has begun."""
    match step:
        case steps.Say(pieces=pieces) | steps.Argue(pieces=pieces):
            write = writer.say if isinstance(step, steps.Say) else writer.argue
            forever = isinstance(step, steps.Say) and step.forever
            for piece in cycle(pieces) if forever else pieces:
                yield write(piece)
                if step.every_ms:
                    yield step.every_ms / 1000
        case steps.CallTool(name=name):
            yield writer.call(name)
        case steps.Pause(ms=ms):
            yield ms / 1000
        case steps.Write(data=data):
            yield data
        case Break():
            yield step
        case Fail():
            yield writer.fail(step)
        case steps.FinishAnswer():
            yield writer.finish(step)


def deliver(answer: Sequence[Step], dialect: DialectModule, writer: AnswerWriter) -> Outputs:
    """Play steps for a client that does not stream: the pauses, then the whole answer."""
    begun = False
    for step in answer:
        match step:
            case steps.Pause(ms=ms):
                yield ms / 1000
            case steps.Begin():
                begun = True
            case Fail():
                yield from refuse(step, dialect)
                return
            case steps.Say(forever=True):
                yield Break("hang")
            case steps.FinishAnswer():
                yield from send_document(200, writer.write_whole(assemble_answer(answer)))
                return
            case Break():
                if begun:
                    body = writer.write_whole(assemble_answer(answer))
                    yield document_head(200, body)
                    yield body[: len(body) // 2]
                yield step
                return


def assemble_answer(answer: Iterable[Step]) -> CompleteAnswer:
    """Put together what is said and called, up to the end."""
    text: list[str] = []
    calls: list[tuple[str, list[str]]] = []
    pieces, reason = 0, "stop"
    for step in answer:
        if isinstance(step, steps.FinishAnswer):
            reason = step.reason
            break
        if isinstance(step, steps.CallTool):
            calls.append((step.name, []))
        elif isinstance(step, steps.Say | steps.Argue):
            (text if isinstance(step, steps.Say) else calls[-1][1]).extend(step.pieces)
            pieces += len(step.pieces)
    whole_calls = tuple((name, "".join(arguments)) for name, arguments in calls)
    return CompleteAnswer("".join(text), whole_calls, pieces, reason)


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


def apply_format(outputs: Outputs, orders: Orders) -> Outputs:
    """Change output as the orders want it; most answers are left alone."""
    if orders == NO_ORDERS:
        return outputs
    outputs = change_text(outputs, orders)
    if orders.gzip:
        outputs = compress(outputs)
    if orders.reset_at is not None:
        outputs = cut(outputs, orders.reset_at)
    return split(outputs, orders.split) if orders.split else outputs


def change_text(outputs: Outputs, orders: Orders) -> Outputs:
    """Change headers and line ends, and put a byte order mark first.

    Within a frame's JSON there are no line ends.
    """
    newline = b"\r\n" if orders.crlf else b"\r" if orders.cr else b"\n"
    for output in outputs:
        if isinstance(output, ResponseHead):
            yield change_head(output, orders)
            if orders.bom:
                yield BOM
        elif isinstance(output, bytes):
            yield output.replace(b"\n", newline)
        else:
            yield output


def change_head(head: ResponseHead, orders: Orders) -> ResponseHead:
    """Return a head with other headers; of a compressed body the length is not known before."""
    headers = dict(head.headers)
    if orders.content_type is not None:
        headers["content-type"] = orders.content_type
    if orders.gzip:
        headers["content-encoding"] = "gzip"
        headers.pop("content-length", None)
    return ResponseHead(head.status, (*headers.items(), *orders.header))


def compress(outputs: Outputs) -> Outputs:
    """Compress the body, each piece to its end, so that nothing waits for the next."""
    packer = zlib.compressobj(wbits=GZIP)
    for output in outputs:
        if isinstance(output, bytes):
            yield packer.compress(output) + packer.flush(zlib.Z_SYNC_FLUSH)
            continue
        yield output
        if isinstance(output, Break):
            return
    yield packer.flush()


def cut(outputs: Outputs, left: int) -> Outputs:
    """Reset the connection after so many bytes of the body."""
    for output in outputs:
        if not isinstance(output, bytes):
            yield output
            continue
        yield output[:left]
        left -= len(output)
        if left <= 0:
            yield Break("reset")
            return


def split(outputs: Outputs, size: int) -> Outputs:
    """Give the bytes in pieces of one size, each with a chance to leave before the next."""
    rest = b""
    for output in outputs:
        if not isinstance(output, bytes):
            yield from (rest, output) if rest else (output,)
            rest = b""
            continue
        rest += output
        whole = len(rest) - len(rest) % size
        for at in range(0, whole, size):
            yield rest[at : at + size]
            yield 0.0
        rest = rest[whole:]
    if rest:
        yield rest


def join_bytes(outputs: Outputs) -> Outputs:
    """Join what comes without a wait, and give others a chance after each large piece."""
    batch: list[bytes] = []
    size = 0
    for output in outputs:
        if isinstance(output, bytes):
            batch.append(output)
            size += len(output)
            if size < BATCH:
                continue
            output = 0.0
        if size:
            yield b"".join(batch)
            batch.clear()
            size = 0
        yield output
    if size:
        yield b"".join(batch)
