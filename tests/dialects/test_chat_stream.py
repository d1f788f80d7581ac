"""Chat streams: turn 1 passes byte for byte, n turns become one answer, breaks are noticed."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice, Tap
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import ModelRequest, Stop, ToolCall, TurnEnd, Usage
from gateway.wire.sse import data_of, split

CHAT = DIALECTS["openai-chat"]
FIXTURES = Path(__file__).parents[1] / "fixtures"
TEXT = FIXTURES.joinpath("chat_text.sse").read_bytes()
TOOLS = FIXTURES.joinpath("chat_tools_crlf.sse").read_bytes()
DONE = b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, ident: str = "a", **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    envelope = {"id": ident, "object": "chat.completion.chunk", "created": 1, "model": f"m-{ident}"}
    data = {**envelope, "choices": [choice], **more}
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def call(
    index: int, name: str = "", arguments: str = "", ident: str | None = None
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    made: dict[str, Any] = {"index": index, "function": function}
    return {**made, "id": ident, "type": "function"} if ident else made


def turn(
    text: str, ident: str = "a", finish: str = "stop", usage: dict[str, Any] | None = None
) -> bytes:
    last: dict[str, Any] = {"choices": [], "usage": usage, "id": ident}
    counted = b"data: " + json.dumps(last).encode() + b"\n\n" if usage else b""
    begin = chunk({"role": "assistant", "content": ""}, ident=ident)
    return begin + chunk({"content": text}, ident=ident) + chunk({}, finish, ident) + counted + DONE


def splice(
    tools: frozenset[str] = frozenset(), choices: int = 1, usage: bool = False, limit: int = 10**6
) -> Splice:
    asked = ModelRequest(model="m", body=b"{}", stream=True, choices=choices, wants_usage=usage)
    return CHAT.splice(asked, tools, limit)


def run(answer: Splice, *pieces: bytes) -> tuple[bytes, Tap]:
    tap = answer.tap()
    shown = b"".join(tap.feed(piece) for piece in pieces)
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    return shown, tap


def chunks(stream: bytes) -> list[dict[str, Any]]:
    datas = [data_of(frame) for frame in split(stream)]
    return [json.loads(data) for data in datas if data is not None and data != b"[DONE]"]


def text_of(stream: bytes) -> str:
    deltas = [c["delta"] for chunk in chunks(stream) for c in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


@given(st.lists(st.integers(0, len(TEXT)), max_size=40))
@settings(max_examples=50)
def test_a_recorded_stream_passes_in_many_pieces_with_server_tools_on(cuts: list[int]) -> None:
    points = sorted({0, *cuts, len(TEXT)})
    answer = splice(frozenset({"clock"}))
    shown, _ = run(answer, *(TEXT[a:b] for a, b in pairwise(points)))
    assert shown + answer.tail(neutral_finish=False) == TEXT


def test_the_tail_waits_for_the_verdict() -> None:
    shown, tap = run(splice(usage=True), TEXT)
    assert chunks(shown)[-1]["choices"][0]["delta"] == {"content": " end."}
    assert b"[DONE]\n" not in shown
    assert tap.end() == TurnEnd(Stop.STOP, usage=Usage(9, 12))


def test_each_frame_is_shown_at_once() -> None:
    tap = splice().tap()
    first = chunk({"role": "assistant", "content": ""})
    assert not tap.seen
    assert tap.feed(first[:-1]) == b""
    assert tap.feed(first[-1:]) == first
    assert tap.seen
    assert tap.feed(chunk({"content": "x"})) == chunk({"content": "x"})


def test_content_that_rides_on_the_finish_is_shown_and_the_finish_withheld() -> None:
    answer = splice()
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    shown, tap = run(
        answer, chunk({"role": "assistant", "content": "all"}, "stop", usage=usage) + DONE
    )
    assert chunks(shown)[0]["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": "all"}, "finish_reason": None}
    ]
    assert "usage" not in chunks(shown)[0]
    rest = chunks(answer.tail(neutral_finish=False))
    assert rest[0]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]
    assert rest[0]["usage"] == usage
    assert answer.tail(neutral_finish=False).endswith(DONE)
    assert tap.end().stop is Stop.STOP


def test_how_likely_the_content_was_is_told_once() -> None:
    likely = {"content": [{"token": "Hi", "logprob": -0.1}]}
    last = json.loads(data_of(chunk({"content": "Hi"}, "length")) or b"")
    last["choices"][0]["logprobs"] = likely
    answer = splice()
    shown, _ = run(answer, b"data: " + json.dumps(last).encode() + b"\n\n" + DONE)
    told = [
        choice["logprobs"] for c in chunks(shown + answer.tail(False)) for choice in c["choices"]
    ]
    assert told == [likely, None]


@pytest.mark.parametrize("word", ["", "null"])
def test_a_word_for_no_end_yet_ends_nothing(word: str) -> None:
    begun = [chunk({"role": "assistant"}, word), chunk({"content": "Hi"}, word)]
    answer = splice()
    tap = answer.tap()
    assert [tap.feed(frame) for frame in begun] == begun
    assert tap.feed(chunk({}, "stop") + DONE) == b""
    assert tap.end().stop is Stop.STOP
    answer.take(tap)
    assert answer.tail(neutral_finish=False) == chunk({}, "stop") + DONE
    with pytest.raises(UpstreamBroke):
        run(splice(), *begun)


def test_an_answer_has_no_name_before_its_first_choice() -> None:
    prompt = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    filtered = b"data: " + json.dumps({**prompt, "prompt_filter_results": []}).encode() + b"\n\n"
    answer = splice()
    tap = answer.tap()
    assert tap.feed(filtered) == filtered
    assert answer.heartbeat() == b": wait\n"
    tap.feed(turn("one"))
    answer.take(tap)
    beat, (shown, _) = answer.heartbeat(), run(answer, filtered, turn("two", "b"))
    later = chunks(beat + shown + answer.tail(neutral_finish=False))
    names = {(c["id"], c["object"], c["created"], c["model"]) for c in later}
    assert names == {("a", "chat.completion.chunk", 1, "m-a")}
    assert text_of(shown) == "\n\ntwo"


def test_usage_after_the_finish_may_look_like_any_other_chunk() -> None:
    usage = chunk({"role": "assistant", "content": ""}, usage={"prompt_tokens": 1})
    said = chunk({"role": "assistant"}) + chunk({"content": "Hi" * 600})
    stream = said + chunk({}, "stop") + usage + DONE
    for at in range(len(stream)):
        answer = splice()
        shown, tap = run(answer, stream[:at], stream[at:])
        assert (shown, answer.tail(neutral_finish=False)) == (
            said,
            chunk({}, "stop") + usage + DONE,
        )
        assert tap.end().continuable


def test_many_choices_pass_untouched_and_nothing_can_follow() -> None:
    stream = chunk({"content": "x"}, "stop") + chunk({"content": "y"}) + DONE
    answer = splice(choices=2)
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert not tap.end().continuable


@pytest.mark.parametrize(
    "reason, stop",
    [
        ("stop", Stop.STOP),
        ("length", Stop.LENGTH),
        ("content_filter", Stop.FILTER),
        ("sensitive", Stop.FILTER),
        ("tool_calls", Stop.TOOL_CALLS),
        ("function_call", Stop.TOOL_CALLS),
        ("a new one", Stop.UNKNOWN),
    ],
)
def test_why_a_turn_ended(reason: str, stop: Stop) -> None:
    _, tap = run(splice(), turn("x", finish=reason))
    assert tap.end().stop is stop


def test_three_turns_are_one_answer() -> None:
    answer = splice(usage=True)
    details = {"reasoning_tokens": 1}
    numbers = {"prompt_tokens": 2, "completion_tokens": 3, "details": details, "note": None}
    texts = ["one", "two", "three"]
    shown = b"".join(run(answer, turn(t, t, usage=numbers))[0] for t in texts)
    stream = shown + answer.tail(neutral_finish=False)
    found = chunks(stream)
    assert text_of(stream) == "one\n\ntwo\n\nthree"
    assert {(c["id"], c["model"]) for c in found if "model" in c} == {("one", "m-one")}
    roles = [c for chunk in found for c in chunk["choices"] if "role" in c["delta"]]
    assert len(roles) == 1
    finishes = [c["finish_reason"] for chunk in found for c in chunk["choices"]]
    assert finishes == [None] * (len(finishes) - 1) + ["stop"]
    assert found[-1]["choices"] == []
    assert found[-1]["usage"] == {
        "prompt_tokens": 6,
        "completion_tokens": 9,
        "details": {"reasoning_tokens": 3},
        "note": None,
    }
    assert stream.endswith(DONE)
    assert stream.count(b"[DONE]") == 1


def test_usage_of_several_turns_is_shown_only_if_asked_for() -> None:
    answer = splice()
    run(answer, turn("one", usage={"prompt_tokens": 2}))
    run(answer, turn("two", usage={"prompt_tokens": 2}))
    assert b"usage" not in answer.tail(neutral_finish=False)


def test_no_blank_line_where_a_turn_has_no_text() -> None:
    answer = splice()
    shown = run(answer, turn(""))[0] + run(answer, turn("two"))[0] + run(answer, turn("more"))[0]
    assert text_of(shown) == "two\n\nmore"


def test_reasoning_of_a_later_turn_passes_and_empty_chunks_do_not() -> None:
    answer = splice()
    run(answer, turn("one"))
    later = chunk({"role": "assistant", "content": ""}) + chunk({"reasoning_content": "hm"})
    shown, _ = run(answer, b": note\n\n" + later + chunk({"content": "two"}, "stop") + DONE)
    assert shown.startswith(b": note\n\n")
    assert [c["choices"][0]["delta"] for c in chunks(shown)] == [
        {"reasoning_content": "hm"},
        {"content": "\n\n"},
        {"content": "two"},
    ]


def test_a_turn_ends_plainly_when_its_reason_names_what_nobody_saw() -> None:
    answer = splice(frozenset({"clock"}))
    shown, tap = run(
        answer, chunk({"tool_calls": [call(0, "clock", "{}", "c1")]}, "tool_calls") + DONE
    )
    assert shown == b""
    assert tap.end().server_calls == (ToolCall("c1", "clock", "{}"),)
    assert [c["choices"][0]["finish_reason"] for c in chunks(answer.tail(neutral_finish=True))] == [
        "stop"
    ]


def test_no_fragment_of_a_server_tools_call_is_shown() -> None:
    answer = splice(frozenset({"clock"}))
    stream = (
        chunk({"role": "assistant", "content": None, "tool_calls": [call(0, "clock", "", "c1")]})
        + chunk({"tool_calls": [call(0, arguments='{"action"')]})
        + chunk({"tool_calls": [call(1, "weather", "{}", "w1")]})
        + chunk({"tool_calls": [call(0, arguments=':"get"}'), call(1, arguments=" ")]})
        + chunk({}, "tool_calls")
        + DONE
    )
    shown, tap = run(answer, stream)
    assert b"clock" not in shown
    assert b"action" not in shown
    deltas = [c["choices"][0]["delta"] for c in chunks(shown)]
    assert deltas == [
        {"role": "assistant", "content": None},
        {"tool_calls": [{**call(1, "weather", "{}", "w1"), "index": 0}]},
        {"tool_calls": [{**call(1, arguments=" "), "index": 0}]},
    ]
    end = tap.end()
    assert end.server_calls == (ToolCall("c1", "clock", '{"action":"get"}'),)
    assert end.client_calls
    assert (
        chunks(answer.tail(neutral_finish=False))[0]["choices"][0]["finish_reason"] == "tool_calls"
    )


def test_the_answered_turn_holds_everything_the_model_said() -> None:
    answer = splice(frozenset({"clock"}))
    stream = chunk({"content": "Let me see."}) + chunk(
        {"tool_calls": [call(0, "clock", "{}", "c1")]}
    )
    _, tap = run(answer, stream + chunk({}, "tool_calls") + DONE)
    function = {"name": "clock", "arguments": "{}"}
    assert tap.rebuild_turn().message == {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def test_a_refusal_is_no_plain_stop() -> None:
    _, tap = run(splice(), chunk({"refusal": "No."}) + chunk({}, "stop") + DONE)
    assert tap.end().stop is Stop.FILTER
    _, empty = run(splice(), chunk({"refusal": "", "content": "x"}) + chunk({}, "stop") + DONE)
    assert empty.end().stop is Stop.STOP


def test_what_was_said_is_read_from_the_tape() -> None:
    _, tap = run(splice(), b": note\n\n" + turn("one two"))
    assert tap.text() == "one two"
    assert tap.rebuild_turn().message == {"role": "assistant", "content": "one two"}


def test_a_follow_up_that_says_nothing_is_known() -> None:
    answer = splice()
    run(answer, turn("one"))
    assert not run(answer, turn(""))[1].end().spoke
    assert run(answer, turn("two"))[1].end().spoke


def test_an_answered_turn_without_text_or_with_a_refusal() -> None:
    _, empty = run(splice(), turn(""))
    assert empty.rebuild_turn().message == {"role": "assistant", "content": ""}
    _, refused = run(splice(), chunk({"refusal": "No."}, "stop") + DONE)
    assert refused.rebuild_turn().message == {"role": "assistant", "content": "", "refusal": "No."}


def test_visible_calls_are_numbered_over_all_turns() -> None:
    answer = splice(frozenset({"clock"}))
    run(
        answer,
        chunk({"tool_calls": [call(0, "clock", "{}", "c1")]}) + chunk({}, "tool_calls") + DONE,
    )
    fragments = chunk({"tool_calls": [call(0, "a", "{}", "a1")]}) + chunk(
        {"tool_calls": [call(1, "b", "{}", "b1")]}
    )
    shown, tap = run(answer, fragments + chunk({}, "tool_calls") + DONE)
    calls = [c["choices"][0]["delta"]["tool_calls"][0] for c in chunks(shown)]
    assert [(c["index"], c["id"]) for c in calls] == [(0, "a1"), (1, "b1")]
    assert tap.end().client_calls


def test_a_call_without_an_id_gets_one() -> None:
    answer = splice(frozenset({"clock"}))
    stream = chunk({"tool_calls": [{"function": {"name": "weather", "arguments": "{}"}}]})
    shown, _ = run(answer, stream + chunk({}, "tool_calls") + DONE)
    made = chunks(shown)[0]["choices"][0]["delta"]["tool_calls"][0]
    assert made["id"].startswith("call_")
    assert made["index"] == 0


def test_client_calls_are_seen_even_under_a_plain_stop() -> None:
    stream = chunk({"tool_calls": [call(0, "weather", "{}", "w")]}) + chunk({}, "stop") + DONE
    assert run(splice(), stream)[1].end().client_calls
    nothing = chunk({"content": "x", "tool_calls": None}) + chunk({}, "stop") + DONE
    assert not run(splice(), nothing)[1].end().client_calls
    assert not run(splice(frozenset({"clock"})), nothing)[1].end().client_calls


def test_heartbeats_say_nothing_in_this_answers_envelope() -> None:
    answer = splice()
    assert answer.heartbeat() == b": wait\n"
    tap = answer.tap()
    tap.feed(chunk({"content": "x"}, ident="me", system_fingerprint="fp"))
    beat = chunks(answer.heartbeat())[0]
    assert beat["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    assert (beat["id"], beat["created"], beat["system_fingerprint"]) == ("me", 1, "fp")
    assert answer.heartbeat() is answer.heartbeat()


def test_an_error_instead_of_a_first_chunk_is_the_upstreams_answer() -> None:
    error = b'{"error":{"message":"no","code":429}}'
    with pytest.raises(UpstreamAnswered) as caught:
        splice().tap().feed(b": wait\n\ndata: " + error + b"\n\n")
    assert (caught.value.status, caught.value.body) == (429, error)


@pytest.mark.parametrize("together", [True, False])
def test_an_error_later_ends_the_turn_after_what_was_said(together: bool) -> None:
    error = b'{"error":{"message":"overloaded"}}'
    pieces = [chunk({"content": "x"}), chunk({"content": "y"}), b"data: " + error + b"\n\n" + DONE]
    tap = splice().tap()
    shown = [tap.feed(piece) for piece in ([b"".join(pieces)] if together else pieces)]
    assert b"".join(shown) == pieces[0] + pieces[1]
    assert tap.ended
    assert isinstance(tap.failure, UpstreamAnswered)
    assert tap.failure.body == error


@pytest.mark.parametrize("before", [b"", turn("one")], ids=["first", "later"])
def test_an_error_with_an_empty_choice_beside_it_is_an_error(before: bytes) -> None:
    answer = splice()
    if before:
        run(answer, before)
    broken = chunk({"content": ""}, "error", error={"code": 502, "message": "Gone."})
    with pytest.raises(UpstreamAnswered):
        answer.tap().feed(broken)
    tap = answer.tap()
    said = tap.feed(chunk({"role": "assistant", "content": "Well,"}) + broken)
    assert text_of(said).endswith("Well,")
    assert tap.ended
    assert isinstance(tap.failure, UpstreamAnswered)
    assert tap.failure.status == 502
    assert CHAT.error_frame(tap.failure) == broken


def test_the_word_error_in_a_text_is_no_error() -> None:
    stream = turn("error").replace(b'"finish_reason":null', b'"finish_reason":null,"x":1')
    answer = splice()
    shown, tap = run(answer, *(frame for frame in split(stream)))
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.failure is None


@pytest.mark.parametrize(
    "call",
    [
        {"index": 0, "id": "c", "function": {"name": "f", "arguments": {"a": 1}}},
        {"index": [], "id": 7, "function": {"name": ["f"], "arguments": None}},
        {"function": "f"},
        {"index": None},
    ],
)
def test_odd_tool_calls_pass_and_crash_nothing(call: dict[str, Any]) -> None:
    stream = chunk({"tool_calls": [call, "x"]}) + chunk({}, "stop") + DONE
    for tools in (frozenset[str](), frozenset({"clock"})):
        answer = splice(tools)
        shown, tap = run(answer, stream)
        assert answer.tail(neutral_finish=False).endswith(DONE)
        assert tap.end().client_calls
        assert tap.rebuild_turn()
        assert tools or shown + answer.tail(neutral_finish=False) == stream


@pytest.mark.parametrize(
    "stream",
    [b"", chunk({"content": "x"}), chunk({"content": "x"})[:-9], b"data: {}\n\n", b"data: cut"],
    ids=["nothing", "no finish", "inside an event", "no choice", "half an event"],
)
def test_a_turn_cut_short_is_broken(stream: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        run(splice(), stream)


def test_an_upstream_that_omits_done_ended_well_after_its_finish() -> None:
    stream = turn("x").removesuffix(DONE)
    answer = splice()
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.end().continuable


def test_a_last_frame_without_its_empty_line_counts() -> None:
    answer = splice()
    shown, _ = run(answer, turn("x")[:-2])
    assert shown + answer.tail(neutral_finish=False) == turn("x")


def test_what_comes_after_the_end_is_dropped() -> None:
    answer = splice()
    tap = answer.tap()
    shown = tap.feed(turn("x") + chunk({"content": "more"}) + DONE)
    answer.take(tap)
    assert shown + answer.tail(neutral_finish=False) == turn("x")


def test_words_after_the_finish_keep_their_place_and_nothing_follows() -> None:
    stream = chunk({"content": "x"}) + chunk({}, "stop") + chunk({"content": "y"}) + DONE
    answer = splice()
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert not tap.end().continuable


def test_words_after_a_finish_that_passed_unread_do_not_break_the_answer() -> None:
    stream = turn("one").removesuffix(DONE) + chunk({"content": "!"})
    shown, tap = run(splice(), stream)
    assert text_of(shown) == "one!"
    assert not tap.end().continuable


def test_a_finish_in_another_spacing_is_relayed_and_nothing_follows() -> None:
    odd = chunk({}, "stop").replace(b'"finish_reason":', b'"finish_reason" :')
    for pieces in ([chunk({"content": "x"}), odd, DONE], [chunk({"content": "x"}), odd]):
        answer = splice()
        shown, tap = run(answer, *pieces)
        assert shown + answer.tail(neutral_finish=False) == b"".join(pieces)
        assert not tap.end().continuable


def test_data_that_is_no_json_passes() -> None:
    stream = (
        chunk({"content": "x"})
        + b"data: hm\n\n"
        + chunk({}, "stop")
        + b": bye\n\ndata: ?\n\n"
        + DONE
    )
    answer = splice()
    shown, _ = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream


def test_a_stream_without_end_does_not_fill_memory() -> None:
    answer = splice(limit=10_000)
    tap = answer.tap()
    for _ in range(1000):
        tap.feed(chunk({"content": "x" * 100}))
    tap.feed(chunk({}, "stop") + DONE)
    assert not tap.end().continuable
    endless = splice(limit=10_000).tap()
    endless.feed(chunk({"content": "x"}) + chunk({}, "stop"))
    with pytest.raises(UpstreamBroke):
        endless.feed(chunk({"content": "x" * 100}) * 1000)


def test_what_a_stream_accepts() -> None:
    assert splice().accepts(b"text/event-stream; charset=utf-8")
    assert splice().accepts(b"")
    assert not splice().accepts(b"application/json")
