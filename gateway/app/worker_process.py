"""One worker, as its parent sees it: a process that is started, told things, and waited for."""

from __future__ import annotations

import math
import signal
import subprocess
from collections.abc import Callable, Sequence

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.app.worker_messages import (
    LeaveWorker,
    StartWorker,
    WorkerMessage,
    WorkerReady,
    decode_ready,
    encode_message,
)
from gateway.logs import EventLog

MOST_READY_BYTES = 4096


class WorkerProcess:
    """One process; when it has ended, another one takes its place."""

    def __init__(self, start: StartWorker) -> None:
        self.number = start.seat.number
        self.ready: WorkerReady | None = None
        """What it said when it began to serve."""
        self._start = start
        self._process: Process | None = None
        # Without a bound: what is sent is rare, and a worker that was stopped holds nobody up.
        self._outbox, self._unsent = anyio.create_memory_object_stream[bytes](math.inf)
        self.send(start)

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.number}{'' if self.ready else ' not ready'}>"

    def send(self, message: WorkerMessage) -> None:
        """Have the worker told something soon."""
        self._outbox.send_nowait(encode_message(message))

    async def run(
        self,
        command: Sequence[str],
        leaving: anyio.Event,
        farewell: float,
        tell_ready: Callable[[WorkerProcess], None],
    ) -> None:
        """Start it and wait until it has ended; once `leaving` is set, within so many seconds."""
        process = self._process = await anyio.open_process(
            [*command, f"worker {self.number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
            # Ctrl-C in a terminal is for the parent, which has the workers drain.
            start_new_session=True,
            pass_fds=(self._start.metrics_socket,),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with self._outbox, self._unsent:
            async with process, anyio.create_task_group() as tasks:
                tasks.start_soon(self._write, process.stdin)
                tasks.start_soon(self._read, process.stdout, tell_ready)
                tasks.start_soon(self._see_off, process, leaving, farewell)
                await process.wait()
                tasks.cancel_scope.cancel()

    def leave_now(self) -> None:
        """Have it end without waiting for anything."""
        if self.ready is not None:
            self.send(LeaveWorker(at_once=True))
        elif self._process is not None:
            self._process.kill()

    def note_start(self, event_log: EventLog) -> None:
        """Log which process serves."""
        assert self._process is not None
        assert self.ready is not None
        event_log.note(
            "worker_started",
            number=self.number,
            pid=self._process.pid,
            instance=self.ready.instance,
            metrics=self._start.seat.metrics_urls[self.number - 1],
        )

    def note_end(self, event_log: EventLog, pause: float) -> None:
        """Log which process ended, how, and when another one is started."""
        assert self._process is not None
        status = self._process.returncode or 0
        event_log.note(
            "worker_ended",
            number=self.number,
            pid=self._process.pid,
            status=status if status >= 0 else None,
            signal=signal.Signals(-status).name if status < 0 else None,
            restart_ms=round(pause * 1000),
        )

    async def _write(self, pipe: ByteSendStream) -> None:
        try:
            async for data in self._unsent:
                await pipe.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # It is ending, or has ended.
            return

    async def _read(
        self, pipe: ByteReceiveStream, tell_ready: Callable[[WorkerProcess], None]
    ) -> None:
        try:
            line = await BufferedByteReceiveStream(pipe).receive_until(b"\n", MOST_READY_BYTES)
            self.ready = decode_ready(line)
        except (anyio.IncompleteRead, anyio.ClosedResourceError, msgspec.DecodeError):
            # It ended before it served.
            return
        tell_ready(self)

    async def _see_off(self, process: Process, leaving: anyio.Event, farewell: float) -> None:
        await leaving.wait()
        if self.ready is not None:
            self.send(LeaveWorker())
        else:
            process.terminate()
        await anyio.sleep(farewell)
        process.kill()
