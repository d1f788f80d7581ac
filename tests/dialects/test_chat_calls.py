"""Server tools in the middle of chat answers: the client sees its own calls and nothing of ours."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.events import MOST_CALLS
from gateway.dialects.protocol import Splice, Tap
from gateway.errors import UpstreamBroke
from gateway.exchange.model import ModelRequest, Stop, ToolCall
from gateway.wire.sse import data_of, split

CHAT = DIALECTS["openai-chat"]
TOOLS = frozenset({"clock"})
DONE = b"data: [DONE]\n\n"
# What calls to server tools are made of below; none of it may reach a client.
OURS = (b"clock", b"srv", b"hush")
Json = dict[str, Any]


def chunk(delta: Json, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": "a", "choices": [choice], **more}
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def part(at: int | None, name: str | None = None, says: str | None = None, **more: Any) -> Json:
    """Make one fragment of a call."""
    function = {"name": name, "arguments": says}
    said = {key: value for key, value in function.items() if value is not None}
    return {**({} if at is None else {"index": at}), **more, "function": said}


def parts(*fragments: Json, finish: str | None = None, **delta: Any) -> bytes:
    return chunk({**delta, "tool_calls": list(fragments)}, finish)


def ended(finish: str = "tool_calls") -> bytes:
    return chunk({}, finish) + DONE


@dataclass(frozen=True)
class Story:
    """A turn as an upstream sends it, whose calls they are, and what the client is to see."""

    stream: bytes
    ours: tuple[tuple[str, str], ...] = ()
    theirs: tuple[tuple[str, str], ...] = ()
    text: str = ""
    hidden: tuple[bytes, ...] = OURS
    answered: tuple[str, ...] = ()


CLOCK = ("clock", '{"hush":1}')
WEATHER = ("weather", '{"city":"Rome"}')
ROLE = chunk({"role": "assistant", "content": None})


def our_call(index: int = 0) -> bytes:
    begun = parts(part(index, "clock", "", id="srv_1", type="function"))
    return begun + parts(part(index, says=CLOCK[1]))


def their_call(index: int, ident: str = "w1") -> bytes:
    pieces = [WEATHER[1][:5], WEATHER[1][5:]]
    begun = parts(part(index, "weather", "", id=ident, type="function"))
    return begun + b"".join(parts(part(index, says=piece)) for piece in pieces)


STORIES = {
    "only ours": Story(ROLE + our_call() + ended(), (CLOCK,)),
    "text around it": Story(
        chunk({"role": "assistant", "content": "One, "})
        + chunk({"content": "two"})
        + our_call()
        + chunk({"content": ", three."})
        + ended(),
        (CLOCK,),
        text="One, two, three.",
    ),
    "beside a text in one chunk": Story(
        parts(part(0, "clock", CLOCK[1], id="srv_1"), content="Well.") + ended(),
        (CLOCK,),
        text="Well.",
    ),
    "ours first": Story(
        ROLE + our_call() + their_call(1) + ended(), (CLOCK,), (WEATHER,), answered=("srv_1", "w1")
    ),
    "ours last": Story(
        their_call(0) + our_call(1) + ended(), (CLOCK,), (WEATHER,), answered=("w1", "srv_1")
    ),
    "ours between": Story(
        their_call(0) + our_call(1) + their_call(2, "w2") + ended(),
        (CLOCK,),
        (WEATHER, WEATHER),
        answered=("w1", "srv_1", "w2"),
    ),
    "fragments interleaved": Story(
        parts(part(0, "clock", "", id="srv_1"), part(1, "weather", "", id="w1"))
        + parts(part(0, says='{"hu'), part(1, says='{"city'))
        + parts(part(1, says='":"Rome"}'), part(2, "clock", '{"hush":2}', id="srv_2"))
        + parts(part(0, says='sh":1}'))
        + ended(),
        (CLOCK, ("clock", '{"hush":2}')),
        (WEATHER,),
        answered=("srv_1", "w1", "srv_2"),
    ),
    "a name in two pieces": Story(
        parts(part(0, "clo", "", id="srv_1", type="function"))
        + parts(part(0, "ck", ""))
        + parts(part(0, says=CLOCK[1]))
        + ended(),
        (CLOCK,),
    ),
    "a name letter by letter, with arguments": Story(
        b"".join(
            parts(part(0, letter, piece, **({"id": "srv_1"} if letter == "c" and piece else {})))
            for letter, piece in zip("clock", ['{"hu', "", "sh", '":', "1}"], strict=True)
        )
        + ended(),
        (CLOCK,),
    ),
    "two names in pieces, interleaved": Story(
        parts(part(0, "cl", id="w1"), part(1, "cl", id="srv_1"))
        + parts(part(1, "ock"), part(0, "imb"))
        + parts(part(0, says="{}"), part(1, says=CLOCK[1]))
        + ended(),
        (CLOCK,),
        (("climb", "{}"),),
        answered=("w1", "srv_1"),
    ),
    "a client's tool that begins like ours": Story(
        parts(part(0, "clo", "", id="w1", type="function"))
        + parts(part(0, "cker", ""))
        + parts(part(0, says="{"))
        + parts(part(0, says="}"))
        + ended(),
        theirs=(("clocker", "{}"),),
        hidden=(),
    ),
    "a client's tool that goes on after our name": Story(
        parts(part(0, "clock", id="w1")) + parts(part(0, "er", "{}")) + ended(),
        theirs=(("clocker", "{}"),),
        hidden=(),
    ),
    "a client's tool that is a beginning of ours": Story(
        parts(part(0, "clo", "", id="w1")) + parts(part(0, says="{}")) + ended(),
        theirs=(("clo", "{}"),),
    ),
    "the same in one piece": Story(
        parts(part(0, "clo", "{}", id="w1"), part(1, "clock", CLOCK[1], id="srv_1")) + ended(),
        (CLOCK,),
        (("clo", "{}"),),
        answered=("w1", "srv_1"),
    ),
    "an id before the name": Story(
        parts({"index": 0, "id": "srv_1", "type": "function"}, {"index": 1, "id": "w1"})
        + parts(part(0, "clock"), part(1, "weather", ""))
        + parts(part(1, says=WEATHER[1]), part(0, says=CLOCK[1]))
        + ended(),
        (CLOCK,),
        (WEATHER,),
        answered=("srv_1", "w1"),
    ),
    "arguments before the name": Story(
        parts(part(0, says='{"hush"', id="srv_1")) + parts(part(0, "clock", ":1}")) + ended(),
        (CLOCK,),
    ),
    "a name that is repeated": Story(
        parts(part(0, "clock", "", id="srv_1"))
        + parts(part(0, "clock", '{"hush"', id="srv_1"))
        + parts(part(0, "clock", ":1}"))
        + ended(),
        (CLOCK,),
    ),
    "a name that is repeated when all is said": Story(
        parts(part(0, "clock", CLOCK[1], id="srv_1")) + parts(part(0, "clock", "")) + ended(),
        (CLOCK,),
    ),
    "one index for all, and no ids": Story(
        parts(part(0, "clock", CLOCK[1], id=""), part(0, "weather", WEATHER[1], id=""))
        + parts(part(0, "weather", WEATHER[1]), part(0, "clock", ""))
        + parts(part(0, says=CLOCK[1]))
        + parts(part(0, "weather"))
        + parts(part(0, says=WEATHER[1]))
        + ended(),
        (CLOCK, CLOCK),
        (WEATHER, WEATHER, WEATHER),
    ),
    "a name that goes on after whole arguments": Story(
        parts(part(0, "clo", CLOCK[1], id="srv_1")) + parts(part(0, "ck")) + ended(), (CLOCK,)
    ),
    "arguments that hold an object in a piece": Story(
        b"".join(parts(part(0, "clock", piece, id="srv_1")) for piece in ['{"hush":"', "{}", '"}'])
        + ended(),
        (("clock", '{"hush":"{}"}'),),
    ),
    "another id with every fragment": Story(
        parts(part(0, "clock", "", id="srv_1"))
        + parts(part(0, says=CLOCK[1], id="srv_2"))
        + ended(),
        (CLOCK,),
        answered=("srv_1",),
    ),
    "one index for all": Story(
        parts(part(0, "weather", WEATHER[1], id="w1"), part(0, "clock", CLOCK[1], id="srv_1"))
        + parts(part(0, "weather", WEATHER[1], id="w2"))
        + ended(),
        (CLOCK,),
        (WEATHER, WEATHER),
        answered=("w1", "srv_1", "w2"),
    ),
    "no index": Story(
        parts(part(None, "clock", "", id="srv_1"))
        + parts(part(None, says='{"hush"'))
        + parts(part(None, "weather", WEATHER[1], id="w1"))
        + parts(part(None, says=":1}", id="srv_1"))
        + ended(),
        (CLOCK,),
        (WEATHER,),
        answered=("srv_1", "w1"),
    ),
    "neither index nor id": Story(
        parts(part(None, "clock", CLOCK[1]), part(None, "weather", WEATHER[1]))
        + parts(part(None, "weather", WEATHER[1]))
        + parts(part(None, "clo"))
        + parts(part(None, "ck"))
        + parts(part(None, says=CLOCK[1]))
        + ended(),
        (CLOCK, CLOCK),
        (WEATHER, WEATHER),
    ),
    "an id that comes late": Story(
        parts(part(0, "weather", ""), part(1, "clo"))
        + parts(part(0, says=WEATHER[1], id="late"), part(1, "ck", CLOCK[1], id="srv_1"))
        + ended(),
        (CLOCK,),
        (WEATHER,),
        hidden=(*OURS, b"late"),
    ),
    "on the finish": Story(
        parts(part(0, "clock", CLOCK[1], id="srv_1"), role="assistant", finish="tool_calls") + DONE,
        (CLOCK,),
    ),
    "on the finish, after the client's": Story(
        their_call(0) + parts(part(1, "clock", CLOCK[1], id="srv_1"), finish="tool_calls") + DONE,
        (CLOCK,),
        (WEATHER,),
        answered=("w1", "srv_1"),
    ),
    "both on the finish": Story(
        parts(
            part(0, "clock", CLOCK[1], id="srv_1"),
            part(1, *WEATHER, id="w1"),
            finish="tool_calls",
        )
        + DONE,
        (CLOCK,),
        (WEATHER,),
        answered=("srv_1", "w1"),
    ),
    "after the finish": Story(
        their_call(0)
        + chunk({}, "tool_calls")
        + parts(part(1, "clock", CLOCK[1], id="srv_1"))
        + DONE,
        (CLOCK,),
        (WEATHER,),
        answered=("w1", "srv_1"),
    ),
    "under a plain stop": Story(ROLE + our_call() + ended("stop"), (CLOCK,)),
    "a finish in another spacing": Story(
        our_call() + ended().replace(b'"finish_reason":"', b'"finish_reason" : "'), (CLOCK,)
    ),
    "no call at all": Story(
        chunk({"role": "assistant", "content": "hi", "tool_calls": None})
        + chunk({"content": "", "tool_calls": []})
        + ended("stop"),
        text="hi",
    ),
}


def splice(usage: bool = False, limit: int = 10**6, body: bytes = b"{}") -> Splice:
    asked = ModelRequest(model="m", body=body, stream=True, wants_usage=usage)
    return CHAT.splice(asked, TOOLS, limit)


def run(answer: Splice, *pieces: bytes) -> tuple[bytes, Tap]:
    tap = answer.tap()
    shown = b"".join(tap.feed(piece) for piece in pieces)
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    return shown, tap


def played(*pieces: bytes) -> bytes:
    answer = splice()
    shown, _ = run(answer, *pieces)
    return shown + answer.tail(neutral_finish=False)


def choices(stream: bytes) -> list[Json]:
    datas = [data_of(frame) for frame in split(stream)]
    chunks = [json.loads(data) for data in datas if data is not None and data != b"[DONE]"]
    return [choice for chunk in chunks for choice in chunk["choices"]]


def text_of(stream: bytes) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in choices(stream))


def finishes(stream: bytes) -> list[str]:
    return [c["finish_reason"] for c in choices(stream) if c["finish_reason"]]


def calls_of(stream: bytes) -> list[tuple[str, str, str]]:
    """Join the calls as an SDK does: a new index is the next one, and what has begun is appended."""
    calls: list[list[str]] = []
    for fragment in (f for c in choices(stream) for f in c["delta"].get("tool_calls") or []):
        if fragment["index"] == len(calls):
            calls.append(["", "", ""])
        function = fragment.get("function") or {}
        said = (fragment.get("id"), function.get("name"), function.get("arguments"))
        for at, piece in enumerate(said):
            calls[fragment["index"]][at] += piece or ""
    return [(ident, name, arguments) for ident, name, arguments in calls]


@pytest.mark.parametrize("name", STORIES)
def test_the_client_sees_its_own_calls_and_nothing_of_ours(name: str) -> None:
    story = STORIES[name]
    stream = played(story.stream)
    assert not [secret for secret in story.hidden if secret in stream]
    assert [(called, says) for _, called, says in calls_of(stream)] == list(story.theirs)
    assert text_of(stream) == story.text
    assert finishes(stream) == ["tool_calls" if story.theirs else "stop"]
    assert stream.endswith(DONE)
    assert stream.count(DONE) == 1


@pytest.mark.parametrize("name", STORIES)
def test_however_its_bytes_are_split(name: str) -> None:
    stream = STORIES[name].stream
    whole = played(stream)
    for at in range(len(stream)):
        assert played(stream[:at], stream[at:]) == whole


@given(st.sampled_from(sorted(STORIES)), st.lists(st.integers(0, 2000), max_size=60), st.booleans())
@settings(max_examples=60)
def test_and_in_many_pieces_with_either_line_end(name: str, cuts: list[int], crlf: bool) -> None:
    stream = STORIES[name].stream.replace(b"\n", b"\r\n" if crlf else b"\n")
    points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    shown = played(*(stream[a:b] for a, b in pairwise(points)))
    assert shown.replace(b"\r\n", b"\n") == played(STORIES[name].stream)


@pytest.mark.parametrize("name", STORIES)
def test_a_follow_up_may_be_joined_on_and_hides_as_much(name: str) -> None:
    """Every turn but the first is sifted too, and the end is the last turn's."""
    story = STORIES[name]
    answer = splice()
    shown = b"".join(run(answer, stream)[0] for stream in (our_call() + ended(), story.stream))
    stream = shown + answer.tail(neutral_finish=False)
    assert not [secret for secret in story.hidden if secret in stream]
    assert [(called, says) for _, called, says in calls_of(stream)] == list(story.theirs)
    assert text_of(stream) == story.text
    assert finishes(stream) == ["tool_calls" if story.theirs else "stop"]


