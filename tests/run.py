"""The one place where tests start a gateway, always on a real loopback socket.

`in_process` runs it in the test's own event loop: the test sees its objects, moves its clock and
reads its log. `as_process` runs `python -m gateway serve` as a child that can be signalled and
killed. The test directories put words of their own around these two.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Self

import anyio
from anyio import to_thread

from gateway.app import SHUTDOWN_SECONDS, Gateway
from gateway.app.wiring import connection_limits
from gateway.clock import Clock
from gateway.config import Config, ConfigSource, load
from gateway.exchange.additions import UserText
from gateway.exchange.events import Continue, Verdict
from gateway.exchange.rules import RULES, Facts, Rule
from gateway.logs import EventLog
from gateway.wire.http_server.connection import build_connection_class
from gateway.wire.http_server.server import Server, listen, server_config
from tests.gateway.client import Answer, Client
from tests.gateway.wire import ask_of, chat
from tests.wire.fake import FakeUpstream, Peer, Request, Story, fake_upstream

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
SERVE = ("gateway", "serve", "--port", "0")
"""The module and the arguments of a gateway on a free port."""
LISTENING = "listening on "
SOON = 0.25
"""How long a client's leaving may take to reach the upstream, in seconds."""


class TestServer(Server):
    """The real server, ended by the test: no signals, and none of uvicorn's pauses."""

    __test__ = False

    def __init__(self, gateway: Gateway) -> None:
        limits = connection_limits(gateway.config)
        protocol = build_connection_class(limits, gateway.early_refusals)
        super().__init__(server_config(gateway.asgi, protocol, SHUTDOWN_SECONDS), gateway.leave)
        self.gateway = gateway
        self.up, self.over = anyio.Event(), anyio.Event()
        self.listening = lambda url: self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the process the tests run in."""
        yield

    async def main_loop(self) -> None:
        """Wait for the test."""
        await self.on_tick(0)
        await self.over.wait()

    async def shutdown(self, sockets: Any = None) -> None:
        """Stop at once."""
        for server in self.servers:
            server.close()
        await until(lambda: not self.server_state.connections and not self.server_state.tasks)
        await self.lifespan.shutdown()


@dataclass(frozen=True)
class TableSource(ConfigSource):
    """A configuration of tables and settings, which a test can change as one changes a file."""

    tables: dict[str, Any]
    settings: dict[str, Any]

    def load(self) -> Config:
        variables = {f"HOLDGATE_{name.upper()}": json.dumps(t) for name, t in self.tables.items()}
        variables = {"HOME": "/nowhere", "HOLDGATE_STORE__URL": "memory:", **variables}
        return load(None, variables, self.settings, self.cwd)

    def load_again(self, running: Config) -> Config:
        return replace(self.load(), file="holdgate.toml")


class Running:
    """A gateway that answers, who it asks, its clients, and what it wrote into its log."""

    def __init__(
        self,
        server: TestServer,
        port: int,
        fakes: list[FakeUpstream],
        log: StringIO,
        source: TableSource,
    ) -> None:
        self._server = server
        self.gateway = server.gateway
        self.port = port
        self.fakes = fakes
        self._log = log
        self._source = source
        self._clients: list[Client] = []

    async def connect(self, **options: Any) -> Client:
        """Open a connection; the test need not close it."""
        client = await Client.connected(self.port, **options)
        self._clients.append(client)
        return client

    async def send(self, request: bytes, **options: Any) -> Client:
        """Open a connection and send bytes on it."""
        client = await self.connect(**options)
        await client.send(request)
        return client

    async def start(self, body: bytes | None = None, *headers: str) -> Client:
        """Open a connection and ask for a model's answer on it."""
        return await self.send(ask_of(chat() if body is None else body, *headers))

    async def ask(self, body: bytes | None = None, *headers: str) -> Answer:
        """Ask for a model's answer and read it to its end."""
        return await self.fetch(ask_of(chat() if body is None else body, *headers))

    async def fetch(self, request: bytes) -> Answer:
        """Send any request and read its answer to the end, after which nothing comes."""
        client = await self.send(request)
        answer = await client.answer()
        assert not client.spare
        client.leave()
        return answer

    @property
    def requests(self) -> list[Request]:
        """What the upstreams were asked, in the order of the upstreams."""
        return [request for fake in self.fakes for request in fake.requests]

    @property
    def busy(self) -> int:
        """How many upstream connections are in use."""
        return sum(upstream.busy for upstream in self.gateway.upstreams.current.values())

    @property
    def connections(self) -> int:
        """How many connections of clients are open."""
        return len(self._server.server_state.connections)

    @property
    def live(self) -> int:
        """How many exchanges are under way."""
        return len(self.gateway.exchanges.live)

    @property
    def states(self) -> list[str]:
        """The states of the exchanges under way."""
        return sorted(drive.exchange.state for drive in self.gateway.exchanges.live)

    async def reload(self, **changes: Any) -> None:
        """Change tables and settings of the configuration, and have it read again."""
        for name, value in changes.items():
            if "__" in name:
                self._source.settings[name.replace("__", ".")] = value
            else:
                self._source.tables[name] = value
        before = sum(self.gateway.metrics.config_reloads.values())
        self.gateway.reload()
        await until(lambda: sum(self.gateway.metrics.config_reloads.values()) > before)

    async def quiet(self) -> None:
        """Wait until nothing is under way any more."""
        await until(lambda: not self.live and not self.busy)

    @property
    def log(self) -> str:
        """All log lines so far."""
        self.gateway.event_log.flush()
        return self._log.getvalue()

    @property
    def exchanges(self) -> list[dict[str, Any]]:
        """What was logged of each exchange."""
        lines = [json.loads(line) for line in self.log.splitlines()]
        return [line for line in lines if line["event"] == "exchange"]

    def close_clients(self) -> None:
        """Leave with every client that is still there."""
        for client in self._clients:
            client.leave()


