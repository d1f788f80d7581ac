"""A gateway whose log nobody reads: it answers, and says later how many lines are missing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.clock.holding import acting, says
from tests.clock.reminding import fetch, variables
from tests.gateway.wire import DONE, ask_of, chat, get
from tests.jobs.words import seen
from tests.run import GatewayProcess, as_process
from tests.wire.fake import fake_upstream

ANSWERS, AT_ONCE = 100, 10
# Each answer writes many lines: more of them than the gateway keeps for a reader who may come.
ASKED = chat('<**stopMessage:"Go on.",7**> hi')
TURNS = tuple(says(f"Part {number}.") for number in range(8))
FILLER = b"#" * 1024 + b"\n"
SETTINGS = {"server__log_format": "json", "server__log_level": "debug"}


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[int]:
    """A pipe in the place of the log, which is full already; what reads it."""
    os.mkfifo(tmp_path / "log")
    # Open at both ends, so that nobody waits for the other.
    descriptor = os.open(tmp_path / "log", os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(descriptor, FILLER)
    except BlockingIOError:
        pass
    yield descriptor
    os.close(descriptor)


class LogReader:
    """Reads the log at last."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read = b""

    async def read(self) -> list[dict[str, Any]]:
        """Read all that is there now; return all lines that were read until now."""
        try:
            while data := os.read(self._descriptor, 1024 * 1024):
                self._read += data
        except BlockingIOError:
            pass
        whole = self._read[: self._read.rfind(b"\n") + 1].splitlines()
        return [json.loads(line) for line in whole if not line.startswith(b"#")]


async def ask_often(gate: GatewayProcess) -> None:
    """Ask for many answers, and read each to its end."""

    async def ask() -> None:
        for _ in range(ANSWERS // AT_ONCE):
            answer = await fetch(gate.port, ask_of(ASKED))
            assert (answer.status, answer.ending) == (200, "whole")
            assert bytes(answer.body).endswith(DONE)

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(ask)


async def test_a_full_pipe_does_not_stop_it(pipe: int, tmp_path: Path) -> None:
    async with fake_upstream(acting(*TURNS)) as fake:
        async with as_process(tmp_path, variables(fake.port, **SETTINGS)) as gate:
            await ask_often(gate)
            page = bytes((await fetch(gate.port, get("/metrics"))).body).decode()
            (told,) = [one for one in page.splitlines() if one.startswith("holdgate_log_lines_")]
            assert float(told.split()[-1]) > 0
            log = LogReader(pipe)

            def find_dropped(lines: list[dict[str, Any]]) -> list[int]:
                return [one["lines"] for one in lines if one["event"] == "log_lines_dropped"]

            lines = await seen(log.read, lambda found: bool(find_dropped(found)))
            assert sum(find_dropped(lines)) >= float(told.split()[-1])
            # From then on it goes on as ever.
            await fetch(gate.port, ask_of(chat(), "x-request-id: after-all"))

            def is_told(found: list[dict[str, Any]]) -> bool:
                named = [one for one in found if one.get("request") == "after-all"]
                return any(one["event"] == "exchange" for one in named)

            await seen(log.read, is_told)
