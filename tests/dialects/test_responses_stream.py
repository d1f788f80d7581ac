"""Responses streams: turn 1 passes byte for byte, n turns become one answer, breaks are noticed."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.openai_responses import DIALECT
from gateway.dialects.openai_responses.items import AnsweredItems
from gateway.errors import Draining, UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import Stop, TurnEnd, Usage
from gateway.wire.sse import split
from tests.dialects.responses_wire import (
    BEGINNINGS,
    CLOCK,
    RECORDED,
    Client,
    Json,
    Teller,
    call,
    custom,
    events,
    frame,
    heard,
    kinds,
    message,
    played,
    reasoning,
    refusal,
    run,
    search,
    splice,
    turn,
    usage,
)

WHOLE = [name for name in RECORDED if name != "responses_failed"]
TEXT = RECORDED["responses_text"]
NO_TOOLS: frozenset[str] = frozenset()


def items_of(tap: Any) -> list[Json]:
    answered = tap.rebuild_turn().message
    assert isinstance(answered, AnsweredItems)
    return answered.items


@given(st.sampled_from(WHOLE), st.lists(st.integers(0, 8000), max_size=60), st.booleans())
@settings(max_examples=60)
def test_a_recorded_stream_passes_in_many_pieces_with_either_line_end(
    name: str, cuts: list[int], crlf: bool
) -> None:
    stream = RECORDED[name].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n" if crlf else b"\n")
    points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    answer = splice(CLOCK)
    shown, _ = run(answer, *(stream[a:b] for a, b in pairwise(points)))
    assert shown + answer.tail(neutral_finish=False) == stream


def test_a_stream_that_changes_its_line_ends_is_not_taken_for_plain() -> None:
    """The end stands behind a delta that looks as all before it."""
    frames = [b"data: " + f.partition(b"\ndata: ")[2] for f in split(turn(message("m", "hello")))]
    delta = next(at for at, f in enumerate(frames) if b"output_text.delta" in f)
    answer = splice()
    mixed = frames[delta + 1].replace(b"\n", b"\r\n") + b"".join(frames[delta + 2 :])
    shown, tap = run(answer, *frames[: delta + 1], mixed)
    assert tap.end().stop is Stop.STOP
    assert b"response.completed" not in shown


def test_the_end_waits_for_the_verdict() -> None:
    shown, tap = run(splice(), TEXT)
    assert kinds(shown)[-1] == "output_item.done"
    assert tap.end() == TurnEnd(Stop.STOP, usage=Usage(41, 17, reasoning=9))


def test_each_frame_is_shown_at_once() -> None:
    tap = splice().tap()
    first, second, *_ = split(TEXT.removeprefix(b": keep-alive\n\n"))
    assert not tap.seen
    assert tap.feed(first[:-1]) == b""
    assert tap.feed(first[-1:]) == first
    assert tap.seen
    assert tap.feed(second) == second


@pytest.mark.parametrize(
    "name, stop, client_calls",
    [
        ("responses_text", Stop.STOP, False),
        ("responses_reasoning", Stop.STOP, False),
        ("responses_tools_crlf", Stop.TOOL_CALLS, True),
        ("responses_custom_tool", Stop.TOOL_CALLS, True),
        ("responses_refusal", Stop.FILTER, False),
        ("responses_length", Stop.LENGTH, False),
    ],
)
def test_how_a_recorded_turn_ended(name: str, stop: Stop, client_calls: bool) -> None:
    for tools in (NO_TOOLS, CLOCK):
        end = run(splice(tools), RECORDED[name])[1].end()
        assert (end.stop, end.client_calls, end.continuable) == (stop, client_calls, True)


@pytest.mark.parametrize(
    "status, details, stop",
    [
        ("incomplete", {"reason": "content_filter"}, Stop.FILTER),
        ("incomplete", {"reason": "steered"}, Stop.UNKNOWN),
        ("incomplete", None, Stop.UNKNOWN),
    ],
)
def test_why_a_turn_was_cut(status: str, details: Json | None, stop: Stop) -> None:
    stream = turn(message("m", "x"), status=status, incomplete_details=details)
    assert run(splice(), stream)[1].end().stop is stop


@pytest.mark.parametrize(
    "item, client_calls",
    [
        (search("ws_1"), False),
        ({"id": "x", "type": "mcp_call", "arguments": "{}", "name": "clock"}, False),
        ({"id": "x", "type": "mcp_approval_request", "name": "clock", "arguments": "{}"}, True),
        ({"id": "x", "type": "computer_call", "call_id": "c", "action": {}}, True),
        ({"id": "x", "type": "local_shell_call", "call_id": "c", "action": {}}, True),
        (call("1", "clock", namespace="theirs"), True),
        (custom("1", "clock"), True),
    ],
)
def test_what_the_client_has_to_answer(item: Json, client_calls: bool) -> None:
    stream = turn(item)
    answer = splice(CLOCK)
    shown, tap = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream
    assert tap.end().client_calls is client_calls
    assert tap.end().server_calls == ()


def test_a_call_that_the_upstream_answered_itself_is_not_the_clients() -> None:
    ran = {"id": "s", "type": "shell_call", "call_id": "c", "action": {}}
    told = {"id": "o", "type": "shell_call_output", "call_id": "c", "output": []}
    assert not run(splice(), turn(ran, told))[1].end().client_calls
    assert run(splice(), turn(ran))[1].end().client_calls


def test_three_turns_are_one_answer() -> None:
    turns = [
        turn(reasoning("rs_1"), message("msg_1", "one"), ident="a", usage=usage(5, 2, 1)),
        turn(search("ws_2"), message("msg_2", "two"), ident="b", usage=usage(8, 3)),
        turn(message("msg_3", "three"), ident="c", status="incomplete", usage=usage(13, 5, 2)),
    ]
    for tools in (NO_TOOLS, CLOCK):
        response = heard(played(*turns, tools=tools))
        assert [item["id"] for item in response["output"]] == [
            *("rs_1", "msg_1"),
            *("ws_2", "msg_2"),
            "msg_3",
        ]
        assert (response["id"], response["model"]) == ("a", "m-a")
        assert response["status"] == "incomplete"
        assert response["usage"] == {**usage(13, 10, 3), "total_tokens": 18}


def test_what_a_later_turn_says_of_the_response_is_said_of_the_answer() -> None:
    answer = splice()
    run(answer, turn(message("m", "one"), ident="a"))
    later = Teller("b")
    later.tell("response.noted", response={"id": "b", "x": 1}, response_id="b")
    later.frames.append(b": note\n\n")
    later.frames.append(b"data: hm\n\n")
    later.frames.append(frame("odd\nevent", x=1))
    later.fill(later.begin(message("n", "two")))
    shown, _ = run(answer, later.end())
    told, odd, *_ = split(shown)[0], split(shown)[3]
    assert json.loads(told.partition(b"data: ")[2]) == {
        "type": "response.noted",
        "sequence_number": events(run(splice(), turn(message("m", "one"), ident="a"))[0])[-1][
            "sequence_number"
        ]
        + 1,
        "response": {"id": "a", "x": 1},
        "response_id": "a",
    }
    assert split(shown)[1:3] == [b": note\n\n", b"data: hm\n\n"]
    assert odd == b'data: {"type":"odd\\nevent","x":1}\n\n'


def without_content_index(stream: bytes) -> bytes:
    """Tell a stream as upstreams do that do not say which part of a message a text is."""
    told = [{n: v for n, v in e.items() if n != "content_index"} for e in events(stream)]
    return b"".join(frame(event.pop("type"), **event) for event in told)


def test_the_empty_line_is_told_everywhere_also_where_parts_have_no_index() -> None:
    second = without_content_index(turn(message("msg_2", "Two."), ident="resp_2"))
    shown = events(played(turn(message("msg_1", "One.")), second))
    later = [event for event in shown if event.get("output_index") == 1]
    deltas = [event["delta"] for event in later if event["type"].endswith(".delta")]
    (text,) = [event["text"] for event in later if event["type"].endswith("_text.done")]
    (item,) = [event["item"] for event in later if event["type"].endswith("_item.done")]
    assert "".join(deltas) == text == item["content"][0]["text"] == "\n\nTwo."
    assert shown[-1]["response"]["output"][1] == item


def test_ids_that_come_again_are_told_apart() -> None:
    turns = [turn(message("m", t), call("c", "f"), ident=t) for t in ("one", "two", "three")]
    response = heard(played(*turns))
    ids = [item["id"] for item in response["output"]]
    assert ids == ["m", "fc_c", "m_2", "fc_c_2", "m_3", "fc_c_3"]


def test_items_without_ids_stay_without() -> None:
    bare = {**call("1", "f"), "id": ""}
    stream = played(turn(message("m", "x")), turn(bare, ident="b"))
    assert heard(stream)["output"][1]["id"] == ""


def test_an_upstream_that_does_not_number_its_events() -> None:
    def plain(stream: bytes) -> bytes:
        told = [{k: v for k, v in e.items() if k != "sequence_number"} for e in events(stream)]
        return b"".join(frame(event.pop("type"), **event) for event in told)

    turns = [plain(turn(message(t, t), ident=t)) for t in ("one", "two")]
    found = events(played(*turns))
    assert not any("sequence_number" in event for event in found[:-1])
    assert found[-1]["sequence_number"] == 0
    assert [item["id"] for item in found[-1]["response"]["output"]] == ["one", "two"]


def test_done_at_the_end_means_nothing() -> None:
    answer = splice()
    shown, tap = run(answer, TEXT + b"data: [DONE]\n\n")
    assert shown + answer.tail(neutral_finish=False) == TEXT
    assert tap.feed(b"data: [DONE]\n\n") == b""
    early = splice().tap()
    assert early.feed(b"data: [DONE]\n\n") == b""
    with pytest.raises(UpstreamBroke):
        early.close()


def test_an_upstream_that_lists_its_items_only_at_the_end() -> None:
    bare = Teller("a")
    bare.items = [message("m", "one"), call("1", "clock")]
    answer = splice(CLOCK)
    shown, tap = run(answer, bare.end())
    assert [c.name for c in tap.end().server_calls] == ["clock"]
    assert not tap.end().client_calls
    assert items_of(tap) == bare.items
    run(answer, turn(message("n", "two"), ident="b"))
    assert kinds(shown) == ["created", "in_progress"]
    ended = events(answer.tail(neutral_finish=False))[0]["response"]
    assert [item["id"] for item in ended["output"]] == ["m", "n"]


def test_an_upstream_that_lists_nothing_at_the_end() -> None:
    stream = turn(message("m", "one"), call("1", "clock"), output=[])
    answer = splice(CLOCK)
    _, tap = run(answer, stream)
    assert tap.end().server_calls[0].id == "call_1"
    assert tap.text() == "one"
    assert [
        i["id"] for i in events(answer.tail(neutral_finish=False))[0]["response"]["output"]
    ] == ["m"]
    plain = run(splice(), turn(message("m", "one"), call("1", "f"), output=None))[1]
    assert plain.end().client_calls


def test_the_end_alone_is_an_answer() -> None:
    whole = frame("response.completed", response={"id": "a", "output": [message("m", "x")]})
    answer = splice()
    shown, tap = run(answer, whole)
    assert shown == b""
    assert answer.answer_id == "a"
    assert tap.end().continuable
    assert answer.tail(neutral_finish=False) == whole


def test_an_end_without_a_response() -> None:
    answer = splice()
    _, tap = run(answer, frame("response.completed"))
    assert tap.end() == TurnEnd(Stop.STOP)
    run(answer, turn(message("m", "x"), ident="b"))
    assert events(answer.tail(neutral_finish=False))[0]["response"]["id"] == "b"


def test_the_answers_id_and_the_upstreams() -> None:
    answer = splice()
    assert (answer.answer_id, answer.upstream_id) == ("", "")
    run(answer, turn(message("m", "x"), ident="a"))
    assert (answer.answer_id, answer.upstream_id) == ("a", "a")
    run(answer, turn(message("n", "y"), ident="b"))
    assert (answer.answer_id, answer.upstream_id) == ("a", "b")


def test_what_was_said_and_thought_goes_into_the_follow_up() -> None:
    said = [reasoning("rs_1"), message("m", "one"), search("ws"), message("n", "two")]
    for tools in (NO_TOOLS, CLOCK):
        _, tap = run(splice(tools), turn(*said))
        assert items_of(tap) == said
        assert tap.text() == "one\n\ntwo"
        assert tap.client_call_ids() == ()


def test_whether_the_upstream_remembers_by_itself() -> None:
    for told, remembered in ((None, False), ({"id": "conv_1"}, True)):
        answered = (
            run(splice(), turn(message("m", "x"), conversation=told))[1].rebuild_turn().message
        )
        assert isinstance(answered, AnsweredItems)
        assert answered.remembered is remembered


def test_a_refusal_is_no_plain_stop() -> None:
    assert run(splice(), turn(refusal("m", "No.")))[1].end().stop is Stop.FILTER
    assert run(splice(), turn(refusal("m", "")))[1].end().stop is Stop.STOP


@pytest.mark.parametrize(
    "items, spoke",
    [
        ([message("n", "two")], True),
        ([refusal("n", "No.")], True),
        ([search("ws")], True),
        ([call("1", "f")], True),
        ([message("n", "")], False),
        ([reasoning("rs")], False),
        ([], False),
    ],
)
def test_a_follow_up_that_says_nothing_is_known(items: list[Json], spoke: bool) -> None:
    answer = splice()
    run(answer, turn(message("m", "one")))
    assert run(answer, turn(*items, ident="b"))[1].end().spoke is spoke


# Heartbeats.


def test_a_heartbeat_lists_all_there_is_at_every_moment() -> None:
    """Clients take the response from it, and forget what it does not list."""
    turns = [
        turn(reasoning("rs_1", "think"), message("m", "hello"), custom("1", "f"), ident="a"),
        turn(search("ws"), refusal("m", "No, no."), call("2", "f", '{"a":1}'), ident="b"),
    ]
    for tools in (NO_TOOLS, CLOCK):
        answer, client = splice(tools), Client()
        assert answer.heartbeat() == b": wait\n"
        for stream in turns:
            tap = answer.tap()
            for each in split(stream):
                for event in events(tap.feed(each)) + events(answer.heartbeat()):
                    client.take(event)
            answer.take(tap)
            for event in events(answer.heartbeat()):
                client.take(event)
        assert len(client.read(answer.tail(neutral_finish=False))["output"]) == 6


@pytest.mark.parametrize("name", WHOLE)
def test_heartbeats_of_recorded_streams(name: str) -> None:
    answer, client = splice(CLOCK), Client()
    tap = answer.tap()
    for each in split(RECORDED[name]):
        for event in events(tap.feed(each)) + events(answer.heartbeat()):
            client.take(event)
    answer.take(tap)
    client.read(answer.tail(neutral_finish=False))


def test_a_heartbeat_after_frames_that_passed_together() -> None:
    *begun, first, second, _, _, _, _ = split(turn(message("m", "hello")))
    answer = splice()
    tap = answer.tap()
    tap.feed(b"".join([*begun, first]))
    between = b": note\n\n" + second
    assert tap.feed(between) == between
    (beat,) = events(answer.heartbeat())
    assert beat["response"]["output"][0]["content"][0]["text"] == "hello"


def test_a_heartbeat_says_nothing_of_what_is_hidden() -> None:
    answer = splice(CLOCK)
    tap = answer.tap()
    for each in split(turn(call("1", "clock"), message("m", "x"), call("2", "clock"))):
        tap.feed(each)
        assert b"clock" not in answer.heartbeat()
    answer.take(tap)
    (beat,) = events(answer.heartbeat())
    assert [item["id"] for item in beat["response"]["output"]] == ["m"]
    assert beat["response"]["status"] == "in_progress"


def test_before_there_is_a_response_a_heartbeat_is_a_comment() -> None:
    answer = splice()
    tap = answer.tap()
    assert answer.heartbeat() == b": wait\n"
    tap.feed(b": hm\n\n")
    tap.feed(frame("response.odd", response=None))
    assert answer.heartbeat() == b": wait\n"


# Errors.

ERROR = frame("error", code="rate_limit_exceeded", message="Slow.", param=None, sequence_number=0)
NESTED = frame("error", error={"code": "server_is_overloaded", "message": "Busy."})
FAILED = frame("response.failed", response={"error": {"code": "invalid_prompt", "message": "No."}})
PLAIN = b'data: {"error":{"message":"Odd.","code":418}}\n\n'


@pytest.mark.parametrize(
    "error, status, code",
    [
        (ERROR, 429, "rate_limit_exceeded"),
        (NESTED, 503, "server_is_overloaded"),
        (FAILED, 400, "invalid_prompt"),
        (PLAIN, 418, 418),
        (frame("response.failed", response={"error": None}), 502, None),
        (frame("error", error="why"), 502, None),
        (frame("error", code=7, message=None), 502, 7),
    ],
)
def test_an_error_instead_of_an_answer_is_the_upstreams(
    error: bytes, status: int, code: Any
) -> None:
    begun = b"".join(Teller().frames)
    for before in (b"", b": wait\n\n", begun):
        with pytest.raises(UpstreamAnswered) as caught:
            splice().tap().feed(before + error)
        assert caught.value.status == status
        assert json.loads(DIALECT.error_body(caught.value))["error"].get("code") == code


def test_and_a_follow_up_that_only_begins_is_lost_without_harm() -> None:
    answer = splice()
    first, _ = run(answer, turn(message("m", "x"), ident="a"))
    tap = answer.tap()
    for each in Teller("b").frames:
        assert tap.feed(b": hm\n\n" + each) == b""
        assert not tap.seen
    with pytest.raises(UpstreamAnswered):
        tap.feed(FAILED)
    assert first + answer.tail(neutral_finish=False) == turn(message("m", "x"), ident="a")


@pytest.mark.parametrize("together", [True, False])
def test_an_error_later_ends_the_turn_after_what_was_said(together: bool) -> None:
    stream = RECORDED["responses_failed"]
    pieces = [stream] if together else split(stream)
    answer = splice()
    tap = answer.tap()
    shown = b"".join(tap.feed(piece) for piece in pieces)
    assert shown == b"".join(split(stream)[:-1])
    assert tap.ended
    assert isinstance(tap.failure, UpstreamAnswered)
    assert shown + answer.error_frame(tap.failure) == stream


def test_an_error_event_becomes_the_end_that_clients_show() -> None:
    answer = splice()
    tap = answer.tap()
    begun = b"".join(split(RECORDED["responses_failed"])[:-1])
    shown = tap.feed(begun + ERROR)
    assert isinstance(tap.failure, UpstreamAnswered)
    response = Client().read(shown + answer.error_frame(tap.failure))
    assert response["error"] == {"code": "rate_limit_exceeded", "message": "Slow."}
    assert response["output"][0]["content"][0]["text"] == "Half a sent"


def test_a_later_turn_that_fails_ends_the_answer_with_all_that_was_shown() -> None:
    answer = splice()
    first, _ = run(answer, turn(message("m", "One."), ident="a"))
    tap = answer.tap()
    shown = tap.feed(RECORDED["responses_failed"])
    assert isinstance(tap.failure, UpstreamAnswered)
    response = Client().read(first + shown + answer.error_frame(tap.failure))
    assert response["status"] == "failed"
    assert response["error"] == {"code": "server_error", "message": "The model ran out of words."}
    said = [item["content"][0]["text"] for item in response["output"]]
    assert said == ["One.", "\n\nHalf a sent"]


@pytest.mark.parametrize(
    "error, expected",
    [
        (Draining("Going."), {"code": "draining", "message": "Going."}),
        (UpstreamBroke("Gone."), {"code": "upstream_broke", "message": "Gone."}),
        (
            UpstreamAnswered(429, (), b'{"error":{"code":"slow_down","message":"Wait 1s"}}'),
            {"code": "slow_down", "message": "Wait 1s"},
        ),
        (
            UpstreamAnswered(500, (), b'{"error":{"code":null,"message":7}}'),
            {"code": "server_error", "message": "The upstream answered 500."},
        ),
        (
            UpstreamAnswered(500, (), b"<html>"),
            {"code": "upstream_error", "message": "The upstream answered 500."},
        ),
    ],
)
def test_an_error_is_said_as_the_end_of_this_answer(error: Any, expected: Json) -> None:
    answer = splice(CLOCK)
    shown, _ = run(answer, turn(message("m", "x"), call("1", "clock"), ident="a"))
    for stream in (shown, b""):
        response = heard(stream + (answer if stream else splice()).error_frame(error))
        assert response["error"] == expected
        assert [item["id"] for item in response["output"]] == (["m"] if stream else [])
        assert response["id"] == ("a" if stream else "resp_holdgate")


@pytest.mark.parametrize(
    "stream",
    [b"", TEXT[: TEXT.rfind(b"event:")], TEXT[:-9], b"data: {}\n\n", b"data: cut"],
    ids=["nothing", "no end", "inside the end", "no event", "half an event"],
)
def test_a_turn_cut_short_is_broken(stream: bytes) -> None:
    with pytest.raises(UpstreamBroke):
        run(splice(), stream)


def test_a_last_frame_without_its_empty_line_counts() -> None:
    answer = splice()
    shown, _ = run(answer, TEXT[:-2])
    assert shown + answer.tail(neutral_finish=False) == TEXT


def test_what_comes_after_the_end_is_dropped() -> None:
    answer = splice()
    shown, _ = run(answer, TEXT + turn(message("m", "more")))
    assert shown + answer.tail(neutral_finish=False) == TEXT


def test_data_that_is_no_event_passes() -> None:
    first, *rest = split(TEXT)
    odd = [
        b"data: hm\n\n",
        b"data: [1]\n\n",
        b'data: {"type":7}\n\n',
        b'data: {"x":1}\n\n',
        b": x\n\n",
    ]
    stream = b"".join([first, *odd, *rest])
    answer = splice()
    shown, _ = run(answer, stream)
    assert shown + answer.tail(neutral_finish=False) == stream


# Bounds.


def test_a_stream_without_end_does_not_fill_memory() -> None:
    teller = Teller("a")
    teller.begin(message("m", ""))
    answer = splice(limit=5_000)
    tap = answer.tap()
    tap.feed(b"".join(teller.frames))
    for _ in range(200):
        tap.feed(
            frame("response.output_text.delta", output_index=0, content_index=0, delta="x" * 50)
        )
    assert answer.heartbeat() == b": wait\n"
    assert b'"output":[]' in answer.error_frame(UpstreamBroke("Gone."))
    end = frame("response.completed", sequence_number=300, response={"id": "a", "output": []})
    tap.feed(end)
    assert not tap.end().continuable


def test_a_long_turn_that_lists_its_items_at_the_end_can_be_gone_on_from() -> None:
    answer = splice(limit=5_000)
    said = message("m", "x" * 3_000)
    shown, tap = run(answer, *split(turn(said, ident="a")))
    assert tap.end().continuable
    assert items_of(tap) == [said]
    more, _ = run(answer, turn(message("n", "more"), ident="b"))
    response = Client().read(shown + more + answer.tail(neutral_finish=False))
    assert response["output"] == [said, message("n", "\n\nmore")]


def test_what_a_stream_accepts() -> None:
    assert splice().accepts(b"text/event-stream; charset=utf-8")
    assert splice().accepts(b"")
    assert not splice().accepts(b"application/json")
    assert splice().content_type.startswith(b"text/event-stream")


# Whatever turns there are.

TEXTS = st.text(min_size=1, max_size=12)
KINDS = st.sampled_from(["message", "reasoning", "theirs", "ours", "custom", "search", "refusal"])


def made(kind: str, ident: str, text: str) -> Json:
    match kind:
        case "message":
            return message(f"msg_{ident}", text)
        case "reasoning":
            return reasoning(f"rs_{ident}", text)
        case "refusal":
            return refusal(f"msg_{ident}", text)
        case "search":
            return search(f"ws_{ident}")
        case "custom":
            return custom(ident, "patch", text)
    return call(ident, "clock" if kind == "ours" else "weather", json.dumps({"said": text}))


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[bytes, list[Json]]]:
    """Draw turns whose items begin and grow in any order, under ids that may come again."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        suffix = draw(st.sampled_from(["", f"_{number}"]))
        wanted = draw(st.lists(st.tuples(KINDS, TEXTS), max_size=4))
        items = [made(kind, f"{at}{suffix}", text) for at, (kind, text) in enumerate(wanted)]
        found.append((told(draw, f"resp_{number}", items), items))
    return found


