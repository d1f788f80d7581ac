"""Agents made of real clients: they run the tool they were shown, and the model has its turn whole."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic import SecretStr

from gateway.clock import ManualClock
from tests.clock.words import NOW, Call, clock, function, play, says
from tests.gateway.wire import get
from tests.run import in_process
from tests.sessions.talk import messages

WEATHER = Call("get_weather", '{"city":"Paris","days":[1,2]}', "call_w")
MIXED = says("Let me see.", WEATHER, clock("get", ident="call_c"))
TOOLS: Any = [function("get_weather")]
SESSION = {"x-session-id": "agent"}

Agent = Callable[[str], Awaitable[str | None]]


async def openai_whole(url: str) -> str | None:
    """Use openai-python, not streamed."""
    async with AsyncOpenAI(base_url=url, api_key="none", default_headers=SESSION) as client:
        said: list[Any] = [{"role": "user", "content": "hi"}]
        for _ in range(2):
            answer = await client.chat.completions.create(model="m", messages=said, tools=TOOLS)
            _go_on(said, answer.choices[0].message)
    return answer.choices[0].message.content


async def openai_streamed(url: str) -> str | None:
    """Use openai-python's `stream()`."""
    async with AsyncOpenAI(base_url=url, api_key="none", default_headers=SESSION) as client:
        said: list[Any] = [{"role": "user", "content": "hi"}]
        for _ in range(2):
            async with client.chat.completions.stream(
                model="m", messages=said, tools=TOOLS
            ) as stream:
                answer = await stream.get_final_completion()
            _go_on(said, answer.choices[0].message)
    return answer.choices[0].message.content


def _go_on(said: list[Any], message: Any) -> None:
    said.append(message.to_dict())
    said += [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
        for call in message.tool_calls or ()
    ]


def langchain(streaming: bool) -> Agent:
    """Use LangChain, which writes the calls anew when it sends them back."""

    async def agent(url: str) -> str | None:
        async with httpx.AsyncClient() as http:
            model = ChatOpenAI(
                model="m",
                base_url=url,
                api_key=SecretStr("none"),
                default_headers=SESSION,
                streaming=streaming,
                http_async_client=http,
            ).bind_tools(TOOLS)
            said: list[Any] = [HumanMessage("hi")]
            for _ in range(2):
                answer = await model.ainvoke(said)
                assert isinstance(answer, AIMessage)
                said.append(answer)
                said += [ToolMessage("sunny", tool_call_id=c["id"]) for c in answer.tool_calls]
        return answer.text

    return agent


AGENTS: dict[str, Agent] = {
    "openai-python create()": openai_whole,
    "openai-python stream()": openai_streamed,
    "LangChain ainvoke()": langchain(streaming=False),
    "LangChain ainvoke(), streaming": langchain(streaming=True),
}


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_comes_back_with_its_result(name: str) -> None:
    async with in_process(play(MIXED, says("It is sunny.")), clock=ManualClock(NOW)) as gate:
        assert await AGENTS[name](f"http://127.0.0.1:{gate.port}/v1") == "It is sunny."
        _, returned = gate.requests
        listed = (await gate.fetch(get("/api/sessions"))).json["sessions"]
    assert [session["sessionId"] for session in listed] == ["agent"]
    turn, weather, time, tag = messages(returned)[1:]
    assert turn["content"] == "Let me see."
    called = [(call["id"], call["function"]["name"]) for call in turn["tool_calls"]]
    assert called == [("call_w", "get_weather"), ("call_c", "clock")]
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == json.loads(
        WEATHER.arguments
    )
    assert (weather["tool_call_id"], weather["content"]) == ("call_w", "sunny")
    assert (time["tool_call_id"], json.loads(time["content"])["nowMs"]) == ("call_c", NOW)
    assert tag["content"].startswith("[Time/Date]: ")
