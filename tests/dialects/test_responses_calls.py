"""Calls in Responses streams: the client sees its own and nothing of ours, however they come."""

import json
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.openai_responses.items import AnsweredItems
from gateway.dialects.openai_responses.output import MOST_ITEMS
from gateway.errors import UpstreamBroke
from gateway.exchange.model import Stop, ToolCall
from gateway.wire.sse import split
from tests.dialects.responses_wire import (
    CLOCK,
    Client,
    Json,
    Teller,
    call,
    custom,
    events,
    frame,
    message,
    played,
    reasoning,
    run,
    search,
    splice,
    turn,
)

ARGUMENTS = '{"action":"get_hidden"}'
HIDDEN = (b"clock", b"get_hidden", b"fc_srv", b"call_srv")
ADDED, DONE = "response.output_item.added", "response.output_item.done"
DELTA = "response.function_call_arguments.delta"


def ours(ident: str = "srv", **more: Any) -> Json:
    return call(ident, "clock", ARGUMENTS, **more)


def theirs(ident: str = "w", name: str = "weather", **more: Any) -> Json:
    return call(ident, name, '{"city":"Paris"}', **more)


@dataclass(frozen=True)
class Story:
    """A turn as it comes, and what is to become of it."""

    stream: bytes
    ours: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    hidden: tuple[bytes, ...] = field(default=HIDDEN)


def interleaved() -> bytes:
    teller = Teller()
    items = [ours(), theirs(), ours("srv2"), theirs("n", "news")]
    places = [teller.begin(item) for item in items]
    for half in (slice(0, 9), slice(9, None)):
        for at, item in zip(places, items, strict=True):
            piece = item["arguments"][half]
            teller.tell(DELTA, item_id=item["id"], output_index=at, delta=piece)
    for at, item in zip(places, items, strict=True):
        teller.tell(DONE, output_index=at, item=item)
    return teller.end()


def nameless_at_first(item: Json, between: Json) -> bytes:
    """The name comes with the end of the item, and another item before that."""
    teller = Teller()
    bare = {k: v for k, v in item.items() if k != "name"} | {"arguments": ""}
    teller.items.append(item)
    teller.tell(ADDED, output_index=0, item=bare)
    teller.tell(DELTA, item_id=item["id"], output_index=0, delta=item["arguments"])
    teller.fill(teller.begin(between))
    teller.tell(DONE, output_index=0, item=item)
    return teller.end()


def named_by_its_arguments(item: Json) -> bytes:
    teller = Teller()
    teller.items.append(item)
    place = {"item_id": item["id"], "output_index": 0}
    teller.tell(ADDED, output_index=0, item={**item, "name": "", "arguments": ""})
    kind = "response.function_call_arguments.done"
    teller.tell(kind, **place, arguments=item["arguments"], name=item["name"])
    teller.tell(DONE, output_index=0, item=item)
    return teller.end()


def never_begun(item: Json) -> bytes:
    """Its arguments come before it, or it is told of only when it is whole."""
    teller = Teller()
    teller.items.append(item)
    teller.tell(DELTA, item_id=item["id"], output_index=0, delta=item["arguments"])
    teller.tell(DONE, output_index=0, item=item)
    return teller.end()


def begun_twice(item: Json) -> bytes:
    teller = Teller()
    teller.tell(ADDED, output_index=0, item=None)
    teller.fill(teller.begin(item))
    return teller.end()


def one_index_for_all() -> bytes:
    """Ids alone say which item is meant."""
    teller = Teller()
    items = [ours(), theirs(), message("m", "x")]
    for item in items:
        teller.items.append(item)
        teller.tell(ADDED, output_index=0, item={**item, "content": [], "arguments": ""})
    for item in items[:2]:
        teller.tell(DELTA, item_id=item["id"], output_index=0, delta=item["arguments"])
    for item in items:
        teller.tell(DONE, output_index=0, item=item)
    return teller.end()


