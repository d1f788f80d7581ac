"""The demo upstream as a process of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from gateway.demo.__main__ import main

from .peer import asking, connected, request

Start = Callable[..., tuple[subprocess.Popen[str], str]]


@pytest.fixture
def anyio_backend() -> str:
    """One loop is enough: the loop under test is that of the other process."""
    return "asyncio"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes that do not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def one(*options: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "gateway.demo", "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline()

    yield one
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_at_a_signal(how: signal.Signals, start: Start) -> None:
    process, line = start()
    assert line.startswith("listening on http://127.0.0.1:")
    process.send_signal(how)
    assert process.wait(timeout=10) == 0


async def test_its_log_tells_what_happened(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "demo.jsonl"
    process, line = start("--log", str(log))
    url = line.removeprefix("listening on ").strip()
    async with connected(url) as peer:
        assert (await peer.ask("demo: tokens=1")).ending == "whole"
        await peer.send(request(asking("demo: hang")))
        await logged(log, "broke")
    await logged(log, "closed")
    assert events(log) == [
        "opened",
        "request",
        "finished",
        "request",
        "broke",
        "closed_by_client",
        "closed",
    ]
    assert json.loads(log.read_text().splitlines()[1])["body"]["model"] == "demo"
    process.terminate()
    assert process.wait(timeout=10) == 0


def test_a_port_in_use_is_a_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--port", str(taken.getsockname()[1])]) == 1
    assert capfd.readouterr().err.startswith("demo upstream: ")


def events(log: Path) -> list[str]:
    """The names of what was logged."""
    return [json.loads(line)["event"] for line in log.read_text().splitlines()]


async def logged(log: Path, name: str) -> None:
    """Wait until something stands in the log."""
    with anyio.fail_after(10):
        while name not in events(log):  # noqa: ASYNC110 (another process writes it)
            await anyio.sleep(0.005)
