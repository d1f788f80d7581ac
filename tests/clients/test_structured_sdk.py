"""Structured output as real SDKs read it, in a session with something due: a valid object at once.

What is due comes with the next request. Any more text would break the object.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anthropic import AsyncAnthropic
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, pydantic_function_tool
from pydantic import BaseModel, SecretStr

from gateway.clock import ManualClock
from tests.clock.reminding import carried, remind
from tests.clock.words import NOW, Call, Said, says, sent
from tests.run import Running, in_process
from tests.sessions.talk import GO_ON, SESSION, stop_message, talk
from tests.wire.fake import Peer

from . import instructor_python
from .conftest import fail_unless

# No connection is to outlive its request: the gateway waits for those in the end.
HEADERS = {"x-session-id": "s", "connection": "close"}
SAID: list[Any] = [{"role": "user", "content": "What is brewed?"}]


class Drink(BaseModel):
    """What is asked for."""

    name: str
    cups: int


TEA = Drink(name="tea", cups=2)


async def brewing(peer: Peer) -> None:
    """Answer with the object where one is wanted, by a tool where one is forced; else in words."""
    while True:
        asked = json.loads((await peer.request()).body)
        await peer.send(*sent(_answer(asked), asked.get("stream", False)))


def _answer(asked: Any) -> Said:
    if isinstance(asked.get("tool_choice"), dict):
        return says("", Call(asked["tool_choice"]["function"]["name"], TEA.model_dump_json()))
    form = asked.get("response_format", {"type": "text"})["type"]
    return says("Tea." if form == "text" else TEA.model_dump_json())


def openai(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="none", default_headers=HEADERS)


async def chat_parse(url: str) -> Drink | None:
    found = await openai(url).chat.completions.parse(
        model="m", messages=SAID, response_format=Drink
    )
    return found.choices[0].message.parsed


async def chat_stream(url: str) -> Drink | None:
    client = openai(url)
    async with client.chat.completions.stream(
        model="m", messages=SAID, response_format=Drink
    ) as stream:
        return (await stream.get_final_completion()).choices[0].message.parsed


async def chat_parse_with_tools(url: str) -> Drink | None:
    class Look(BaseModel):
        where: str

    found = await openai(url).chat.completions.parse(
        model="m", messages=SAID, response_format=Drink, tools=[pydantic_function_tool(Look)]
    )
    return found.choices[0].message.parsed


async def responses_parse(url: str) -> Drink | None:
    found = await openai(url).responses.parse(model="m", input="What?", text_format=Drink)
    return found.output_parsed


async def responses_stream(url: str) -> Drink | None:
    client = openai(url)
    async with client.responses.stream(model="m", input="What?", text_format=Drink) as stream:
        return (await stream.get_final_response()).output_parsed


async def forced_tool(url: str) -> Drink:
    """As instructor does by default: the object is the arguments of a tool that is forced."""
    found = await openai(url).chat.completions.create(
        model="m",
        messages=SAID,
        tools=[pydantic_function_tool(Drink)],
        tool_choice={"type": "function", "function": {"name": "Drink"}},
    )
    (call,) = found.choices[0].message.tool_calls or []
    assert call.type == "function"
    return Drink.model_validate_json(call.function.arguments)


async def json_mode(url: str) -> Drink:
    """As instructor does in its JSON mode."""
    found = await openai(url).chat.completions.create(
        model="m", messages=SAID, response_format={"type": "json_object"}
    )
    return Drink.model_validate_json(found.choices[0].message.content or "")


async def messages_parse(url: str) -> Drink | None:
    client = AsyncAnthropic(base_url=url, api_key="none", default_headers=HEADERS)
    found = await client.messages.parse(
        model="m", max_tokens=100, messages=SAID, output_format=Drink
    )
    return found.parsed_output


async def langchain(url: str) -> Any:
    model = ChatOpenAI(
        model="m", base_url=f"{url}/v1", api_key=SecretStr("none"), default_headers=HEADERS
    )
    return await model.with_structured_output(Drink).ainvoke("What is brewed?")


WAYS: dict[str, Callable[[str], Awaitable[Drink | None]]] = {
    "chat.completions.parse()": chat_parse,
    "chat.completions.stream()": chat_stream,
    "chat.completions.parse(), with tools": chat_parse_with_tools,
    "responses.parse()": responses_parse,
    "responses.stream()": responses_stream,
    "a forced tool": forced_tool,
    "JSON mode": json_mode,
    "messages.parse()": messages_parse,
    "LangChain with_structured_output()": langchain,
}


async def next_request(gate: Running) -> list[str]:
    """Ask for words, and return what that request carries."""
    await gate.ask(talk("And?", stream=False), SESSION, "x-holdgate-hold: off")
    return carried(gate.requests[-1])


@pytest.mark.parametrize("way", WAYS)
async def test_the_object_comes_at_once_and_the_reminder_with_the_next_request(way: str) -> None:
    async with in_process(brewing, clock=ManualClock(NOW), clock__due_window_ms=0) as gate:
        await remind(gate, "drink tea", NOW)
        await remind(gate, "go home", NOW + 5000)
        assert await WAYS[way](f"http://127.0.0.1:{gate.port}") == TEA
        assert carried(gate.requests[0]) == []
        assert await next_request(gate) == ["drink tea"]


@pytest.fixture(scope="module")
def instructor() -> None:
    """Install instructor."""
    fail_unless(instructor_python.provide)


@pytest.mark.usefixtures("instructor")
@pytest.mark.parametrize("mode", ["TOOLS", "JSON", "JSON_SCHEMA"])
async def test_instructor_gets_the_object_at_once_and_the_reminder_waits(mode: str) -> None:
    async with in_process(brewing, clock=ManualClock(NOW), clock__due_window_ms=0) as gate:
        await remind(gate, "drink tea", NOW)
        command = instructor_python.command(f"http://127.0.0.1:{gate.port}", mode)
        done = await anyio.run_process(command, env=instructor_python.environment(), check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert Drink.model_validate_json(done.stdout) == TEA
        assert carried(gate.requests[0]) == []
        assert await next_request(gate) == ["drink tea"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_stop_message_waits_as_well(way: str) -> None:
    async with in_process(brewing) as gate:
        await gate.ask(talk(GO_ON + "hi", n=2), SESSION)
        assert await WAYS[way](f"http://127.0.0.1:{gate.port}") == TEA
        assert (await stop_message(gate))["used"] == 0
