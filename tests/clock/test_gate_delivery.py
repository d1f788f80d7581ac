"""A due reminder is carried once: by one request of many, and again only if that came to nothing.

Counted from outside: by what the upstreams are sent, what the client reads, and the files.
"""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import (
    NO_HOLD,
    SECOND,
    carried,
    carriers,
    clock_file,
    counted,
    due,
    kept_tasks,
    listed,
    remind,
    reminding,
    results,
)
from tests.clock.words import MINUTE, NOW, clock, play, says, streamed
from tests.gateway.wire import DONE, Cue, data, hanging, in_turn, on_cue, text, turn, whole
from tests.run import Running, in_process, until
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    kept,
    messages,
    model,
    reply,
    talk,
    text_of,
)
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, once, sized

ERROR = b'{"error": {"message": "no"}}'
LOST: dict[str, Story] = {
    "a server error": once(sized(ERROR, JSON, status="500 Hm")),
    "too many": once(sized(ERROR, JSON, "retry-after: 1", status="429 Hm")),
    "a refusal": once(sized(ERROR, JSON, status="400 Hm")),
    "closed": once(),
    "reset": once(reset=True),
    "silence": hanging(),
    "silence after the headers": hanging(CHUNKED),
    "HTML": once(sized(b"<html>", "content-type: text/html")),
    "an error under a 200": once(sized(ERROR, JSON)),
    "an error as the first event": once(CHUNKED, chunk(data({"error": {"message": "no"}})), LAST),
    "half an event": once(CHUNKED, chunk(text("two")[:40]), reset=True),
    "half a body": once(sized(whole("two"), JSON)[:-9], reset=True),
}
PASSED_ON = {"a refusal"}
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
IMPATIENT = {"first_byte_ms": 100, "idle_ms": 100}


def says_once(words: str, stream: bool = True) -> Story:
    return once(*reply(words, stream=stream))


async def ask(gate: Running, stream: bool = True) -> str:
    """Ask in the session, and return what is answered."""
    return text_of(await gate.ask(talk("hi", stream=stream), SESSION, NO_HOLD))


def carrying(gate: Running) -> list[bool]:
    """Tell of each request in turn whether it carried the tea."""
    return [carried(asked) == ["tea"] for asked in gate.requests]


# Upstreams that fail.


@STREAMED
@pytest.mark.parametrize("lost", LOST)
async def test_lost_with_its_request_it_comes_with_the_next(lost: str, stream: bool) -> None:
    story = in_turn(LOST[lost], LOST[lost], says_once("x", stream))
    async with in_process(story, clock=ManualClock(NOW), upstream=IMPATIENT) as gate:
        await remind(gate, "tea", NOW)
        for _ in range(2):
            answer = await gate.ask(talk("hi", stream=stream), SESSION)
            assert answer.status >= 400 or answer.failed
        assert await ask(gate, stream) == "x"
        assert await ask(gate, stream) == "x"
        assert carrying(gate) == [True, True, True, False]
        assert (await listed(gate))["items"][0]["deliveryCount"] == 1
        assert await counted(gate, "released") == 2


@STREAMED
@pytest.mark.parametrize("lost", [lost for lost in LOST if lost not in PASSED_ON])
async def test_the_next_route_carries_it_in_the_same_answer(lost: str, stream: bool) -> None:
    async with in_process(
        LOST[lost], model("b"), clock=ManualClock(NOW), upstream=IMPATIENT
    ) as gate:
        await remind(gate, "tea", NOW)
        assert await ask(gate, stream) == "b"
        a, b = gate.fakes
        assert [carried(asked) for asked in (*a.requests, *b.requests)] == [["tea"], ["tea"]]
        assert len(reminding(b.requests[0])) == 1
        assert await ask(gate, stream) == "b"
        assert not carried(b.requests[1])
        assert (await listed(gate))["items"][0]["deliveryCount"] == 1


@STREAMED
async def test_lost_on_all_routes_it_comes_with_the_next_request(stream: bool) -> None:
    bad = LOST["a server error"]
    async with in_process(
        in_turn(bad, says_once("a", stream)), bad, clock=ManualClock(NOW)
    ) as gate:
        await remind(gate, "tea", NOW)
        assert (await gate.ask(talk("hi", stream=stream), SESSION)).status == 500
        assert await ask(gate, stream) == "a"
        a, b = gate.fakes
        assert [carried(asked) for asked in a.requests] == [["tea"], ["tea"]]
        assert len(b.requests) == 1


