"""Which answers of an upstream are turns, and which are errors.

An answer may come compressed though nobody asked for that: it is decoded in bounded pieces.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from operator import itemgetter

import anyio
from anyio.lowlevel import checkpoint

from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.wire.http_client.upstream import Turn, WrappedTurn

ERROR_BYTES = 64 * 1024
ERROR_SECONDS = 2.0
PIECE = 128 * 1024

_GZIP = 16 + zlib.MAX_WBITS
_CODINGS = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": None}
# They describe the coded bytes.
ENCODING = b"content-encoding"
_take_name = itemgetter(0)
_CODED_HEADERS = frozenset({ENCODING, b"content-length"})


async def accept(status: int, turn: Turn) -> Turn:
    """Return the turn of a 2xx answer, its bytes plain; raise an `UpstreamError` for any other."""
    try:
        if 200 <= status < 300:
            return decode_turn(turn)
        if 400 <= status < 600:
            raise UpstreamAnswered(status, turn.headers, await _error_body(turn))
        if 300 <= status < 400:
            raise UpstreamBroke("Redirects are not followed: check the upstream's base_url.")
        raise UpstreamBroke("The upstream answered with an HTTP status that is not valid.")
    except BaseException:
        await turn.aclose()
        raise


def is_plain(status: int, turn: Turn) -> bool:
    """Whether an answer is a turn whose bytes are not compressed."""
    return 200 <= status < 300 and ENCODING not in map(_take_name, turn.headers)


async def _error_body(turn: Turn) -> bytes:
    """Read what there is to say about the error, within bounds: less of it is still an error."""
    body = bytearray()
    with anyio.move_on_after(ERROR_SECONDS), suppress(UpstreamError):
        async for piece in decode_turn(turn):
            body += piece
            if len(body) >= ERROR_BYTES:
                break
    return bytes(body[:ERROR_BYTES])


def decode_turn(turn: Turn) -> Turn:
    """Return a turn whose bytes are not compressed, or raise `UpstreamBroke`."""
    found = [value for name, value in turn.headers if name == ENCODING]
    coding = b",".join(found).strip().lower() if found else b""
    if coding in (b"", b"identity"):
        return turn
    if coding not in _CODINGS:
        raise UpstreamBroke("The upstream's answer has an unknown content-encoding.")
    return DecodedTurn(turn, Inflater(_CODINGS[coding]))


class Inflater:
    """Inflates step by step: what a bomb would become is never in memory at once."""

    __slots__ = ("_inflate", "_input", "_wbits")

    def __init__(self, wbits: int | None) -> None:
        self._wbits = wbits
        self._inflate: zlib._Decompress | None = None
        self._input = b""

    def feed(self, data: bytes) -> None:
        """Add compressed bytes."""
        self._input += data

    def step(self) -> bytes:
        """Return at most one piece; nothing if it takes more input to go on."""
        while inflate := self._inflate or self._start():
            piece = self._advance(inflate)
            if piece or not inflate.eof:
                return piece
        return b""

    def end(self) -> None:
        """Say that there is no more input; in the middle of something that is an error."""
        if self._inflate is not None or self._input:
            raise UpstreamBroke("The upstream's compressed answer ended too early.")

    def _advance(self, inflate: zlib._Decompress) -> bytes:
        try:
            piece = inflate.decompress(self._input, PIECE)
        except zlib.error:
            raise UpstreamBroke("The upstream's compressed answer can not be decoded.") from None
        if inflate.eof:
            # Another member may follow, as in concatenated gzip files.
            self._input, self._inflate = inflate.unused_data, None
        else:
            self._input = inflate.unconsumed_tail
        return piece

    def _start(self) -> zlib._Decompress | None:
        """Begin a member; `deflate` is in the wild both with and without a zlib header."""
        if len(self._input) < 2:
            return None
        if self._wbits is None:
            first, second = self._input[:2]
            wrapped = first & 0x0F == 8 and (first << 8 | second) % 31 == 0
            self._wbits = zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
        self._inflate = zlib.decompressobj(self._wbits)
        return self._inflate


class DecodedTurn(WrappedTurn):
    """A turn read through an inflater."""

    __slots__ = ("_inflater", "over")

    def __init__(self, turn: Turn, inflater: Inflater) -> None:
        super().__init__(turn)
        self.headers = tuple([pair for pair in turn.headers if pair[0] not in _CODED_HEADERS])
        self._inflater = inflater
        self.over = False

    async def __anext__(self) -> bytes:
        # One read may hold hundreds of pieces: others get their turn between them.
        await checkpoint()
        try:
            while not (piece := self._inflater.step()):
                self._inflater.feed(await anext(self.turn))
        except StopAsyncIteration:
            self._inflater.end()
            self.over = True
            raise
        except UpstreamBroke:
            await self.turn.aclose()
            raise
        return piece
