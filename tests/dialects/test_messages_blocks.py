"""Server tools in the middle of Messages answers, and blocks that do not come in a row."""

import json
import re
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.exchange.model import Stop, ToolCall
from tests.dialects.messages_wire import (
    CLOCK,
    PING,
    STOP,
    argue,
    begin,
    call,
    cut,
    delta,
    finish,
    joined,
    played,
    read,
    run,
    say,
    splice,
    start,
    stop,
    tool,
    turn,
)

# What calls to server tools are made of below; none of it may reach a client.
OURS = (b"clock", b"srv", b"hush")
ASKED = '{"hush":1}'
ROME = '{"city":"Rome"}'


@dataclass(frozen=True)
class Story:
    """A turn as an upstream sends it, and what the client is to see of it, in order."""

    stream: bytes
    seen: tuple[str, ...] = ()
    ours: tuple[str, ...] = (ASKED,)
    reason: str = "tool_use"
    answered: tuple[str, ...] = ()


def thought(index: int) -> bytes:
    begun = begin(index, {"type": "thinking", "thinking": "", "signature": ""})
    signed = delta(index, "signature_delta", signature="sig")
    return begun + delta(index, "thinking_delta", thinking="hm") + signed + stop(index)


def ours(index: int, ident: str = "srv_1") -> bytes:
    return call(index, "clock", ident, ASKED)


def theirs(index: int, ident: str = "w1") -> bytes:
    return call(index, "weather", ident, ROME)


def ended(reason: str = "tool_use") -> bytes:
    return finish(reason)


STORIES = {
    "only ours": Story(start() + ours(0) + ended()),
    "two of ours": Story(
        start() + ours(0) + call(1, "clock", "srv_2", "{}") + ended(), ours=(ASKED, "{}")
    ),
    "text before it": Story(start() + say(0, "One, ", "two.") + ours(1) + ended(), ("One, two.",)),
    "text around it": Story(
        start() + say(0, "One.") + ours(1) + say(2, "Two.") + ended(), ("One.", "Two.")
    ),
    "after a thought": Story(start() + thought(0) + ours(1) + ended(), ("hm",)),
    "ours first": Story(
        start() + ours(0) + theirs(1) + ended(), ("weather",), answered=("srv_1", "w1")
    ),
    "ours last": Story(
        start() + theirs(0) + ours(1) + ended(), ("weather",), answered=("w1", "srv_1")
    ),
    "ours between": Story(
        start() + say(0, "x") + theirs(1) + ours(2) + theirs(3, "w2") + ended(),
        ("x", "weather", "weather"),
        answered=("w1", "srv_1", "w2"),
    ),
    "deltas interleaved": Story(
        start()
        + tool(0, "weather", "w1")
        + tool(1, "clock", "srv_1")
        + tool(2, "weather", "w2")
        + argue(2, ROME[:4])
        + argue(1, ASKED[:4])
        + argue(0, ROME[:6])
        + argue(2, ROME[4:])
        + stop(2)
        + argue(1, ASKED[4:])
        + argue(0, ROME[6:])
        + stop(1)
        + stop(0)
        + ended(),
        ("weather", "weather"),
        answered=("w1", "srv_1", "w2"),
    ),
    "inside a text that goes on": Story(
        start()
        + begin(0, {"type": "text", "text": ""})
        + delta(0, "text_delta", text="One, ")
        + ours(1)
        + delta(0, "text_delta", text="two.")
        + stop(0)
        + say(2, "Three.")
        + ended(),
        ("One, two.", "Three."),
    ),
    "a block that waits and one that does not end": Story(
        start()
        + tool(0, "weather", "w1")
        + argue(0, ROME)
        + tool(1, "weather", "w2")
        + argue(1, ROME)
        + say(2, "x")
        + ours(3)
        + ended(),
        ("weather", "weather", "x"),
        answered=("w1", "w2", "srv_1"),
    ),
    "no ends at all": Story(
        (start() + say(0, "x") + ours(1) + theirs(2) + ended())
        .replace(stop(0), b"")
        .replace(stop(1), b"")
        .replace(stop(2), b""),
        ("x", "weather"),
    ),
    "one number for all": Story(
        start() + say(0, "x") + ours(0) + theirs(0) + ended(), ("x", "weather")
    ),
    "one number for all and no ends": Story(
        (start() + say(0, "x") + ours(0) + theirs(0) + ended()).replace(stop(0), b""),
        ("x", "weather"),
    ),
    "no numbers": Story(
        (start() + say(0, "x") + ours(0) + theirs(0) + ended()).replace(b'"index":0,', b""),
        ("x", "weather"),
    ),
    "numbers with gaps": Story(
        start() + say(3, "x") + theirs(5) + ours(6) + say(9, "y") + ended(), ("x", "weather", "y")
    ),
    "no ids": Story(
        start() + call(0, "weather", None, ROME) + call(1, "clock", None, ASKED) + ended(),
        ("weather",),
    ),
    "all arguments at once": Story(
        start()
        + begin(0, {"type": "tool_use", "id": "srv_1", "name": "clock", "input": {"hush": 1}})
        + stop(0)
        + ended()
    ),
    "no arguments": Story(
        start()
        + begin(0, {"type": "tool_use", "id": "srv_1", "name": "clock"})
        + argue(0, "")
        + stop(0)
        + ended(),
        ours=("{}",),
    ),
    "broken arguments": Story(
        start() + call(0, "clock", "srv_1", '{"hush') + ended("max_tokens"),
        ours=('{"hush',),
        reason="max_tokens",
    ),
    "after the reason": Story(
        start() + theirs(0) + finish("tool_use").removesuffix(STOP) + ours(1) + STOP, ("weather",)
    ),
    "under a plain stop": Story(start() + ours(0) + ended("end_turn"), reason="end_turn"),
    "a client's tool of nearly that name": Story(
        start() + call(0, "clocks", "w1") + call(1, "Clock", "w2") + ended(),
        ("clocks", "Clock"),
        ours=(),
    ),
    "what the upstream runs itself": Story(
        start()
        + begin(0, {"type": "server_tool_use", "id": "s", "name": "clock", "input": {}})
        + stop(0)
        + say(1, "x")
        + ended("end_turn"),
        ("server_tool_use", "x"),
        ours=(),
        reason="end_turn",
    ),
}


