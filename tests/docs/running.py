"""Runs the examples of a page one after the other, beside a gateway of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.run import SERVE, as_process, environment

from .blocks import FencedBlock

PATIENCE = 120
GATEWAY, UPSTREAM = "8787", "8788"
# Without this an answer with an error's status would be as good as any other.
CURLRC = "fail-with-body\nno-progress-meter\n"
JOB = {"session_id": "kept", "message": "Hello!", "schedule_text": "daily at 9am"}


@dataclass(frozen=True, slots=True)
class BlockOutcome:
    """What became of one example: whether it went well, and what it wrote."""

    is_fine: bool
    written: str


@dataclass(frozen=True, slots=True)
class PageGateway:
    """Where somebody tries the examples: a directory, and a gateway on a port."""

    place: Path
    gateway_port: str
    upstream_port: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def environ(self) -> dict[str, str]:
        path = [str(self.place / ".venv/bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        return {
            **environ_for(self.place),
            "PATH": os.pathsep.join(path),
            "HOLDGATE_URL": self.url,
            "KEY": "secret",
        }

    def command_for(self, block: FencedBlock) -> Sequence[str]:
        """Return what runs an example, with the ports of this gateway in it."""
        code = block.code.replace(GATEWAY, self.gateway_port).replace(UPSTREAM, self.upstream_port)
        if block.language == "python":
            return (sys.executable, "-c", code)
        return ("bash", "-euo", "pipefail", "-c", code)


def environ_for(home: Path) -> dict[str, str]:
    """Return an environment without the keys and settings of whoever runs the tests."""
    # No test asks a time server of the world.
    return environment(home, {"PYTHONUNBUFFERED": "1", "ROUTECODEX_CLOCK_NTP": "off"})


def run_page(blocks: Sequence[FencedBlock], place: Path) -> dict[FencedBlock, BlockOutcome]:
    """Run the examples of one page in their order."""
    with open_gateway(place) as gateway, ExitStack() as running:
        return {block: run_block(block, gateway, running) for block in blocks}


@contextmanager
def open_gateway(place: Path) -> Iterator[PageGateway]:
    """Start a gateway in a directory that looks like the one of somebody who has run setup."""
    bin_directory = place / ".venv/bin"
    bin_directory.mkdir(parents=True)
    command = bin_directory / "holdgate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gateway "$@"\n')
    command.chmod(0o755)
    place.joinpath(".curlrc").write_text(CURLRC)
    serve = (*SERVE, "--session-dir", "sessions")
    with as_process(place, environ_for(place), command=serve) as process:
        gateway = PageGateway(place, str(process.port), str(free_port()))
        # Makes the database that one page copies.
        httpx.post(f"{gateway.url}/api/cron/add", json=JOB, trust_env=False).raise_for_status()
        yield gateway


def run_block(block: FencedBlock, gateway: PageGateway, running: ExitStack) -> BlockOutcome:
    """Run one example to its end, or until it has written what it is run for."""
    process = running.enter_context(
        process_of(gateway.command_for(block), gateway.place, gateway.environ)
    )
    watch = threading.Timer(PATIENCE, end_group, [process])
    watch.start()
    written = ""
    assert process.stdout
    for line in process.stdout:
        written += line
        if block.mark == "run until" and block.about in line:
            watch.cancel()
            return BlockOutcome(True, written)
    watch.cancel()
    is_fine = process.wait() == 0 and '"error"' not in written and block.mark != "run until"
    return BlockOutcome(is_fine, written)


@contextmanager
def process_of(
    command: Sequence[str], place: Path, environ: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Start a process with a group of its own, and end the whole group."""
    with subprocess.Popen(
        command,
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[str]) -> None:
    """Kill a process and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    """Return a port nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
