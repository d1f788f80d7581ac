"""Gateways as processes of their own, and what they say of their exchanges."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.run import LISTENING, as_process, end_process

ADDRESS = re.compile(rf"{LISTENING}(http://\S+)")
WAIT = 10.0
STARTING = 60.0
# A test that failed must not keep the gateway from leaving.
SETTINGS = {
    "HOLDGATE_SERVER__LOG_FORMAT": "json",
    "HOLDGATE_SERVER__DRAIN_MS": "1000",
    "HOLDGATE_CLOCK__ENABLED": "false",
}

Exchanges = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that listens."""

    url: str
    log: Path
    pid: int

    def exchanges(self, **fields: object) -> Exchanges:
        """Return what the log says of the exchanges that ended, those with these fields."""
        *lines, _unfinished = self.log.read_bytes().split(b"\n")
        notes = [msgspec.json.decode(line) for line in lines if line.startswith(b"{")]
        ended = [note for note in notes if note["event"] == "exchange"]
        return [note for note in ended if fields.items() <= note.items()]

    def until(self, fact: Callable[[], bool]) -> None:
        """Wait for something that the log will tell."""
        wait(fact, self.log)


def wait(fact: Callable[[], bool], log: Path, limit: float = WAIT) -> None:
    """Wait for something that a process will write there."""
    deadline = time.monotonic() + limit
    while not fact():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)


@contextmanager
def running(
    module: str, *arguments: str, home: Path, settings: Mapping[str, str]
) -> Iterator[Running]:
    """Run a module that serves, as `tests.run` does, and let it finish what it does in the end."""
    command = (module, *arguments)
    with as_process(home, {**SETTINGS, **settings}, command=command, grace=WAIT) as gate:
        yield Running(gate.url, gate.log, gate.pid)


@contextmanager
def running_program(
    arguments: Sequence[str], environment: Mapping[str, str], directory: Path
) -> Iterator[str]:
    """Run a program that serves, and give the address that it prints."""
    log = directory / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            arguments, cwd=directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            wait(lambda: ADDRESS.search(log.read_text()) is not None, log, STARTING)
            found = ADDRESS.search(log.read_text())
            assert found is not None
            yield found[1]
        finally:
            end_process(process, WAIT)