@asynccontextmanager
async def in_process(
    *stories: Story | None,
    rules: tuple[Rule, ...] = RULES,
    upstream: Mapping[str, Any] | None = None,
    tables: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    patience: float = 30,
    clock: Clock | None = None,
    **more_settings: Any,
) -> AsyncIterator[Running]:
    """Run a gateway whose model `m` leads to upstreams `a`, `b` … that play these stories.

    Instead of an upstream with the story None there is nobody. `upstream` holds keys of all
    upstreams, `tables` other arrays of tables; all else are settings of the configuration, with
    `__` for the dot in their names. Models get the clock only if `clock` is given.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        fakes = [
            await stack.enter_async_context(fake_upstream(story or _nothing)) for story in stories
        ]
        ports = [
            fake.port if story else _nobody(stack)
            for fake, story in zip(fakes, stories, strict=True)
        ]
        named = {**upstreams_of(*ports, **(upstream or {})), **(tables or {})}
        log = StringIO()
        timed = {"clock__enabled": clock is not None}
        source = _make_source(named, {**timed, **(settings or {}), **more_settings})
        gateway = Gateway(source.load(), EventLog("json", log), rules, clock, source)
        server = TestServer(gateway)
        port = await stack.enter_async_context(_served(server))
        gate = Running(server, port, fakes, log, source)
        stack.callback(gate.close_clients)
        with anyio.fail_after(patience):
            yield gate


class GatewayProcess:
    """A gateway in a process of its own; `with` and `async with` start it and end it.

    What it logs goes to the file `log` in its home, after what was logged there before.
    """

    def __init__(
        self,
        command: Sequence[str],
        home: Path,
        environment: Mapping[str, str],
        grace: float,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self._command = command
        self._environment = environment
        self._grace = grace
        self._stdin = stdin
        self.home = home
        self.log = home / "log"
        self.url = ""
        self._clients: list[Client] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    async def connect(self, **options: Any) -> Client:
        """Open a connection, which lasts until the process is gone if the test does not close it."""
        client = await Client.connected(self.port, **options)
        self._clients.append(client)
        return client

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def read_output(self) -> str:
        """Read to its end what it prints after the line that says where it listens."""
        assert self._process.stdout is not None
        return self._process.stdout.read()

    def wait(self, limit: float | None = None) -> int:
        """Wait until it is gone, by whatever hand; return its status."""
        return self._process.wait(limit)

    async def start_again(self) -> None:
        """Start another process in the place of the one that ended."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        await to_thread.run_sync(self._start)

    async def gone(self) -> int:
        """Wait the same way, while the test's own loop goes on."""
        return await to_thread.run_sync(self.wait, abandon_on_cancel=True)

    async def kill(self) -> None:
        """End it without a word, and wait until it is gone."""
        self._process.kill()
        await self.gone()

    async def terminate(self) -> int:
        """Ask it to leave, and wait until it has; return its status."""
        self._process.terminate()
        return await self.gone()

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.home,
                env=self._environment,
                stdin=self._stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(LISTENING):
            self._end(0)
            raise AssertionError(f"{self._command} said {line!r}\n{self.log.read_text()}")
        self.url = line.removeprefix(LISTENING).strip()

    def _end(self, grace: float) -> None:
        end_process(self._process, grace)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for client in self._clients:
            client.leave()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end(self._grace)

    async def __aenter__(self) -> Self:
        # Whoever it asks while it starts may live in this loop.
        await to_thread.run_sync(self._start)
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._end, self._grace)


