"""Clients that do not read: nothing grows because of them, and they are not waited for for ever."""

from __future__ import annotations

import anyio

from tests.gateway.harness import running, until, within
from tests.gateway.wire import DONE, Cue, ask_of, chat, event, hanging, on_cue, text
from tests.upstream.fake import CHUNKED, LAST, Peer, chunk

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
    async with running(upstream.story, settings=limits) as gate:
        await gate.send(ask_of(chat()), receive_buffer=4096)
        await until(lambda: upstream.sent > 0)
        async with within(3):
            await until(lambda: gate.fakes[0].open == 0)
        assert upstream.sent < 30_000_000
        await gate.quiet()
        assert [line["state"] for line in gate.exchanges] == ["gone"]


async def test_one_that_pauses_gets_everything() -> None:
    cue = Cue()
    story = on_cue(cue, CHUNKED + chunk(ROLE), chunk(BIG) + chunk(END) + LAST)
    async with running(story, limits__slow_reader_ms=5000) as gate:
        client = await gate.send(ask_of(chat()), receive_buffer=4096)
        cue.give()
        await anyio.sleep(0.3)
        assert (await client.answer()).body == ROLE + BIG + END


async def test_one_that_has_read_all_is_no_slow_reader() -> None:
    """A heartbeat found the socket full; then the client read on, and only the upstream is quiet."""
    limits = {"limits__slow_reader_ms": 400, "server__keepalive_ms": 50}
    async with running(hanging(CHUNKED, chunk(ROLE + BIG)), settings=limits) as gate:
        client = await gate.send(ask_of(chat()), receive_buffer=4096)
        await anyio.sleep(0.2)
        await client.saw(BIG)
        for _ in range(20):
            await client.saw(BEAT)
            client.forget_body()
        assert gate.live == 1


async def test_others_get_their_beats_meanwhile() -> None:
    limits = {"limits__slow_reader_ms": 2000, "server__keepalive_ms": 50}
    async with running(hanging(CHUNKED, chunk(ROLE + BIG)), settings=limits) as gate:
        for _ in range(10):
            await gate.send(ask_of(chat()), receive_buffer=4096)
        client = await gate.start()
        await client.saw(BIG)
        async with within(2):
            await client.saw(BEAT + BEAT + BEAT)
