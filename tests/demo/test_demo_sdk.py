"""The demo upstream as openai-python sees it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from gateway.demo.server import DemoServer

CLOCK: ChatCompletionToolParam = {"type": "function", "function": {"name": "clock"}}
TAG = "[Time/Date]: utc=`2026-02-02T21:22:38.229Z` nowMs=`1770067358229`"


@pytest.fixture
async def client(server: DemoServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


async def test_a_stream(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="demo",
        messages=[user('demo: say="one two three" delay_ms=1')],
        stream=True,
        stream_options={"include_usage": True},
    )
    *chunks, last = [chunk async for chunk in stream]
    assert [chunk.choices[0].delta.content for chunk in chunks] == [
        "",
        "one",
        " two",
        " three",
        None,
    ]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert last.usage is not None
    assert last.usage.completion_tokens == 3


async def test_the_streaming_helper_accumulates(client: AsyncOpenAI) -> None:
    line = 'demo: say="ok" tool=a args={"x":1} tool=b args={"y":"☃"} delay_ms=0 usage'
    async with client.chat.completions.stream(model="demo", messages=[user(line)]) as stream:
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "ok"
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
    assert calls == [("a", '{"x":1}'), ("b", '{"y":"☃"}')]
    assert final.choices[0].finish_reason == "tool_calls"


async def test_a_whole_answer_with_two_choices(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="demo", messages=[user("你好")], n=2, max_completion_tokens=3
    )
    assert [choice.message.content for choice in answer.choices] == ["你好！我是"] * 2
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer._request_id == "req_demo00000001"


async def test_a_reminder_from_wish_to_promise(client: AsyncOpenAI) -> None:
    dialogue = [user("Remind me in 20 seconds to stretch"), user(TAG)]
    first = await client.chat.completions.create(model="demo", messages=dialogue, tools=[CLOCK])
    message = first.choices[0].message
    assert message.tool_calls is not None
    call = message.tool_calls[0]
    assert call.type == "function"
    items = json.loads(call.function.arguments)["items"]
    assert items[0]["dueAt"] == "2026-02-02T21:22:58.229Z"
    done = json.dumps({"ok": True, "scheduled": [{**items[0], "delivery": "hold"}]})
    answered: list[ChatCompletionMessageParam] = [
        *dialogue,
        {"role": "assistant", "tool_calls": [call.to_dict()]},  # type: ignore[list-item]
        {"role": "tool", "tool_call_id": call.id, "content": done},
    ]
    second = await client.chat.completions.create(model="demo", messages=answered, tools=[CLOCK])
    text = second.choices[0].message.content
    assert text is not None
    assert text == "I set it: stretch. This answer stays open and I go on at 21:22:58 UTC."


ERRORS = {
    "status=400": openai.BadRequestError,
    "status=401": openai.AuthenticationError,
    "status=404": openai.NotFoundError,
    "status=429 retry_after=7": openai.RateLimitError,
    "status=500": openai.InternalServerError,
    "nonsense": openai.BadRequestError,
    "drop": openai.APIConnectionError,
}


@pytest.mark.parametrize("order", ERRORS)
async def test_errors(order: str, client: AsyncOpenAI) -> None:
    with pytest.raises(ERRORS[order]):
        await client.chat.completions.create(model="demo", messages=[user(f"demo: {order}")])


async def test_an_error_in_the_middle_of_a_stream(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="demo",
        messages=[user('demo: tokens=5 delay_ms=0 error_after=2 message="Out of words."')],
        stream=True,
    )
    with pytest.raises(openai.APIError, match="Out of words"):
        async for _ in stream:
            pass


async def test_models(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["demo"]
    assert (await client.models.retrieve("demo")).owned_by == "holdgate"
