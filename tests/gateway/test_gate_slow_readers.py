"""Clients that do not read: nothing grows because of them, and they are not waited for for ever."""

from __future__ import annotations

import anyio
import pytest

from gateway.wire.http_client.connection import HIGH_WATER
from tests.gateway.test_gate_drain import gateway_process
from tests.gateway.wire import DONE, Cue, ask_of, chat, event, hanging, on_cue, text, whole
from tests.run import in_process, until, within
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, once, sized

ROLE = event({"role": "assistant", "content": ""})
BEAT = event({})
END = event({}, "stop") + DONE
BIG = text("x" * 8_000_000)
"""More than the sockets of a client that does not read can take."""


class Endless:
    """An upstream that goes on and on, and knows how much it got rid of."""

    def __init__(self) -> None:
        self.sent = 0

    async def story(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        batch = chunk(text("on and on " * 1000))
        while True:
            await peer.send(batch)
            self.sent += len(batch)


async def test_one_that_never_reads_is_given_up_and_nothing_grows() -> None:
    upstream = Endless()
    limits = {"limits__slow_reader_ms": 400, "server__keepalive_ms": 50}
    async with in_process(upstream.story, settings=limits) as gate:
        await gate.send(ask_of(chat()), receive_buffer=4096)
        await until(lambda: upstream.sent > 0)
        async with within(3):
            await until(lambda: gate.fakes[0].open == 0)
        assert upstream.sent < 30_000_000
        await gate.quiet()
        assert [line["state"] for line in gate.exchanges] == ["gone"]


@pytest.mark.parametrize("size", [300_000, 8_000_000])
async def test_one_that_does_not_read_a_whole_answer_is_reset(size: int) -> None:
    """It has its answer in the kernels' buffers, or ours; nobody waits for it to be taken."""
    story = once(sized(whole("x" * size)))
    async with in_process(story, limits__slow_reader_ms=400) as gate:
        client = await gate.send(ask_of(chat(stream=False)), receive_buffer=4096)
        await until(lambda: [line["state"] for line in gate.exchanges] == ["done"])
        async with within(3):
            await until(lambda: gate.connections == 0)
        assert await client.closed() == "reset"


async def test_one_that_does_not_read_its_stream_is_reset() -> None:
    """Its socket is closed as well, not left with what it never took."""
    limits = {"limits__slow_reader_ms": 400, "server__keepalive_ms": 50}
    async with in_process(Endless().story, settings=limits) as gate:
        client = await gate.send(ask_of(chat()), receive_buffer=4096)
        await until(lambda: gate.live == 1)
        async with within(3):
            await until(lambda: gate.connections == 0)
        assert await client.closed() == "reset"


async def test_one_that_reads_little_by_little_is_not_given_up() -> None:
    limits = {"limits__slow_reader_ms": 500, "server__keepalive_ms": 50}
    async with in_process(Endless().story, settings=limits) as gate:
        client = await gate.send(ask_of(chat()), receive_buffer=4096)
        for _ in range(20):
            await client.discard(3000)
            await anyio.sleep(0.1)
        assert gate.live == 1


async def test_a_stream_that_is_not_read_costs_at_most_twice_the_high_water() -> None:
    """Measured from outside, as the memory of a process."""
    upstream = Endless()

    async def get_stuck(count: int) -> None:
        clients = [await gate.connect(receive_buffer=4096) for _ in range(count)]
        for client in clients:
            await client.send(ask_of(chat()))
        sent = -1
        while sent != upstream.sent:
            sent = upstream.sent
            await anyio.sleep(0.5)

    async with gateway_process(upstream.story, drain_ms=1000) as gate:
        await get_stuck(4)
        costs: list[float] = []
        # A process's memory grows in steps, and not only by what was asked of it just now.
        for _ in range(3):
            before = gate.resident_bytes
            await get_stuck(20)
            costs.append((gate.resident_bytes - before) / 20)
        assert min(costs) < 2 * HIGH_WATER


async def test_one_that_pauses_gets_everything() -> None:
    cue = Cue()
    story = on_cue(cue, CHUNKED + chunk(ROLE), chunk(BIG) + chunk(text("more")) + chunk(END) + LAST)
    async with in_process(story, server__keepalive_ms=50) as gate:
        client = await gate.start()
        cue.give()
        await anyio.sleep(0.3)
        answer = await client.answer()
    assert bytes(answer.body).replace(BEAT, b"") == ROLE + BIG + text("more") + END


async def test_one_that_has_read_all_is_no_slow_reader() -> None:
    """A heartbeat found the socket full; then the client read on, and only the upstream is quiet."""
    limits = {"limits__slow_reader_ms": 1000, "server__keepalive_ms": 50}
    async with in_process(hanging(CHUNKED, chunk(ROLE + BIG)), settings=limits) as gate:
        client = await gate.start()
        await anyio.sleep(0.3)
        await client.saw(BIG)
        for _ in range(25):
            await client.saw(BEAT)
            client.forget_body()
        assert gate.live == 1


async def test_others_get_their_beats_meanwhile() -> None:
    async def big_or_small(peer: Peer) -> None:
        asked = await peer.request()
        await peer.send(CHUNKED, chunk(ROLE + BIG if b"big" in asked.body else ROLE))
        await peer.gone()

    async with in_process(big_or_small, server__keepalive_ms=50) as gate:
        stuck = [await gate.start(chat("big")) for _ in range(5)]
        client = await gate.start(chat("small"))
        async with within(3):
            await client.saw(ROLE + BEAT * 4)
        assert gate.live == len(stuck) + 1


async def test_one_that_does_not_read_its_notes_can_be_sent_home() -> None:
    """The turn is over and its note cannot be sent when the gateway has to go."""
    stream = ROLE + BIG + END
    story = hanging(CHUNKED, chunk(stream))
    async with in_process(story, server__drain_ms=200) as gate:
        client = await gate.start(chat(), "x-holdgate-notes: 1")
        await until(lambda: gate.states == ["closing"])
        gate.gateway.leave(lambda: None)
        await until(lambda: not gate.live)
        assert gate.exchanges[0]["state"] == "done"
        assert (await client.answer()).ending in ("closed", "reset")
