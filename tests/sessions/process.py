"""The gateway as a process that can be killed at any moment."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

ROOT = Path(__file__).parents[2]
LISTENING = b"listening on "


class Gate:
    """A gateway in a process of its own."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self.port = port

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    async def gone(self) -> None:
        """Wait until it is gone, by whatever hand."""
        await self._process.wait()

    async def kill(self) -> None:
        """End it without a word, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def terminate(self) -> int:
        """Ask it to leave, and wait until it has; return its status."""
        self._process.terminate()
        return await self._process.wait()


@asynccontextmanager
async def process(home: Path, settings: Mapping[str, str]) -> AsyncIterator[Gate]:
    """Start a gateway that keeps its sessions in files below its home; kill it in the end."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "HOLDGATE_SERVER__SESSION_DIR": str(home / "sessions"),
        "HOLDGATE_SERVER__LOG_FORMAT": "json",
        "HOLDGATE_CLOCK__ENABLED": "false",
        **settings,
    }
    with home.joinpath("log").open("ab") as log:
        started = await anyio.open_process(
            (sys.executable, "-m", "gateway", "serve", "--port", "0"),
            cwd=home,
            env=environment,
            stderr=log,
        )
    gate = Gate(started, 0)
    try:
        assert started.stdout is not None
        line = await BufferedByteReceiveStream(started.stdout).receive_until(b"\n", 1000)
        assert line.startswith(LISTENING), home.joinpath("log").read_text()
        gate.port = int(line.rpartition(b":")[2])
        yield gate
    finally:
        with anyio.CancelScope(shield=True):
            await gate.kill()
            await started.aclose()
