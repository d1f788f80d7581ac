"""A gateway that is killed: what it used in its last five seconds may be missing, nothing else."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from random import Random

import anyio

from gateway.usage.model import UsageCounts
from tests.run import as_process
from tests.wire.fake import fake_upstream

from .ledger import (
    OWNERS,
    TONGUES,
    LedgerKey,
    LedgerUpstream,
    asking,
    fetch,
    read_stored,
    settings,
    show_ledger,
)

LOST_SECONDS = 5
# The 5 s begin when the gateway counts a turn. Only the upstream's ledger is seen from here: it is
# written before the gateway hears of the turn, which takes its time on a machine that is busy.
TOLERANCE_SECONDS = 1.0
KILLED_AFTER = (8.5, 2.0)
"""When it is killed, in seconds: shortly before it stores something again, and before it ever did."""

Ledger = Mapping[LedgerKey, UsageCounts]
ANN: LedgerKey = ("ann", "ann.chat", "chat")


async def use(port: int, random: Random) -> None:
    """Ask again and again, until nobody answers."""
    while True:
        owner, dialect, model = random.choice(OWNERS), *random.choices([*TONGUES], k=2)
        stream = random.random() < 0.7
        try:
            await fetch(port, asking(owner, model, dialect, "say", stream=stream))
        except (OSError, AssertionError):
            return
        await anyio.sleep(0.02)


def subtract(more: Ledger, less: Ledger) -> Ledger:
    """Take one ledger from another."""
    names = UsageCounts.__struct_fields__[:-1]
    return {
        where: UsageCounts(
            **{name: getattr(counts, name) - getattr(less.get(where), name, 0) for name in names}
        )
        for where, counts in more.items()
    }


def is_within(less: Ledger, more: Ledger) -> bool:
    """Tell whether nothing of a ledger is more than in another."""
    left = subtract({**dict.fromkeys(less, UsageCounts()), **more}, less)
    names = UsageCounts.__struct_fields__[:-1]
    return all(getattr(counts, name) >= 0 for counts in left.values() for name in names)


def count_turns(ledger: Ledger) -> int:
    return sum(counts.turns for counts in ledger.values())


async def test_a_kill_loses_the_last_seconds_and_doubles_nothing(tmp_path: Path) -> None:
    random = Random("killed")
    ledger = LedgerUpstream(random)
    kept: Ledger = {}
    async with fake_upstream(ledger.story) as upstream:
        for seconds in KILLED_AFTER:
            before = ledger.sum_up()
            async with as_process(tmp_path, settings(upstream.port)) as gate:
                # What was stored before is there, and nothing of it twice.
                assert await show_ledger(gate.port) == kept
                async with anyio.create_task_group() as tasks:
                    for _ in range(6):
                        tasks.start_soon(use, gate.port, random)
                    await anyio.sleep(seconds)
                    killed_at = time.monotonic()
                    await gate.kill()
            stored = subtract(read_stored(tmp_path), kept)
            sure = subtract(ledger.sum_up(killed_at - LOST_SECONDS - TOLERANCE_SECONDS), before)
            assert (count_turns(sure) > 0) is (seconds > LOST_SECONDS + TOLERANCE_SECONDS)
            assert is_within(sure, stored)
            assert is_within(stored, subtract(ledger.sum_up(), before))
            kept = read_stored(tmp_path)
        before = ledger.sum_up()
        async with as_process(tmp_path, settings(upstream.port)) as gate:
            for dialect in TONGUES:
                await fetch(gate.port, asking("ann", "chat", dialect, "say", stream=True))
            assert await gate.terminate() == 0
    assert subtract(read_stored(tmp_path), kept)[ANN] == subtract(ledger.sum_up(), before)[ANN]
