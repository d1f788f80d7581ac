"""Any answer, said in each dialect and heard again, or passed on to another, stays what it was."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.canonical import (
    Began,
    Call,
    CallBegan,
    CallEnded,
    CallWent,
    Ended,
    Event,
    Reasoning,
    Refusal,
    Text,
    Tokens,
)
from gateway.dialects.translate.answer_context import ByteBudget
from gateway.dialects.translate.answer_writer import CollectedAnswer, collect_answer
from gateway.dialects.translate.answers import READERS, WRITERS
from gateway.dialects.translate.event_data import extract_data
from gateway.exchange.model import Stop
from tests.dialects.answers_wire import (
    DIALECTS,
    HEARD,
    PAIRS,
    WANTED,
    body_translated,
    in_pieces,
    translated,
)

LIMIT = 10**6
# Without line ends: clients of Chat Completions hear an empty line between texts.
WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1)
NAMES = st.text("abcxyz_", min_size=1, max_size=8)
JSONS = st.dictionaries(NAMES, st.integers() | st.booleans() | WORDS, max_size=3).map(json.dumps)
BROKEN = WORDS.filter(lambda text: not text.lstrip().startswith("{"))


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    cut = [text[a:b] for a, b in pairwise([0, *cuts, len(text)])]
    return [piece for piece in cut if piece]


@st.composite
def calls(draw: st.DrawFn, first: int) -> list[Event]:
    """Some calls, their pieces mixed, each ending somewhere after its last."""
    events: list[Event] = []
    left: list[list[Event]] = []
    for number in range(first, first + draw(st.integers(1, 3))):
        arguments = draw(JSONS | BROKEN)
        went = [CallWent(number, piece) for piece in draw(pieces(arguments))]
        left.append([CallBegan(number, f"call_{number}", draw(NAMES)), *went, CallEnded(number)])
    while left:
        row = draw(st.sampled_from(left))
        events.append(row.pop(0))
        left = [row for row in left if row]
    return events


@st.composite
def thoughts(draw: st.DrawFn) -> list[Event]:
    told: list[Event] = [Reasoning(piece) for piece in draw(pieces(draw(WORDS)))]
    proof = draw(st.sampled_from(["", "signature", "encrypted", "redacted"]))
    if proof == "redacted":
        return [Reasoning(encrypted="data", redacted=True)]
    return [*told, msgspec.structs.replace(Reasoning(), **{proof: "proof"})] if proof else told


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    """An answer that either speaks or refuses: few dialects keep both in their order."""
    events: list[Event] = [Began("upstream-id", "upstream-model", 7)]
    kinds: list[type[Text] | type[Refusal]] = [Text, Refusal]
    speaks = draw(st.sampled_from(kinds))
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([speaks, Reasoning, CallBegan]))
        if kind is CallBegan:
            events += draw(calls(sum(isinstance(event, CallBegan) for event in events)))
        elif kind is Reasoning:
            events += draw(thoughts())
        else:
            events += [speaks(piece) for piece in draw(pieces(draw(WORDS)))]
    return [*events, draw(ends(events))]


@st.composite
def ends(draw: st.DrawFn, events: Sequence[Event]) -> Ended:
    told = {type(event) for event in events}
    stop = draw(st.sampled_from([Stop.STOP, Stop.LENGTH]))
    if stop is Stop.STOP:
        stop = Stop.FILTER if Refusal in told else stop
        stop = Stop.TOOL_CALLS if CallBegan in told else stop
    cached, written, fresh = (draw(st.integers(0, 999)) for _ in range(3))
    output, reasoning = draw(st.integers(0, 999)), draw(st.integers(0, 99))
    return Ended(stop, Tokens(cached + written + fresh, output, cached, written, reasoning))


def streamed(dialect: str, events: Sequence[Event]) -> bytes:
    writer = WRITERS[dialect](WANTED, ByteBudget(LIMIT))
    return b"".join([writer.write(event) for event in events])


def heard(dialect: str, stream: bytes) -> list[Event]:
    reader = READERS[dialect](WANTED, ByteBudget(LIMIT))
    events = [event for data in extract_data(stream) for event in reader.read(data)]
    return [*events, *reader.close()]


def gist(answer: CollectedAnswer) -> Any:
    """All that every dialect can say of an answer."""
    texts = [part.text for part in answer.parts if isinstance(part, Text | Refusal)]
    thought = [part.text for part in answer.parts if isinstance(part, Reasoning)]
    called = [part for part in answer.parts if isinstance(part, Call)]
    shown = [(call.id, call.name, call.arguments) for call in called]
    words = ("".join(texts).replace("\n\n", ""), "".join(thought).replace("\n\n", ""))
    return words, shown, answer.ended


@given(st.sampled_from(DIALECTS), answers())
def test_a_stream_that_is_written_and_read_says_the_same(dialect: str, events: list[Event]) -> None:
    assert gist(collect_answer(heard(dialect, streamed(dialect, events)))) == gist(
        collect_answer(events)
    )


@given(st.sampled_from(DIALECTS), answers())
def test_a_body_that_is_written_and_read_says_the_same(dialect: str, events: list[Event]) -> None:
    answer = collect_answer(events)
    body = WRITERS[dialect](WANTED, ByteBudget(LIMIT)).whole(answer)
    again = collect_answer(READERS[dialect](WANTED, ByteBudget(LIMIT)).whole(body))
    assert gist(again) == gist(answer)


@given(st.sampled_from(PAIRS), answers())
def test_a_stream_passed_on_to_a_strict_client_says_the_same(
    pair: tuple[str, str], events: list[Event]
) -> None:
    source, target = pair
    shown = HEARD[target](translated(streamed(source, events), source, target))
    (text, thought), called, _ = gist(collect_answer(events))
    assert (shown.text + shown.refusal).replace("\n\n", "") == text
    assert shown.thought.replace("\n\n", "") == thought
    assert shown.calls == called


@settings(max_examples=50)
@given(st.sampled_from(PAIRS), answers(), st.lists(st.floats(0, 1), max_size=8))
def test_a_stream_may_be_cut_anywhere(
    pair: tuple[str, str], events: list[Event], where: list[float]
) -> None:
    source, target = pair
    stream = streamed(source, events)
    edges = [0, *sorted(int(at * len(stream)) for at in where), len(stream)]
    cut = [stream[a:b] for a, b in pairwise(edges)]
    assert in_pieces(cut, source, target) == translated(stream, source, target)


@given(st.sampled_from(PAIRS), answers())
def test_a_body_says_what_a_stream_does(pair: tuple[str, str], events: list[Event]) -> None:
    source, target = pair
    body = WRITERS[source](WANTED, ByteBudget(LIMIT)).whole(collect_answer(events))
    whole = json.dumps(body_translated(body, source, target)).encode()
    told = READERS[target](WANTED, ByteBudget(LIMIT)).whole(whole)
    stream = translated(streamed(source, events), source, target)
    assert gist(collect_answer(told)) == gist(collect_answer(heard(target, stream)))
