"""What one dialect can say and another cannot: refused in a sentence, or left out and named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.wire import streaming

from .gate import (
    ACROSS,
    CHAT,
    MESSAGES,
    RESPONSES,
    across,
    both_ways,
    each_pair,
    gate,
    read,
    telling,
)
from .neutral import Answer, Ask, Call, Json, Result, Tongue, Turn

LOOK = Call("call_1", "look", "{}")
USER = {"role": "user", "content": "Hello!"}


def body(**members: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, **members}).encode()


async def refused(client: Tongue, upstream: Tongue, asked: bytes) -> str:
    """Have a request refused before any upstream sees it; return the sentence."""
    async with gate((upstream, telling(upstream, Answer("Yes."), False))) as between:
        sent = await between.send(client, asked)
        assert sent.status == 400, bytes(sent.body)
        assert between.running.requests == []
        return client.read_error(bytes(sent.body))


async def passed(client: Tongue, upstream: Tongue, asked: bytes) -> tuple[Json, list[str]]:
    """Have a request passed on; return what the upstream was asked, and what was left out."""
    async with gate((upstream, telling(upstream, Answer("Yes."), False))) as between:
        sent = await between.send(client, asked)
        assert sent.status == 200, bytes(sent.body)
        told: Json = json.loads(between.told)
        return told, await between.lost()


@both_ways
@across
async def test_a_result_without_its_call(client: Tongue, upstream: Tongue, stream: bool) -> None:
    orphan = Ask((Turn("user", "Hello!", results=(Result("call_9", "x"),)),))
    assert "call_9" in await refused(client, upstream, client.ask(orphan, stream))


@across
async def test_a_result_of_a_call_that_was_answered(client: Tongue, upstream: Tongue) -> None:
    twice = (Result("call_1", "x"), Result("call_1", "y"))
    turns = (Turn("user", "?"), Turn("assistant", calls=(LOOK,)), Turn("user", results=twice))
    assert "call_1" in await refused(client, upstream, client.ask(Ask(turns), False))


@across
async def test_a_call_without_a_result_gets_one(client: Tongue, upstream: Tongue) -> None:
    other = Call("call_2", "look", "{}")
    called = Turn("assistant", calls=(LOOK, other))
    turns = (Turn("user", "?"), called, Turn("user", "Go on.", results=(Result("call_2", "x"),)))
    told, _ = await passed(client, upstream, client.ask(Ask(turns), False))
    made, given = upstream.asked(json.dumps(told | {"max_tokens": 9}).encode()).turns[-1].results
    assert (made.id, made.is_error, given) == ("call_1", True, Result("call_2", "x"))


# The input of a whole answer of Messages is JSON, so it cannot be broken.
BREAKABLE = [
    (client, upstream, stream)
    for client, upstream in ACROSS
    for stream in (True, False)
    if stream or upstream is not MESSAGES
]


@pytest.mark.parametrize("arguments", ['{"city":', "[1]", "no JSON", "", "null"])
@pytest.mark.parametrize("client, upstream, stream", BREAKABLE)
async def test_broken_arguments_of_an_answer_are_shown(
    client: Tongue, upstream: Tongue, stream: bool, arguments: str
) -> None:
    answer = Answer(calls=(Call("call_1", "look", arguments),), stop="tools")
    async with gate((upstream, telling(upstream, answer, stream))) as between:
        sent = await between.ask(client, Ask(tools=("look",)), stream)
        assert sent.status == 200, bytes(sent.body)
        if client is MESSAGES and stream:
            # A strict reader cannot read it, but the pieces are all there.
            deltas = [event.get("delta", {}) for event in sent.events]
            told = "".join(delta.get("partial_json", "") for delta in deltas)
            assert told == (arguments or "{}")
        else:
            (call,) = read(client, sent, stream).calls
            assert call.arguments in (arguments, arguments or "{}")
        await between.running.quiet()


@pytest.mark.parametrize("arguments", ['{"city":', "[1]", "no JSON", ""])
@pytest.mark.parametrize("client", [CHAT, RESPONSES], ids=["chat", "responses"])
async def test_broken_arguments_in_a_history_go_on(client: Tongue, arguments: str) -> None:
    calls = (Call("call_1", "look", arguments),)
    results = (Result("call_1", "That was no JSON.", is_error=True),)
    ask = Ask((Turn("user", "?"), Turn("assistant", calls=calls), Turn("user", results=results)))
    for upstream in (CHAT, RESPONSES, MESSAGES):
        if upstream is not client:
            told, _ = await passed(client, upstream, client.ask(ask, False))
            if upstream is MESSAGES:
                assert isinstance(told["messages"][1]["content"][0]["input"], dict)


UNKNOWN_PARTS: list[tuple[Tongue, Json]] = [
    (CHAT, {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "tea"}]}]}),
    (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "tea"}]}]}),
    (RESPONSES, {"input": [{"type": "message", "role": "user", "content": [{"type": "smell"}]}]}),
    (
        RESPONSES,
        {"input": [{"type": "smell"}, {"type": "message", "role": "user", "content": "?"}]},
    ),
    (CHAT, {"messages": [{"role": "narrator", "content": "x"}]}),
    (MESSAGES, {"messages": [{"role": "narrator", "content": "x"}]}),
    (CHAT, {"messages": [{"role": "user", "content": 7}]}),
    (MESSAGES, {"messages": [{"role": "user", "content": 7}]}),
    (CHAT, {"messages": [{"role": "assistant", "tool_calls": [{"id": 1}]}]}),
    (MESSAGES, {"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}),
    (RESPONSES, {"input": [{"type": "function_call"}]}),
]


@pytest.mark.parametrize("client, members", UNKNOWN_PARTS, ids=str)
async def test_unknown_parts_are_refused_or_named(client: Tongue, members: Json) -> None:
    for upstream in (CHAT, RESPONSES, MESSAGES):
        if upstream is client:
            continue
        async with gate((upstream, telling(upstream, Answer("Yes."), False))) as between:
            sent = await between.send(client, body(**members))
            if sent.status == 400:
                assert len(client.read_error(bytes(sent.body))) > 10
            else:
                assert sent.status == 200, bytes(sent.body)
                assert await between.lost()


REFUSED: list[tuple[Tongue, Json, str]] = [
    (CHAT, {"messages": [USER], "n": 2}, "n"),
    (RESPONSES, {"input": "Hello!", "previous_response_id": "resp_1"}, "previous_response_id"),
    (
        RESPONSES,
        {"input": "?", "tools": [{"type": "web_search"}], "tool_choice": "required"},
        "tool",
    ),
    (
        RESPONSES,
        {"input": "?", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
        "tool",
    ),
]


@pytest.mark.parametrize("client, members, name", REFUSED, ids=str)
async def test_what_would_mean_something_else_is_refused(
    client: Tongue, members: Json, name: str
) -> None:
    for upstream in (CHAT, RESPONSES, MESSAGES):
        if upstream is not client:
            assert name in await refused(client, upstream, body(**members))


DROPPED: list[tuple[Tongue, Json]] = [
    (CHAT, {"messages": [USER], "logit_bias": {"1": 2}}),
    (CHAT, {"messages": [USER], "seed": 7}),
    (MESSAGES, {"messages": [USER], "context_management": {"edits": []}}),
    (MESSAGES, {"messages": [USER], "top_k": 5}),
    (RESPONSES, {"input": "Hello!", "include": ["reasoning.encrypted_content"]}),
    (RESPONSES, {"input": "Hello!", "tools": [{"type": "web_search"}]}),
    (MESSAGES, {"messages": [USER], "tools": [{"type": "web_search_20250305", "name": "web"}]}),
]


@pytest.mark.parametrize("client, members", DROPPED, ids=str)
async def test_what_has_no_counterpart_is_left_out_and_named(client: Tongue, members: Json) -> None:
    for upstream in (CHAT, RESPONSES, MESSAGES):
        if upstream is not client:
            told, lost = await passed(client, upstream, body(**members))
            kept = told.keys() & (members.keys() - {"messages", "input"})
            assert kept or lost
            assert "web_search" not in json.dumps(told)


@each_pair
async def test_events_nobody_knows_do_not_disturb(client: Tongue, upstream: Tongue) -> None:
    frames = upstream.stream(Answer("It rains.", thought="Hm."))
    unknown = b'event: news\ndata: {"type":"news","sequence_number":1}\n\n'
    stream = b": a comment\n\n" + b"".join([*frames[:2], unknown, *frames[2:]])
    async with gate((upstream, streaming(stream))) as between:
        sent = await between.ask(client, Ask(), True)
        if client is not upstream:
            assert read(client, sent, True).text == "It rains."
