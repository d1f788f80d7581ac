"""The server process: uvicorn with our limits on what comes in, and our way of leaving."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Literal

import uvicorn

from gateway.wire.http_server.connection import ServerConnection

# Of accepted connections too, which inherit them.
TCP_OPTIONS = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_USER_TIMEOUT", 60_000),
    # The kernel would take megabytes of an answer that nobody reads, and all that it took is also
    # kept here, on the tape of its turn, until the turn is judged.
    ("TCP_NOTSENT_LOWAT", 64 * 1024),
)


class Server(uvicorn.Server):
    """Runs until a signal, then lets the gateway drain before it closes anything."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(config)
        self._leave = leave
        self._leaving = self._stopped = False
        self.listening: Callable[[str], None] = lambda url: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        if self.started and sockets:
            self.listening(_url(sockets[0]))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave on SIGINT and SIGTERM; a second one does not wait."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._stop)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._stopped:
            self.force_exit = self.should_exit = True
        self._stopped = True
        self.drain()

    def drain(self) -> None:
        """Let the gateway drain, and leave after that."""
        # A closing terminal sends SIGHUP more than once, and systemd may send it with SIGTERM:
        # neither means that somebody is in a hurry.
        if not self._leaving:
            self._leaving = True
            self._leave(self._exit)

    def _exit(self) -> None:
        self.should_exit = True


def server_config(
    app: Any,
    protocol: type[ServerConnection],
    grace: float,
    lifespan: Literal["on", "off"] = "on",
) -> uvicorn.Config:
    """Say how uvicorn is to run."""
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(grace)),
        backlog=2048,
    )


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket; dead peers of accepted connections are noticed by the kernel."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in TCP_OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    sock.bind((host, port))
    sock.set_inheritable(True)
    return sock


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
