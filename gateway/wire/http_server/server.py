"""The server process: uvicorn with our limits on what comes in, and our way of leaving."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ExtraListener:
    """Another address of the process, and what is answered there."""

    sock: socket.socket
    app: Any
    protocol: type[ServerConnection]


class Server(uvicorn.Server):
    """Runs until a signal, then lets the gateway drain before it closes anything."""

    def __init__(self, config: uvicorn.Config, leave: Callable[[Callable[[], None]], None]) -> None:
        super().__init__(config)
        self._leave = leave
        self._leaving = self._stopped = False
        self.listening: Callable[[str], None] = lambda url: None
        self.extra_listeners: tuple[ExtraListener, ...] = ()
        """What else this process answers, as long as it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say where."""
        await super().startup(sockets)
        if self.started and sockets:
            for listener in self.extra_listeners:
                self.servers.append(await self._open(listener))
            self.listening(url_of(sockets[0]))

    async def _open(self, listener: ExtraListener) -> asyncio.Server:
        config = server_config(listener.app, listener.protocol, 1, "off")

        def connect() -> ServerConnection:
            # Among those that are closed when the server ends.
            return listener.protocol(config, self.server_state, {})

        return await asyncio.get_running_loop().create_server(connect, sock=listener.sock)

    def stop_listening(self) -> None:
        """Leave the address to others; who is connected stays so."""
        for server in self.servers:
            server.close()

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
            self.leave_now()
        self._stopped = True
        self.drain()

    def leave_now(self) -> None:
        """Wait for nothing more."""
        self.force_exit = self.should_exit = True

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


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Open the listening socket; dead peers of accepted connections are noticed by the kernel.

    A shared one lets other processes of this user listen at the same address, if theirs is shared,
    too. The kernel spreads new connections over them.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in TCP_OPTIONS:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if shared:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.set_inheritable(True)
    return sock


def url_of(sock: socket.socket) -> str:
    """Return the address of a socket, as a client writes it."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
