"""Several workers on one port, and what the parent's and the workers' log lines say."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.client import Answer, Client
from tests.postgres.server import make_schema_name, shared_server
from tests.reload.words import SETTINGS, Tables, write_toml
from tests.run import SERVE, GatewayProcess, as_process, plain_failures, until

PATIENCE = 60
STARTED, ENDED = "worker_started", "worker_ended"


class WorkersProcess:
    """The parent of several workers, with a configuration file that tests change."""

    def __init__(self, process: GatewayProcess, file: Path) -> None:
        self.process = process
        self.port = process.port
        self._file = file

    def write(self, content: Tables | str) -> None:
        """Replace the file at once, as an editor does."""
        draft = self._file.with_suffix(".new")
        draft.write_text(content if isinstance(content, str) else write_toml(content))
        draft.replace(self._file)

    def lines(self, *events: str) -> list[dict[str, Any]]:
        """Return what was logged of these events."""
        whole = self.process.log.read_text().rpartition("\n")[0].splitlines()
        return [line for line in map(json.loads, whole) if line["event"] in events]

    async def wait_for_lines(self, count: int, *events: str) -> list[dict[str, Any]]:
        """Wait until so many lines of these events were logged."""
        await until(lambda: len(self.lines(*events)) >= count, PATIENCE)
        return self.lines(*events)

    @property
    def workers(self) -> dict[int, dict[str, Any]]:
        """What was logged last when each worker began to serve, by number."""
        return {line["number"]: line for line in self.lines(STARTED)}

    async def connect_to(self, number: int) -> Client:
        """Connect until the kernel gives the connection to this worker."""
        while True:
            client = await self.process.connect()
            await client.send(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            answer = await client.answer()
            if answer.headers["x-holdgate-instance"] == self.workers[number]["instance"]:
                return client
            client.leave()

    async def fetch_from(self, number: int, path: str) -> Answer:
        """Ask a worker at the address that is its own."""
        at = self.workers[number]["metrics"].removesuffix("/metrics")
        client = await Client.connected(int(at.rpartition(":")[2]))
        await client.send(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
        try:
            return await client.answer()
        finally:
            client.leave()

    async def kill_worker(self, number: int) -> None:
        """Kill a worker, and wait until another process has taken its place."""
        before = len(self.lines(STARTED))
        os.kill(self.workers[number]["pid"], signal.SIGKILL)
        await self.wait_for_lines(before + 1, STARTED)


@asynccontextmanager
async def serving_workers(
    home: Path, tables: Tables, count: int = 2
) -> AsyncIterator[WorkersProcess]:
    """Run workers that share a store, and leave nothing of them behind."""
    with plain_failures():
        file = home / "holdgate.toml"
        file.write_text(write_toml(tables))
        store = {
            "HOLDGATE_STORE__URL": shared_server().url,
            "HOLDGATE_STORE__SCHEMA": make_schema_name(),
        }
        settings, command = {**SETTINGS, **store}, (*SERVE, "--workers", str(count))
        async with as_process(home, settings, command=command, grace=PATIENCE) as process:
            workers = WorkersProcess(process, file)
            await workers.wait_for_lines(count, STARTED)
            yield workers
