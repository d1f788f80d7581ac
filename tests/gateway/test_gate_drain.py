"""SIGTERM to a real process: nothing new, what runs may finish, everything ends as it should."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import pytest

from tests.gateway.client import Answer, Client
from tests.gateway.wire import DONE, Cue, ask_of, chat, event, get, hanging, text
from tests.run import ROOT, SERVE, GatewayProcess, as_process, plain_failures, until, upstreams_of
from tests.wire.fake import CHUNKED, LAST, FakeUpstream, Peer, Story, chunk, fake_upstream

ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE


class Process:
    """A gateway in a process of its own, and the upstream it asks."""

    def __init__(self, process: GatewayProcess, fake: FakeUpstream) -> None:
        self._process = process
        self.port = process.port
        self.fake = fake
        self.signalled = 0.0

    async def connect(self, **options: Any) -> Client:
        """Open a connection."""
        return await self._process.connect(**options)

    async def start(self, body: bytes | None = None) -> Client:
        """Ask for a model's answer."""
        return await self.send(ask_of(chat() if body is None else body))

    async def send(self, request: bytes) -> Client:
        """Open a connection and send bytes on it."""
        client = await self.connect()
        await client.send(request)
        return client

    async def fetch(self, request: bytes) -> Answer:
        """Send a request and read its answer."""
        client = await self.send(request)
        try:
            return await client.answer()
        finally:
            client.leave()

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._process.log.read_text()

    @property
    def resident_bytes(self) -> int:
        """How much memory it has."""
        pages = Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.signalled = time.monotonic()
        self._process.signal(number)

    async def draining(self) -> None:
        """Wait until it says that it takes nothing new."""
        with anyio.fail_after(5):
            while (await self.fetch(get("/readyz"))).status != 503:
                pass

    async def exit(self) -> tuple[int, float]:
        """Wait for its end; return its status and how long it took after the signal."""
        with anyio.fail_after(20):
            status = await self._process.gone()
        return status, time.monotonic() - self.signalled


@asynccontextmanager
async def gateway_process(
    story: Story, drain_ms: int, *under: str, stdin: int = subprocess.DEVNULL
) -> AsyncIterator[Process]:
    """Run `holdgate serve` for this upstream, and leave nothing of it behind."""
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        home = stack.enter_context(tempfile.TemporaryDirectory())
        fake = await stack.enter_async_context(fake_upstream(story))
        config = Path(home, "holdgate.toml")
        config.write_text(toml(fake.port, drain_ms))
        command = (*SERVE, "--config", str(config))
        serve = as_process(config.parent, command=command, under=under, stdin=stdin)
        yield Process(await stack.enter_async_context(serve), fake)


def toml(port: int, drain_ms: int) -> str:
    """Write a configuration."""
    tables = upstreams_of(port)
    upstream, model = tables["upstreams"][0], tables["models"][0]
    return (
        f"[server]\ndrain_ms = {drain_ms}\nkeepalive_ms = 200\n"
        f'[[upstreams]]\nid = "{upstream["id"]}"\nbase_url = "{upstream["base_url"]}"\n'
        f'[[models]]\nname = "{model["name"]}"\nroutes = {model["routes"]!r}\n'
    )


def half_idle(cue: Cue) -> Story:
    """Begin every answer; end those that are asked to, on cue, and leave the others hanging."""

    async def story(peer: Peer) -> None:
        asked = await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        if b"active" not in asked.body:
            await peer.gone()
            return
        await cue.wait()
        await peer.send(chunk(text("done")), chunk(END) + LAST)

    return story


@pytest.fixture(params=[40, pytest.param(200, marks=pytest.mark.long)])
def crowd(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


async def test_a_crowd_is_sent_home(crowd: int) -> None:
    cue = Cue()
    async with gateway_process(half_idle(cue), drain_ms=3000) as gate:
        active = [await gate.start(chat("active")) for _ in range(crowd)]
        idle = [await gate.start(chat("idle")) for _ in range(crowd)]
        for client in active + idle:
            await client.saw(ROLE)
        gate.signal()
        await gate.draining()

        refused = await gate.fetch(ask_of(chat()))
        assert (refused.status, refused.error["code"]) == (503, "draining")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await gate.fetch(get("/healthz"))).status == 200
        assert len(gate.fake.requests) == 2 * crowd

        for _ in active:
            cue.give()
        for client in active:
            answer = await client.answer()
            assert answer.ending == "whole"
            assert bytes(answer.body).replace(event({}), b"") == ROLE + text("done") + END
        for client in idle:
            answer = await client.answer()
            assert answer.failed == "draining"
            assert answer.body.startswith(ROLE)
        status, seconds = await gate.exit()
        assert status == 0
        assert seconds < 4
        await until(lambda: gate.fake.open == 0)


async def test_nobody_is_waited_for_longer_than_it_takes() -> None:
    cue = Cue()
    async with gateway_process(half_idle(cue), drain_ms=10_000) as gate:
        client = await gate.start(chat("active"))
        await client.saw(ROLE)
        gate.signal()
        await gate.draining()
        cue.give()
        assert (await client.answer()).body.endswith(END)
        status, seconds = await gate.exit()
        assert status == 0
        assert seconds < 5