def hidden(story: Story) -> tuple[bytes, ...]:
    return OURS if story.ours and b"clocks" not in story.stream else ()


def seen(content: list[dict[str, Any]]) -> tuple[str, ...]:
    def shown(block: dict[str, Any]) -> str:
        named = block["type"] if block["type"] == "server_tool_use" else block.get("name")
        return str(named or block.get("text") or block["thinking"])

    return tuple(map(shown, content))


def reason_of(story: Story, called: bool) -> str:
    return "end_turn" if story.reason == "tool_use" and not called else story.reason


@pytest.mark.parametrize("name", STORIES)
def test_the_client_sees_its_own_and_nothing_of_ours(name: str) -> None:
    story = STORIES[name]
    stream = played(story.stream, tools=CLOCK)
    message = read(stream)
    assert not [secret for secret in hidden(story) if secret in stream]
    assert seen(message.content) == story.seen
    assert all(says in (ROME, "{}") for _, _, says in message.calls)
    assert message.stop_reason == reason_of(story, bool(message.calls))


@pytest.mark.parametrize("name", STORIES)
def test_however_its_bytes_are_split(name: str) -> None:
    """Some at every byte; the others at some, and in many pieces below."""
    stream = STORIES[name].stream
    whole = played(stream, tools=CLOCK)
    for at in range(0, len(stream), 1 if name in ("ours first", "text before it") else 13):
        assert played(stream[:at], stream[at:], tools=CLOCK) == whole


@given(st.sampled_from(sorted(STORIES)), st.lists(st.integers(0, 2000), max_size=60), st.booleans())
@settings(max_examples=60)
def test_and_in_many_pieces_with_either_line_end(name: str, cuts: list[int], crlf: bool) -> None:
    stream = STORIES[name].stream.replace(b"\n", b"\r\n" if crlf else b"\n")
    shown = played(*cut(stream, cuts), tools=CLOCK)
    assert shown.replace(b"\r\n", b"\n") == played(STORIES[name].stream, tools=CLOCK)


