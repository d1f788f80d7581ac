"""Many answers under way at once, which come and go: a slow upstream, and its clients."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from zlib import crc32

import anyio

from tests.gateway.wire import DONE, ask_of, chat, event, text
from tests.run import GatewayProcess, as_process, upstreams_of
from tests.wire.fake import CHUNKED, LAST, chunk

WORD = chunk(text("word "))
SECOND = 1.0
# How many words the shortest answer has; the longest has twice as many.
FEWEST = 5
# So many are opened at a time.
BATCH = 50


async def stream_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each request with a word a second, some sooner at the end than others."""
    try:
        for number in count():
            await answer_slowly(reader, writer, number)
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()


async def answer_slowly(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
) -> None:
    """Answer one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
    body = await reader.readexactly(int(length or b"0"))
    writer.write(CHUNKED)
    for _ in range(FEWEST + crc32(body + bytes(number)) % FEWEST):
        writer.write(WORD)
        await asyncio.sleep(SECOND)
    writer.write(chunk(event({}, "stop") + DONE) + LAST)


async def ask_forever(port: int, number: int, begun: asyncio.Event) -> None:
    """Ask for an answer, read it slowly to its end, and ask again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000_000)
    try:
        while True:
            writer.write(ask_of(chat(f"hello {number}"), f"x-session-id: crowd-{number}"))
            await reader.readuntil(b"word ")
            begun.set()
            await reader.readuntil(b"[DONE]")
    finally:
        writer.transport.abort()


class Crowd:
    """A gateway, and the answers that it streams."""

    def __init__(self, gate: GatewayProcess, tasks: set[asyncio.Task[None]]) -> None:
        self.gate = gate
        self._tasks = tasks
        self._count = 0

    async def grow(self, size: int) -> None:
        """Add answers until there are so many; wait until all of them have begun."""
        while self._count < size:
            events = [asyncio.Event() for _ in range(min(size - self._count, BATCH))]
            for begun in events:
                self._count += 1
                one = ask_forever(self.gate.port, self._count, begun)
                self._tasks.add(asyncio.create_task(one))
            with anyio.fail_after(60):
                for begun in events:
                    await begun.wait()

    async def measure_cpu(self, seconds: float) -> float:
        """Return which part of a core the gateway uses, in percent."""
        before, begun = self._read_cpu(), anyio.current_time()
        await anyio.sleep(seconds)
        return 100 * (self._read_cpu() - before) / (anyio.current_time() - begun)

    def _read_cpu(self) -> float:
        times = Path(f"/proc/{self.gate.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def start_crowd(home: Path) -> AsyncIterator[Crowd]:
    """Start a gateway whose model streams slowly."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tasks: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(stream_slowly(reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512)
    tables = upstreams_of(server.sockets[0].getsockname()[1])
    named = {f"HOLDGATE_{name.upper()}": json.dumps(table) for name, table in tables.items()}
    try:
        async with as_process(home, {"ROUTECODEX_CLOCK_NTP": "off", **named}) as gate:
            yield Crowd(gate, tasks)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
