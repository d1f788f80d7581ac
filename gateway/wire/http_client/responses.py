"""Which answers of an upstream are turns, and which are errors."""

from __future__ import annotations

from contextlib import suppress

import anyio

from gateway.errors import UpstreamAnswered, UpstreamBroke, UpstreamError
from gateway.wire.http_client.decode import decode_turn
from gateway.wire.http_client.upstream import Turn

ERROR_BYTES = 64 * 1024
ERROR_SECONDS = 2.0


async def accept(status: int, turn: Turn) -> Turn:
    """Return the turn of a 2xx answer, its bytes plain; raise an `UpstreamError` for any other."""
    try:
        if 200 <= status < 300:
            return decode_turn(turn)
        if 400 <= status < 600:
            raise UpstreamAnswered(status, turn.headers, await _error_body(turn))
        if 300 <= status < 400:
            raise UpstreamBroke("The upstream answered with a redirect, which is not followed.")
        raise UpstreamBroke("The upstream answered with a status that does not exist.")
    except BaseException:
        await turn.aclose()
        raise


async def _error_body(turn: Turn) -> bytes:
    """Read what there is to say about the error, within bounds: less of it is still an error."""
    body = bytearray()
    with anyio.move_on_after(ERROR_SECONDS), suppress(UpstreamError):
        async for piece in decode_turn(turn):
            body += piece
            if len(body) >= ERROR_BYTES:
                break
    return bytes(body[:ERROR_BYTES])
