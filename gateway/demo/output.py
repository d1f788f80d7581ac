"""What goes over the wire, and when.

Output is bytes to write, seconds to wait, the head of an answer, or a break. A wire format changes
the output of any answer, whatever it says.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from gateway.demo.script import Break, WireFormat

Headers = tuple[tuple[str, str], ...]
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


def apply_format(outputs: Outputs, wire_format: WireFormat) -> Outputs:
    """Change output as a wire format wants it; most answers are left alone."""
    if wire_format == PLAIN:
        return outputs
    changes = (change_text, compress, cut, split)
    return reduce(lambda outputs, change: change(outputs, wire_format), changes, outputs)


PLAIN = WireFormat()


def change_text(outputs: Outputs, wire_format: WireFormat) -> Outputs:
    """Change headers and line ends, and put a byte order mark first.

    Within a frame's JSON there are no line ends.
    """
    for output in outputs:
        if isinstance(output, ResponseHead):
            yield change_head(output, wire_format)
            if wire_format.bom:
                yield BOM
        elif isinstance(output, bytes):
            yield output.replace(b"\n", wire_format.newline)
        else:
            yield output


def change_head(head: ResponseHead, wire_format: WireFormat) -> ResponseHead:
    """Return a head with other headers; of a compressed body the length is not known before."""
    headers = dict(head.headers)
    if wire_format.content_type is not None:
        headers["content-type"] = wire_format.content_type
    if wire_format.gzip:
        headers["content-encoding"] = "gzip"
        headers.pop("content-length", None)
    return ResponseHead(head.status, (*headers.items(), *wire_format.headers))


def compress(outputs: Outputs, wire_format: WireFormat) -> Outputs:
    """Compress the body, each piece to its end, so that nothing waits for the next."""
    if not wire_format.gzip:
        yield from outputs
        return
    packer = zlib.compressobj(wbits=GZIP)
    for output in outputs:
        if isinstance(output, bytes):
            yield packer.compress(output) + packer.flush(zlib.Z_SYNC_FLUSH)
            continue
        yield output
        if isinstance(output, Break):
            return
    yield packer.flush()


def cut(outputs: Outputs, wire_format: WireFormat) -> Outputs:
    """Reset the connection after so many bytes of the body."""
    left = wire_format.reset_at
    for output in outputs:
        if left is None or not isinstance(output, bytes):
            yield output
            continue
        yield output[:left]
        left -= len(output)
        if left <= 0:
            yield Break("reset")
            return


def split(outputs: Outputs, wire_format: WireFormat) -> Outputs:
    """Give the bytes in pieces of one size, each with a chance to leave before the next."""
    rest = b""
    for output in outputs:
        if not wire_format.split or not isinstance(output, bytes):
            yield from (rest, output) if rest else (output,)
            rest = b""
            continue
        rest += output
        whole = len(rest) - len(rest) % wire_format.split
        for at in range(0, whole, wire_format.split):
            yield rest[at : at + wire_format.split]
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
