"""A process that keeps rows and says on its standard output what was acknowledged.

`python -m tests.stores.row_child BACKEND DIRECTORY TASK`: `work-for-ever` adds jobs, runs them and
delivers their results until the process is killed; `use-for-ever` adds batches of usage; `add` adds
jobs of twenty keys; `claim` claims and ends whatever is due, until nothing is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import anyio

from gateway.jobs.model import Run
from gateway.stores import Rows
from gateway.stores.delivery_rows import OutboxItem
from gateway.usage.model import RowKey, UsageBatch, UsageCounts

from .row_backends import (
    STEP,
    RowBackend,
    claim_one,
    due,
    ended,
    idle,
    job,
    same,
    tells,
)

PID = os.getpid()
KEYS = 20
TIMES = 4
USED: tuple[RowKey, ...] = tuple((owner, 0, "m", "a") for owner in ("ann", "bob", "cid"))


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def result(of: Run) -> OutboxItem:
    """Make what a run delivers."""
    return OutboxItem(f"run:{of.run_id}", of.user_id, "s", 1, "Done.", of.job_id, of.run_id)


async def work_for_ever(rows: Rows) -> None:
    for number in count():
        job_id = f"{PID}-{number}"
        await rows.jobs.add(job(job_id), same, sys.maxsize)
        say("added", job_id)
        claimed = await rows.jobs.claim_now(job_id, None, str(PID), 1, due)
        assert claimed is not None
        [run] = claimed.runs
        say("claimed", run.run_id)
        await rows.jobs.finish(ended(run), idle, 9, tells(result(run)))
        say("ended", run.run_id)


async def use_for_ever(rows: Rows) -> None:
    for number in count(1):
        used = dict.fromkeys(USED, UsageCounts(turns=1))
        assert await rows.usage.add(UsageBatch(str(PID), number, used))
        say("stored", PID, number)


async def add(rows: Rows) -> None:
    for number in range(KEYS):
        given = job(f"{PID}-{number}", dedupe_key=f"key-{number}")
        kept, was_known = await rows.jobs.add(given, same, sys.maxsize)
        say("known" if was_known else "added", kept.job_id)


async def claim(rows: Rows) -> None:
    while (claimed := await claim_one(rows.jobs, TIMES * STEP, str(PID), 1, due)) is not None:
        [run] = claimed.runs
        say("claimed", run.run_id)
        await rows.jobs.finish(ended(run), idle, 99, tells(result(run)))


TASKS: dict[str, Callable[[Rows], Awaitable[None]]] = {
    "work-for-ever": work_for_ever,
    "use-for-ever": use_for_ever,
    "add": add,
    "claim": claim,
}


async def main(name: str, directory: str, task: str) -> None:
    async with RowBackend(name, Path(directory)).opened() as rows:
        say("open", PID)
        sys.stdin.readline()
        await TASKS[task](rows)
    say("end")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
