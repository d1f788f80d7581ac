"""Small steps the stories of these tests share."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gateway.errors import Headers
from gateway.wire.http_client.upstream import Turn, Upstream

BODY = b'{"model": "m"}'


async def read(turn: Turn) -> bytes:
    """Read a turn to its end."""
    return b"".join([piece async for piece in turn])


async def read_until(turn: Turn, end: bytes) -> bytes:
    """Read a turn until these bytes were seen."""
    seen = b""
    while end not in seen:
        seen += await anext(turn)
    return seen


async def ask(upstream: Upstream, headers: Headers = ()) -> bytes:
    """Open a turn, read it to its end and close it in any case."""
    turn = await upstream.open(BODY, headers)
    try:
        return await read(turn)
    finally:
        await turn.aclose()


async def until(fact: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(5):
        while not fact():  # noqa: ASYNC110 - facts of the peer have no event of their own
            await anyio.sleep(0.001)