def as_process(
    home: Path,
    settings: Mapping[str, str] | None = None,
    *,
    command: Sequence[str] = SERVE,
    under: Sequence[str] = (),
    grace: float = 0,
    stdin: int = subprocess.DEVNULL,
) -> GatewayProcess:
    """Run a module that serves, at home in a directory of its own and with no other settings.

    `under` is a program that starts it. In the end it has `grace` seconds to leave, and is then
    killed; without grace it is killed at once. `stdin` is a descriptor, such as a terminal's.
    """
    words = (*under, sys.executable, "-m", *command)
    return GatewayProcess(words, home, environment(home, settings or {}), grace, stdin)


def environment(home: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process: nothing of whoever runs the tests but the path."""
    fixed = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}
    return {**fixed, **settings}


def end_process(process: subprocess.Popen[Any], grace: float) -> None:
    """Ask a process to leave if there is time for that, kill it after that, and wait."""
    if grace:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    process.kill()
    process.wait()


@contextmanager
def plain_failures() -> Iterator[None]:
    """Show why a test failed without the groups of the tasks that ran beside it."""
    try:
        yield
    except ExceptionGroup as error:
        alone: Exception = error
        while isinstance(alone, ExceptionGroup) and len(alone.exceptions) == 1:
            alone = alone.exceptions[0]
        raise alone from None


@asynccontextmanager
async def _served(server: TestServer) -> AsyncIterator[int]:
    sock = listen("127.0.0.1", 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [sock])
        await server.up.wait()
        try:
            yield sock.getsockname()[1]
        finally:
            server.over.set()


async def _nothing(peer: Peer) -> None:
    await peer.gone()


def _nobody(stack: AsyncExitStack) -> int:
    """Return a port that stays free, and that nobody listens on."""
    sock = stack.enter_context(socket.socket())
    sock.bind(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return port


def _make_source(tables: dict[str, Any], settings: Mapping[str, Any]) -> TableSource:
    dotted = {name.replace("__", "."): value for name, value in settings.items()}
    return TableSource(None, {}, {}, Path(__file__).parent, tables, dotted)


def upstreams_of(*ports: int, **keys: Any) -> dict[str, list[dict[str, Any]]]:
    """Write the tables of a model `m` and the upstreams it leads to.

    They are asked for no usage unless the keys say so, so that requests arrive as they were sent.
    """
    keys = {"ask_usage": False, **keys}
    ids = "abcdef"[: len(ports)]
    upstreams = [
        {"id": name, "base_url": f"http://127.0.0.1:{port}/v1", **keys}
        for name, port in zip(ids, ports, strict=True)
    ]
    models = [{"name": "m", "routes": [f"{name}/m" for name in ids]}]
    return {"upstreams": upstreams, "models": models}


async def until(fact: Callable[[], bool], patience: float = 30) -> None:
    """Wait until something is so."""
    with anyio.fail_after(patience):
        while not fact():  # noqa: ASYNC110 - facts seen from outside have no event of their own
            await anyio.sleep(0.001)


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Demand that what follows takes no longer than this."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < seconds


def go_on(facts: Facts) -> Verdict | None:
    """A made-up rule: two follow-ups, whatever the model said."""
    return Continue((UserText("go on"),), "test_followup") if facts.number < 3 else None


def recorded(name: str) -> bytes:
    """Read a recorded stream."""
    return FIXTURES.joinpath(name).read_bytes()
