"""Small steps the stories of these tests share."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gateway.errors import Headers
from gateway.upstream import Turn, Upstream

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
    """Open a turn and read it to its end."""
    return await read(await upstream.open(BODY, headers))


async def until(fact: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(5):
        while not fact():
            await anyio.sleep(0.001)
