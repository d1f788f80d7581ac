"""Several turns are one answer: a made-up rule sends two follow-ups whatever the model said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.exchange.rules import RULES
from tests.gateway.wire import (
    DONE,
    Cue,
    chat,
    data,
    event,
    get,
    hanging,
    in_turn,
    on_cue,
    streaming,
    text,
    turn,
    usage,
    whole,
)
from tests.run import go_on, in_process, until
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, once, sized

GO_ON = (go_on,)
FIRST = once(CHUNKED, chunk(turn("one")), LAST)
JSON = "content-type: application/json"
ERROR = b'{"error": {"message": "no"}}'


def turns(*streams: bytes) -> Story:
    """Answer each request with the next stream, on a kept connection."""
    left = iter(streams)

    async def story(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(CHUNKED, chunk(next(left)), LAST)

    return story


def messages(body: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(body)["messages"]
    return found


THREE = (
    turn("one", "a", counted=usage(10, 1, "a")),
    turn("two", "b", counted=usage(20, 2, "b")),
    turn("three", "c", "length", counted=usage(30, 3, "c")),
)


async def test_three_turns_are_one_answer() -> None:
    async with in_process(turns(*THREE), rules=GO_ON) as gate:
        answer = await gate.ask(chat("begin", stream_options={"include_usage": True}))
    events = answer.events
    choices = [event["choices"][0] for event in events if event["choices"]]
    assert answer.text == "one\n\ntwo\n\nthree"
    assert {event["id"] for event in events} == {"a"}
    assert {event["model"] for event in events if "model" in event} == {"real-a"}
    assert ["role" in choice["delta"] for choice in choices].count(True) == 1
    finishes = [c["finish_reason"] for c in choices if c["finish_reason"]]
    assert finishes == ["length"]
    assert [event["usage"] for event in events if event.get("usage")] == [
        {"prompt_tokens": 60, "completion_tokens": 6}
    ]
    assert answer.datas.count(b"[DONE]") == 1
    assert answer.body.endswith(DONE)


async def test_usage_is_summed_only_if_it_was_asked_for() -> None:
    async with in_process(turns(*THREE), rules=GO_ON) as gate:
        answer = await gate.ask()
        assert not [event for event in answer.events if event.get("usage")]
        await gate.quiet()
        (line,) = gate.exchanges
    assert (line["turns"], line["tokens_in"], line["tokens_out"]) == (3, 60, 6)


async def test_a_follow_up_carries_what_was_said_and_what_to_do() -> None:
    asked = chat("begin", temperature=0.5, seed=2**70)
    async with in_process(turns(*THREE), rules=GO_ON) as gate:
        await gate.ask(asked, "x-request-id: abc")
        first, second, third = gate.requests
    begin = {"role": "user", "content": "begin"}
    onward = {"role": "user", "content": "go on"}
    one, two = ({"role": "assistant", "content": said} for said in ("one", "two"))
    assert first.body == asked
    assert messages(second.body) == [begin, one, onward]
    assert messages(third.body) == [begin, one, onward, two, onward]
    assert {**json.loads(third.body), "messages": []} == {**json.loads(asked), "messages": []}
    ids = [request.headers[b"x-request-id"] for request in (first, second, third)]
    assert ids == [b"abc", b"abc:test_followup", b"abc:test_followup.2"]


async def test_three_whole_turns_are_one_answer() -> None:
    bodies = [
        whole(said, usage={"prompt_tokens": n, "completion_tokens": 1}, created=n)
        for n, said in enumerate(("one", "two", "three"), 1)
    ]
    story = in_turn(*[once(sized(body, JSON)) for body in bodies])
    async with in_process(story, rules=GO_ON) as gate:
        answer = await gate.ask(chat("begin", stream=False))
        assert messages(gate.requests[-1].body)[-1]["content"] == "go on"
    (choice,) = answer.json["choices"]
    assert choice["message"]["content"] == "one\n\ntwo\n\nthree"
    assert answer.json["created"] == 1
    assert answer.json["usage"] == {"prompt_tokens": 6, "completion_tokens": 3}


async def test_the_end_of_a_turn_waits_for_the_verdict_and_its_text_does_not() -> None:
    cue = Cue()

    async def second(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(CHUNKED, chunk(turn("two", "b")), LAST)

    story = in_turn(FIRST, second, streaming(turn("three", "c")))
    async with in_process(story, rules=GO_ON) as gate:
        client = await gate.start()
        answer = await client.saw(text("one"))
        await until(lambda: len(gate.requests) == 2)
        assert answer.body.endswith(text("one"))
        cue.give()
        assert (await client.answer()).text == "one\n\ntwo\n\nthree"


LOST: dict[str, Story] = {
    "closed": once(),
    "reset": once(reset=True),
    "an error": once(sized(ERROR, JSON, status="500 Hm")),
    "a refusal": once(sized(ERROR, JSON, status="400 Hm")),
    "an error under a 200": once(sized(ERROR, JSON)),
    "HTML": once(sized(b"<html>", "content-type: text/html")),
    "silence": hanging(),
    "headers only": hanging(CHUNKED),
    "an error as the first event": once(CHUNKED, chunk(data({"error": {"message": "no"}})), LAST),
    "half an event": once(CHUNKED, chunk(text("two")[:40]), reset=True),
}


@pytest.mark.parametrize("second", LOST.values(), ids=LOST)
async def test_a_follow_up_lost_before_its_first_event_leaves_the_answer_whole(
    second: Story,
) -> None:
    upstream = {"first_byte_ms": 100}
    async with in_process(in_turn(FIRST, second), rules=GO_ON, upstream=upstream) as gate:
        answer = await gate.ask()
        await gate.quiet()
        (line,) = gate.exchanges
    assert answer.body == turn("one")
    assert (line["state"], line["turns"]) == ("done", 2)
    assert line["code"].startswith("upstream")


async def test_a_whole_follow_up_lost_leaves_the_answer_whole() -> None:
    story = in_turn(once(sized(whole("one"), JSON)), once(sized(ERROR, status="500 Hm")))
    async with in_process(story, rules=GO_ON) as gate:
        answer = await gate.ask(chat(stream=False))
    assert answer.status == 200
    assert answer.json["choices"][0]["message"]["content"] == "one"


async def test_a_follow_up_broken_after_its_first_event_is_an_error() -> None:
    cue = Cue()

    async def second(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(text("two", "b")))
        await cue.wait()
        peer.reset()

    async with in_process(in_turn(FIRST, second), rules=GO_ON) as gate:
        client = await gate.start()
        await client.saw(text("two"))
        cue.give()
        answer = await client.answer()
    assert answer.text == "one\n\ntwo"
    assert answer.failed == "upstream_broke"


async def test_a_follow_up_that_falls_silent_is_an_error() -> None:
    story = in_turn(FIRST, hanging(CHUNKED, chunk(text("two", "b"))))
    async with in_process(story, rules=GO_ON, upstream={"idle_ms": 100}) as gate:
        assert (await gate.ask()).failed == "upstream_timeout"


async def test_a_follow_up_stays_with_who_answered_and_may_fail_over() -> None:
    flaky = in_turn(FIRST, once(sized(ERROR, status="503 Hm")))
    rest = turns(turn("two", "b"), turn("three", "c"))
    async with in_process(flaky, rest, rules=GO_ON) as gate:
        answer = await gate.ask()
        assert [len(fake.requests) for fake in gate.fakes] == [2, 2]
        asked_of_a, asked_of_b = gate.fakes[0].requests[1], gate.fakes[1].requests[0]
    assert answer.text == "one\n\ntwo\n\nthree"
    assert answer.headers["x-holdgate-upstream"] == "a"
    assert asked_of_a.body == asked_of_b.body


STRANGE: dict[str, bytes] = {
    "one byte at a time": turn("two", "b"),
    "CRLF": turn("two", "b").replace(b"\n", b"\r\n"),
    "CR": turn("two", "b").replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + turn("two", "b"),
    "comments": b": x\n\n" + turn("two", "b").replace(b"\n\n", b"\n\n: y\n\n"),
    "no [DONE]": turn("two", "b").removesuffix(DONE),
    "two ends": turn("two", "b") + DONE,
    "data after the end": turn("two", "b") + text("more", "b"),
    "no role": text("two", "b") + event({}, "stop", "b") + DONE,
    "the finish on the text": event({"content": "two"}, "stop", "b") + DONE,
}


@pytest.mark.parametrize("name", STRANGE)
async def test_strange_follow_ups_are_fitted_on(name: str) -> None:
    stream, step = STRANGE[name], 1 if name == "one byte at a time" else 10**6
    pieces = [chunk(stream[at : at + step]) for at in range(0, len(stream), step)]
    story = in_turn(FIRST, once(CHUNKED, *pieces, LAST), streaming(turn("three", "c")))
    async with in_process(story, rules=GO_ON) as gate:
        answer = await gate.ask()
    assert answer.text == "one\n\ntwo\n\nthree"
    assert {event["id"] for event in answer.events} == {"a"}
    assert answer.datas.count(b"[DONE]") == 1
    assert answer.body.endswith(event({}, "stop") + DONE)


async def test_a_follow_up_that_says_nothing_adds_nothing() -> None:
    async with in_process(
        turns(turn("one"), turn("", "b"), turn("three", "c")), rules=GO_ON
    ) as gate:
        assert (await gate.ask()).text == "one\n\nthree"


async def test_an_error_inside_a_follow_up() -> None:
    """It cannot be passed on as a chunk of this answer, and must not be lost."""
    cue = Cue()
    error = data({"error": {"message": "gave up", "code": "tired"}})
    second = on_cue(cue, CHUNKED + chunk(text("two", "b")), chunk(error) + LAST)
    async with in_process(in_turn(FIRST, second), rules=GO_ON) as gate:
        client = await gate.start()
        await client.saw(text("two"))
        cue.give()
        answer = await client.answer()
    assert answer.text == "one\n\ntwo"
    assert answer.failed == "tired"


async def test_an_event_of_a_follow_up_larger_than_allowed() -> None:
    big = text("x" * 600_000, "b")
    async with in_process(
        turns(turn("one"), text("two", "b") + big), rules=GO_ON, limits__event_bytes=5_000
    ) as gate:
        answer = await gate.ask()
    assert answer.failed == "upstream_broke"


async def test_nothing_follows_what_cannot_be_joined_on() -> None:
    async with in_process(turns(*[turn("one")] * 2), rules=(*RULES, go_on)) as gate:
        answer = await gate.ask(chat(n=2))
        assert answer.body == turn("one")
        assert len(gate.requests) == 1


async def test_client_tools_end_the_answer() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    stream = event({"tool_calls": [call]}) + event({}, "tool_calls") + DONE
    async with in_process(turns(stream), rules=(*RULES, go_on)) as gate:
        assert (await gate.ask()).body == stream
        assert len(gate.requests) == 1


async def test_notes_tell_of_each_state() -> None:
    async with in_process(turns(*THREE), rules=GO_ON) as gate:
        answer = await gate.ask(chat(), "x-holdgate-notes: 1")
    lines = bytes(answer.body).split(b"\n\n")
    notes = [json.loads(line[11:]) for line in lines if line.startswith(b": holdgate ")]
    assert [(note["state"], note["turn"]) for note in notes] == [
        ("opening", 2),
        ("relaying", 2),
        ("opening", 3),
        ("relaying", 3),
        ("closing", 3),
    ]
    assert answer.text == "one\n\ntwo\n\nthree"


async def test_metrics_count_turns() -> None:
    async with in_process(turns(*THREE), rules=GO_ON) as gate:
        await gate.ask()
        await gate.quiet()
        metrics = (await gate.fetch(get("/metrics"))).body.decode()
    where = 'model="m",upstream="a",upstream_model="m"'
    assert f"holdgate_turns_total{{{where}}} 3.0" in metrics
    assert f"holdgate_exchange_seconds_count{{{where}}} 1.0" in metrics
    assert f'holdgate_tokens_total{{direction="input",{where}}} 60.0' in metrics