@pytest.mark.parametrize("name", STORIES)
def test_a_follow_up_is_joined_on_and_hides_as_much(name: str) -> None:
    story = STORIES[name]
    stream = joined(splice(CLOCK), start() + say(0, "So.") + ours(1) + ended(), story.stream)
    message = read(stream)
    assert not [secret for secret in hidden(story) if secret in stream]
    shown = seen(message.content)
    assert tuple(said.removeprefix("\n\n") for said in shown) == ("So.", *story.seen)
    texts = message.texts
    assert [said for said in texts if said.startswith("\n\n")] == texts[1:2]
    assert message.stop_reason == reason_of(story, bool(message.calls))
    assert len(message.end["usage"]["iterations"]) == 2


@pytest.mark.parametrize("name", STORIES)
def test_every_form_of_a_turn_has_the_same_calls_and_ids(name: str) -> None:
    story = STORIES[name]
    answer = splice(CLOCK)
    shown, tap = run(answer, story.stream)
    end, message = tap.end(), json.loads(msgspec.json.encode(tap.rebuild_turn().message))
    calls = [block for block in message["content"] if block["type"] == "tool_use"]
    ids = [block["id"] for block in calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert tuple(ids) == story.answered or not story.answered
    assert tuple(made.arguments for made in end.server_calls) == story.ours
    assert [block["id"] for block in calls if block["name"] == "clock"] == [
        made.id for made in end.server_calls
    ]
    client = [ident for ident, _, _ in read(shown + answer.tail(neutral_finish=False)).calls]
    assert list(tap.client_call_ids()) == client
    assert end.client_calls is bool(client)
    assert end.continuable
    assert all(isinstance(block["input"], dict) for block in calls)


def test_broken_arguments_go_back_as_none() -> None:
    _, tap = run(splice(CLOCK), STORIES["broken arguments"].stream)
    assert tap.end().server_calls == (ToolCall("srv_1", "clock", '{"hush'),)
    assert tap.rebuild_turn().message == {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "srv_1", "name": "clock", "input": {}}],
    }


def test_without_server_tools_the_first_turn_is_not_put_in_a_row() -> None:
    stream = STORIES["deltas interleaved"].stream
    assert played(stream) == stream
    assert read(joined(splice(), turn("x"), stream)).content[1:]


def test_numbers_go_on_over_all_turns() -> None:
    answer = splice(CLOCK)
    turns = (
        start() + thought(0) + ours(1) + ended(),
        start() + say(0, "a") + ours(1) + say(2, "b") + ended(),
        start() + thought(0) + say(1, "c") + theirs(2) + ended(),
    )
    message = read(joined(answer, *turns))
    assert seen(message.content) == ("hm", "a", "b", "hm", "\n\nc", "weather")
    assert message.stop_reason == "tool_use"


def test_only_ours_and_then_the_last_turns_end() -> None:
    answer = splice(CLOCK)
    first, tap = run(answer, start() + PING + ours(0) + ended())
    assert tap.end().stop is Stop.TOOL_CALLS
    assert not tap.end().client_calls
    assert first == start() + PING
    second, _ = run(answer, start("b") + say(0, "It is", " noon.") + finish("max_tokens"))
    message = read(first + second + answer.tail(neutral_finish=False))
    assert message.texts == ["It is noon."]
    assert message.stop_reason == "max_tokens"
    assert message.start["id"] == "msg_a"


def test_a_hidden_call_that_cannot_be_run_leaves_a_plain_stop() -> None:
    """A client told of calls that it cannot find would not know what to do."""
    answer = splice(CLOCK, limit=600)
    shown, tap = run(answer, start() + ours(0), say(1, "x" * 500), ended())
    assert tap.end().server_calls == ()
    assert read(shown + answer.tail(neutral_finish=False)).stop_reason == "end_turn"


def made_ids(body: bytes, answer: str = "a") -> list[str]:
    stream = STORIES["no ids"].stream.replace(b"msg_a", answer.encode())
    _, tap = run(splice(CLOCK, body=body), stream)
    return [*tap.client_call_ids(), *(made.id for made in tap.end().server_calls)]


def test_ids_are_made_that_any_upstream_takes_and_no_other_turn_has() -> None:
    ids = made_ids(b"{}")
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", ident) for ident in ids)
    assert ids == made_ids(b"{}")
    assert set(ids).isdisjoint(made_ids(b'{"more":1}'))
    assert set(ids).isdisjoint(made_ids(b"{}", "b"))
    answer = splice(CLOCK)
    calls = [run(answer, STORIES["no ids"].stream)[1].end().server_calls for _ in "12"]
    assert {made.id for made in calls[0]}.isdisjoint(made.id for made in calls[1])