@pytest.mark.parametrize("name", STORIES)
def test_every_form_of_a_turn_has_the_same_calls_and_ids(name: str) -> None:
    story = STORIES[name]
    answer = splice()
    shown, tap = run(answer, story.stream)
    end, message = tap.end(), tap.rebuild_turn().message
    assert isinstance(message, dict)
    calls = message.get("tool_calls", [])
    told = [ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
    ids = [call.id for call in told]
    assert all(isinstance(ident, str) and ident for ident in ids)
    assert len(set(ids)) == len(ids)
    assert tuple(ids) == story.answered or not story.answered
    assert [(call.name, call.arguments) for call in end.server_calls] == list(story.ours)
    assert [call for call in told if call.name in TOOLS] == list(end.server_calls)
    theirs = [ident for ident, _, _ in calls_of(shown + answer.tail(neutral_finish=False))]
    assert sorted(tap.client_call_ids()) == sorted(theirs)
    assert set(theirs) == set(ids) - {call.id for call in end.server_calls}
    assert end.client_calls is bool(story.theirs)
    assert end.continuable


def test_a_call_waits_no_longer_than_it_must() -> None:
    """Whose it is shows by the first piece that can be no piece of ours."""
    tap = splice().tap()
    first = parts(part(0, "weather", "", id="w1"))
    assert tap.feed(first) == first
    assert tap.feed(parts(part(1, "clo", id="w2"))) == b""
    assert tap.feed(chunk({"content": "x"})) == chunk({"content": "x"})
    shown = tap.feed(parts(part(1, "cker", says="{")))
    fragments = [c["delta"]["tool_calls"] for c in choices(shown)]
    assert fragments == [[part(1, "clo", id="w2")], [part(1, "cker", "{")]]
    assert tap.feed(parts(part(1, says="}"))) == parts(part(1, says="}"))


def test_calls_are_numbered_as_they_are_shown() -> None:
    stream = parts(part(0, "clo", id="w1")) + parts(part(1, "news", "{}", id="n1"))
    shown = played(stream + parts(part(0, "cker", "{}")) + ended())
    assert calls_of(shown) == [("n1", "news", "{}"), ("w1", "clocker", "{}")]


def test_a_clients_call_after_the_finish_stands_in_the_tail() -> None:
    late = parts(part(0, "clo", "{}", id="w1"))
    answer = splice()
    shown, tap = run(answer, chunk({"content": "x"}) + chunk({}, "tool_calls") + late + DONE)
    tail = answer.tail(neutral_finish=False)
    assert shown == chunk({"content": "x"})
    assert calls_of(tail) == [("w1", "clo", "{}")]
    assert tail.endswith(DONE)
    assert not tap.end().continuable
    joined = splice()
    run(joined, our_call() + ended())
    assert calls_of(run(joined, chunk({}, "tool_calls") + late + DONE)[0]) == [("w1", "clo", "{}")]


def test_held_and_told_apart_after_the_finish() -> None:
    late = parts(part(0, "clo", id="w1")) + parts(part(0, "cker", "{}"))
    answer = splice()
    _, tap = run(answer, chunk({}, "tool_calls") + late + DONE)
    assert calls_of(answer.tail(neutral_finish=False)) == [("w1", "clocker", "{}")]
    assert not tap.end().continuable


def test_an_upstream_without_done_still_gives_what_was_held() -> None:
    assert calls_of(played(parts(part(0, "clo", "{}", id="w")) + chunk({}, "tool_calls"))) == [
        ("w", "clo", "{}")
    ]


def test_a_done_without_a_finish_still_gives_what_was_held() -> None:
    shown = splice().tap().feed(parts(part(0, "clo", "{}", id="w")) + DONE)
    assert calls_of(shown) == [("w", "clo", "{}")]
    assert shown.endswith(DONE)


def test_ours_only_and_then_the_last_turns_end() -> None:
    answer = splice(usage=True)
    first, tap = run(answer, ROLE + our_call() + chunk({}, "tool_calls", usage={"total": 1}) + DONE)
    assert tap.end().stop is Stop.TOOL_CALLS
    assert not tap.end().client_calls
    last = chunk({"role": "assistant", "content": "It is"}, ident="b") + chunk(
        {"content": " noon."}
    )
    second, _ = run(answer, last + chunk({}, "length", usage={"total": 2}) + DONE)
    stream = first + second + answer.tail(neutral_finish=False)
    assert [c["delta"] for c in choices(stream)] == [
        {"role": "assistant", "content": None},
        {"content": "It is"},
        {"content": " noon."},
        {},
    ]
    assert finishes(stream) == ["length"]
    assert b'"usage":{"total":3}' in stream


def test_the_role_is_shown_even_where_it_rode_on_our_call() -> None:
    answer = splice()
    call = parts(part(0, "clock", "{}", id="srv_1"), role="assistant", finish="tool_calls")
    shown = run(answer, call + DONE)[0] + run(answer, ROLE + chunk({"content": "x"}) + ended())[0]
    assert [c["delta"] for c in choices(shown)] == [{"role": "assistant"}, {"content": "x"}]


def test_a_legacy_call_is_the_clients() -> None:
    legacy = chunk({"function_call": {"name": "weather", "arguments": "{}"}})
    stream = legacy + chunk({}, "function_call") + DONE
    assert played(stream) == stream
    assert run(splice(), stream)[1].end().client_calls
    beside, tap = run(splice(), legacy + our_call() + chunk({}, "function_call") + DONE)
    assert beside == legacy
    assert tap.end().client_calls
    assert len(tap.end().server_calls) == 1
    assert tap.client_call_ids() == ()


def test_what_is_no_call_is_not_hidden() -> None:
    stream = chunk({"tool_calls": ["x"]}) + ended()
    assert played(stream) == stream
    assert run(splice(), stream)[1].end().client_calls


def test_a_hidden_call_that_cannot_be_run_leaves_a_plain_stop() -> None:
    """A client told of calls that it cannot find would not know what to do."""
    answer = splice(limit=600)
    tap = answer.tap()
    shown = tap.feed(our_call() + chunk({"content": "x" * 500})) + tap.feed(ended())
    answer.take(tap)
    assert tap.end().server_calls == ()
    assert finishes(shown + answer.tail(neutral_finish=False)) == ["stop"]


def test_a_call_that_names_no_tool_does_not_fill_memory() -> None:
    tap = splice(limit=10_000).tap()
    with pytest.raises(UpstreamBroke, match="did not name"):
        tap.feed(parts(part(0, says="x" * 100, id="srv_1")) * 1000)


def test_nor_do_calls_without_end() -> None:
    tap = splice().tap()
    for at in range(MOST_CALLS):
        tap.feed(parts(part(at, "weather", id=f"w{at}")))
    with pytest.raises(UpstreamBroke, match=f"more than {MOST_CALLS} tools"):
        tap.feed(parts(part(MOST_CALLS, "weather", id="w")))


def test_what_an_upstream_adds_to_a_call_goes_back_to_it() -> None:
    signed = parts(part(0, "clock", id="srv_1", extra_content={"signature": "s"}))
    _, tap = run(splice(), signed + ended())
    assert tap.rebuild_turn().message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "srv_1",
                "type": "function",
                "function": {"name": "clock", "arguments": "{}"},
                "extra_content": {"signature": "s"},
            }
        ],
    }


