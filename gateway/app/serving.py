"""The gateway in a server, from the first socket to the last farewell."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from gateway.api.admission import AdmissionMiddleware
from gateway.app.gateway import SHUTDOWN_SECONDS, Gateway
from gateway.app.reload import ReloadSource
from gateway.app.wiring import connection_limits
from gateway.app.worker import Worker
from gateway.config import Config
from gateway.logs import EventLog
from gateway.wire.http_server.connection import ServerConnection, build_connection_class
from gateway.wire.http_server.hangup import HangupSignal, take_hangup_signal
from gateway.wire.http_server.server import ExtraListener, Server, listen, server_config

# Requests leave no cycles behind. What grows are held answers, by many thousands of objects: a few
# at a time are looked through, so that nobody waits for long, and nearly never all of them.
GC_THRESHOLDS = (5_000, 10, 400)

Meanwhile = Callable[[], AbstractContextManager[None]]
"""Entered in the event loop for as long as the server runs."""


def create_app(config: Config) -> AdmissionMiddleware:
    """Return the gateway as an ASGI application, for any server."""
    return Gateway(config).asgi


def serve(
    config: Config,
    listening: Callable[[str], None],
    event_log: EventLog | None = None,
    source: ReloadSource | None = None,
) -> None:
    """Run the gateway until a signal ends it; SIGHUP has its source read again."""
    hangup = take_hangup_signal()
    gateway = Gateway(config, event_log, source=source)
    server = _make_server(gateway, _make_protocol(gateway))
    server.listening = listening
    sock = listen(config.server.host, config.server.port)
    act = server.drain if hangup.has_terminal else gateway.reload
    _run(gateway, server, sock, partial(_acting, hangup, act))


def serve_worker(worker: Worker, event_log: EventLog) -> None:
    """Run the gateway as one of several processes, until its parent or a signal ends it."""
    hangup = take_hangup_signal()
    gateway = Gateway(worker.config, event_log, source=worker)
    gateway.seat = worker.seat
    protocol = _make_protocol(gateway)
    server = _make_server(gateway, protocol)
    metrics = worker.open_metrics_socket()
    server.extra_listeners = (ExtraListener(metrics, gateway.operator_asgi, protocol),)
    server.listening = lambda url: worker.tell_ready(gateway.name_instance())

    @contextmanager
    def meanwhile() -> Iterator[None]:
        with _acting(hangup, gateway.reload), worker.obeying(server, gateway.reload):
            yield

    _run(gateway, server, worker.listen(), meanwhile)


def _make_protocol(gateway: Gateway) -> type[ServerConnection]:
    protocol = build_connection_class(connection_limits(gateway.config), gateway.early_refusals)
    if (counts := protocol.counts) is not None:
        gateway.metrics.connections_refused = lambda: counts.refused
    return protocol


def _make_server(gateway: Gateway, protocol: type[ServerConnection]) -> Server:
    # By then all have had their time; only who does not read can still be there.
    return Server(server_config(gateway.asgi, protocol, SHUTDOWN_SECONDS, "off"), gateway.leave)


@contextmanager
def _acting(hangup: HangupSignal, act: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    # A handler may run between any two steps of the loop's own work.
    with hangup.acting(partial(loop.call_soon_threadsafe, act)):
        yield


def _run(gateway: Gateway, server: Server, sock: socket.socket, meanwhile: Meanwhile) -> None:
    hangup = take_hangup_signal()
    # What is there now stays; looking through it again and again would only cost.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as loop:
        loop.run(_serve(gateway, server, sock, meanwhile))
    hangup.ignore()


async def _serve(
    gateway: Gateway, server: Server, sock: socket.socket, meanwhile: Meanwhile
) -> None:
    # Not as the server's lifespan: what keeps the gateway from starting is to reach the caller.
    async with gateway:
        with meanwhile():
            await server.serve(sockets=[sock])
