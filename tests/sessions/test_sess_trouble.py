"""Follow-ups that fail, say nothing or say the same; and a session that changes meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.gateway.client import Answer
from tests.gateway.wire import DONE, Cue, data, event, hanging, in_turn, text, turn, whole
from tests.run import Running, in_process, until
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    assistant,
    document,
    follow_ups,
    forget,
    kept,
    look,
    model,
    newest,
    notes_of,
    reply,
    stop_message,
    talk,
    text_of,
    told,
)
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, once, sized

ERROR = b'{"error": {"message": "no"}}'
BEGUN = {"id": "b", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
LOST: dict[str, Story] = {
    "closed": once(),
    "reset": once(reset=True),
    "a server error": once(sized(ERROR, JSON, status="500 Hm")),
    "too many": once(sized(ERROR, JSON, "retry-after: 1", status="429 Hm")),
    "a refusal": once(sized(ERROR, JSON, status="400 Hm")),
    "an error under a 200": once(sized(ERROR, JSON)),
    "HTML": once(sized(b"<html>", "content-type: text/html")),
    "silence": hanging(),
    "an error as the first event": once(CHUNKED, chunk(data({"error": {"message": "no"}})), LAST),
    "half an event": once(CHUNKED, chunk(text("two")[:40]), reset=True),
    "a beginning, then an error": once(
        CHUNKED, chunk(data(BEGUN)), chunk(data({"error": {"message": "no"}})), LAST
    ),
    "a beginning and no more": once(CHUNKED, chunk(b": wait\n\n" + data(BEGUN)), reset=True),
}
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def says(words: str, stream: bool = True) -> Story:
    return once(*reply(words, stream=stream))


async def spent(gate: Running, why: str) -> None:
    """See that the stop message is disarmed, and that the log says why."""
    shown = await stop_message(gate)
    assert (shown["used"], shown["armed"]) == (shown["maxRepeats"], False)
    (note,) = notes_of(gate, "stop_message_disarmed")
    assert (note["session"], note["why"]) == ("s", why)
    before = len(gate.requests)
    assert (await gate.ask(talk("hi"), SESSION)).status == 200
    assert len(gate.requests) == before + 1


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_a_follow_up_that_fails_is_tried_once_more(lost: Story) -> None:
    story = in_turn(says("one"), lost, says("two"), lost, says("three"), says("four"), says("five"))
    async with in_process(story, upstream={"first_byte_ms": 100}) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION, "x-request-id: r")
        assert text_of(answer) == "one\n\ntwo\n\nthree\n\nfour"
        ids = [request.headers[b"x-request-id"][2:].decode() for request in gate.requests]
        first, second, third = "stop_followup", "stop_followup.2", "stop_followup.3"
        assert ids == ["", first, first, second, second, third]
        assert gate.requests[1].body == gate.requests[2].body
        assert (await stop_message(gate))["used"] == 3
        assert not notes_of(gate, "stop_message_disarmed")


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
async def test_a_follow_up_that_fails_twice_ends_the_answer_well(lost: Story) -> None:
    story = in_turn(once(CHUNKED, chunk(turn("one")), LAST), lost, lost, says("later"))
    async with in_process(story, upstream={"first_byte_ms": 100}) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION)
        assert answer.body == turn("one")
        assert len(gate.requests) == 3
        await spent(gate, "the follow-up failed")


async def test_a_whole_follow_up_that_fails_twice() -> None:
    story = in_turn(says("one", stream=False), LOST["closed"], LOST["reset"], says("later"))
    async with in_process(story) as gate:
        answer = await gate.ask(talk(GO_ON, stream=False), SESSION)
        assert (answer.status, text_of(answer)) == (200, "one")
        await spent(gate, "the follow-up failed")


async def test_with_several_routes_there_is_still_one_more_try() -> None:
    """Each route is asked as for any turn; then one more time, and that is all."""
    a = in_turn(says("one"), LOST["closed"])
    async with in_process(a, LOST["closed"]) as gate:
        assert text_of(await gate.ask(talk(GO_ON), SESSION)) == "one"
        assert len(follow_ups(gate.requests)) == 3
        assert (await stop_message(gate))["armed"] is False


async def test_a_follow_up_that_breaks_after_its_first_byte_is_an_error() -> None:
    """What was shown cannot be taken back; the count stays, and so does the rest."""
    cue = Cue()

    async def breaks(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(text("two")))
        await cue.wait()
        peer.reset()

    async with in_process(in_turn(says("one"), breaks)) as gate:
        client = await gate.start(talk(GO_ON), SESSION)
        await client.saw(text("two"))
        cue.give()
        assert (await client.answer()).failed == "upstream_broke"
        shown = await stop_message(gate)
        assert (shown["used"], shown["armed"]) == (1, True)


EMPTY: dict[str, bytes] = {
    "no text": turn(""),
    "no delta at all": event({}, "stop") + DONE,
    "only a role": event({"role": "assistant"}, "stop") + DONE,
}


@pytest.mark.parametrize("name", EMPTY)
async def test_an_empty_follow_up_ends_it(name: str) -> None:
    empty = once(CHUNKED, chunk(EMPTY[name]), LAST)
    async with in_process(in_turn(says("one"), empty, says("later"))) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION)
        assert text_of(answer) == "one"
        assert answer.datas.count(b"[DONE]") == 1
        assert len(gate.requests) == 2
        await spent(gate, "the follow-up was empty")


@pytest.mark.parametrize("content", ["", None])
async def test_an_empty_whole_follow_up_ends_it(content: str | None) -> None:
    body = json.loads(whole("x"))
    body["choices"][0]["message"]["content"] = content
    empty = once(sized(json.dumps(body).encode(), JSON))
    async with in_process(in_turn(says("one", stream=False), empty, says("later"))) as gate:
        assert text_of(await gate.ask(talk(GO_ON, stream=False), SESSION)) == "one"
        assert len(gate.requests) == 2
        await spent(gate, "the follow-up was empty")


@STREAMED
async def test_a_first_answer_may_be_empty(stream: bool) -> None:
    async with in_process(model("", "two", "three", "four")) as gate:
        answer = await gate.ask(talk(GO_ON, stream=stream), SESSION)
        assert text_of(answer) == "two\n\nthree\n\nfour"


@STREAMED
async def test_five_answers_that_say_the_same_end_it(stream: bool) -> None:
    texts = ["Done.", "done. ", " DONE.", "Done.\n", "Done.", "later"]
    async with in_process(model(*texts)) as gate:
        body = talk('<**stopMessage:"go on",50**>', stream=stream)
        answer = await gate.ask(body, SESSION)
        assert text_of(answer) == "\n\n".join(texts[:5])
        assert len(gate.requests) == 5
        await spent(gate, "the answer was the same 5 times in a row")


async def test_five_in_a_row_it_must_be() -> None:
    texts = ["a"] * 4 + ["b"] + ["a"] * 4 + ["b", "c"]
    async with in_process(model(*texts)) as gate:
        await gate.ask(talk('<**stopMessage:"go on",10**>'), SESSION)
        assert len(gate.requests) == 11


async def test_sameness_is_judged_anew_in_each_exchange() -> None:
    async with in_process(model("same")) as gate:
        await gate.ask(talk(GO_ON), SESSION)
        again = await gate.ask(talk("x", assistant("same"), GO_ON), SESSION)
        assert len(gate.requests) == 8
        assert text_of(again).count("same") == 4


def notes(answer: Answer) -> list[Any]:
    lines = bytes(answer.body).split(b"\n\n")
    return [json.loads(line[11:]) for line in lines if line.startswith(b": holdgate ")]


@pytest.mark.parametrize("second", ["failed", "was empty"])
async def test_a_note_says_why_it_was_cut_short(second: str) -> None:
    bad = LOST["closed"] if second == "failed" else once(CHUNKED, chunk(turn("")), LAST)
    async with in_process(in_turn(says("one"), bad)) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION, "x-holdgate-notes: 1")
    last = notes(answer)[-1]
    assert (last["state"], last["why"]) == ("closing", f"the follow-up {second}")


async def test_a_note_says_nothing_of_what_went_well() -> None:
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(GO_ON), SESSION, "x-holdgate-notes: 1")
    assert [note["turn"] for note in notes(answer) if note["state"] == "opening"] == [2, 3, 4]
    assert not [note for note in notes(answer) if "why" in note]


class Meanwhile:
    """A model that, in one exchange, waits for a sign before it ends each follow-up."""

    def __init__(self) -> None:
        self.cue = Cue()
        self.waiting = 0

    async def play(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if b":stop_followup" in request.headers[b"x-request-id"]:
                self.waiting += 1
                await self.cue.wait()
            await peer.send(*reply(f"to {newest(request)}", stream=True))


async def change(gate: Running, message: str) -> None:
    answer = await gate.ask(talk("x", assistant("y"), message, n=2), SESSION)
    assert told(answer) == "set"


@pytest.mark.parametrize("how", ["<**stopMessage:clear**>", "<**clear**>"])
async def test_cleared_meanwhile_it_ends(how: str) -> None:
    story = Meanwhile()
    async with in_process(story.play) as gate:
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        await until(lambda: story.waiting == 1)
        await change(gate, how)
        story.cue.give()
        assert text_of(await client.answer()) == "to hi\n\nto go on"
        assert len(follow_ups(gate.requests)) == 1
        shown = await look(gate)
        assert shown.status == 404 or shown.json["stopMessage"] is None


async def test_deleted_meanwhile_it_ends_at_once() -> None:
    """The follow-up is not waited for, and nothing of the session comes back."""
    story = Meanwhile()
    async with in_process(story.play) as gate:
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        await until(lambda: story.waiting == 1)
        assert (await forget(gate)).status == 200
        answer = await client.answer()
        assert (text_of(answer), answer.datas[-1]) == ("to hi", b"[DONE]")
        story.cue.give()
        await gate.quiet()
        assert len(follow_ups(gate.requests)) == 1
        assert (await look(gate)).status == 404


async def test_set_anew_meanwhile_it_goes_on_with_the_new_text() -> None:
    story = Meanwhile()
    async with in_process(story.play) as gate:
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        await until(lambda: story.waiting == 1)
        await change(gate, '<**stopMessage:"other",1**>')
        story.cue.give()
        story.cue.give()
        assert text_of(await client.answer()) == "to hi\n\nto go on\n\nto other"
        assert (await stop_message(gate))["used"] == 1


@pytest.mark.parametrize("end", ["failed", "was empty"])
async def test_set_anew_meanwhile_it_is_not_spent_for_the_old_one(end: str) -> None:
    """What was set while a follow-up ran has nothing to do with how that follow-up ended."""
    cue = Cue()

    async def second(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(*(reply("", stream=True) if end == "was empty" else ()))

    async with in_process(in_turn(says("one"), second, says("aside"), LOST["closed"])) as gate:
        client = await gate.start(talk(GO_ON + "hi"), SESSION)
        await until(lambda: len(gate.requests) == 2)
        await change(gate, '<**stopMessage:"other",2**>')
        cue.give()
        assert text_of(await client.answer()) == "one"
        shown = await stop_message(gate)
        assert (shown["text"], shown["used"], shown["armed"]) == ("other", 0, True)


async def test_a_gateway_that_leaves_disarms_nothing(tmp_path: Path) -> None:
    """The follow-up did not fail: the gateway had to go, and the next one goes on."""
    story, left = in_turn(says("one"), hanging()), anyio.Event()
    async with in_process(story, server__drain_ms=50, **kept(tmp_path)) as gate:
        client = await gate.start(talk(GO_ON), SESSION)
        await until(lambda: len(gate.requests) == 2)
        gate.gateway.leave(left.set)
        answer = await client.answer()
        assert text_of(answer) == "one"
        await left.wait()
    assert document(tmp_path)["stopMessageUsed"] == 1
    async with in_process(model("two", "three", "four"), **kept(tmp_path)) as gate:
        assert text_of(await gate.ask(talk("hi"), SESSION)) == "two\n\nthree\n\nfour"
