"""The parent of workers that do not do what they should: small programs in their place."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from io import StringIO
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from gateway.app import workers
from gateway.app.reload import ConfigReloader
from gateway.app.workers import WorkerFailed, WorkerGroup, WorkerSockets
from gateway.config import Config, load
from gateway.errors import HoldgateError
from gateway.logs import EventLog
from gateway.wire.http_server.hangup import HangupSignal
from gateway.wire.http_server.server import listen
from tests.run import until

READY = 'print(\'{"instance":""}\', flush=True);'
IS_DEAF = READY + "signal.pause()"
FAILS = "sys.exit(3)"


def config_of(home: Path, **settings: object) -> Config:
    overrides = {"server.port": 0, **{name.replace("__", "."): to for name, to in settings.items()}}
    return load(None, {"HOME": str(home)}, overrides, home)


class RunningGroup:
    """Workers that are run in the test's own loop."""

    def __init__(self, config: Config, code: str, stack: ExitStack) -> None:
        self._log = StringIO()
        log = EventLog("json", self._log)
        command = (sys.executable, "-I", "-S", "-c", f"import sys, signal, os; {code}")
        self.sockets = WorkerSockets.open(config, 2, stack)
        self.group = WorkerGroup(config, self.sockets, command, log)
        self.group.reloader = ConfigReloader(None, self.group.use_config, log)
        self.heard: list[str] = []
        self.group.listening = lambda url, metrics: self.heard.append(url)

    def lines(self, event: str) -> list[dict[str, object]]:
        found = map(json.loads, self._log.getvalue().splitlines())
        return [line for line in found if line["event"] == event]

    async def run(self) -> None:
        await self.group.run(HangupSignal(has_terminal=False))


@asynccontextmanager
async def running(home: Path, code: str, **settings: object) -> AsyncIterator[RunningGroup]:
    with ExitStack() as stack:
        one = RunningGroup(config_of(home, **settings), code, stack)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.run)
            try:
                yield one
            finally:
                one.group.drain()


async def test_a_worker_that_can_not_start_ends_all(tmp_path: Path) -> None:
    with ExitStack() as stack:
        one = RunningGroup(config_of(tmp_path), FAILS, stack)
        with pytest.raises(WorkerFailed, match="ended before it served"):
            await one.run()
    assert one.heard == []


async def test_a_worker_that_always_dies_is_started_ever_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(workers, "FAREWELL_SECONDS", 0.1)
    mark = tmp_path / "second"
    # The first time all go well; later ones end as soon as they serve.
    code = f"{READY} p={str(mark)!r}; os.path.exists(p) and sys.exit(3); sys.stdin.read()"
    async with running(tmp_path, code, server__drain_ms=0) as one:
        await until(lambda: bool(one.heard), 60)
        await until(lambda: len(one.lines("worker_started")) == 2, 60)
        mark.touch()
        os.kill(int(str(one.lines("worker_started")[0]["pid"])), signal.SIGKILL)
        await until(lambda: len(one.lines("worker_ended")) == 4, 60)
        ended = one.lines("worker_ended")
        assert [line["restart_ms"] for line in ended] == [10, 20, 40, 80]
        assert ended[0]["signal"] == "SIGKILL"
        assert ended[1]["status"] == 3
        assert len(one.heard) == 1


async def test_a_worker_that_does_not_leave_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "FAREWELL_SECONDS", 0.1)
    async with running(tmp_path, IS_DEAF, server__drain_ms=0) as one:
        await until(lambda: bool(one.heard), 60)
    # Here all have ended.


async def test_a_worker_that_does_not_serve_yet_leaves_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, "signal.pause()") as one:
        await until(lambda: len(one.group.processes) == 2, 60)
    assert one.heard == []


async def test_a_port_in_use_is_not_shared(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0, shared=True) as other, ExitStack() as stack:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            WorkerSockets.open(config_of(tmp_path, server__port=port), 2, stack)
        with pytest.raises(HoldgateError, match=f"127.0.0.1:{port} for the metrics of worker 1"):
            WorkerSockets.open(config_of(tmp_path, metrics__port=port), 2, stack)


async def test_each_worker_has_the_next_port_for_its_metrics(tmp_path: Path) -> None:
    with ExitStack() as stack:
        # Of a port that was free a moment ago, the next one may be in use.
        for _ in range(20):
            first = await run_sync(find_free_port)
            try:
                sockets = WorkerSockets.open(config_of(tmp_path, metrics__port=first), 2, stack)
            except WorkerFailed:
                continue
            break
        urls = [f"http://127.0.0.1:{port}/metrics" for port in (first, first + 1)]
        assert list(sockets.metrics_urls) == urls


def find_free_port() -> int:
    with listen("127.0.0.1", 0) as sock:
        port: int = sock.getsockname()[1]
        return port
