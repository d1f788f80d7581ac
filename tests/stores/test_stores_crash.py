"""Processes killed at any instant: what was acknowledged is there, and nothing is torn."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from gateway.stores import InUse, fetch, open_documents

from .conftest import Backend
from .shapes import CLOCK, SHAPES, clock

PROJECT = Path(__file__).parents[2]
SESSIONS = 6
WORDS = ("plus", "plus", "clear")
COUNTS = (0, 1, 2, 0)


def command(backend: Backend, sessions: int, *words: str) -> list[str]:
    python = [sys.executable, "-m", "tests.stores.child"]
    return [*python, backend.url, str(backend.root), str(sessions), *words]


def started(backend: Backend, sessions: int, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(backend, sessions, *words), cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )


def killed_after(child: subprocess.Popen[str], lines: int) -> list[str]:
    """Kill a process when it has said so much; return all it said, to the last word."""
    assert child.stdout
    said = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    with child:
        said += child.stdout.readlines()
    # The last line may be cut, and then was not heard.
    return [line for line in said if line.endswith("\n")]


async def test_what_was_acknowledged_survives_a_kill_at_any_moment(durable: Backend) -> None:
    random = Random(durable.name)
    acknowledged: Counter[str] = Counter()
    for _ in range(3):
        lines = killed_after(started(durable, SESSIONS, "for-ever"), random.randint(2, 60))
        for session, said in (line.split() for line in lines if line.startswith("s")):
            acknowledged[session] = int(said)
        async with durable.opened() as store:
            for number in range(SESSIONS):
                count = (await fetch(store, clock(f"s{number}"), CLOCK)).count
                assert count - acknowledged[f"s{number}"] in (0, 1)
                acknowledged[f"s{number}"] = count
    assert durable.quarantined == []
    assert sum(acknowledged.values()) > 6


async def test_a_second_process_is_refused_until_the_first_is_killed(durable: Backend) -> None:
    child = started(durable, 1, "for-ever")
    assert child.stdout
    pid = child.stdout.readline().split()[1]
    with pytest.raises(InUse, match=rf"is used by another Holdgate \(process {pid}\)"):
        await open_documents(durable.url, durable.root, SHAPES)
    killed_after(child, 1)
    async with durable.opened() as store:
        assert (await fetch(store, clock("s0"), CLOCK)).count >= 1


class Traced(NamedTuple):
    """What a process said while its system calls were tampered with, and how it ended."""

    said: list[str]
    killed: bool


def traced(backend: Backend, injection: str, *words: str) -> Traced:
    """Run the child under strace, with one system call of its writing thread tampered with."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.fail("This test needs strace, which is not installed.", pytrace=False)
    calls = re.match(r"\w+", injection)
    assert calls
    tracing = [
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        f"trace={calls[0]}",
        "-e",
        f"inject={injection}",
    ]
    done = subprocess.run(
        [strace, *tracing, *command(backend, 1, *words)],
        cwd=PROJECT,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    lines = done.stdout.splitlines()
    if "open" not in done.stdout:
        pytest.fail(f"This test needs to trace processes: {done.stderr}", pytrace=False)
    return Traced([line for line in lines if not line.startswith("open")], "end" not in lines)


async def prepared(directory: Path) -> Backend:
    """Make the directories beforehand: what is left to do is the same in each run."""
    backend = Backend("files", directory)
    async with backend.opened():
        return backend


# The calls that change the disk, in the order in which WORDS need them, and how many there are.
CALLS = {"rename": 2, "fsync": 5, "unlink": 1}


async def test_a_kill_at_each_call_that_changes_the_disk(tmp_path: Path) -> None:
    points = [(call, when) for call, count in CALLS.items() for when in range(1, count + 2)]
    backends = [await prepared(tmp_path / f"{call}{when}") for call, when in points]
    runs: list[Callable[[], Traced]] = [
        partial(traced, backend, f"{call}:signal=SIGKILL:when={when}", *WORDS)
        for backend, (call, when) in zip(backends, points, strict=True)
    ]
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda run: run(), runs))
    for (call, when), backend, end in zip(points, backends, ends, strict=True):
        assert end.killed == (when <= CALLS[call]), (call, when, end)
        acknowledged = sum(line.startswith("s0") for line in end.said)
        async with backend.opened() as store:
            count = (await fetch(store, clock("s0"), CLOCK)).count
            assert count in COUNTS[acknowledged : acknowledged + 2], (call, when)
            await store.due("clock", 0, 1)
        assert backend.quarantined == []
        left = {path.name for path in backend.root.joinpath("clock").iterdir()}
        assert left <= {"s0.json"}, (call, when)


@pytest.mark.parametrize(
    ("call", "count"),
    [
        pytest.param(1, 1, id="of the file: the old content stays"),
        pytest.param(2, 2, id="of the directory: the new content is whole, but not promised"),
    ],
)
async def test_a_disk_that_fails_to_synchronise(tmp_path: Path, call: int, count: int) -> None:
    backend = await prepared(tmp_path)
    end = traced(backend, f"fsync:error=EIO:when={call}", "plus", "plus")
    reason = "the disk reports an input/output error"
    assert end.said == [
        f"failed The session's state is unavailable: {reason}.",
        f"s0 {count}",
        "end",
    ]
    async with backend.opened() as store:
        assert (await fetch(store, clock("s0"), CLOCK)).count == count
    assert [path.name for path in backend.root.joinpath("clock").iterdir()] == ["s0.json"]