def one_id_for_all() -> bytes:
    """Places alone say which item is meant."""
    return (
        interleaved()
        .replace(b"fc_srv2", b"fc_one")
        .replace(b"fc_srv", b"fc_one")
        .replace(b'"fc_w"', b'"fc_one"')
        .replace(b'"fc_n"', b'"fc_one"')
    )


STORIES = {
    "alone": Story(turn(ours()), ("srv",)),
    "after thought and text": Story(
        turn(reasoning("rs"), message("m", "Let me see."), ours()), ("srv",), ("rs", "m")
    ),
    "before text": Story(turn(ours(), message("m", "x")), ("srv",), ("m",)),
    "between the client's": Story(
        turn(theirs(), ours(), theirs("n", "news")), ("srv",), ("fc_w", "fc_n")
    ),
    "twice": Story(turn(ours(), ours("srv2")), ("srv", "srv2")),
    "beside a hosted and a custom tool": Story(
        turn(search("ws"), ours(), custom("c", "patch")), ("srv",), ("ws", "ctc_c")
    ),
    "interleaved": Story(interleaved(), ("srv", "srv2"), ("fc_w", "fc_n")),
    "without an event line": Story(
        b"".join(b"data: " + f.partition(b"\ndata: ")[2] for f in split(turn(ours(), theirs()))),
        ("srv",),
        ("fc_w",),
    ),
    "in other spaces": Story(
        turn(ours(), theirs()).replace(b'":', b'": ').replace(b',"', b', "'), ("srv",), ("fc_w",)
    ),
    "named late": Story(
        nameless_at_first(ours(), message("m", "x")), ("srv",), ("m",), hidden=HIDDEN
    ),
    "the client's, named late": Story(
        nameless_at_first(theirs(), message("m", "x")), (), ("m", "fc_w")
    ),
    "the client's, named last": Story(
        nameless_at_first(theirs(), search("ws")).replace(b'"name":"weather"', b'"name":""'),
        (),
        ("ws", "fc_w"),
    ),
    "named by its arguments": Story(named_by_its_arguments(ours()), ("srv",)),
    "the client's, named by its arguments": Story(named_by_its_arguments(theirs()), (), ("fc_w",)),
    "told when it is whole": Story(never_begun(ours()), ("srv",)),
    "the client's, told when it is whole": Story(never_begun(theirs()), (), ("fc_w",)),
    "begun twice": Story(begun_twice(ours()), ("srv",)),
    "one index for all": Story(one_index_for_all(), ("srv",), ("fc_w", "m")),
    "one id for all": Story(
        one_id_for_all(), ("srv", "srv2"), ("fc_one", "fc_one"), hidden=HIDDEN[:2]
    ),
    "no call at all": Story(turn(message("m", '"function_call"')), (), ("m",)),
}


def ended(stream: bytes) -> Json:
    response = events(stream)[-1]["response"]
    assert isinstance(response, dict)
    return response


def shown_ids(stream: bytes) -> list[str]:
    return [event["item"]["id"] for event in events(stream) if event["type"] == DONE]


@pytest.mark.parametrize("name", STORIES)
def test_the_client_sees_its_own_calls_and_nothing_of_ours(name: str) -> None:
    story = STORIES[name]
    stream = played(story.stream)
    assert not [secret for secret in story.hidden if secret in stream]
    assert shown_ids(stream) == list(story.shown)
    assert [item["id"] for item in ended(stream)["output"]] == list(story.shown)
    numbers = [event["sequence_number"] for event in events(stream)]
    assert all(a < b for a, b in pairwise(numbers))
    places = [e["output_index"] for e in events(stream) if e["type"] == DONE]
    assert sorted(places) == list(range(len(story.shown)))


@pytest.mark.parametrize("name", STORIES)
def test_however_its_bytes_are_split(name: str) -> None:
    stream = STORIES[name].stream
    whole = played(stream)
    for at in range(0, len(stream), 7):
        answer = splice(CLOCK)
        shown, _ = run(answer, stream[:at], stream[at:])
        assert shown + answer.tail(neutral_finish=False) == whole


