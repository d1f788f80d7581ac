"""A process that claims and ends runs on a PostgreSQL, and says on its standard output what it did.

`python -m tests.postgres.row_child URL SCHEMA`: claims whatever is due, until nothing is; it says
`claimed` with the id of each run before it ends it.
"""

from __future__ import annotations

import os
import sys
from random import Random

import anyio

from gateway.stores.delivery_rows import SessionEvent
from tests.stores.row_backends import STEP, due, ended, idle, tells

from .rows import OpenedRows, PostgresRowBackend

TIMES = 4


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def work(rows: OpenedRows) -> None:
    random = Random(os.getpid())
    while claims := await rows.jobs.claim(TIMES * STEP, "", 0, due, random.randint(1, 5)):
        runs = [run for claimed in claims for run in claimed.runs]
        for run in runs:
            say("claimed", run.run_id)
        for run in runs:
            told = SessionEvent(run.user_id, "s", "run.finished", run.run_id, 1, b"{}")
            if await rows.jobs.finish(ended(run), idle, 99, tells(events=(told,))) is not None:
                say("ended", run.run_id)


async def main(url: str, schema: str) -> None:
    backend = PostgresRowBackend(url=url, schema=schema)
    async with backend.opened() as rows, anyio.create_task_group() as tasks:
        say("open", rows.instance.id)
        sys.stdin.readline()
        for _ in range(3):
            tasks.start_soon(work, rows)
    say("end")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
