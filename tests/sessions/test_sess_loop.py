"""stopMessage: one request, several turns, one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.client import Answer
from tests.gateway.wire import DONE
from tests.run import in_process
from tests.sessions.talk import (
    SESSION,
    assistant,
    follow_ups,
    messages,
    model,
    newest,
    stop_message,
    talk,
    text_of,
    told,
    user,
)

QUOTED = r'<**stopMessage:"go \"on\"",3**> hi'
ONWARD = user('go "on"')
ALL_FOUR = "answer 1\n\nanswer 2\n\nanswer 3\n\nanswer 4"
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def ends(answer: Answer) -> list[str]:
    if answer.headers["content-type"] == "application/json":
        return [choice["finish_reason"] for choice in answer.json["choices"]]
    choices = [choice for event in answer.events for choice in event["choices"]]
    return [choice["finish_reason"] for choice in choices if choice["finish_reason"]]


def usages(answer: Answer) -> list[Any]:
    if answer.headers["content-type"] == "application/json":
        return [answer.json["usage"]]
    return [event["usage"] for event in answer.events if event.get("usage")]


@STREAMED
async def test_three_repeats_are_four_requests_and_one_answer(stream: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(QUOTED, stream=stream, **options), SESSION)
        assert len(gate.requests) == 4
    assert text_of(answer) == ALL_FOUR
    assert ends(answer) == ["stop"]
    assert usages(answer) == [{"prompt_tokens": 100, "completion_tokens": 10}]
    if stream:
        assert {event["id"] for event in answer.events} == {"a"}
        assert answer.datas.count(b"[DONE]") == 1
        assert answer.body.endswith(DONE)


@STREAMED
async def test_each_follow_up_carries_the_turns_before_it_and_the_text(stream: bool) -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(QUOTED, stream=stream, seed=7), SESSION, "x-request-id: abc")
        first, *others = gate.requests
    hi = user(" hi")
    expected = [hi]
    assert messages(first) == expected
    for number, request in enumerate(others, 1):
        expected += [assistant(f"answer {number}"), ONWARD]
        assert messages(request) == expected
        assert {**json.loads(request.body), "messages": 0} == {
            **json.loads(first.body),
            "messages": 0,
        }
    assert not any(b"<**" in request.body for request in (first, *others))
    assert [request.headers[b"x-request-id"] for request in (first, *others)] == [
        b"abc",
        b"abc:stop_followup",
        b"abc:stop_followup.2",
        b"abc:stop_followup.3",
    ]


@STREAMED
async def test_without_a_session_it_acts_within_its_exchange_alone(stream: bool) -> None:
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(QUOTED, stream=stream))
        assert text_of(answer) == ALL_FOUR
        assert told(answer) == "set"
        assert text_of(await gate.ask(talk("hi again", stream=stream))) == "answer 5"
        assert "x-holdgate-session" not in answer.headers


async def test_two_requests_without_a_session_have_nothing_in_common() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(QUOTED))
        assert told(await gate.ask(talk(QUOTED))) == "set"
        assert len(gate.requests) == 8


async def test_more_rounds_than_turns_of_tools_are_allowed() -> None:
    """The limit on turns is for tools; the rounds of a stop message are bounded by N alone."""
    async with in_process(model(), limits__turns=2) as gate:
        answer = await gate.ask(talk('<**stopMessage:"more",30**>go'), SESSION)
        assert len(gate.requests) == 31
    assert text_of(answer).endswith("answer 31")
    assert gate.requests[-1].headers[b"x-request-id"].endswith(b":stop_followup.30")


async def test_the_count_is_the_default_where_none_is_said() -> None:
    async with in_process(model(), stop_message__default_repeats=2) as gate:
        for text in ("<**stopMessage:x**>", '<**stopMessage:"x",0**>', '<**stopMessage:"x",y**>'):
            before = len(gate.requests)
            await gate.ask(talk(text), f"x-session-id: {before}")
            assert len(gate.requests) - before == 3


async def test_a_tool_choice_that_forces_a_tool_is_not_repeated() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    async with in_process(model()) as gate:
        await gate.ask(talk(QUOTED, tools=tools, tool_choice="required"), SESSION)
        first, *others = [json.loads(request.body) for request in gate.requests]
    assert first["tool_choice"] == "required"
    assert len(others) == 3
    for asked in others:
        assert "tool_choice" not in asked
        assert asked["tools"] == tools


async def test_a_tool_choice_that_leaves_the_choice_is_repeated() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(QUOTED, tools=[], tool_choice="auto"), SESSION)
        assert [json.loads(r.body)["tool_choice"] for r in gate.requests] == ["auto"] * 4


async def test_a_message_of_only_a_directive_becomes_a_dot() -> None:
    async with in_process(model()) as gate:
        await gate.ask(talk(" <**stopMessage:go,1**>\n"), SESSION)
        first, second = gate.requests
    assert messages(first) == [user(".")]
    assert messages(second) == [user("."), assistant("answer 1"), user("go")]


async def test_a_directive_in_a_text_beside_an_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    text = {"type": "text", "text": "<**stopMessage:go,1**>"}
    caption = {"type": "text", "text": "see"}
    async with in_process(model()) as gate:
        await gate.ask(talk(user([text, image, caption])), SESSION)
        await gate.ask(talk(user([text])), "x-session-id: other")
        beside, _, alone, _ = gate.requests
    assert newest(beside) == [image, caption]
    assert newest(alone) == [{"type": "text", "text": "."}]


async def test_the_follow_ups_text_is_text_whatever_it_looks_like() -> None:
    """It is the gateway that sends it, so nothing in it acts."""
    async with in_process(model()) as gate:
        await gate.ask(talk(r'<**stopMessage:"a\n\"b\" **> <**clear**>",2**>'), SESSION)
        shown = await stop_message(gate)
        assert len(follow_ups(gate.requests)) == 2
    assert shown["text"] == 'a\n"b" **> <**clear**>'


async def test_it_goes_on_after_the_model_asked_for_tools_and_got_them() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c", "content": "<**clear**> ok"}
    async with in_process(model()) as gate:
        answer = await gate.ask(talk(user(QUOTED), called, result), SESSION)
        assert messages(gate.requests[-1])[:3] == [user(" hi"), called, result]
    assert text_of(answer) == ALL_FOUR