@given(st.sampled_from(sorted(STORIES)), st.lists(st.integers(0, 4000), max_size=60), st.booleans())
@settings(max_examples=60)
def test_and_in_many_pieces_with_either_line_end(name: str, cuts: list[int], crlf: bool) -> None:
    stream = STORIES[name].stream.replace(b"\n", b"\r\n" if crlf else b"\n")
    points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    answer = splice(CLOCK)
    shown, _ = run(answer, *(stream[a:b] for a, b in pairwise(points)))
    found = (shown + answer.tail(neutral_finish=False)).replace(b"\r\n", b"\n")
    assert found == played(STORIES[name].stream)


@pytest.mark.parametrize("name", STORIES)
def test_a_follow_up_may_be_joined_on_and_hides_as_much(name: str) -> None:
    story = STORIES[name]
    before = turn(reasoning("rs_0"), ours("srv0"), ident="resp_0")
    stream = played(before, story.stream)
    assert not [secret for secret in story.hidden if secret in stream]
    assert len(shown_ids(stream)) == len(story.shown) + 1
    response = ended(stream)
    assert response["id"] == "resp_0"
    assert len(response["output"]) == len(story.shown) + 1
    assert [e["output_index"] for e in events(stream) if e["type"] == ADDED] == sorted(
        {e["output_index"] for e in events(stream) if e["type"] == ADDED}
    )


@pytest.mark.parametrize("name", STORIES)
def test_every_form_of_a_turn_has_the_same_calls(name: str) -> None:
    story = STORIES[name]
    _, tap = run(splice(CLOCK), story.stream)
    end, answered = tap.end(), tap.rebuild_turn().message
    assert isinstance(answered, AnsweredItems)
    assert [c.id for c in end.server_calls] == [f"call_{ident}" for ident in story.ours]
    assert {c.name for c in end.server_calls} <= CLOCK
    assert all(json.loads(c.arguments) == json.loads(ARGUMENTS) for c in end.server_calls)
    calls = [i for i in answered.items if i["type"] == "function_call" and i["name"] == "clock"]
    assert [i["call_id"] for i in calls] == [c.id for c in end.server_calls]
    theirs = [i["call_id"] for i in answered.items if i.get("call_id") and i not in calls]
    assert tap.client_call_ids() == tuple(theirs)
    assert end.client_calls is bool(theirs)
    assert end.continuable
    assert end.stop is (Stop.TOOL_CALLS if calls or theirs else Stop.STOP)


def test_an_upstream_that_numbers_no_items() -> None:
    numbered = turn(message("m", "hi"), ours(), theirs(), message("n", "so"))
    stream = re.sub(rb'"output_index":\d+,', b"", numbered)
    whole = played(stream)
    assert not [secret for secret in HIDDEN if secret in whole]
    assert [e for e in events(whole)[:-1] if "fc_srv" in str(e) or "output_index" in e] == []
    assert shown_ids(whole) == ["m", "fc_w", "n"]
    for at in range(0, len(stream), 7):
        answer = splice(CLOCK)
        shown, tap = run(answer, stream[:at], stream[at:])
        assert shown + answer.tail(neutral_finish=False) == whole
        assert [c.id for c in tap.end().server_calls] == ["call_srv"]
    later = played(turn(message("m", "first"), ident="resp_0"), stream)
    assert not [secret for secret in HIDDEN if secret in later]
    places = {e.get("item_id") or e["item"]["id"]: e["output_index"] for e in events(later)[2:-1]}
    assert places == {"m": 0, "m_2": 1, "fc_w": 2, "n": 3}


def test_news_of_no_known_item_take_no_place() -> None:
    news = frame("response.audio.delta", sequence_number=1, item_id="a", delta="x")
    stream = turn(ours(), theirs()).replace(
        b"event: response.output", news + b"event: response.output", 1
    )
    assert [e["output_index"] for e in events(played(stream)) if e["type"] == DONE] == [0]


