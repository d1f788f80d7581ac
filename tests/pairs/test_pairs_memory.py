"""What a request leaves behind: nothing that only the collector of cycles could find."""

from __future__ import annotations

from tests.garbage import garbage_kept
from tests.pairs.gate import Gate, both_ways, each_tongue, gate, telling
from tests.pairs.neutral import Answer, Ask, Tongue

TIMES = 12
# A connection and its parser know each other; here each request has its own.
OF_CONNECTIONS = {"LimitedConnection", "RequestCycle"}


async def ask_again(running: Gate, tongue: Tongue, stream: bool) -> None:
    answer = await running.ask(tongue, Ask(), stream)
    assert answer.status == 200


@both_ways
@each_tongue
async def test_nothing_waits_for_the_collector(tongue: Tongue, stream: bool) -> None:
    async with gate((tongue, telling(tongue, Answer("hello"), stream))) as running:
        await ask_again(running, tongue, stream)
        with garbage_kept() as garbage:
            for _ in range(TIMES):
                await ask_again(running, tongue, stream)
            await running.running.quiet()
            found = garbage()
    assert not {name for name, count in found.items() if count >= TIMES} - OF_CONNECTIONS
