"""From orders to what goes over the wire, and when, in the frames of a dialect.

Output is bytes to write, seconds to wait, the head of an answer, or a break. What is said becomes
output first; then the orders may change how the bytes look, whatever they say. Sockets are
somebody else's business.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, cycle, islice

from gateway.demo.dialect import (
    AnswerStamp,
    DialectModule,
    DialogueRequest,
    Fail,
    ReplyWriter,
)
from gateway.demo.journal import Headers
from gateway.demo.orders import FILLER, Break, Orders, pieces_of

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


def write_answer(
    orders: Orders, dialect: DialectModule, request: DialogueRequest, stamp: AnswerStamp
) -> Outputs:
    """Answer one request as ordered."""
    if orders.usage or orders.no_usage:
        request = replace(request, usage=not orders.no_usage)
    writer = dialect.open_answer(request, stamp)
    if isinstance(orders.refusal, Fail):
        outputs = refuse(orders.refusal, dialect)
    elif orders.refusal is not None:
        outputs = iter((orders.refusal,))
    elif request.stream:
        outputs = write_stream(orders, writer)
    else:
        outputs = write_document(orders, dialect, writer)
    opening = (orders.first_ms / 1000,) if orders.first_ms else ()
    return apply_format(chain(opening, outputs), orders)


def write_stream(orders: Orders, writer: ReplyWriter) -> Outputs:
    """Answer with a stream of frames."""
    yield ResponseHead(200, EVENTS)
    marks, passed = list(orders.marks), 0
    for frame, pieces in write_frames(orders, writer):
        yield frame
        if pieces and orders.delay_ms:
            yield orders.delay_ms / 1000
        passed += pieces
        while marks and marks[0].after <= passed:
            event = marks.pop(0).event
            yield writer.fail(event) if isinstance(event, Fail) else event
            if isinstance(event, Fail | Break):
                return


def write_frames(orders: Orders, writer: ReplyWriter) -> Iterator[tuple[bytes, int]]:
    """Write all that is said and called; with each frame goes how many pieces it holds."""
    yield writer.begin(speaks=bool(orders.spoken) or not orders.tool), 0
    for token in orders.spoken:
        yield writer.say(token), 1
    for call in orders.tool:
        yield writer.call(call.name), 0
        for piece in pieces_of(call.arguments):
            yield writer.argue(piece), 1
    if orders.endless:
        for token in cycle(FILLER):
            yield writer.say(token), 1
    ends = 0 if orders.no_done else 2 if orders.two_done else 1
    yield writer.finish(orders.reason, ends), 0
    for token in islice(cycle(FILLER), orders.after_done):
        yield writer.say(token), 1


def write_document(orders: Orders, dialect: DialectModule, writer: ReplyWriter) -> Outputs:
    """Answer a client that does not stream: the waits, then the whole answer."""
    body = writer.write_whole(orders.whole)
    for mark in orders.marks:
        if isinstance(mark.event, float):
            yield mark.event
        elif isinstance(mark.event, Fail):
            yield from refuse(mark.event, dialect)
            return
        elif isinstance(mark.event, Break):
            head, _ = send_document(200, body)
            yield from (head, body[: len(body) // 2], mark.event)
            return
    yield from (Break("hang"),) if orders.endless else send_document(200, body)


def refuse(fail: Fail, dialect: DialectModule) -> Outputs:
    """Answer with an error and its status."""
    again = () if fail.retry_after is None else (("retry-after", str(fail.retry_after)),)
    return send_document(fail.status, dialect.write_error(fail), again)


def send_document(status: int, body: bytes, headers: Headers = ()) -> Outputs:
    """Answer with one JSON document."""
    yield ResponseHead(status, (*JSON, ("content-length", str(len(body))), *headers))
    yield body


def apply_format(outputs: Outputs, orders: Orders) -> Outputs:
    """Change how the output looks, as ordered."""
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
