"""Processes that are killed, and processes that share a file: each thing happens once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import anyio
import pytest

from gateway.stores import InUse, Rows
from gateway.stores.documents import LATEST

from .row_backends import (
    STEP,
    RowBackend,
    claim_one,
    cut,
    due,
    job,
    same,
)
from .row_child import KEYS, TIMES

PROJECT = Path(__file__).parents[2]
PROCESSES = 3


def started(backend: RowBackend, task: str) -> subprocess.Popen[str]:
    place = backend.root.parent
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stores.row_child", backend.name, str(place), task],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def begin(*children: subprocess.Popen[str]) -> None:
    """Wait until all have their store open, then let them begin."""
    for child in children:
        assert child.stdout
        assert child.stdout.readline().startswith("open")
    for child in children:
        assert child.stdin
        child.stdin.write("\n")
        child.stdin.flush()


def heard(child: subprocess.Popen[str]) -> list[list[str]]:
    """Return all that a process says until its end; a last line that was cut was not heard."""
    with child:
        assert child.stdout
        return [line.split() for line in child.stdout if line.endswith("\n")]


def together(backend: RowBackend, task: str) -> list[list[str]]:
    """Have several processes do the same at once; return all that they said."""
    children = [started(backend, task) for _ in range(PROCESSES)]
    begin(*children)
    said = [heard(child) for child in children]
    assert all(lines[-1] == ["end"] for lines in said)
    return [line for lines in said for line in lines]


def killed(backend: RowBackend, lines: int, task: str = "work-for-ever") -> list[list[str]]:
    child = started(backend, task)
    begin(child)
    assert child.stdout
    said = [child.stdout.readline().split() for _ in range(lines)]
    child.kill()
    return said + heard(child)


async def found_whole(rows: Rows, said: list[list[str]]) -> None:
    """See that what was acknowledged is there, and that a run has ended if it has delivered."""
    known = {one.job_id for one in await rows.jobs.listing(None)}
    waiting = {item.run_id for item in await rows.deliveries.pending("ann", "s")}
    runs = {run.run_id: run for job_id in known for run in await rows.jobs.runs(job_id, 9)}
    assert {name for word, name in said if word == "added"} <= known
    assert {name for word, name in said if word == "claimed"} <= set(runs)
    assert {name for word, name in said if word == "ended"} <= waiting
    assert {run_id for run_id, run in runs.items() if run.status == "ok"} == waiting


@pytest.mark.parametrize("name", ["embedded", "sqlite"])
async def test_what_was_acknowledged_survives_a_kill_at_any_moment(
    tmp_path: Path, name: str
) -> None:
    backend = RowBackend(name, tmp_path)
    random = Random(name)
    said: list[list[str]] = []
    for _ in range(2):
        said += await anyio.to_thread.run_sync(killed, backend, random.randint(1, 40))
        async with backend.opened() as rows:
            await found_whole(rows, said)
            cut_off = await rows.jobs.end_lapsed(LATEST, cut)
            assert len(cut_off) <= 1
    assert len(said) > 2
    assert backend.quarantined == []


async def test_a_second_process_is_refused(tmp_path: Path) -> None:
    backend = RowBackend("embedded", tmp_path)
    child = started(backend, "work-for-ever")
    begin(child)
    with pytest.raises(InUse):
        async with backend.opened():
            pass
    child.kill()
    heard(child)


async def test_processes_that_claim_at_once_never_claim_the_same(tmp_path: Path) -> None:
    backend = RowBackend("shared", tmp_path)
    jobs = [job(str(number)) for number in range(10)]
    async with backend.opened() as rows:
        for one in jobs:
            await rows.jobs.add(one, same, 99)
    said = await anyio.to_thread.run_sync(together, backend, "claim")
    claimed = Counter(line[1] for line in said if line[0] == "claimed")
    times = range(STEP, TIMES * STEP + 1, STEP)
    assert claimed == {f"{one.job_id}-{time}": 1 for one in jobs for time in times}
    async with backend.opened() as rows:
        assert await claim_one(rows.jobs, TIMES * STEP, "me", 1, due) is None
        items = await rows.deliveries.pending("ann", "s")
        assert {item.run_id for item in items} == set(claimed)


async def test_processes_that_add_at_once_make_one_job_of_a_key(tmp_path: Path) -> None:
    backend = RowBackend("shared", tmp_path)
    said = await anyio.to_thread.run_sync(together, backend, "add")
    assert Counter(line[0] for line in said) == {
        "added": KEYS,
        "known": KEYS * (PROCESSES - 1),
        "end": PROCESSES,
    }
    async with backend.opened() as rows:
        kept = await rows.jobs.listing(None)
    assert {one.dedupe_key for one in kept} == {f"key-{number}" for number in range(KEYS)}
    assert {one.job_id for one in kept} == {line[1] for line in said if line[0] == "added"}


async def test_a_lock_is_one_among_all_who_share(tmp_path: Path) -> None:
    backend = RowBackend("shared", tmp_path)
    async with backend.opened() as here, backend.opened() as there:
        assert await here.locks.take("ann", "s", "here", "chat", 100) is None
        assert await there.locks.take("ann", "s", "there", "job", 100) == "chat"
        assert not await there.locks.release("ann", "s", "there")
        # Whoever dies without a word has it until the lease ends.
        backend.lease_ms = 100
        assert await there.locks.take("ann", "s", "there", "job", 100) is None
        assert not await here.locks.extend("ann", "s", "here", 100)


async def test_what_one_keeps_the_other_finds(tmp_path: Path) -> None:
    backend = RowBackend("shared", tmp_path)
    async with backend.opened() as here, backend.opened() as there:
        await here.jobs.add(job(), same, 9)
        claimed = await claim_one(there.jobs, STEP, "there", 50, due)
        assert claimed is not None
        assert await claim_one(here.jobs, 9 * STEP, "here", 50, due) is None
        assert not await here.jobs.extend(claimed.runs[0].run_id, "here", 100)
        assert [run.status for run in await here.jobs.end_lapsed(51, cut)] == ["interrupted"]
        assert not await there.jobs.extend(claimed.runs[0].run_id, "there", 100)
