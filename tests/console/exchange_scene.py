"""One answer over its turns, seen from outside: an upstream and a client that each keep a log.

The first route refuses, the second calls the clock, goes on twice by stop messages, and the answer
is held until the reminder is due.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from tests.clock.holding import schedules
from tests.clock.reminding import variables
from tests.console.test_console_gate import Diary
from tests.gateway.client import Client
from tests.gateway.wire import DONE, ask_of, event, text, usage
from tests.run import GatewayProcess, as_process, plain_failures
from tests.sessions.talk import talk
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, fake_upstream, sized

ASKED = '<**stopMessage:"go on",2**> remind me'
DRIP = "drip"
WORDS = ("I will.", "One.", "Two.", "Tea.")
FEW = (" more",) * 3
MUCH = " much" * 800


class SlowModel(Diary):
    """A model whose answers take their time; it notes when it was asked, began, said much, and ended."""

    def __init__(self, in_ms: int) -> None:
        super().__init__()
        self.began: list[float] = []
        self.bursts: list[float] = []
        self._schedule = schedules(in_ms)

    async def play(self, peer: Peer) -> None:
        """Answer whoever asks."""
        while True:
            asked = json.loads((await peer.request()).body)
            if DRIP in str(asked["messages"]):
                await self._drip(peer)
                continue
            self.asked.append(time.monotonic())
            spoken = sum(message["role"] == "assistant" for message in asked["messages"])
            await anyio.sleep(0.2)
            if spoken == 0:
                self.began.append(time.monotonic())
                await peer.send(*self._schedule(asked, "a"))
            else:
                await self._say(peer, WORDS[min(spoken, 4) - 1], "abcde"[min(spoken, 4)])
            self.ended.append(time.monotonic())

    async def _say(self, peer: Peer, words: str, ident: str) -> None:
        role = event({"role": "assistant", "content": ""}, ident=ident)
        self.began.append(time.monotonic())
        await peer.send(CHUNKED, chunk(role + text(words, ident)))
        for piece in (*FEW, MUCH, *FEW):
            await anyio.sleep(0.1)
            if piece is MUCH:
                self.bursts.append(time.monotonic())
            await peer.send(chunk(text(piece, ident)))
        last = event({}, "stop", ident) + usage(10, 4, ident) + DONE
        await peer.send(chunk(last), LAST)

    async def _drip(self, peer: Peer) -> None:
        """Say a little again and again, until the gateway leaves."""
        await peer.send(CHUNKED, chunk(event({"role": "assistant", "content": ""})))
        while True:
            await peer.send(chunk(text("drop ")))
            await anyio.sleep(0.02)


class BusyModel(Diary):
    """A model that refuses, a moment after it was asked."""

    async def play(self, peer: Peer) -> None:
        """Answer everything with 429."""
        while True:
            await peer.request()
            self.asked.append(time.monotonic())
            await anyio.sleep(0.15)
            error = b'{"error":{"message":"slow down"}}'
            await peer.send(sized(error, status="429 Too Many Requests"))
            self.ended.append(time.monotonic())


@dataclass
class ClientLog:
    """What a client was sent, and when."""

    begun: float = 0.0
    ended: float = 0.0
    chunks: list[tuple[float, bytes]] = field(default_factory=list)

    async def ask(self, gate: GatewayProcess, words: str, *headers: str) -> None:
        """Ask for an answer, and read it to its end."""
        client = await Client.connected(gate.port)
        try:
            await self._read(client, ask_of(talk(words), *headers))
        finally:
            client.leave()

    async def _read(self, client: Client, asked: bytes) -> None:
        self.begun = time.monotonic()
        await client.send(asked)
        answer = await client.head()
        while True:
            now = time.monotonic()
            self.chunks += [(now, one) for one in answer.chunks[len(self.chunks) :]]
            if answer.ending:
                break
            await client.more()
        self.ended = time.monotonic()

    def _events(self) -> list[tuple[float, dict[str, Any]]]:
        lines = [(at, line) for at, one in self.chunks for line in one.split(b"\n")]
        data = [(at, line[6:]) for at, line in lines if line.startswith(b"data: {")]
        return [(at, json.loads(one)) for at, one in data]

    @property
    def first(self) -> float:
        """When the first byte came."""
        return self.chunks[0][0]

    @property
    def body(self) -> bytes:
        """All that came."""
        return b"".join(one for _, one in self.chunks)

    @property
    def beats(self) -> list[float]:
        """When heartbeats came: chunks that say nothing and end nothing."""
        return [
            at
            for at, one in self._events()
            for choice in one.get("choices", ())
            if not choice["delta"] and choice["finish_reason"] is None
        ]

    def find_words(self, *words: str) -> list[float]:
        """Return when each of these words came."""
        return [next(at for at, one in self.chunks if word.encode() in one) for word in words]


@dataclass
class Scene:
    """All who take part, and their logs."""

    gate: GatewayProcess
    busy: BusyModel
    model: SlowModel
    client: ClientLog

    def to_ms(self, *moments: float) -> list[float]:
        """Return moments as milliseconds since the client asked."""
        return [(moment - self.client.begun) * 1000 for moment in moments]


@asynccontextmanager
async def set_scene(home: Path, in_ms: int, keepalive_ms: int) -> AsyncIterator[Scene]:
    """Start a gateway whose model calls the clock for a reminder in so many milliseconds."""
    busy, model = BusyModel(), SlowModel(in_ms)
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        first = await stack.enter_async_context(fake_upstream(busy.play))
        second = await stack.enter_async_context(fake_upstream(model.play))
        settings = variables(
            first.port,
            second.port,
            clock__due_window_ms=0,
            clock__hold_max_ms=600_000,
            server__keepalive_ms=keepalive_ms,
            server__session_dir=home / "sessions",
        )
        async with as_process(home, settings) as gate:
            yield Scene(gate, busy, model, ClientLog())
