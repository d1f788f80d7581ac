"""Recorded answers of each dialect, as clients of the others hear them."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects import DIALECTS as SPOKEN
from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.answers import StreamTranslator
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import ModelRequest
from tests.dialects.answers_wire import (
    CHAT,
    DIALECTS,
    HEARD,
    MESSAGES,
    PAIRS,
    RESPONSES,
    WANTED,
    Heard,
    fixture,
    in_pieces,
    translated,
)

NAMES = ("text", "reasoning", "tool", "parallel", "refusal", "length", "error", "cache")
STOPS = {
    CHAT: {"stop": "stop", "calls": "tool_calls", "length": "length", "refusal": "stop"},
    MESSAGES: {
        "stop": "end_turn",
        "calls": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
    },
    RESPONSES: {
        "stop": "completed",
        "calls": "completed",
        "length": "max_output_tokens",
        "refusal": "completed",
    },
}
FINISHES = {CHAT: b'finish_reason":"', MESSAGES: b'stop_reason":"', RESPONSES: b'_details":{"'}
MODELS = {MESSAGES: "claude-sonnet-4-5-20250929", RESPONSES: "gpt-5-mini-2026-08-07"}


def hear(name: str, source: str, target: str) -> Heard:
    return HEARD[target](translated(fixture(source, name), source, target))


def ids(source: str, *idents: str) -> tuple[str, ...]:
    return tuple(ident if source == MESSAGES else f"call_{ident[6:]}" for ident in idents)


@pytest.mark.parametrize("source, target", PAIRS)
def test_text(source: str, target: str) -> None:
    heard = hear("text", source, target)
    assert heard.text == 'Grüße aus 上海 🌊\n"fin"'
    assert heard.stop == STOPS[target]["stop"]
    assert (heard.calls, heard.thought, heard.refusal, heard.error) == ([], "", "", None)
    assert heard.model == MODELS.get(source, "gpt-5-mini-2026-08-07")


@pytest.mark.parametrize("source, target", PAIRS)
def test_reasoning_comes_before_the_text(source: str, target: str) -> None:
    heard = hear("reasoning", source, target)
    assert (heard.thought, heard.text) == ("Six times seven.", "It is 42.")
    assert heard.stop == STOPS[target]["stop"]


@pytest.mark.parametrize(
    "source, target, proofs",
    [
        (CHAT, MESSAGES, ["holdgate:unproven"]),
        (CHAT, RESPONSES, ["holdgate:unproven"]),
        (MESSAGES, RESPONSES, ["holdgate:signature:EqQBCgIYAhIM1gbcDa9GJwZA2b3h"]),
        (RESPONSES, MESSAGES, ["holdgate:responses:rs_68af4032:gAAAAABor0Ax"]),
    ],
)
def test_what_proves_reasoning_travels_sealed(source: str, target: str, proofs: list[str]) -> None:
    assert hear("reasoning", source, target).proofs == proofs


@pytest.mark.parametrize("source, target", PAIRS)
def test_a_tool_call_beside_text(source: str, target: str) -> None:
    heard = hear("tool", source, target)
    assert heard.text == "Looking it up."
    assert heard.calls == [(*ids(source, "toolu_a1"), "get_weather", '{"city":"Bern"}')]
    assert heard.stop == STOPS[target]["calls"]


@pytest.mark.parametrize("source, target", PAIRS)
def test_mixed_calls_are_told_apart(source: str, target: str) -> None:
    heard = hear("parallel", source, target)
    first, second = ids(source, "toolu_a1", "toolu_b2")
    assert heard.calls == [
        (first, "get_weather", '{"city":"Bern"}'),
        (second, "get_time", '{"zone":"Europe/Zurich"}'),
    ]
    assert heard.stop == STOPS[target]["calls"]


@pytest.mark.parametrize("source, target", PAIRS)
def test_a_refusal(source: str, target: str) -> None:
    heard = hear("refusal", source, target)
    assert heard.text + heard.refusal == "I can't help with that."
    in_words = MESSAGES in (source, target)
    assert bool(heard.text) == in_words
    filtered = {CHAT: "content_filter", RESPONSES: "content_filter"}
    expected = STOPS[target]["refusal"]
    assert heard.stop == (filtered[target] if source == MESSAGES else expected)


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_answer_that_was_cut_at_its_length(source: str, target: str) -> None:
    heard = hear("length", source, target)
    assert (heard.text, heard.stop) == ("Once upon a", STOPS[target]["length"])


ERRORS: dict[tuple[str, str], dict[str, Any]] = {
    (CHAT, MESSAGES): {"type": "api_error"},
    (CHAT, RESPONSES): {"code": "server_error"},
    (MESSAGES, CHAT): {"type": "server_error", "code": "server_is_overloaded", "param": None},
    (MESSAGES, RESPONSES): {"code": "server_is_overloaded"},
    (RESPONSES, CHAT): {"type": "rate_limit_error", "code": "rate_limit_exceeded", "param": None},
    (RESPONSES, MESSAGES): {"type": "rate_limit_error"},
}
MESSAGE = {
    CHAT: "The server had an error while processing your request.",
    MESSAGES: "Overloaded",
    RESPONSES: "Rate limit reached; try again in 2s.",
}


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_error_in_the_middle(source: str, target: str) -> None:
    heard = hear("error", source, target)
    assert heard.error == {**ERRORS[source, target], "message": MESSAGE[source]}


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_error_in_the_middle_is_a_failure_to_the_clients_tap(source: str, target: str) -> None:
    asked = ModelRequest(model="m", body=b"{}", stream=True)
    tap = SPOKEN[target].splice(asked, frozenset(), 10**6).tap()
    shown = tap.feed(translated(fixture(source, "error"), source, target))
    assert b"Well," in shown
    assert tap.ended
    assert isinstance(tap.failure, UpstreamAnswered)
    assert MESSAGE[source].encode() in tap.failure.body


USAGES: dict[str, dict[str, Any]] = {
    CHAT: {
        "prompt_tokens": 2100,
        "completion_tokens": 4,
        "total_tokens": 2104,
        "prompt_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
    MESSAGES: {
        "input_tokens": 80,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 1920,
        "output_tokens": 4,
    },
    RESPONSES: {
        "input_tokens": 2100,
        "input_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 100},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2104,
    },
}


@pytest.mark.parametrize("source, target", PAIRS)
def test_usage_with_a_cache(source: str, target: str) -> None:
    assert hear("cache", source, target).usage == USAGES[target]


@pytest.mark.parametrize("source", DIALECTS)
@pytest.mark.parametrize(
    "target, path",
    [
        (CHAT, ("completion_tokens_details", "reasoning_tokens")),
        (MESSAGES, ("output_tokens_details", "thinking_tokens")),
        (RESPONSES, ("output_tokens_details", "reasoning_tokens")),
    ],
)
def test_usage_of_reasoning(source: str, target: str, path: tuple[str, str]) -> None:
    if source != target:
        usage = hear("reasoning", source, target).usage
        assert usage is not None
        assert usage[path[0]][path[1]] == 14


@pytest.mark.parametrize("source", (MESSAGES, RESPONSES))
@pytest.mark.parametrize("wants", [True, False])
def test_usage_is_counted_and_shown_to_a_chat_client_only_if_it_asked(
    source: str, wants: bool
) -> None:
    stream = translated(fixture(source, "cache"), source, CHAT)
    asked = ModelRequest(model="m", body=b"{}", stream=True, wants_usage=wants)
    splice = SPOKEN[CHAT].splice(asked, frozenset(), 10**6)
    splice.hides_usage = not wants
    tap = splice.tap()
    shown = tap.feed(stream)
    splice.take(tap)
    shown += splice.tail(neutral_finish=False)
    assert (b'"usage"' in shown) is wants
    assert shown.endswith(b"data: [DONE]\n\n")
    usage = tap.end().usage
    assert usage is not None
    assert (usage.input, usage.cached) == (2100, 1920)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source, target", PAIRS)
def test_the_clients_tap_reads_it_to_its_end(source: str, target: str, name: str) -> None:
    asked = ModelRequest(model="m", body=b"{}", stream=True)
    splice = SPOKEN[target].splice(asked, frozenset(), 10**6)
    tap = splice.tap()
    stream = translated(fixture(source, name), source, target)
    shown = tap.feed(stream)
    assert tap.ended
    if tap.failure is None:
        splice.take(tap)
        end = tap.end()
        assert end.client_calls == (name in ("tool", "parallel"))
        assert shown + splice.tail(neutral_finish=False) == stream


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source, target", PAIRS)
def test_it_does_not_matter_where_the_bytes_were_cut(source: str, target: str, name: str) -> None:
    stream = fixture(source, name)
    whole = translated(stream, source, target)
    assert in_pieces([stream[at : at + 1] for at in range(len(stream))], source, target) == whole
    crlf = stream.replace(b"\n", b"\r\n")
    assert translated(crlf, source, target) == whole
    for at in range(0, len(stream), 97):
        assert in_pieces([stream[:at], stream[at:]], source, target) == whole


@settings(max_examples=60)
@given(st.data())
def test_any_cuts_give_the_same_frames(data: st.DataObject) -> None:
    source, target = data.draw(st.sampled_from(PAIRS))
    stream = fixture(source, data.draw(st.sampled_from(NAMES)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges)]
    assert in_pieces(pieces, source, target) == translated(stream, source, target)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "error"])
@pytest.mark.parametrize("source, target", PAIRS)
def test_an_answer_that_was_cut_short_is_never_a_whole_one(
    source: str, target: str, name: str
) -> None:
    stream = fixture(source, name)
    for at in range(0, stream.find(FINISHES[source]), 211):
        passage = StreamTranslator(source, target, WANTED, 10**6)
        passage.feed(stream[:at])
        assert not passage.ended
        with pytest.raises(UpstreamBroke):
            passage.close()


@pytest.mark.parametrize("source, target", PAIRS)
def test_text_is_shown_as_it_comes(source: str, target: str) -> None:
    passage = StreamTranslator(source, target, WANTED, 10**6)
    for frame in fixture(source, "text").split(b"\n\n"):
        shown = passage.feed(frame + b"\n\n")
        for word in (b"aus", "上海".encode(), "🌊".encode()):
            is_delta = b"delta" in frame and b"done" not in frame
            assert not is_delta or (word in frame) == (word in shown)


@pytest.mark.parametrize("source, target", PAIRS)
def test_ids_are_the_same_each_time_and_of_no_other_request(source: str, target: str) -> None:
    one, again = hear("tool", source, target), hear("tool", source, target)
    other = HEARD[target](
        translated(fixture(source, "tool"), source, target, AnswerContext("m", "request-2"))
    )
    assert one == again
    assert one.id != other.id
    assert one.calls == other.calls
