"""What a request leaves behind: nothing that only the collector of cycles could find."""

from __future__ import annotations

import gc
from collections import Counter

from tests.pairs.gate import Gate, both_ways, each_tongue, gate, telling
from tests.pairs.neutral import Answer, Ask, Tongue

TIMES = 12
# A connection and its parser know each other; here each request has its own.
OF_CONNECTIONS = {"LimitedConnection", "Cycle"}


def lost_objects() -> Counter[str]:
    """Count, by type, what of the gateway's own is in cycles that nobody reaches any more."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return Counter(
            kind.__qualname__
            for kind in map(type, gc.garbage)
            if kind.__module__.startswith("gateway.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


async def ask_again(running: Gate, tongue: Tongue, stream: bool) -> None:
    answer = await running.ask(tongue, Ask(), stream)
    assert answer.status == 200


@both_ways
@each_tongue
async def test_nothing_waits_for_the_collector(tongue: Tongue, stream: bool) -> None:
    async with gate((tongue, telling(tongue, Answer("hello"), stream))) as running:
        await ask_again(running, tongue, stream)
        gc.collect()
        gc.disable()
        try:
            for _ in range(TIMES):
                await ask_again(running, tongue, stream)
            await running.running.quiet()
            found = lost_objects()
        finally:
            gc.enable()
    assert not {name for name, count in found.items() if count >= TIMES} - OF_CONNECTIONS