def test_a_call_waits_no_longer_than_it_must() -> None:
    tap = splice(CLOCK).tap()
    begun = Teller()
    tap.feed(b"".join(begun.frames))
    added = frame(ADDED, output_index=0, item={**theirs(), "arguments": ""}, sequence_number=2)
    assert tap.feed(added) == added
    nameless = {**theirs("n"), "name": None, "arguments": ""}
    assert tap.feed(frame(ADDED, output_index=1, item=nameless, sequence_number=3)) == b""
    delta = frame(DELTA, output_index=0, item_id="fc_w", delta="x", sequence_number=4)
    assert tap.feed(delta) == delta
    shown = tap.feed(frame(DONE, output_index=1, item=theirs("n"), sequence_number=5))
    assert [(e["type"], e["sequence_number"]) for e in events(shown)] == [(ADDED, 5), (DONE, 6)]
    later = frame(DONE, output_index=0, item=theirs(), sequence_number=6)
    assert events(tap.feed(later))[0]["sequence_number"] == 7


def test_one_that_is_never_named_is_shown_at_the_end() -> None:
    teller = Teller()
    teller.items.append(theirs())
    teller.tell(ADDED, output_index=0, item={**theirs(), "name": ""})
    answer = splice(CLOCK)
    shown, tap = run(answer, teller.end())
    assert [e["type"] for e in events(shown)][2:] == [ADDED]
    assert tap.end().client_calls


def test_calls_without_ids_get_them_and_keep_them() -> None:
    """The client, the model and the results all speak of a call by the same id."""
    bare = [
        {k: v for k, v in c.items() if k != "call_id"} for c in (theirs(), ours(), custom("c", "p"))
    ]
    answer = splice(CLOCK)
    shown, tap = run(answer, turn(*bare))
    answered = tap.rebuild_turn().message
    assert isinstance(answered, AnsweredItems)
    ids = [item["call_id"] for item in answered.items]
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", ident) for ident in ids)
    assert len(set(ids)) == 3
    assert tap.end().server_calls == (ToolCall(ids[1], "clock", ARGUMENTS),)
    assert tap.client_call_ids() == (ids[0], ids[2])
    response = Client().read(shown + answer.tail(neutral_finish=False))
    assert [item["call_id"] for item in response["output"]] == [ids[0], ids[2]]
    again = run(answer, turn(*bare, ident="b"))[1]
    assert set(again.client_call_ids()).isdisjoint(ids)


def test_a_call_has_the_id_that_it_was_shown_with() -> None:
    teller = Teller()
    at = teller.begin(theirs())
    teller.items[0] = {**theirs(), "call_id": "another"}
    teller.fill(at)
    response = ended(played(teller.end()))
    assert response["output"][0]["call_id"] == "call_w"
    numbered = played(turn({**theirs(), "call_id": 7}))
    assert {e["item"]["call_id"] for e in events(numbered) if "item" in e} == {"7"}


@pytest.mark.parametrize("arguments", [None, "", {"a": 1}, "{broken"])
def test_odd_arguments_are_passed_on_as_text(arguments: Any) -> None:
    item = {**ours(), "arguments": arguments}
    teller = Teller()
    teller.tell(ADDED, output_index=0, item=item)
    teller.tell(DONE, output_index=0, item=item)
    teller.items.append(item)
    _, tap = run(splice(CLOCK), teller.end())
    (found,) = tap.end().server_calls
    expected = {None: "{}", "": "{}", "{broken": "{broken"}
    as_json = '{"a":1}' if isinstance(arguments, dict) else expected[arguments]
    assert found.arguments == as_json


