"""HAProxy and nginx as deploy/ shows them, before gateways that are processes of their own."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import anyio
from anyio.to_thread import run_sync

from tests.gateway.client import Answer, Client
from tests.gateway.wire import get
from tests.reload.words import SETTINGS, model, upstream, write_toml
from tests.run import ROOT, GatewayProcess, as_process, end_process, plain_failures

from .server import make_schema_name, shared_server

DEPLOY = ROOT / "deploy"
HAPROXY, NGINX = "haproxy.cfg", "nginx.conf"
# In the files that people copy.
OWN_PORT, PORTS = "8080", ("8787", "8788")
PATIENCE = 60


class BalancedGateways:
    """Two gateways on one PostgreSQL, and the balancer that clients connect to."""

    def __init__(self, gateways: list[GatewayProcess], port: int) -> None:
        self.gateways = gateways
        self.port = port

    async def send(self, request: bytes) -> Client:
        """Send a request through the balancer."""
        client = await Client.connected(self.port)
        await client.send(request)
        return client

    async def fetch(self, request: bytes) -> Answer:
        """Send a request through the balancer, and read its answer."""
        client = await self.send(request)
        try:
            return await client.answer()
        finally:
            client.leave()

    async def wait_until_held(self, answers: int) -> None:
        """Wait until so many answers are held, at both gateways."""
        counts = [0, 0]
        with anyio.fail_after(PATIENCE):
            while sum(counts) < answers:
                counts = [await self._count_holds(one) for one in self.gateways]
        assert min(counts) > 0

    async def _count_holds(self, gateway: GatewayProcess) -> int:
        """Return how many answers a gateway holds."""
        client = await gateway.connect()
        await client.send(get("/metrics"))
        page = (await client.answer()).body.decode()
        (line,) = re.findall(r"^holdgate_holds_active (\S+)$", page, re.MULTILINE)
        return int(float(line))

    async def wait_for(self, instances: int) -> set[str]:
        """Wait until the balancer has sent requests to so many gateways; return their names."""
        names: set[str] = set()
        with anyio.fail_after(PATIENCE):
            while len(names) < instances:
                answer = await self.fetch(get("/healthz"))
                if answer.status == 200:
                    names.add(answer.headers["x-holdgate-instance"])
        return names


@asynccontextmanager
async def balanced(
    file: str, home: Path, upstream_port: int, **settings: str
) -> AsyncIterator[BalancedGateways]:
    """Run two gateways for this upstream behind a balancer."""
    ports = _find_free_ports(3)
    config = home / "holdgate.toml"
    config.write_text(write_toml(_tables(upstream_port)))
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        gateways = [
            _gateway(home / name, port, config) for name, port in zip("ab", ports[1:], strict=True)
        ]
        async with anyio.create_task_group() as tasks:
            for gateway in gateways:
                tasks.start_soon(stack.enter_async_context, gateway)
        balancer = await run_sync(_start_balancer, file, home, ports)
        stack.callback(end_process, balancer, 0)
        with anyio.fail_after(PATIENCE):
            while not _is_listening(ports[0]):
                assert balancer.poll() is None, (home / f"{file}.log").read_text()
                await anyio.sleep(0.02)
        yield BalancedGateways(gateways, ports[0])


def _tables(upstream_port: int) -> dict[str, object]:
    return {
        "server": {"drain_ms": 20_000, "keepalive_ms": 500},
        "clock": {"due_window_ms": 0, "hold_max_ms": 600_000},
        "store": {"url": shared_server().url, "schema": make_schema_name()},
        "upstreams": [upstream("a", upstream_port)],
        "models": [{**model("m", "a"), "clock": True}],
    }


def _gateway(home: Path, port: int, config: Path) -> GatewayProcess:
    home.mkdir()
    command = ("gateway", "serve", "--port", str(port), "--config", str(config))
    return as_process(home, SETTINGS, command=command)


def _find_free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]


def _start_balancer(file: str, home: Path, ports: Sequence[int]) -> subprocess.Popen[bytes]:
    text = (DEPLOY / file).read_text()
    for written, port in zip((OWN_PORT, *PORTS), ports, strict=True):
        assert text.count(f"127.0.0.1:{written}") == 1
        text = text.replace(f"127.0.0.1:{written}", f"127.0.0.1:{port}")
    config = home / file
    if file == HAPROXY:
        command = [_find_program("haproxy"), "-db", "-f", str(config)]
    else:
        # Its directories for temporary files, since the tests may not be root's.
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        paths = "".join(f"{kind}_temp_path {home}/{kind};" for kind in kinds)
        text = text.replace("http {", f"http {{ {paths}", 1)
        options = f"daemon off; pid {home}/nginx.pid; error_log {home}/nginx.log;"
        command = [_find_program("nginx"), "-p", str(home), "-c", str(config), "-g", options]
    config.write_text(text)
    with (home / f"{file}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _find_program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    assert found, f"{name} is not installed: run scripts/testing/bring_programs"
    return found


def _is_listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
