"""A client that leaves, in whatever state and way, takes its upstream request with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import anyio
import pytest

from tests.gateway.client import Client
from tests.gateway.harness import SOON, Running, go_on, running, until, within
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
from tests.upstream.fake import CHUNKED, LAST, Peer, Story, chunk, head, once, sized

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
    async with running(state.story(), rules=rules, server__keepalive_ms=20) as gate:
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


@pytest.mark.parametrize("transport", ["fast", "httpx"])
@pytest.mark.parametrize("use_uvloop", [True, False], ids=["uvloop", "asyncio"])
class TestOnEveryLoopAndTransport:
    """The same on the other event loop and the other transport, in two states."""

    @pytest.fixture
    def anyio_backend(self, use_uvloop: bool) -> tuple[str, dict[str, bool]]:
        return ("asyncio", {"use_uvloop": use_uvloop})

    async def test_before_headers(self, transport: str) -> None:
        async with running(hanging(), upstream={"transport": transport}) as gate:
            client = await gate.start()
            await until(lambda: bool(gate.requests))
            client.leave()
            await until(lambda: gate.fakes[0].open == 0, SOON)

    async def test_while_relaying(self, transport: str) -> None:
        async with running(
            hanging(CHUNKED, chunk(ROLE)), upstream={"transport": transport}
        ) as gate:
            client = await gate.start()
            await client.saw(ROLE)
            client.leave()
            await until(lambda: gate.fakes[0].open == 0, SOON)


async def test_leaving_after_the_end_is_normal() -> None:
    async with running(streaming(turn("one"))) as gate:
        for _ in range(3):
            client = await gate.start()
            await client.saw(DONE)
            client.reset()
            await gate.quiet()
        assert [line["state"] for line in gate.exchanges] == ["done"] * 3
        assert gate.fakes[0].accepted == 1


async def test_leaving_while_still_sending_asks_nobody() -> None:
    async with running(streaming(turn("one"))) as gate:
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
    async with running(hanging(CHUNKED, chunk(ROLE))) as gate:
        client = await gate.send(asked * 2 if together else asked)
        await client.saw(ROLE)
        if not together:
            await client.send(asked)
        client.leave()
        await until(lambda: gate.fakes[0].open == 0, SOON)
        await gate.quiet()
        assert len(gate.requests) == 1


async def test_leaving_while_the_upstream_has_no_free_connection() -> None:
    async with running(hanging(CHUNKED, chunk(ROLE)), upstream={"max_connections": 1}) as gate:
        first = await gate.start()
        await first.saw(ROLE)
        waiting = await gate.start()
        await until(lambda: gate.live == 2)
        waiting.leave()
        await until(lambda: gate.live == 1, SOON)
        first.leave()
        await gate.quiet()
        assert len(gate.requests) == 1


def dawdling(random: Random) -> Story:
    """Answer whatever is asked with pauses of random length, and now and then break off."""

    async def story(peer: Peer) -> None:
        while True:
            asked = await peer.request()
            await anyio.sleep(random.random() * 0.004)
            streams = b'"stream": true' in asked.body
            pieces = [ROLE, text("x"), event({}, "stop"), DONE] if streams else [b" ", whole()]
            await peer.send(CHUNKED if streams else JSON)
            for piece in pieces:
                await peer.send(chunk(piece))
                await anyio.sleep(random.random() * 0.002)
            if random.random() < 0.05:
                peer.reset()
                return
            await peer.send(LAST)

    return story


async def visit(gate: Running, random: Random) -> None:
    """Ask, and leave at a random moment in a random way."""
    client = await gate.start(chat(stream=random.random() < 0.6))
    with anyio.move_on_after(random.expovariate(120)):
        await client.answer()
    random.choice((Client.leave, Client.reset, Client.half_close))(client)
    client.leave()


async def hasty_visitors(transport: str, visits: int) -> None:
    random = Random(visits)
    upstream = {"transport": transport, "max_connections": 20}
    async with running(dawdling(random), upstream=upstream, patience=240) as gate:

        async def visitor() -> None:
            for _ in range(visits // 30):
                await visit(gate, random)

        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(visitor)
        await gate.quiet()
        answers = [await gate.ask(chat(stream=False)) for _ in range(3)]
        assert 200 in [answer.status for answer in answers]
        assert len(gate.exchanges) >= visits * 0.9


@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_hasty_visitors_leave_no_busy_connection(transport: str) -> None:
    await hasty_visitors(transport, 300)


@pytest.mark.long
@pytest.mark.parametrize("transport", ["fast", "httpx"])
async def test_thousands_of_hasty_visitors_leave_no_busy_connection(transport: str) -> None:
    await hasty_visitors(transport, 3000)
