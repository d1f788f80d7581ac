"""One of several workers: what its parent tells it, and how it obeys."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import BinaryIO

from gateway.app.worker_messages import (
    LeaveWorker,
    StartWorker,
    UseConfig,
    WorkerMessage,
    WorkerReady,
    encode_ready,
    read_message,
)
from gateway.config import Config
from gateway.wire.http_server.server import Server, listen


class Worker:
    """This process as a worker. Its configuration comes from its parent, also when it changes."""

    def __init__(self, messages: BinaryIO, answers: int, start: StartWorker) -> None:
        self._messages = messages
        self._answers = answers
        self._start = start
        self.seat = start.seat
        self.config = start.config

    def listen(self) -> socket.socket:
        """Open the address that all workers share."""
        return listen(self.config.server.host, self._start.port, shared=True)

    def open_metrics_socket(self) -> socket.socket:
        """Return the socket for this worker's own metrics; its parent keeps it over restarts."""
        return socket.socket(fileno=self._start.metrics_socket)

    def load_again(self, running: Config) -> Config:
        """Return the configuration as the parent read it last."""
        return self.config

    def tell_ready(self, instance: str) -> None:
        """Tell the parent that this worker serves."""
        os.write(self._answers, encode_ready(WorkerReady(instance)))

    @contextmanager
    def obeying(self, server: Server, reload: Callable[[], None]) -> Iterator[None]:
        """Do what the parent says, and drain when it is gone."""
        loop = asyncio.get_running_loop()
        obey = partial(self._obey, server, reload)
        # Nothing can end the wait for the next message, so nobody waits for the thread.
        reading = partial(self._read, partial(loop.call_soon_threadsafe, obey))
        Thread(target=reading, name="parent", daemon=True).start()
        yield

    def _read(self, tell: Callable[[WorkerMessage | None], object]) -> None:
        message: WorkerMessage | None
        try:
            while True:
                try:
                    message = read_message(self._messages)
                except (EOFError, OSError):
                    message = None
                tell(message)
                if message is None:
                    return
        except RuntimeError:
            # The loop is closed: the worker has left.
            return

    def _obey(
        self, server: Server, reload: Callable[[], None], message: WorkerMessage | None
    ) -> None:
        if isinstance(message, UseConfig):
            self.config = message.config
            reload()
        elif isinstance(message, LeaveWorker):
            server.drain()
            if message.at_once:
                server.leave_now()
        else:
            # Whoever starts the gateway again wants the address.
            server.stop_listening()
            server.drain()