@contextmanager
def open_terminal() -> Iterator[tuple[BinaryIO, int]]:
    """Open a terminal: its window, which can be closed, and what a process reads from."""
    window, inside = os.openpty()
    with open(window, "r+b", buffering=0) as outside:  # noqa: PTH123 - a descriptor
        try:
            yield outside, inside
        finally:
            os.close(inside)


async def test_a_terminal_that_closes_lets_answers_finish() -> None:
    """It sends SIGHUP, often twice; that drains like SIGTERM."""
    cue, in_terminal = Cue(), ("setsid", "--ctty")
    with open_terminal() as (window, stdin):
        async with gateway_process(half_idle(cue), 10_000, *in_terminal, stdin=stdin) as gate:
            client = await gate.start(chat("active"))
            await client.saw(ROLE)
            window.close()
            await gate.draining()
            gate.signal(signal.SIGHUP)
            assert (await gate.fetch(get("/healthz"))).status == 200
            cue.give()
            assert (await client.answer()).body.endswith(END)
            status, seconds = await gate.exit()
            assert status == 0
            assert seconds < 5


@pytest.mark.parametrize("form", ["text", "json"])
async def test_a_log_nobody_reads_stops_neither_requests_nor_the_exit(
    form: str, tmp_path: Path
) -> None:
    """Output and log go to one pipe that is full from the start: not even its address is seen."""
    reads, writes = full_pipe()
    (tmp_path / "holdgate.toml").touch()
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "serve", "--port", str(port), "--log-format", form),
        cwd=tmp_path,
        stdout=writes,
        stderr=writes,
        env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "ROUTECODEX_CLOCK_NTP": "off"},
    )
    try:
        await until(lambda: is_listening(port), 20)
        for number in range(5):
            client = await Client.connected(port)
            await client.send(ask_of(chat(f"demo: tokens={number} delay_ms=0", model="demo")))
            assert (await client.answer()).body.endswith(DONE)
            client.leave()
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(reads)
        os.close(writes)


def full_pipe() -> tuple[int, int]:
    """Return the ends of a pipe that takes nothing more."""
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writes, True)
    return reads, writes


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


async def test_under_nohup_a_closing_terminal_changes_nothing() -> None:
    async with gateway_process(hanging(), 1000, "nohup") as gate:
        gate.signal(signal.SIGHUP)
        assert (await gate.fetch(get("/readyz"))).status == 200
        gate.signal(signal.SIGTERM)
        assert (await gate.exit())[0] == 0
        assert "config" not in gate.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_an_idle_gateway_leaves_at_once(number: int) -> None:
    with open_terminal() as (_, stdin):
        async with gateway_process(hanging(), 30_000, stdin=stdin) as gate:
            kept = await gate.send(get("/healthz"))
            assert (await kept.answer()).status == 200
            gate.signal(number)
            status, seconds = await gate.exit()
            assert status == 0
            assert seconds < 1.5
            assert await kept.closed() == "closed"


async def test_a_second_signal_does_not_wait() -> None:
    async with gateway_process(hanging(CHUNKED, chunk(ROLE)), drain_ms=30_000) as gate:
        client = await gate.start()
        await client.saw(ROLE)
        gate.signal()
        await gate.draining()
        gate.signal()
        status, seconds = await gate.exit()
        assert status == 0
        assert seconds < 1.5
        assert DONE not in (await client.answer()).body


async def test_requests_without_an_answer_yet_are_refused_properly() -> None:
    """Their upstream was silent all the time: they get a status, not a stream."""
    async with gateway_process(hanging(), drain_ms=500) as gate:
        streams = await gate.start(chat())
        plain = await gate.start(chat(stream=False))
        await until(lambda: len(gate.fake.requests) == 2)
        gate.signal()
        for client in (streams, plain):
            answer = await client.answer()
            assert (answer.status, answer.error["code"]) == (503, "draining")
            assert answer.headers["retry-after"] == "1"
        assert (await gate.exit())[0] == 0


async def test_a_request_that_was_still_coming_is_new() -> None:
    async with gateway_process(hanging(CHUNKED, chunk(ROLE)), drain_ms=2000) as gate:
        await (await gate.start()).saw(ROLE)
        asked = ask_of(chat())
        late = await gate.send(asked[:-5])
        assert (await gate.fetch(get("/healthz"))).status == 200
        gate.signal()
        await gate.draining()
        await late.send(asked[-5:])
        assert (await late.answer()).status == 503
        assert len(gate.fake.requests) == 1


async def test_a_client_that_does_not_read_does_not_keep_the_process() -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        while True:
            await peer.send(chunk(text("on and on" * 5000)))

    async with gateway_process(endless, drain_ms=1000) as gate:
        client = await gate.start()
        await client.saw(b"on and on")
        gate.signal()
        status, seconds = await gate.exit()
        assert status == 0
        assert seconds < 2.5