def told(draw: st.DrawFn, ident: str, items: list[Json]) -> bytes:
    teller = Teller(ident)
    waiting = list(items)
    growing: list[tuple[int, list[tuple[str, Json]]]] = []
    while waiting or growing:
        if waiting and (not growing or draw(st.booleans())):
            item = waiting.pop(0)
            growing.append((teller.begin(item), telling_of(item)))
            continue
        at, rest = draw(st.sampled_from(growing))
        if not rest:
            growing.remove((at, rest))
            teller.tell("response.output_item.done", output_index=at, item=items[at])
            continue
        kind, members = rest.pop(0)
        teller.tell(kind, item_id=items[at]["id"], output_index=at, **members)
    return teller.end()


def telling_of(item: Json) -> list[tuple[str, Json]]:
    return [(e.pop("type"), _without_place(e)) for e in events(turn(item))[3:-2]]


def _without_place(event: Json) -> Json:
    return {
        k: v for k, v in event.items() if k not in ("sequence_number", "item_id", "output_index")
    }


def texts_of(item: Json) -> list[str]:
    parts = item["content"] if item["type"] == "message" else []
    return [part["text"] for part in parts if part.get("text")]


def gaps_in(items: list[Json]) -> int:
    """Count the texts that begin with an empty line."""
    return sum(text.startswith("\n\n") for item in items for text in texts_of(item))


