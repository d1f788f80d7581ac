"""Signatures of calls: where they stand in answers, and how a history gets them back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.openai_chat.signatures import find_signatures
from gateway.dialects.profiles import PROFILES
from gateway.dialects.translate.requests import translate_request
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.exchange.additions import GatewayParts
from tests.dialects.answers_wire import CHAT, MESSAGES, RESPONSES
from tests.dialects.translation import HI, called

Json = dict[str, Any]
PLACEHOLDER = PROFILES["gemini"].call_signature
TRANSLATORS = Translators(
    {"u": UpstreamDialect(CHAT, PROFILES["gemini"]), "other": UpstreamDialect(CHAT)},
    10_000,
    10_000,
    lambda: 0.0,
)


def extra(signature: object, **beside: object) -> Json:
    """Write what holds a signature."""
    return {"extra_content": {"google": {"thought_signature": signature, **beside}}}


def piece(index: int, ident: str = "", name: str = "", arguments: str = "", **more: Any) -> Json:
    """Write a fragment of a call."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": ident, "function": function, **more}


def stream(*deltas: list[Json]) -> bytes:
    """Write a stream of calls."""
    choices = [{"index": 0, "delta": {"tool_calls": calls}} for calls in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    frames = [json.dumps({"id": "c", "model": "m", "choices": [choice]}) for choice in choices]
    return "".join(f"data: {frame}\n\n" for frame in frames).encode() + b"data: [DONE]\n\n"


STREAMS = {
    "one piece": stream([piece(0, "a", "f", "{}", **extra("sig-a"))], [piece(1, "b", "f", "{}")]),
    "first piece": stream([piece(0, "a", "f", **extra("sig-a"))], [piece(0, arguments="{}")]),
    "last piece": stream([piece(0, "a", "f", "{}")], [piece(0, **extra("sig-a"))]),
    "all at once": stream(
        [piece(0, "a", "f", "{}", **extra("sig-a")), piece(0, "b", "g", "{}")],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_translated_stream_tells_them(name: str, client: str, size: int) -> None:
    asked = json.dumps({"model": "m", "messages": [], "input": [], "stream": True}).encode()
    translator = TRANSLATORS.make_translator("u", DIALECTS[client], asked, "turn")
    assert translator is not None
    data = STREAMS[name]
    for at in range(0, len(data), size):
        translator.feed(data[at : at + size])
    translator.close()
    assert translator.signatures == {"a": "sig-a"}


def test_a_call_without_an_id_is_signed_by_the_one_it_gets() -> None:
    asked = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    translator = TRANSLATORS.make_translator("u", DIALECTS[MESSAGES], asked, "turn")
    assert translator is not None
    shown = translator.feed(stream([piece(0, "", "f", "{}", **extra("sig"))]))
    ((ident, signature),) = translator.signatures.items()
    assert signature == "sig"
    assert f'"id":"{ident}"'.encode() in shown


def test_other_dialects_sign_no_calls() -> None:
    translators = Translators({"u": UpstreamDialect(MESSAGES)}, 1000, 1000, lambda: 0.0)
    asked = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    translator = translators.make_translator("u", DIALECTS[CHAT], asked, "turn")
    assert translator is not None
    assert translator.signatures == {}
    assert translators.signed == frozenset()
    assert TRANSLATORS.signed == {"u"}


@pytest.mark.parametrize(
    "message",
    [
        None,
        "text",
        {"role": "assistant"},
        {"tool_calls": "odd"},
        {"tool_calls": [7, {"id": "a"}, {"id": "a", "extra_content": 7}]},
        {"tool_calls": [{"id": "a", "extra_content": {"google": 7}}, {"id": "a", **extra(7)}]},
        {"tool_calls": [{"id": "", **extra("sig")}, {"id": None, **extra("sig")}]},
    ],
)
def test_what_is_not_signed_tells_nothing(message: object) -> None:
    assert find_signatures(message) == {}


def turn(*calls: Any) -> Json:
    """Write a turn that calls tools."""
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def fit(upstream: str, signatures: dict[str, str], *messages: Any) -> Any:
    """Return the messages that an upstream of the client's own dialect is sent."""
    body = json.dumps({"model": "m", "messages": messages}).encode()
    parts = GatewayParts(signatures=signatures)
    return json.loads(TRANSLATORS.fit_body(upstream, body, lambda: parts))["messages"]


def translate(profile: str, signatures: dict[str, str], *calls: tuple[str, str]) -> list[Json]:
    """Return the calls that an upstream of another dialect is sent, each with its result."""
    uses = [{"type": "tool_use", "id": ident, "name": name, "input": {}} for ident, name in calls]
    results = [{"type": "tool_result", "tool_use_id": ident} for ident, _ in calls]
    told = [HI, {"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": told}).encode()
    parts = GatewayParts(signatures=signatures)
    translated = translate_request(body, MESSAGES, CHAT, PROFILES[profile], parts)
    sent: list[Json] = json.loads(translated.body)["messages"][1]["tool_calls"]
    return sent


A, B = called("a", "f"), called("b", "f")


@pytest.mark.parametrize(
    "known, first, second",
    [
        ({"a": "sig-a"}, "sig-a", ""),
        ({"b": "sig-b"}, "", "sig-b"),
        ({"a": "sig-a", "b": "sig-b"}, "sig-a", "sig-b"),
        ({}, PLACEHOLDER, PLACEHOLDER),
        ({"c": "sig-c"}, PLACEHOLDER, PLACEHOLDER),
        ({"a": ""}, PLACEHOLDER, PLACEHOLDER),
    ],
)
def test_a_turn_gets_what_is_known_else_the_placeholder(
    known: dict[str, str], first: str, second: str
) -> None:
    wanted = [
        {**call, **(extra(signature) if signature else {})}
        for call, signature in ((A, first), (B, second))
    ]
    assert fit("u", known, HI, turn(A, B)) == [HI, turn(*wanted)]
    assert translate("gemini", known, ("a", "f"), ("b", "f")) == wanted


def test_an_upstream_that_wants_none_gets_none() -> None:
    assert fit("other", {"a": "sig-a"}, turn(A)) == [turn(A)]
    assert translate("", {"a": "sig-a"}, ("a", "f")) == [A]


def test_what_is_signed_stays_and_what_stands_beside_it() -> None:
    theirs = {**A, **extra("mine")}
    assert fit("u", {"a": "sig-a"}, turn(theirs, B)) == [turn(theirs, B)]
    beside = {**A, "extra_content": {"other": 1, "google": {"more": 2}}}
    (signed,) = fit("u", {"a": "sig-a"}, turn(beside, B))
    google = {"more": 2, "thought_signature": "sig-a"}
    assert signed == turn({**A, "extra_content": {"other": 1, "google": google}}, B)


@pytest.mark.parametrize(
    "message",
    [
        7,
        {"role": "user", "content": '"tool_calls"'},
        {"role": "assistant", "tool_calls": []},
        {"role": "assistant", "tool_calls": "odd"},
        {"role": "user", "tool_calls": [A]},
        turn(*[{**A, **extra("mine")}]),
    ],
)
def test_what_cannot_be_signed_stays_as_it_is(message: object) -> None:
    assert fit("u", {"a": "sig-a"}, message) == [message]


def test_a_call_that_is_none_is_left_alone() -> None:
    assert fit("u", {}, turn(A, 7)) == [turn({**A, **extra(PLACEHOLDER)}, 7)]
