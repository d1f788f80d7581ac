"""Who asks for an answer of a certain form gets nothing into it; what is due waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.holding import held
from tests.clock.reminding import carried, remind
from tests.clock.words import NOW, TAG, Said, play, says
from tests.gateway.wire import request
from tests.outbox.test_delivery_gate import brought, result
from tests.run import Running, in_process
from tests.sessions.talk import (
    GO_ON,
    JSON,
    SESSION,
    messages,
    model,
    stop_message,
    talk,
    text_of,
    told,
)

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
FORMS: dict[str, dict[str, Any]] = {
    "a schema": {"response_format": SCHEMA},
    "an object": {"response_format": {"type": "json_object"}},
}
TOOLED: dict[str, dict[str, Any]] = {"with tools": {"tools": TOOLS}, "without tools": {}}
OBJECT = says('{"a":1}')


async def answers_wait(gate: Running, **more: Any) -> None:
    """Ask for an object, then for text: the second carries what was due, the first nothing."""
    await remind(gate, "drink tea", NOW)
    await result(gate)
    answer = await gate.ask(talk("hi", **more), SESSION)
    assert json.loads(text_of(answer)) == {"a": 1}
    await gate.ask(talk("hi", stream=more.get("stream", True)), SESSION)
    first, second = gate.requests
    assert (carried(first), brought(first)) == ([], [])
    assert "clock" not in json.dumps(json.loads(first.body).get("tools", []))
    assert (carried(second), len(brought(second))) == (["drink tea"], 1)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tools", TOOLED)
async def test_a_structured_answer_is_left_alone_and_what_is_due_waits(
    form: str, tools: str, stream: bool
) -> None:
    async with in_process(play(OBJECT), clock=ManualClock(NOW)) as gate:
        await answers_wait(gate, stream=stream, **FORMS[form], **TOOLED[tools])


async def test_a_structured_answer_with_tools_is_told_the_time() -> None:
    async with in_process(play(OBJECT), clock=ManualClock(NOW)) as gate:
        await gate.ask(talk("hi", tools=TOOLS, **FORMS["a schema"]), SESSION)
        await gate.ask(talk("hi", **FORMS["a schema"]))
        for asked in gate.requests:
            assert messages(asked)[-1]["content"].startswith(TAG)


async def test_text_is_no_form() -> None:
    async with in_process(play(OBJECT), clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        await gate.ask(talk("hi", response_format={"type": "text"}), SESSION)
        assert carried(gate.requests[0]) == ["drink tea"]


async def test_a_structured_answer_is_not_followed_up() -> None:
    async with in_process(model("a", "b", "c", "d", "e")) as gate:
        asked = talk(GO_ON + "hi", tools=TOOLS, **FORMS["a schema"])
        answer = await gate.ask(asked, SESSION)
        assert (text_of(answer), told(answer)) == ("a", "set")
        assert (await stop_message(gate))["used"] == 0
        assert text_of(await gate.ask(talk("hi", tools=TOOLS), SESSION)) == "b\n\nc\n\nd\n\ne"


async def test_a_structured_answer_does_not_wait_and_ends_no_hold() -> None:
    """It could not take the reminder over."""
    clock = ManualClock(NOW)
    acts: list[Said] = [says("I will."), OBJECT, says("Drink your tea.")]
    async with in_process(play(*acts), clock=clock, clock__due_window_ms=0) as gate:
        await remind(gate, "drink tea", NOW + 5000)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        answer = await gate.ask(talk("hi", tools=TOOLS, **FORMS["a schema"]), SESSION)
        assert json.loads(text_of(answer)) == {"a": 1}
        clock.advance(5000)
        assert text_of(await client.answer()) == "I will.\n\nDrink your tea."


FORMAT = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
RESPONSES = {"model": "m", "input": "hi", "text": {"format": FORMAT}}
TOKENS = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {**TOKENS, "output_config": {"format": {"type": "json_schema", "schema": {}}}}
BETA = {**TOKENS, "output_format": {"type": "json_schema", "schema": {}}}
OTHERS: dict[str, tuple[str, Any]] = {
    "Responses": ("/v1/responses", RESPONSES),
    "Messages": ("/v1/messages", MESSAGES),
    "Messages, beta": ("/v1/messages", BETA),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_in_every_dialect(name: str) -> None:
    path, body = OTHERS[name]
    async with in_process(play(OBJECT), clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        asked = request("POST", path, JSON, SESSION, body=json.dumps(body).encode())
        answer = await gate.fetch(asked)
        assert answer.status == 200, bytes(answer.body)
        assert carried(gate.requests[0]) == []
        assert "tools" not in json.loads(gate.requests[0].body)
        await gate.ask(talk("hi", stream=False), SESSION)
        assert carried(gate.requests[1]) == ["drink tea"]
