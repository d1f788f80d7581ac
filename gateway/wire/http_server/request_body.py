"""The body of a request, read and unpacked within limits."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from zstandard import ZstdDecompressor, ZstdError, frame_content_size

from gateway.errors import BadRequest, BodyTooLarge, HoldgateError, UnsupportedEncoding
from gateway.offload import Offload
from gateway.wire.http_server.request_cycle import JSON, REFUSAL
from gateway.wire.http_server.response import Receive

# What unpacking may take in memory; the library's usual levels stay below.
LARGEST_WINDOW = 32 * 1024 * 1024
PLAIN = (b"", b"identity")


class ClientLeft(Exception):
    """The client left before its request was whole; there is nobody to tell."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be, unpacked too, and how deeply its JSON may be nested."""

    size: int
    depth: int


async def read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """Read a JSON body of at most `limit` bytes, unpacked at once: for limits that are small."""
    body = await receive_body(headers, receive, limit)
    return unpack(body, encoding_of(headers), limit)


async def receive_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """Read a JSON body of at most `limit` bytes, as it was sent.

    Raises `ClientLeft`, or the error that the client was told when it was given up.
    """
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != JSON and not kind.endswith(b"+json"):
        raise UnsupportedEncoding("Send the body as JSON, with `content-type: application/json`.")
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return bytes(body)
    refusal: HoldgateError | None = message.get(REFUSAL)
    raise refusal or ClientLeft


@dataclass(frozen=True, slots=True)
class BodyUnpacker:
    """How bodies are unpacked: within a limit, and beside the loop unless they turn out small."""

    limit: int
    offload: Offload

    async def unpack(self, headers: Mapping[bytes, bytes], body: bytes, owner: str) -> bytes:
        """Return a body as the client meant it."""
        encoding = encoding_of(headers)
        if encoding in PLAIN:
            return _within(body, self.limit)
        small = min(self.offload.above, self.limit)
        if len(body) <= small:
            try:
                return unpack(body, encoding, small)
            except BodyTooLarge:
                if small == self.limit:
                    raise
        work = partial(unpack, body, encoding, self.limit)
        return await self.offload.send(owner, len(body), work)


def encoding_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return how a body is packed."""
    return headers.get(b"content-encoding", b"").strip().lower()


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


def unpack(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Unpack a body of this encoding, or refuse it when it becomes larger than the limit."""
    if encoding in PLAIN:
        return _within(body, limit)
    if encoding == b"zstd":
        return _from_zstd(body, limit)
    if encoding != b"gzip":
        raise UnsupportedEncoding("The body's content-encoding must be gzip, zstd or identity.")
    return _from_gzip(body, limit)


def _from_zstd(body: bytes, limit: int) -> bytes:
    try:
        if frame_content_size(body) > limit:
            raise _too_large(limit)
        unpack = ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        reader = unpack.stream_reader(body, read_across_frames=True)
        return _within(reader.read(limit + 1), limit)
    except ZstdError:
        raise BadRequest("The body is not valid zstd, or its window is too large.") from None


def _from_gzip(body: bytes, limit: int) -> bytes:
    unzip = zlib.decompressobj(wbits=31)
    try:
        plain = unzip.decompress(body, limit + 1)
    except zlib.error:
        raise BadRequest("The body is not valid gzip.") from None
    if len(plain) > limit:
        raise _too_large(limit)
    if not unzip.eof or unzip.unused_data:
        raise BadRequest("The body's gzip data is cut short, or something follows it.")
    return plain


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {limit} bytes (limits.body_bytes).")
