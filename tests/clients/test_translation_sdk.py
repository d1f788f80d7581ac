"""Translated answers as the vendors' own clients read them, over a real socket."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import anyio
import openai
import pytest
from anthropic import AsyncAnthropic
from anyio.abc import SocketStream
from openai import AsyncOpenAI

from gateway.dialects.translate.answer_context import AnswerContext
from tests.dialects.answers_wire import (
    CHAT,
    DONE,
    MESSAGES,
    RESPONSES,
    chunk,
    fixture,
    translated,
)

ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
USAGES = {"text": (12, 5), "reasoning": (9, 20), "tool": (30, 18), "parallel": (40, 36)}
THOUGHT, SAID = "Six times seven.", {"text": 'Grüße aus 上海 🌊\n"fin"', "reasoning": "It is 42."}
CALLS = {
    "tool": [("get_weather", {"city": "Bern"})],
    "parallel": [("get_weather", {"city": "Bern"}), ("get_time", {"zone": "Europe/Zurich"})],
}


@asynccontextmanager
async def serving(body: bytes) -> AsyncIterator[str]:
    """Serve one stream to whoever asks."""

    async def serve(stream: SocketStream) -> None:
        async with stream:
            seen = b""
            while b"\r\n\r\n" not in seen:
                seen += await stream.receive()
            head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
            await stream.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        group.cancel_scope.cancel()


@asynccontextmanager
async def openai_client(name: str, source: str, target: str) -> AsyncIterator[AsyncOpenAI]:
    async with serving(translated(fixture(source, name), source, target)) as url:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            yield client


@asynccontextmanager
async def anthropic_client(name: str, source: str) -> AsyncIterator[AsyncAnthropic]:
    async with serving(translated(fixture(source, name), source, MESSAGES)) as url:
        async with AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            yield client


@pytest.mark.parametrize("name", ("text", "reasoning", "tool", "parallel"))
@pytest.mark.parametrize("source", (MESSAGES, RESPONSES))
async def test_openai_chat_stream(source: str, name: str) -> None:
    async with openai_client(name, source, CHAT) as client:
        async with client.chat.completions.stream(**ASKED) as stream:
            events = [event async for event in stream]
            answer = await stream.get_final_completion()
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content == {**SAID, "tool": "Looking it up.", "parallel": ""}[name]
    called = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]
    assert [(each, json.loads(told)) for each, told in called] == CALLS.get(name, [])
    assert choice.finish_reason == ("tool_calls" if name in CALLS else "stop")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == USAGES[name]
    assert events[-1].type == "chunk"


@pytest.mark.parametrize("name", ("text", "reasoning", "tool", "parallel"))
@pytest.mark.parametrize("source", (CHAT, MESSAGES))
async def test_openai_responses_stream(source: str, name: str) -> None:
    async with openai_client(name, source, RESPONSES) as client:
        async with client.responses.stream(model="m", input="Hi") as stream:
            events = [event async for event in stream]
            answer = await stream.get_final_response()
    assert answer.output_text == {**SAID, "tool": "Looking it up.", "parallel": ""}[name]
    called = [item for item in answer.output if item.type == "function_call"]
    assert [(c.name, json.loads(c.arguments)) for c in called] == CALLS.get(name, [])
    thoughts = [item for item in answer.output if item.type == "reasoning"]
    assert [t.summary[0].text for t in thoughts] == ([THOUGHT] if name == "reasoning" else [])
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == USAGES[name]
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(len(numbers)))
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == answer.output_text


@pytest.mark.parametrize("name", ("text", "reasoning", "tool", "parallel"))
@pytest.mark.parametrize("source", (CHAT, RESPONSES))
async def test_anthropic_message_stream(source: str, name: str) -> None:
    async with anthropic_client(name, source) as client:
        async with client.messages.stream(max_tokens=9, **ASKED) as stream:
            texts = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
    said = {**SAID, "tool": "Looking it up.", "parallel": ""}[name]
    assert "".join(texts) == said
    called = [(b.name, b.input) for b in message.content if b.type == "tool_use"]
    assert called == CALLS.get(name, [])
    thoughts = [block.thinking for block in message.content if block.type == "thinking"]
    assert thoughts == ([THOUGHT] if name == "reasoning" else [])
    assert message.stop_reason == ("tool_use" if name in CALLS else "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == USAGES[name]


async def test_anthropic_sees_what_a_cache_did() -> None:
    async with anthropic_client("cache", CHAT) as client:
        async with client.messages.stream(max_tokens=9, **ASKED) as stream:
            usage = (await stream.get_final_message()).usage
    assert (usage.input_tokens, usage.output_tokens) == (80, 4)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (1920, 100)


async def test_openai_sees_what_a_cache_did() -> None:
    async with openai_client("cache", MESSAGES, RESPONSES) as client:
        async with client.responses.stream(model="m", input="Hi") as stream:
            usage = (await stream.get_final_response()).usage
    assert usage is not None
    assert (usage.input_tokens, usage.input_tokens_details.cached_tokens) == (2100, 1920)


async def test_a_custom_tool_reaches_a_responses_client() -> None:
    arguments = json.dumps({"input": "*** Begin"})
    called = {"id": "c", "index": 0, "function": {"name": "patch", "arguments": arguments}}
    stream = chunk({"tool_calls": [called]}) + chunk({}, "tool_calls") + DONE
    wanted = AnswerContext("m", "s", custom=frozenset({"patch"}))
    async with serving(translated(stream, CHAT, RESPONSES, wanted)) as url:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            async with client.responses.stream(model="m", input="Hi") as answer:
                (item,) = (await answer.get_final_response()).output
    assert item.type == "custom_tool_call"
    assert (item.call_id, item.name, item.input) == ("c", "patch", "*** Begin")


@pytest.mark.parametrize("source", (MESSAGES, RESPONSES))
async def test_openai_chat_raises_on_an_error_in_the_middle(source: str) -> None:
    async with openai_client("error", source, CHAT) as client:
        with pytest.raises(openai.APIError, match=r"Overloaded|Rate limit"):
            async with client.chat.completions.stream(**ASKED) as stream:
                await stream.until_done()


@pytest.mark.parametrize("source", (CHAT, MESSAGES))
async def test_openai_responses_tells_of_an_error_in_the_middle(source: str) -> None:
    async with openai_client("error", source, RESPONSES) as client:
        async with client.responses.stream(model="m", input="Hi") as stream:
            events = [event async for event in stream]
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.code in ("server_error", "server_is_overloaded")


@pytest.mark.parametrize("source", (CHAT, RESPONSES))
async def test_anthropic_raises_on_an_error_in_the_middle(source: str) -> None:
    async with anthropic_client("error", source) as client:
        with pytest.raises(anthropic.APIStatusError, match=r"server had an error|Rate limit"):
            async with client.messages.stream(max_tokens=9, **ASKED) as stream:
                await stream.until_done()
