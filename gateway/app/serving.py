"""The gateway in a server, from the first socket to the last farewell."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable
from functools import partial

from gateway.api.admission import AdmissionMiddleware
from gateway.app.gateway import SHUTDOWN_SECONDS, Gateway
from gateway.app.wiring import connection_limits
from gateway.config import Config, ConfigSource
from gateway.logs import EventLog
from gateway.wire.http_server.connection import build_connection_class
from gateway.wire.http_server.hangup import HangupSignal, take_hangup_signal
from gateway.wire.http_server.server import Server, listen, server_config

# Requests leave no cycles behind. What grows are held answers, by many thousands of objects: a few
# at a time are looked through, so that nobody waits for long, and nearly never all of them.
GC_THRESHOLDS = (5_000, 10, 400)


def create_app(config: Config) -> AdmissionMiddleware:
    """Return the gateway as an ASGI application, for any server."""
    return Gateway(config).asgi


def serve(
    config: Config,
    listening: Callable[[str], None],
    event_log: EventLog | None = None,
    source: ConfigSource | None = None,
) -> None:
    """Run the gateway until a signal ends it; SIGHUP has its source read again."""
    hangup = take_hangup_signal()
    gateway = Gateway(config, event_log, source=source)
    server = config.server
    protocol = build_connection_class(connection_limits(config), gateway.early_refusals)
    if (counts := protocol.counts) is not None:
        gateway.metrics.connections_refused = lambda: counts.refused
    sock = listen(server.host, server.port)
    # By then all have had their time; only who does not read can still be there.
    runner = Server(server_config(gateway.asgi, protocol, SHUTDOWN_SECONDS, "off"), gateway.leave)
    runner.listening = listening
    # What is there now stays; looking through it again and again would only cost.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=runner.config.get_loop_factory()) as loop:
        loop.run(_run(gateway, runner, sock, hangup))
    hangup.ignore()


async def _run(gateway: Gateway, runner: Server, sock: socket.socket, hangup: HangupSignal) -> None:
    loop = asyncio.get_running_loop()
    act = runner.drain if hangup.has_terminal else gateway.reload
    # Not as the server's lifespan: what keeps the gateway from starting is to reach the caller.
    async with gateway:
        # A handler may run between any two steps of the loop's own work.
        with hangup.acting(partial(loop.call_soon_threadsafe, act)):
            await runner.serve(sockets=[sock])
