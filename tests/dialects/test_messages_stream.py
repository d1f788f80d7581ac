"""Messages streams: turn 1 passes byte for byte, n turns become one answer, breaks are noticed."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import Stop, ToolCall, TurnEnd, Usage
from gateway.wire.sse import split
from tests.dialects.messages_wire import (
    CLOCK,
    NO_TOOLS,
    PING,
    STOP,
    Json,
    begin,
    call,
    cut,
    delta,
    event,
    events,
    finish,
    fixture,
    joined,
    played,
    read,
    run,
    say,
    splice,
    start,
    stop,
    turn,
)

RECORDED = (
    "text",
    "thinking",
    "tool",
    "tools_crlf",
    "tools_interleaved",
    "refusal",
    "length",
    "unknown",
    "unnamed",
)
SERIAL = tuple(name for name in RECORDED if name != "tools_interleaved")


@given(st.sampled_from(SERIAL), st.lists(st.integers(0, 2000), max_size=40), st.booleans())
@settings(max_examples=100)
def test_a_recorded_stream_passes_in_many_pieces_with_server_tools_on(
    name: str, cuts: list[int], crlf: bool
) -> None:
    stream = fixture(name).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n" if crlf else b"\n")
    assert played(*cut(stream, cuts), tools=CLOCK) == stream


def test_the_tail_waits_for_the_verdict() -> None:
    answer = splice()
    shown, tap = run(answer, fixture("text"))
    assert shown.endswith(stop(0))
    assert [told["type"] for told in events(answer.tail(neutral_finish=False))] == [
        "message_delta",
        "message_stop",
    ]
    assert tap.end() == TurnEnd(Stop.STOP, usage=Usage(36, 15, cached=11))


def test_each_frame_is_shown_at_once() -> None:
    tap = splice().tap()
    first = start()
    assert not tap.seen
    assert tap.feed(first[:-1]) == b""
    assert tap.feed(first[-1:]) == first
    assert tap.seen
    for frame in split(say(0, "x", "y")):
        assert tap.feed(frame) == frame


@pytest.mark.parametrize(
    "reason, stopped",
    [
        ("end_turn", Stop.STOP),
        ("stop_sequence", Stop.STOP),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.LENGTH),
        ("tool_use", Stop.TOOL_CALLS),
        ("refusal", Stop.FILTER),
        ("pause_turn", Stop.UNKNOWN),
        ("compaction", Stop.UNKNOWN),
        ("a new one", Stop.UNKNOWN),
    ],
)
def test_why_a_turn_ended(reason: str, stopped: Stop) -> None:
    _, tap = run(splice(), turn("x", reason=reason))
    assert tap.end().stop is stopped
    assert tap.end().continuable


def test_three_turns_are_one_answer() -> None:
    answer = splice()
    texts = ["one", "two", "three"]
    message = read(joined(answer, *(turn(text, text) for text in texts)))
    assert message.start["id"] == "one"
    assert message.texts == ["one", "\n\ntwo", "\n\nthree"]
    assert message.stop_reason == "end_turn"


def test_a_turn_that_continues_no_text_begins_as_it_is() -> None:
    """Nothing visible stands before it, or nothing that its text could be joined to."""
    thought = begin(0, {"type": "thinking", "thinking": "hm"}) + stop(0)
    silent = start() + thought + finish()
    message = read(joined(splice(), silent, turn("one"), silent, turn("two")))
    assert message.texts == ["one", "\n\ntwo"]


def set_apart(content: list[Json]) -> list[Json]:
    """Expect an empty line before the first text."""
    at = next((at for at, block in enumerate(content) if block.get("text")), None)
    if at is None:
        return content
    told = {**content[at], "text": "\n\n" + content[at]["text"]}
    return [*content[:at], told, *content[at + 1 :]]


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("tools", [NO_TOOLS, CLOCK])
def test_a_recorded_stream_is_fitted_on(name: str, tools: frozenset[str]) -> None:
    """Whatever a later turn is like, its blocks follow those of the first, and its end ends all."""
    alone = read(played(fixture(name), tools=CLOCK)) if name != "unknown" else None
    answer = splice(tools)
    stream = joined(answer, turn("first"), fixture(name))
    if alone is None:
        assert b"event: weather" in stream
        assert b"event: message_note" in stream
        assert b'"context_management":{"applied_edits":[]}' in stream
        assert stream.count(b'"type":"message_delta"') == 1
        return
    message = read(stream)
    assert message.content == [{"type": "text", "text": "first"}, *set_apart(alone.content)]
    assert message.end["delta"] == alone.end["delta"]


@given(
    st.lists(st.sampled_from(RECORDED), min_size=2, max_size=4),
    st.lists(st.integers(0, 2000), max_size=20),
    st.booleans(),
)
def test_turns_are_joined_the_same_however_they_are_split(
    names: list[str], cuts: list[int], sifts: bool
) -> None:
    tools = CLOCK if sifts else NO_TOOLS
    whole, pieces = splice(tools), splice(tools)
    expected = joined(whole, *map(fixture, names))
    shown = b"".join(run(pieces, *cut(fixture(name), cuts))[0] for name in names)
    assert shown + pieces.tail(neutral_finish=False) == expected


def test_what_turns_cost_is_added_up_and_listed() -> None:
    cached = {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 2}
    parts = {"cache_creation": {"ephemeral_5m_input_tokens": 2}}
    first = start("a", "m-1", **cached, **parts) + say(0, "one") + finish(output=5)
    second = start("b", "m-2", **cached, **parts, service_tier="standard") + say(0, "two")
    last = event(
        "message_delta",
        delta={"stop_reason": "max_tokens"},
        usage={"input_tokens": 30, "cache_read_input_tokens": None, "output_tokens": 6},
    )
    answer = splice()
    shown, tap = run(answer, first)
    assert tap.end().usage == Usage(19, 5, cached=7)
    usage = read(shown + joined(answer, second + last + STOP)).end["usage"]
    assert usage == {
        "input_tokens": 40,
        "output_tokens": 11,
        "cache_read_input_tokens": 14,
        "cache_creation_input_tokens": 4,
        "cache_creation": {"ephemeral_5m_input_tokens": 4},
        "service_tier": "standard",
        "iterations": [
            {
                "type": "message",
                "model": "m-1",
                "input_tokens": 10,
                "cache_creation_input_tokens": 2,
                "cache_read_input_tokens": 7,
                "output_tokens": 5,
            },
            {
                "type": "message",
                "model": "m-2",
                "input_tokens": 30,
                "cache_creation_input_tokens": 2,
                "cache_read_input_tokens": 7,
                "output_tokens": 6,
            },
        ],
    }


def test_an_upstream_that_lists_its_own_iterations_is_believed() -> None:
    own = [{"type": "compaction", "output_tokens": 1}, {"type": "message", "output_tokens": 4}]
    ended = event(
        "message_delta",
        delta={"stop_reason": "end_turn"},
        usage={"output_tokens": 4, "iterations": own},
    )
    stream = joined(splice(), start() + say(0, "x") + ended + STOP, turn("y"))
    iterations = read(stream).end["usage"]["iterations"]
    assert iterations[:2] == own
    assert len(iterations) == 3


def test_an_upstream_that_counts_nothing() -> None:
    bare = event("message_start", message={}) + say(0, "x") + event("message_delta", delta={})
    ended = event("message_delta", delta={"stop_reason": "end_turn"}, usage="?") + STOP
    answer = splice()
    shown, tap = run(answer, bare + ended)
    assert shown == bare
    assert tap.end().usage is None
    usage = events(joined(answer, turn("y").replace(b'"output_tokens":5', b'"x":"y"')))[-2]["usage"]
    assert usage["output_tokens"] == 1
    assert [entry["output_tokens"] for entry in usage["iterations"]] == [0, 1]


def test_tokens_counted_on_the_way_are_shown_at_once_in_the_first_turn_only() -> None:
    counted = event("message_delta", delta={"stop_reason": None}, usage={"output_tokens": 2})
    stream = start() + say(0, "x") + counted + say(1, "y") + finish()
    answer = splice()
    shown, _ = run(answer, stream)
    assert shown == start() + say(0, "x") + counted + say(1, "y")
    assert run(answer, stream)[0] == say(2, "\n\nx") + say(3, "y")


def test_pings_comments_and_what_is_new_pass_in_later_turns_too() -> None:
    answer = splice()
    run(answer, turn("one"))
    odd = b": note\n\n" + PING + event("news", x=1) + b"data: no JSON\n\n"
    shown, _ = run(answer, odd + turn("two"))
    assert shown.startswith(odd)


def test_what_stands_in_the_tail_waits_with_it() -> None:
    ended = finish().removesuffix(STOP)
    stream = start() + say(0, "x") + ended + PING + b": bye\n\ndata: ?\n\n" + STOP
    answer = splice()
    shown, tap = run(answer, stream)
    assert shown == start() + say(0, "x")
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.end().continuable


def test_heartbeats_are_pings_once_the_message_has_begun() -> None:
    answer = splice()
    tap = answer.tap()
    assert answer.heartbeat() == b": wait\n"
    tap.feed(PING)
    assert answer.heartbeat() == b": wait\n"
    tap.feed(start())
    assert answer.heartbeat() == PING


def test_an_error_instead_of_a_beginning_is_the_upstreams_answer() -> None:
    error = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    with pytest.raises(UpstreamAnswered) as caught:
        splice().tap().feed(b": wait\n\n" + PING + b"event: error\ndata: " + error + b"\n\n")
    assert (caught.value.status, caught.value.body) == (529, error)
    assert caught.value.may_fail_over


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("tools", [NO_TOOLS, CLOCK])
def test_an_error_later_ends_the_turn_after_what_was_said(
    together: bool, tools: frozenset[str]
) -> None:
    stream = fixture("error")
    frames = split(stream)
    tap = splice(tools).tap()
    shown = b"".join(tap.feed(piece) for piece in ([stream + STOP] if together else frames))
    assert shown == b"".join(frames[:-1])
    assert tap.ended
    assert isinstance(tap.failure, UpstreamAnswered)
    assert tap.failure.status == 529


def test_a_later_turn_that_only_began_is_lost_without_harm() -> None:
    answer = splice()
    run(answer, turn("one"))
    tap = answer.tap()
    assert tap.feed(start() + PING) == PING
    assert not tap.seen
    with pytest.raises(UpstreamAnswered):
        tap.feed(split(fixture("error"))[-1])
    assert run(answer, turn("two"))[0] == say(1, "\n\ntwo")


def test_an_error_as_the_last_words_of_a_connection() -> None:
    tap = splice().tap()
    tap.feed(start() + fixture("error")[:-1].split(b"\n\n")[-1])
    assert tap.close() == b""
    assert isinstance(tap.failure, UpstreamAnswered)


def test_the_word_error_in_a_text_is_no_error() -> None:
    stream = start() + say(0, '"error"', '{"type":"error","error":{}}') + finish()
    assert played(*split(stream)) == stream
    odd = start() + begin(0, {"type": "text", "text": "", "citations": ["error"]}) + stop(0)
    assert played(*split(odd + finish())) == odd + finish()


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        start(),
        start() + say(0, "x"),
        start() + say(0, "x") + event("message_delta", delta={})[:-9],
        b"data: cut",
        PING,
    ],
)
def test_a_turn_cut_short_is_broken(stream: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        run(splice(), stream)


def test_a_stop_without_a_reason_is_an_end_but_nothing_follows() -> None:
    stream = start() + say(0, "x") + STOP
    answer = splice()
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.end() == TurnEnd(Stop.UNKNOWN, usage=Usage(10, 1), continuable=False)
    assert read(joined(splice(), turn("one"), stream)).stop_reason == "end_turn"


@pytest.mark.parametrize("rest", [b"", STOP[:20], b"data: [DONE]", b"data: {"])
def test_an_upstream_without_a_stop_ended_well_after_its_reason(rest: bytes) -> None:
    stream = turn("x").removesuffix(STOP)
    answer = splice()
    shown, tap = run(answer, stream + rest)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.end().continuable
    run(answer, turn("y"))
    assert answer.tail(neutral_finish=False).endswith(STOP)


def test_a_last_frame_without_its_empty_line_counts() -> None:
    assert played(turn("x")[:-2]) == turn("x")


def test_what_comes_after_the_end_is_dropped() -> None:
    assert played(turn("x") + b"data: [DONE]\n\n" + say(1, "more") + STOP) == turn("x")


def test_words_after_the_reason_keep_their_place_and_nothing_follows() -> None:
    stream = start() + say(0, "x") + finish().removesuffix(STOP) + say(1, "y") + STOP
    answer = splice()
    shown, tap = run(answer, stream)
    assert shown == start() + say(0, "x")
    assert shown + answer.tail(neutral_finish=False) == stream
    assert not tap.end().continuable
    for sifted in (joined(splice(CLOCK), stream), joined(splice(), turn("x"), stream)):
        assert read(sifted).texts[-1] == "y"


def test_a_block_that_ends_after_the_reason_is_ended_for_the_next_turn() -> None:
    late = start() + say(0, "x").removesuffix(stop(0)) + finish().removesuffix(STOP) + stop(0)
    assert played(late + STOP) == late + STOP
    for tools in (NO_TOOLS, CLOCK):
        answer = splice(tools)
        assert read(joined(answer, late + STOP, turn("y"))).texts == ["x", "\n\ny"]


def test_a_block_that_never_ends_is_ended_for_the_next_turn() -> None:
    endless = start() + say(0, "x").removesuffix(stop(0)) + finish()
    assert played(endless) == endless
    nothing = start() + finish()
    several = read(joined(splice(), endless, nothing, turn("y"), endless))
    assert several.texts == ["x", "\n\ny", "\n\nx"]
    assert read(joined(splice(), endless, nothing)).texts == ["x"]
    assert read(played(endless, tools=CLOCK)).texts == ["x"]


def test_a_stream_without_end_does_not_fill_memory() -> None:
    tap = splice(limit=10_000).tap()
    tap.feed(start() + begin(0, {"type": "text", "text": ""}))
    for _ in range(1000):
        tap.feed(delta(0, "text_delta", text="x" * 100))
    tap.feed(finish("tool_use"))
    assert not tap.end().continuable
    assert tap.end().client_calls
    endless = splice(limit=10_000).tap()
    endless.feed(finish().removesuffix(STOP))
    with pytest.raises(UpstreamBroke):
        endless.feed(PING * 1000)


def test_what_a_stream_accepts() -> None:
    assert splice().accepts(b"text/event-stream; charset=utf-8")
    assert splice().accepts(b"")
    assert not splice().accepts(b"application/json")


def test_a_hidden_call_and_nothing_more_ends_plainly() -> None:
    answer = splice(CLOCK)
    shown, tap = run(answer, start() + call(0, "clock", "c1") + finish("tool_use"))
    assert shown == start()
    assert tap.end().server_calls == (ToolCall("c1", "clock", "{}"),)
    message = read(shown + answer.tail(neutral_finish=True))
    assert message.stop_reason == "end_turn"
    assert message.end["usage"] == {"output_tokens": 5}


def prefilled(*blocks: Json) -> bytes:
    """Write the start of a message that begins with blocks, as with programmatic tools."""
    return event("message_start", message={"id": "p", "type": "message", "content": [*blocks]})


TOLD: Json = {"type": "text", "text": "So far."}
HELD: Json = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"at": 1}}
OURS: Json = {"type": "tool_use", "id": "c1", "name": "clock", "input": {"action": "get"}}
HMM: Json = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


@pytest.mark.parametrize("tools", [NO_TOOLS, CLOCK])
def test_a_message_that_begins_with_content_passes_and_is_remembered(
    tools: frozenset[str],
) -> None:
    stream = prefilled(HMM, TOLD, HELD) + say(3, "x") + finish("tool_use")
    answer = splice(tools)
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.text() == "So far.x"
    assert tap.client_call_ids() == ("t1",)
    content = json.loads(msgspec.json.encode(tap.rebuild_turn().message))["content"]
    assert content == [HMM, TOLD, HELD, {"type": "text", "text": "x"}]


def test_what_a_message_begins_with_is_numbered_like_the_rest() -> None:
    answer = splice(CLOCK)
    stream = prefilled(TOLD, OURS) + say(2, "x") + finish("tool_use")
    shown, tap = run(answer, stream)
    assert b"clock" not in shown
    assert [made.id for made in tap.end().server_calls] == ["c1"]
    later, _ = run(answer, prefilled(HMM, TOLD, {"type": "odd", "n": 1}) + say(3, "y") + finish())
    message = read(shown + later + answer.tail(neutral_finish=False))
    assert message.texts == ["So far.", "x", "\n\nSo far.", "y"]
    assert {"type": "odd", "n": 1} in message.content