def made_ids(body: bytes, answer: str = "a") -> list[str]:
    stream = STORIES["neither index nor id"].stream.replace(
        b'"id":"a"', f'"id":"{answer}"'.encode()
    )
    message = run(splice(body=body), stream)[1].rebuild_turn().message
    assert isinstance(message, dict)
    return [call["id"] for call in message["tool_calls"]]


def test_ids_are_made_that_any_upstream_takes_and_no_other_turn_has() -> None:
    ids = made_ids(b"{}")
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", ident) for ident in ids)
    assert ids == made_ids(b"{}")
    assert set(ids).isdisjoint(made_ids(b'{"more":1}'))
    assert set(ids).isdisjoint(made_ids(b"{}", "b"))
    answer = splice()
    calls = [
        run(answer, STORIES["neither index nor id"].stream)[1].end().server_calls for _ in "12"
    ]
    assert {call.id for call in calls[0]}.isdisjoint(call.id for call in calls[1])


NAMES = st.sampled_from(["clock", "clocker", "clo", "weather", "c", "xclock"])


@st.composite
def turns(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, str]]]:
    """Draw calls whose names and arguments come in pieces, interleaved as it pleases."""
    calls = draw(st.lists(NAMES, min_size=1, max_size=4))
    queues = [_pieces(draw, at, name) for at, name in enumerate(calls)]
    stream = ROLE
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        stream += parts(queue.pop(0))
    return stream + ended(), [(f"id{at}", name) for at, name in enumerate(calls)]


def _pieces(draw: st.DrawFn, at: int, name: str) -> list[Json]:
    cuts = sorted({0, *draw(st.lists(st.integers(1, len(name)), max_size=3)), len(name)})
    named = [part(at, name[a:b], draw(st.sampled_from(["", None]))) for a, b in pairwise(cuts)]
    named[0] |= {"id": f"id{at}"}
    return [*named, *(part(at, says=piece) for piece in ["{", f'"{at}":1', "}"])]


@given(turns())
def test_whatever_the_names_and_however_they_come(
    turn: tuple[bytes, list[tuple[str, str]]],
) -> None:
    stream, calls = turn
    answer = splice()
    shown, tap = run(answer, stream)
    seen = calls_of(shown + answer.tail(neutral_finish=False))
    says = {ident: f'{{"{ident[2:]}":1}}' for ident, _ in calls}
    theirs = [(ident, name, says[ident]) for ident, name in calls if name != "clock"]
    assert sorted(seen) == sorted(theirs)
    ours = {ToolCall(ident, name, says[ident]) for ident, name in calls if name == "clock"}
    assert set(tap.end().server_calls) == ours
