"""Several processes that serve at one address: the parent that starts them and sees them off.

The parent answers nobody. Each worker is a gateway of its own, which opens the address, too, and
the kernel spreads new connections over those that listen. The parent reads the configuration, so
that all have the same, whenever they start.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import TaskStatus

from gateway.app.reload import ConfigReloader
from gateway.app.worker_messages import StartWorker, UseConfig, WorkerSeat
from gateway.app.worker_process import WorkerProcess
from gateway.config import Config, ConfigSource
from gateway.errors import HoldgateError
from gateway.logs import EventLog
from gateway.wire.http_server.hangup import HangupSignal, take_hangup_signal
from gateway.wire.http_server.server import listen, url_of

# How long a worker that died is waited for: at first hardly, then twice as long each time, until
# one lived for a while.
FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS = 0.1, 10.0, 10.0
# What workers get beyond `drain_ms` before they are killed.
FAREWELL_SECONDS = 10.0
LOOPBACK = "127.0.0.1"

Listening = Callable[[str, Sequence[str]], None]
"""Hears once where the gateway listens, and where each worker shows its metrics."""


class WorkerFailed(HoldgateError):
    """A worker ended before it served."""

    status, code = 503, "worker_failed"


@dataclass(frozen=True, slots=True)
class WorkerSockets:
    """What the parent keeps open, so that workers find their addresses again."""

    shared: socket.socket
    """Bound, but nobody listens on it: it only keeps the port."""
    metrics: tuple[socket.socket, ...]

    @property
    def port(self) -> int:
        """The port that all workers share."""
        port: int = self.shared.getsockname()[1]
        return port

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        """Where each worker shows its metrics."""
        return tuple(f"{url_of(sock)}/metrics" for sock in self.metrics)

    @classmethod
    def open(cls, config: Config, count: int, stack: ExitStack) -> WorkerSockets:
        """Take the port and one more for each worker, or raise `OSError`."""
        server, first = config.server, config.metrics.port
        # Shared sockets would share the port with another gateway of this user as well. This one
        # does not, and is refused if anybody listens there.
        with listen(server.host, server.port) as alone:
            port = alone.getsockname()[1]
            shared = stack.enter_context(listen(server.host, port, shared=True))
        metrics: list[socket.socket] = []
        for number in range(count):
            port = first and first + number
            try:
                metrics.append(stack.enter_context(listen(LOOPBACK, port)))
            except OSError as error:
                raise WorkerFailed(
                    f"Cannot listen on {LOOPBACK}:{port} for the metrics of worker {number + 1} "
                    f"(metrics.port): {error.strerror}."
                ) from error
        return cls(shared, tuple(metrics))


def serve_workers(
    count: int,
    command: Sequence[str],
    config: Config,
    source: ConfigSource,
    listening: Listening,
    event_log: EventLog,
) -> None:
    """Run so many workers, each by this command, until a signal ends them."""
    hangup = take_hangup_signal()
    with ExitStack() as stack:
        sockets = WorkerSockets.open(config, count, stack)
        group = WorkerGroup(config, sockets, command, event_log)
        group.listening = listening
        group.reloader = ConfigReloader(source, group.use_config, event_log)
        anyio.run(group.run, hangup)
    hangup.ignore()


class WorkerGroup:
    """All workers: starts them, starts those again that die, and has them drain."""

    listening: Listening
    reloader: ConfigReloader

    def __init__(
        self, config: Config, sockets: WorkerSockets, command: Sequence[str], event_log: EventLog
    ) -> None:
        self._config = config
        self._sockets = sockets
        self._command = command
        self._event_log = event_log
        self.processes: dict[int, WorkerProcess] = {}
        """The newest process of each worker."""
        self._begun: set[int] = set()
        self._is_up = False
        self._failure = ""
        self._leaving = anyio.Event()

    async def run(self, hangup: HangupSignal) -> None:
        """Serve until a signal, and until all workers have left; raise if one can not start."""
        act = self.drain if hangup.has_terminal else self.reloader.request
        soon = asyncio.get_running_loop().call_soon_threadsafe
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._watch_signals)
            tasks.start_soon(self.reloader.run, self._config)
            with hangup.acting(partial(soon, act)):
                async with anyio.create_task_group() as keepers:
                    for number in range(1, len(self._sockets.metrics) + 1):
                        keepers.start_soon(self._keep, number)
            tasks.cancel_scope.cancel()
        self._event_log.flush()
        if self._failure:
            raise WorkerFailed(self._failure)

    async def use_config(self, config: Config) -> None:
        """Have all workers use another configuration, those of later, too."""
        self._config = config
        for worker in self.processes.values():
            worker.send(UseConfig(config))

    def drain(self) -> None:
        """Have all workers drain, and start none again."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._event_log.note("workers_leaving", workers=len(self.processes))

    async def _watch_signals(
        self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if self._leaving.is_set():
                    for worker in self.processes.values():
                        worker.leave_now()
                self.drain()

    async def _keep(self, number: int) -> None:
        """Run a worker, one process after the other."""
        pause = 0.0
        while not self._leaving.is_set():
            begun = time.monotonic()
            worker = await self._run_worker(number)
            if self._leaving.is_set():
                return
            if not self._is_up:
                # All start with the same configuration: what keeps one from serving keeps all.
                self._failure = f"Worker {number} ended before it served; its reason is above."
                self.drain()
                return
            lived = time.monotonic() - begun
            pause = FIRST_PAUSE if lived > STEADY_SECONDS else _lengthen(pause)
            worker.note_end(self._event_log, pause)
            with anyio.move_on_after(pause):
                await self._leaving.wait()

    async def _run_worker(self, number: int) -> WorkerProcess:
        sockets = self._sockets
        metrics = sockets.metrics[number - 1].fileno()
        seat = WorkerSeat(number, sockets.metrics_urls)
        worker = WorkerProcess(StartWorker(seat, self._config, sockets.port, metrics))
        self.processes[number] = worker
        farewell = self._config.server.drain_ms / 1000 + FAREWELL_SECONDS
        await worker.run(self._command, self._leaving, farewell, self._note_ready)
        return worker

    def _note_ready(self, worker: WorkerProcess) -> None:
        worker.note_start(self._event_log)
        self._begun.add(worker.number)
        if not self._is_up and len(self._begun) == len(self._sockets.metrics):
            self._is_up = True
            self.listening(url_of(self._sockets.shared), self._sockets.metrics_urls)


def _lengthen(pause: float) -> float:
    return min(max(pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