def gaps_expected(turns: list[list[Json]]) -> int:
    """Count the turns that say something after another one did."""
    return max(0, sum(any(map(texts_of, items)) for items in turns) - 1)


def closed_up(item: Json) -> Json:
    """Return an item without the empty line before its text."""
    if not texts_of(item):
        return item
    content = [
        {**part, "text": part["text"].removeprefix("\n\n")} if "text" in part else part
        for part in item["content"]
    ]
    return {**item, "content": content}


def is_ours(item: Json) -> bool:
    return item.get("name") == "clock" and item["type"] == "function_call"


@given(turns(), st.lists(st.integers(0, 3000), max_size=20), st.booleans())
@settings(max_examples=150)
def test_whatever_comes_is_one_answer_that_hides_what_is_ours(
    told: list[tuple[bytes, list[Json]]], cuts: list[int], beats: bool
) -> None:
    answer, client = splice(CLOCK), Client()
    shown = b""
    for stream, items in told:
        tap = answer.tap()
        points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
        for a, b in pairwise(points):
            shown += tap.feed(stream[a:b])
            if beats and tap.seen:
                shown += answer.heartbeat().removeprefix(b": wait\n")
        answer.take(tap)
        assert items_of(tap) == named_anew(items, items_of(tap))
        assert [c.id for c in tap.end().server_calls] == [i["call_id"] for i in items if is_ours(i)]
    response = client.read(shown + answer.tail(neutral_finish=False))
    assert b"clock" not in shown
    visible = [item for _, items in told for item in items if not is_ours(item)]
    shown_items = [closed_up(item) for item in response["output"]]
    assert shown_items == named_anew(visible, shown_items)
    assert gaps_in(response["output"]) == gaps_expected([items for _, items in told])
    if len(told) == 1 and visible == told[0][1] and not beats:
        assert shown + answer.tail(neutral_finish=False) == told[0][0]


def named_anew(items: list[Json], like: list[Json]) -> list[Json]:
    """Give items the ids of others, which may differ by a number only."""
    assert len(items) == len(like)
    for item, other in zip(items, like, strict=True):
        assert other["id"].startswith(item["id"])
    return [{**item, "id": other["id"]} for item, other in zip(items, like, strict=True)]


def test_beginnings_of_the_first_turn_that_come_late_are_shown_unless_they_tell_too_much() -> None:
    late = frame(BEGINNINGS[1], sequence_number=50, response={"id": "resp_1", "output": []})
    for tools, name in ((CLOCK, "clock"), (CLOCK, "weather"), (NO_TOOLS, "clock")):
        tap = splice(tools).tap()
        begun = Teller()
        begun.begin(call("1", name))
        tap.feed(b"".join(begun.frames))
        assert tap.feed(late) == (b"" if (tools, name) == (CLOCK, "clock") else late)