ODD = [
    {"type": ADDED, "output_index": 0, "item": "x"},
    {"type": ADDED, "item": {"type": "function_call", "name": ["f"]}},
    {"type": DONE, "output_index": [], "item": {"type": ["x"], "id": 7, "call_id": {}}},
    {"type": DELTA, "output_index": None, "item_id": 5, "delta": {}},
    {"type": "response.output_text.delta", "output_index": 9, "content_index": 3, "delta": "x"},
    {"type": "response.content_part.added", "output_index": 0, "content_index": -1, "part": 7},
    {"type": "response.content_part.done", "output_index": 0, "content_index": 9, "part": {}},
    {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": []},
    {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": 1},
    {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0},
    {"type": ["odd"], "output_index": 0},
    {"output_index": 0, "function_call": "function_call"},
]


@given(st.lists(st.sampled_from(ODD), max_size=8), st.booleans())
def test_odd_events_pass_and_crash_nothing(odd: list[Json], joined: bool) -> None:
    teller = Teller("b")
    for at in range(2):
        teller.fill(teller.begin(message(f"m{at}", "x")))
        teller.frames += [b"data: " + json.dumps(event).encode() + b"\n\n" for event in odd]
    answer = splice(CLOCK)
    if joined:
        run(answer, turn(ours()))
    tap = answer.tap()
    shown = b""
    teller.end()
    for each in teller.frames:
        shown += tap.feed(each)
        answer.heartbeat()
    answer.take(tap)
    assert tap.end().stop
    assert tap.rebuild_turn()
    assert answer.tail(neutral_finish=False)
    assert {"m0", "m1"} <= set(shown_ids_of(shown))


def shown_ids_of(stream: bytes) -> list[str]:
    items = [event.get("item") for event in events(stream)]
    return [
        item["id"] for item in items if isinstance(item, dict) and isinstance(item.get("id"), str)
    ]


def test_a_call_that_names_no_tool_does_not_fill_memory() -> None:
    tap = splice(CLOCK, limit=10_000).tap()
    tap.feed(b"".join(Teller().frames))
    tap.feed(frame(ADDED, output_index=0, item={"type": "function_call", "id": "f"}))
    with pytest.raises(UpstreamBroke, match="did not name"):
        tap.feed(frame(DELTA, output_index=0, item_id="f", delta="x" * 100) * 1000)


def test_nor_do_items_without_end() -> None:
    tap = splice(CLOCK, limit=10**8).tap()
    items = [frame(ADDED, output_index=at, item=theirs(str(at))) for at in range(MOST_ITEMS + 1)]
    with pytest.raises(UpstreamBroke, match=f"more than {MOST_ITEMS} items"):
        tap.feed(b"".join(items))


def test_a_hidden_call_after_more_than_is_remembered_is_hidden_all_the_same() -> None:
    """Places go on from what the upstream says, as nobody knows what was shown before."""
    items = [message("m", "x" * 4000), ours(), theirs(), message("n", "y")]
    answer = splice(CLOCK, limit=5_000)
    shown, tap = run(answer, *split(turn(*items)))
    stream = shown + answer.tail(neutral_finish=False)
    assert not [secret for secret in HIDDEN if secret in stream]
    places = {e["item"]["id"]: e["output_index"] for e in events(stream) if e["type"] == DONE}
    assert places == {"m": 0, "fc_w": 1, "n": 2}
    assert [item["id"] for item in ended(stream)["output"]] == ["m", "fc_w", "n"]
    assert tap.end().server_calls[0].id == "call_srv"
    odd = splice(CLOCK, limit=5_000).tap()
    odd.feed(turn(items[0])[: -len(split(turn(items[0]))[-1])])
    odd.feed(b": %b\n\n" % (b"x" * 4000))
    assert events(odd.feed(frame(ADDED, output_index="?", item=theirs())))


def test_one_that_is_remembered_no_longer_when_it_is_read_goes_on_all_the_same() -> None:
    items = [theirs(), message("m", "x" * 4000), ours()]
    answer = splice(CLOCK, limit=5_000)
    tap = answer.tap()
    shown = b"".join(tap.feed(each) for each in split(turn(*items)))
    assert answer.heartbeat() == b": wait\n"
    answer.take(tap)
    stream = shown + answer.tail(neutral_finish=False)
    assert not [secret for secret in HIDDEN if secret in stream]
    assert [item["id"] for item in ended(stream)["output"]] == ["fc_w", "m"]
    assert tap.end().continuable