async def test_broken_after_its_first_frame_it_was_delivered(tmp_path: Path) -> None:
    """The client has read what the model made of it: that cannot be taken back."""
    cue = Cue()

    async def breaks(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(text("tea it is")))
        await cue.wait()
        peer.reset()

    story = in_turn(breaks, says_once("x"))
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        client = await gate.start(talk("hi"), SESSION)
        await client.saw(text("tea it is"))
        cue.give()
        assert (await client.answer()).failed == "upstream_broke"
        assert kept_tasks(tmp_path)[0]["deliveredAtMs"] == NOW
        await ask(gate)
        assert carrying(gate) == [True, False]


@STREAMED
async def test_a_turn_that_only_calls_the_clock_delivers_it(stream: bool) -> None:
    """Nothing of it is shown, but the model was told; the follow-up has it from before."""
    async with in_process(play(says("", clock("list")), says("x")), clock=ManualClock(NOW)) as gate:
        await remind(gate, "tea", NOW)
        assert await ask(gate, stream) == "x"
        assert await ask(gate, stream) == "x"
        assert [len(reminding(asked)) for asked in gate.requests] == [1, 1, 0]
        assert (await listed(gate))["items"][0]["deliveryCount"] == 1


@STREAMED
async def test_it_stays_delivered_when_the_follow_up_fails(stream: bool) -> None:
    """The answer ends well, and its model has read the reminder."""

    async def calls(peer: Peer) -> None:
        await play(says("", clock("list")))(peer)

    story = in_turn(calls, LOST["a server error"], says_once("x", stream))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        await remind(gate, "tea", NOW)
        await gate.ask(talk("hi", stream=stream), SESSION)
        await ask(gate, stream)
        assert len(carriers(gate.requests, "tea")) == 1


# Clients that leave.


@STREAMED
@pytest.mark.parametrize("sent", [b"", CHUNKED], ids=["asked", "answering"])
async def test_a_client_that_leaves_before_the_first_frame(stream: bool, sent: bytes) -> None:
    story = in_turn(hanging(sent), says_once("x", stream))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        await remind(gate, "tea", NOW)
        client = await gate.start(talk("hi", stream=stream), SESSION)
        await until(lambda: len(gate.requests) == 1)
        client.leave()
        await gate.quiet()
        await ask(gate, stream)
        assert carrying(gate) == [True, True]


# Many at once.


@pytest.mark.parametrize("store", ["memory", "files"])
async def test_of_two_hundred_requests_exactly_one_carries_it(tmp_path: Path, store: str) -> None:
    crowd = 200
    everybody = anyio.Event()
    count = 0

    async def story(peer: Peer) -> None:
        nonlocal count
        while True:
            asked = await peer.request()
            count += 1
            if count == crowd:
                everybody.set()
            await everybody.wait()
            await peer.send(*reply("x", stream=json.loads(asked.body)["stream"]))

    settings = kept(tmp_path) if store == "files" else {}
    async with in_process(story, clock=ManualClock(NOW), **settings) as gate:
        await remind(gate, "tea", NOW)

        async def one(number: int) -> None:
            assert await ask(gate, stream=bool(number % 2)) == "x"

        async with anyio.create_task_group() as tasks:
            for number in range(crowd):
                tasks.start_soon(one, number)
        assert sum(carrying(gate)) == 1
        for _ in range(3):
            await ask(gate)
        assert sum(carrying(gate)) == 1
        assert len(gate.requests) == crowd + 3
        assert (await listed(gate))["items"][0]["deliveryCount"] == 1


async def test_what_one_of_many_lost_another_one_finds() -> None:
    """Of those who ask on and on at once, one carries it, then another; never two at a time."""
    async with in_process(Losing(5).play, clock=ManualClock(NOW)) as gate:
        await remind(gate, "tea", NOW)

        async def asks(number: int) -> None:
            for _ in range(10):
                await gate.ask(talk("hi", stream=bool(number % 2)), SESSION)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(asks, number)
        assert sum(carrying(gate)) == 6
        assert (await listed(gate))["items"][0]["deliveryCount"] == 1


