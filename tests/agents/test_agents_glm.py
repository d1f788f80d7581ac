"""Agents and our own tools on an upstream that is particular about what it is sent: GLM."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import room, said, text_of
from tests.clock.words import NOW, Call, Said, clock, function, heard, message, result, says, sent
from tests.run import in_process
from tests.sessions.talk import JSON, SESSION, Message, messages, talk, user
from tests.wire.fake import Peer, Story, sized

GLM = {"profile": "glm"}
GET = says("", clock("get"))
LOOK = Call("look", '{"at":1}', "call_look")


def complaint(asked: Message) -> str:
    """Say what GLM would refuse a request for: what the gateway wrote must give no cause."""
    for at, told in enumerate(asked["messages"]):
        if not isinstance(told["content"], str):
            return f"messages[{at}].content type error"
    functions = [tool["function"] for tool in asked.get("tools", ())]
    return next((f"tools.{f['name']}.strict error" for f in functions if "strict" in f), "")


def glm(*acts: Said) -> Story:
    """Play these acts, but refuse what GLM refuses."""
    left = list(acts)

    async def story(peer: Peer) -> None:
        while True:
            asked = json.loads((await peer.request()).body)
            if why := complaint(asked):
                error = {"error": {"code": "1214", "message": why}}
                await peer.send(sized(json.dumps(error).encode(), JSON, status="400 Bad"))
            else:
                await peer.send(*sent(left.pop(0), asked["stream"]))

    return story


async def test_an_agent_goes_on_after_its_tools_and_in_its_next_message() -> None:
    acts = glm(GET, says("Noon."), says("Still noon."))
    async with room(acts, clock=ManualClock(NOW), upstream=GLM) as gate:
        assert text_of(await said(gate, "What time is it?")) == "Noon."
        assert text_of(await said(gate, "And now?")) == "Still noon."
        *_, last = gate.requests
    assert [m["content"] for m in messages(last) if m["role"] == "assistant"] == ["", "Noon."]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_client_of_the_same_dialect_is_answered_after_our_tools(stream: bool) -> None:
    async with in_process(glm(GET, says("Noon.")), clock=ManualClock(NOW), upstream=GLM) as gate:
        answer = await gate.ask(talk("What time is it?", stream=stream))
        assert heard(answer).text == "Noon."


async def test_a_turn_that_called_our_tools_and_the_clients_is_told_whole() -> None:
    both = says("", LOOK, clock("get", ident="call_clock"))
    asked: dict[str, Any] = {"tools": [function("look")]}
    async with in_process(glm(both, says("Fine.")), clock=ManualClock(NOW), upstream=GLM) as gate:
        await gate.ask(talk("hi", **asked), SESSION)
        back = [user("hi"), message(says("", LOOK)), result(LOOK, "nothing")]
        # Without the clock in this request, what it did before is still ours.
        answer = await gate.ask(talk(*back, **asked), SESSION, "x-holdgate-clock: off")
        assert heard(answer).text == "Fine."
        *_, last = gate.requests
    called = [m for m in messages(last) if m["role"] == "assistant"]
    assert [call["id"] for call in called[0]["tool_calls"]] == ["call_look", "call_clock"]
    assert called[0]["content"] == ""


async def test_what_the_client_wrote_stays_as_it_came() -> None:
    strict = function("look")
    strict["function"]["strict"] = True
    said_before = [user("hi"), message(says("", LOOK)), result(LOOK, "nothing")]
    body = talk(*said_before, tools=[strict])
    async with in_process(glm(), clock=ManualClock(NOW), upstream=GLM) as gate:
        await gate.ask(body, "x-holdgate-clock: off")
        await gate.ask(body)
        first, second = gate.requests
    assert first.body == body
    assert messages(second)[:3] == said_before
    assert json.loads(second.body)["tools"][0] == strict
