"""A client that leaves, in whatever state and way, takes its upstream request with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import anyio
import pytest

from tests.gateway.client import Client
from tests.gateway.wire import (
    DONE,
    ask_of,
    chat,
    event,
    hanging,
    in_turn,
    streaming,
    text,
    turn,
    whole,
)
from tests.run import SOON, Running, go_on, in_process, until, within
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, head, once, sized

ROLE = event({"role": "assistant", "content": ""})
JSON = head("content-type: application/json", "transfer-encoding: chunked")
FIRST = once(CHUNKED, chunk(turn("one")), LAST)
BEAT = event({})


@dataclass(frozen=True)
class State:
    """Where an exchange is when its client leaves: the upstream's story, and what is seen of it."""

    story: Callable[[], Story]
    seen: bytes = b""
    stream: bool = True
    asked: int = 1
    rules: bool = False


STATES = {
    "opening, before headers": State(hanging),
    "opening, before the first event": State(lambda: hanging(CHUNKED), b": wait\n"),
    "opening, inside the first event": State(
        lambda: hanging(CHUNKED, chunk(ROLE[:9])), b": wait\n"
    ),
    "relaying": State(lambda: hanging(CHUNKED, chunk(ROLE)), ROLE),
    "relaying, inside an event": State(lambda: hanging(CHUNKED, chunk(ROLE + b"data: {")), ROLE),
    "withholding the end": State(
        lambda: hanging(CHUNKED, chunk(ROLE + event({}, "stop"))), ROLE + BEAT
    ),
    "whole, before headers": State(hanging, stream=False),
    "whole, before the body": State(lambda: hanging(JSON), stream=False),
    "whole, inside the body": State(lambda: hanging(JSON, chunk(whole()[:20])), stream=False),
    "opening a follow-up": State(
        lambda: in_turn(FIRST, hanging()), text("one") + BEAT, asked=2, rules=True
    ),
    "relaying a follow-up": State(
        lambda: in_turn(FIRST, hanging(CHUNKED, chunk(text("two", "b")))),
        text("two"),
        asked=2,
        rules=True,
    ),
    "opening a whole follow-up": State(
        lambda: in_turn(once(sized(whole("one"), "content-type: application/json")), hanging()),
        stream=False,
        asked=2,
        rules=True,
    ),
}
WAYS: dict[str, Callable[[Client], None]] = {
    "closes": Client.leave,
    "resets": Client.reset,
    # Who half-closes is gone: the kernel shows the gateway the same as for who closed, and an
    # answer for nobody costs money. nginx and Go's server judge it the same way.
    "half-closes": Client.half_close,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
async def test_leaving_closes_the_upstream_and_starts_nothing(state: State, way: str) -> None:
    rules = (go_on,) if state.rules else ()
    async with in_process(state.story(), rules=rules, server__keepalive_ms=20) as gate:
        fake = gate.fakes[0]
        client = await gate.start(chat(stream=state.stream))
        if state.seen:
            await client.saw(state.seen)
        await until(lambda: len(fake.requests) == state.asked and fake.open == 1)
        async with within(SOON):
            WAYS[way](client)
            await until(lambda: fake.open == 0)
        await gate.quiet()
        assert len(fake.requests) == state.asked
        assert [line["state"] for line in gate.exchanges] == ["gone"]


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
@pytest.mark.parametrize("use_uvloop", [True, False], ids=["uvloop", "asyncio"])
class TestOnEveryLoopAndTransport:
    """The same on the other event loop and the other transports, in two states."""

    @pytest.fixture
    def anyio_backend(self, use_uvloop: bool) -> tuple[str, dict[str, bool]]:
        return ("asyncio", {"use_uvloop": use_uvloop})

    async def test_before_headers(self, transport: str) -> None:
        async with in_process(hanging(), upstream={"transport": transport}) as gate:
            client = await gate.start()
            await until(lambda: bool(gate.requests))
            client.leave()
            await until(lambda: gate.fakes[0].open == 0, SOON)

    async def test_while_relaying(self, transport: str) -> None:
        async with in_process(
            hanging(CHUNKED, chunk(ROLE)), upstream={"transport": transport}
        ) as gate:
            client = await gate.start()
            await client.saw(ROLE)
            client.leave()
            await until(lambda: gate.fakes[0].open == 0, SOON)


async def test_leaving_after_the_end_is_normal() -> None:
    async with in_process(streaming(turn("one"))) as gate:
        for _ in range(3):
            client = await gate.start()
            await client.saw(DONE)
            client.reset()
            await gate.quiet()
        assert [line["state"] for line in gate.exchanges] == ["done"] * 3
        assert gate.fakes[0].accepted == 1


async def test_leaving_while_still_sending_asks_nobody() -> None:
    async with in_process(streaming(turn("one"))) as gate:
        asked = ask_of(chat("x" * 100_000))
        for sent in (20, 300, 70_000, len(asked) - 1):
            client = await gate.send(asked[:sent])
            await anyio.sleep(0.01)
            client.leave()
        assert (await gate.ask()).text == "one"
        assert len(gate.requests) == 1
        assert len(gate.exchanges) == 1


@pytest.mark.parametrize("together", [True, False])
async def test_leaving_with_the_next_request_already_sent(together: bool) -> None:
    """A request that waits behind another does not hide that its client left."""
    asked = ask_of(chat())
    async with in_process(hanging(CHUNKED, chunk(ROLE))) as gate:
        client = await gate.send(asked * 2 if together else asked)
        await client.saw(ROLE)
        if not together:
            await client.send(asked)
        client.leave()
        await until(lambda: gate.fakes[0].open == 0, SOON)
        await gate.quiet()
        assert len(gate.requests) == 1


async def test_leaving_while_the_upstream_has_no_free_connection() -> None:
    async with in_process(hanging(CHUNKED, chunk(ROLE)), upstream={"max_connections": 1}) as gate:
        first = await gate.start()
        await first.saw(ROLE)
        waiting = await gate.start()
        await until(lambda: gate.live == 2)
        waiting.leave()
        await until(lambda: gate.live == 1, SOON)
        first.leave()
        await gate.quiet()
        assert len(gate.requests) == 1


class Visitors:
    """Clients that ask and leave at random moments; an upstream that takes its time."""

    def __init__(self, visits: int) -> None:
        self._random = Random(visits)
        self._numbers = iter(range(visits))
        self._arrived = [anyio.Event() for _ in range(visits)]

    async def upstream(self, peer: Peer) -> None:
        """Answer with pauses of random length, and now and then break off."""
        while True:
            asked = json.loads((await peer.request()).body)
            number = int(asked["messages"][0]["content"])
            if number >= 0:
                self._arrived[number].set()
            await self._pause()
            await peer.send(CHUNKED if asked["stream"] else JSON)
            events = [ROLE, text("x"), event({}, "stop"), DONE]
            for piece in events if asked["stream"] else [b" ", whole()]:
                await peer.send(chunk(piece))
                await self._pause()
            if number >= 0 and self._random.random() < 0.05:
                peer.reset()
                return
            await peer.send(LAST)

    async def visitor(self, gate: Running) -> None:
        """Ask and leave, again and again."""
        for number in self._numbers:
            client = await gate.start(chat(str(number), stream=self._random.random() < 0.6))
            patience = self._random.choice(("none", "until it is asked", "some", "endless"))
            if patience != "none":
                await self._arrived[number].wait()
            if patience == "some":
                await self._pause()
            elif patience == "endless":
                await client.answer()
            self._random.choice(list(WAYS.values()))(client)
            client.leave()

    async def _pause(self) -> None:
        await anyio.sleep(self._random.random() * 0.004)


async def hasty_visitors(transport: str, visits: int) -> None:
    visitors = Visitors(visits)
    upstream = {"transport": transport, "max_connections": 20}
    async with in_process(visitors.upstream, upstream=upstream, patience=240) as gate:
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(visitors.visitor, gate)
        await gate.quiet()
        assert (await gate.ask(chat("-1", stream=False))).body.strip() == whole()
        ends = Counter(line["state"] for line in gate.exchanges)
        # A quarter stays to the end whatever happens; how many more do is the machine's affair.
        assert min(ends["gone"], ends["done"]) > visits / 10


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
async def test_hasty_visitors_leave_no_busy_connection(transport: str) -> None:
    await hasty_visitors(transport, 300)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
async def test_thousands_of_hasty_visitors_leave_no_busy_connection(transport: str) -> None:
    await hasty_visitors(transport, 3000)