class Losing:
    """An upstream that fails some requests with a reminder, and sees that they come one by one."""

    def __init__(self, times: int) -> None:
        self._left = times
        self._carried = 0

    async def play(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            if not carried(asked):
                await peer.send(*reply("x", stream=json.loads(asked.body)["stream"]))
                continue
            self._carried += 1
            await anyio.sleep(0.01)
            assert self._carried == 1
            self._carried = 0
            if self._left:
                self._left -= 1
                await peer.send(sized(ERROR, JSON, status="500 Hm"))
            else:
                await peer.send(*reply("x", stream=json.loads(asked.body)["stream"]))


# Scheduled inside of the window.


@STREAMED
@pytest.mark.parametrize("in_ms", [-SECOND, 0, 30 * SECOND, MINUTE])
async def test_what_is_due_at_once_waits_for_the_next_request(in_ms: int, stream: bool) -> None:
    """Not in any turn of the exchange that scheduled it; once in the next; never after that."""
    wish = clock("schedule", due("tea", NOW + in_ms))
    story = play(says("", wish), says("", clock("list")), says("", clock("get")), says("x"))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        assert text_of(await gate.ask(talk("hi", stream=stream), SESSION)) == "x"
        scheduled, list_, _ = results(gate.requests[3])
        assert scheduled["scheduled"][0]["delivery"] == "next_request"
        assert [one["task"] for one in list_["items"]] == ["tea"]
        for _ in range(3):
            assert text_of(await gate.ask(talk("hi", stream=stream), SESSION)) == "x"
        assert carrying(gate) == [False] * 4 + [True, False, False]


async def test_nor_when_a_stop_message_goes_on() -> None:
    wish = clock("schedule", due("tea", NOW))
    story = play(says("", wish), says("one"), says("two"), says("three"), says("four"))
    async with in_process(story, clock=ManualClock(NOW)) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION)
        assert text_of(answer) == "one\n\ntwo\n\nthree\n\nfour"
        assert not any(carrying(gate))
        await ask(gate)
        assert carrying(gate)[-1]


async def test_another_request_meanwhile_carries_it() -> None:
    """It keeps out of the exchange that scheduled it, not out of the session."""
    cue = Cue()

    async def story(peer: Peer) -> None:
        asked = await peer.request()
        if messages(asked)[0]["content"] == "first" and not results(asked):
            await peer.send(*streamed(says("", clock("schedule", due("tea", NOW)))))
            return
        if results(asked):
            await cue.wait()
        await peer.send(*reply("x", stream=True))

    async with in_process(story, clock=ManualClock(NOW)) as gate:
        first = await gate.start(talk("first"), SESSION)
        await until(lambda: len(gate.requests) == 2)
        await ask(gate)
        cue.give()
        assert text_of(await first.answer()) == "x"
        assert carrying(gate) == [False, False, True]


# What the file says, and when.


async def test_it_is_written_down_before_the_answer_ends(tmp_path: Path) -> None:
    """Whoever has read the end can be sure that it does not come again, whatever happens."""
    clock = ManualClock(NOW)
    async with in_process(model("x"), clock=clock, **kept(tmp_path)) as gate:
        for number in range(30):
            session = f"s{number}"
            await remind(gate, "tea", NOW, session)
            client = await gate.start(talk("hi"), f"x-session-id: {session}")
            await client.saw(DONE)
            (task,) = kept_tasks(tmp_path, session)
            assert (task["deliveredAtMs"], task["deliveryCount"]) == (NOW, 1)
            await client.answer()


async def test_it_is_written_down_before_the_second_frame(tmp_path: Path) -> None:
    """So between first byte and commit there is nothing else a client could see."""
    cue = Cue()
    first, second = text("one"), text("two")
    story = on_cue(cue, CHUNKED + chunk(first), chunk(second), chunk(turn("three")) + LAST)
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        client = await gate.start(talk("hi"), SESSION)
        await client.saw(first)
        cue.give()
        await client.saw(second)
        assert kept_tasks(tmp_path)[0]["deliveredAtMs"] == NOW
        cue.give()
        await client.answer()


async def test_a_whole_answer_is_delivered_with_its_body(tmp_path: Path) -> None:
    cue = Cue()
    half = sized(whole("x"), JSON)
    story = on_cue(cue, half[:-5], half[-5:])
    async with in_process(story, clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        client = await gate.start(talk("hi", stream=False), SESSION)
        await until(lambda: len(gate.requests) == 1)
        assert "deliveredAtMs" not in kept_tasks(tmp_path)[0]
        cue.give()
        assert text_of(await client.answer()) == "x"
        await until(lambda: kept_tasks(tmp_path)[0].get("deliveredAtMs") == NOW)


@STREAMED
async def test_what_was_lost_leaves_no_trace_in_the_file(tmp_path: Path, stream: bool) -> None:
    async with in_process(LOST["a server error"], clock=ManualClock(NOW), **kept(tmp_path)) as gate:
        await remind(gate, "tea", NOW)
        before = clock_file(tmp_path).read_bytes()
        assert (await gate.ask(talk("hi", stream=stream), SESSION)).status == 500
        assert clock_file(tmp_path).read_bytes() == before
