"""Each event at once, and a sign of life when there is none."""

from __future__ import annotations

import anyio
import pytest

from tests.gateway.wire import (
    DONE,
    Cue,
    chat,
    event,
    hanging,
    in_turn,
    on_cue,
    streaming,
    text,
    turn,
    whole,
)
from tests.run import go_on, in_process, until, within
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, head, once, sized

WAIT = b": wait\n"
BEAT = event({})
ROLE = event({"role": "assistant", "content": ""})
END = event({}, "stop") + DONE
BEGINS = hanging(CHUNKED, chunk(ROLE))
"""Its client gets heartbeats; so many of them show that others would have had some too."""


def without_beats(body: bytearray) -> bytes:
    return bytes(body).replace(BEAT, b"").replace(WAIT, b"")


@pytest.mark.parametrize("transport", ["fast", "httpx", "httpx2"])
async def test_each_event_is_there_before_the_next_is_sent(transport: str) -> None:
    events = [ROLE, *[text(str(number)) for number in range(5)]]
    cue = Cue()
    story = on_cue(cue, CHUNKED, *map(chunk, events), chunk(END) + LAST)
    async with in_process(story, upstream={"transport": transport}) as gate:
        client = await gate.start()
        for frame in events:
            cue.give()
            assert (await client.saw(frame)).body.endswith(frame)
        cue.give()
        assert (await client.answer()).body == b"".join(events) + END


async def test_the_start_line_waits_for_the_first_event() -> None:
    cue = Cue()
    async with in_process(on_cue(cue, CHUNKED, chunk(ROLE + END) + LAST)) as gate:
        client = await gate.start()
        with anyio.move_on_after(0.05) as early:
            await client.head()
        assert early.cancelled_caught
        cue.give()
        assert (await client.answer()).status == 200


async def test_beats_before_and_between_events() -> None:
    cue = Cue()
    story = on_cue(cue, CHUNKED, chunk(ROLE), chunk(text("one")), chunk(END) + LAST)
    async with in_process(story, server__keepalive_ms=20) as gate:
        client = await gate.start()
        answer = await client.saw(WAIT + WAIT)
        assert answer.body.replace(WAIT, b"") == b""
        cue.give()
        answer = await client.saw(ROLE + BEAT + BEAT)
        assert WAIT not in bytes(answer.body).partition(ROLE)[2]
        cue.give()
        await client.saw(text("one") + BEAT)
        cue.give()
        answer = await client.answer()
    assert without_beats(answer.body) == ROLE + text("one") + END
    assert answer.ending == "whole"


async def test_no_beat_falls_inside_an_event() -> None:
    cue = Cue()
    one = text("one, in two halves")
    story = on_cue(cue, CHUNKED, chunk(ROLE + one[:40]), chunk(one[40:] + END) + LAST)
    async with in_process(story, server__keepalive_ms=10) as gate:
        client = await gate.start()
        cue.give()
        await client.saw(ROLE + BEAT + BEAT)
        cue.give()
        answer = await client.answer()
    assert one + END in answer.body
    assert without_beats(answer.body) == ROLE + one + END


async def test_a_busy_stream_gets_no_beat() -> None:
    async def chatty(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(ROLE))
        for number in range(20):
            await anyio.sleep(0.01)
            await peer.send(chunk(text(str(number))))
        await peer.send(chunk(END), LAST)

    async with in_process(chatty, server__keepalive_ms=200) as gate:
        assert BEAT not in (await gate.ask()).body


async def test_beats_do_not_keep_a_silent_upstream_alive() -> None:
    upstream = {"idle_ms": 150}
    story = hanging(CHUNKED, chunk(ROLE))
    async with in_process(story, upstream=upstream, server__keepalive_ms=20) as gate:
        async with within(1):
            answer = await gate.ask()
        assert BEAT + BEAT in answer.body
        assert answer.failed == "upstream_timeout"
        await until(lambda: gate.fakes[0].open == 0)


async def test_nor_one_that_never_begins() -> None:
    """The heartbeat has sent the start line, so what is left to say is said in the stream."""
    story = hanging(CHUNKED)
    upstream = {"first_byte_ms": 150}
    async with in_process(story, upstream=upstream, server__keepalive_ms=20) as gate:
        answer = await gate.ask()
    assert answer.status == 200
    assert answer.body.startswith(WAIT + WAIT)
    assert answer.failed == "upstream_timeout"


async def test_no_beat_before_the_upstream_has_answered() -> None:
    """Until then the status is not known: it may still be a 400."""
    cue = Cue()

    async def slow_to_refuse(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(sized(b'{"error":{}}', status="400 Bad Request"))

    story = in_turn(slow_to_refuse, BEGINS)
    async with in_process(story, server__keepalive_ms=10) as gate:
        client = await gate.start()
        await until(lambda: bool(gate.requests))
        await (await gate.start()).saw(3 * BEAT)
        cue.give()
        assert (await client.answer()).status == 400


async def test_a_whole_answer_gets_no_beat() -> None:
    cue = Cue()
    body = whole("slowly")
    slowly = on_cue(cue, head(f"content-length: {len(body)}"), body[:9], body[9:])
    async with in_process(in_turn(slowly, BEGINS), server__keepalive_ms=10) as gate:
        client = await gate.start(chat(stream=False))
        await until(lambda: bool(gate.requests))
        streamed = await gate.start()
        for _ in range(2):
            await streamed.saw(3 * BEAT)
            streamed.forget_body()
            cue.give()
        assert (await client.answer()).body == body


async def test_beats_while_a_follow_up_is_opened() -> None:
    cue = Cue()

    async def second(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(CHUNKED, chunk(turn("two", "b")), LAST)

    story = in_turn(once(CHUNKED, chunk(turn("one")), LAST), second, streaming(turn("three")))
    async with in_process(story, rules=(go_on,), server__keepalive_ms=20) as gate:
        client = await gate.start()
        await client.saw(text("one") + BEAT + BEAT)
        cue.give()
        answer = await client.answer()
    assert answer.text == "one\n\ntwo\n\nthree"
    assert answer.body.endswith(END)


async def test_many_idle_clients_all_get_their_beats() -> None:
    async with in_process(hanging(CHUNKED, chunk(ROLE)), server__keepalive_ms=30) as gate:
        clients = [await gate.start() for _ in range(50)]
        for client in clients:
            await client.saw(ROLE + BEAT + BEAT)
