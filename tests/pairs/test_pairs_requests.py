"""Requests of any client, as an upstream of any dialect reads them on the wire."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.dialects.sdk_types import misfits

from .gate import CHAT, MESSAGES, RESPONSES, across, both_ways, each_pair, gate, telling
from .neutral import MODEL, Answer, Ask, Call, Image, Result, Tongue, Turn

PIXEL = Image(media_type="image/png", data="iVBORw0KGgo=")
SNOW = Image("https://example.org/snow.png")
PARIS = Call("call_1", "get_weather", '{"city":"Paris"}')
ROME = Call("call_2", "get_weather", '{"city":"Rome ☃"}')
ASKED = Turn("user", "Paris or Rome?")
RAIN, SUN = Result("call_1", "rain"), Result("call_2", "sun")
TOOLS = ("get_weather", "get_news")


def after(*results: Result, text: str = "", said: str = "") -> Ask:
    """Ask on after two calls."""
    called = Turn("assistant", said, calls=(PARIS, ROME))
    return Ask((ASKED, called, Turn("user", text, results=results)), tools=TOOLS)


ASKS = {
    "text": Ask(),
    "system": Ask(system="Be short – 短く。"),
    "a conversation": Ask((ASKED, Turn("assistant", "Rome."), Turn("user", "Why?"))),
    "an image": Ask((Turn("user", "What is this?", images=(PIXEL,)),)),
    "images": Ask((Turn("user", "Which?", images=(PIXEL, SNOW)),)),
    "tools": Ask(tools=TOOLS),
    "any tool": Ask(tools=TOOLS, choice="required"),
    "no tool": Ask(tools=TOOLS, choice="none"),
    "this tool": Ask(tools=TOOLS, choice="get_news"),
    "results": after(RAIN, SUN),
    "results and text": after(RAIN, SUN, text="And now?", said="Let me see."),
    "a result that is an error": after(RAIN, replace(SUN, text="boom", is_error=True)),
    "parameters": Ask(max_tokens=70, temperature=0.5),
}


@both_ways
@each_pair
async def test_a_request_asks_the_same(client: Tongue, upstream: Tongue, stream: bool) -> None:
    async with gate((upstream, telling(upstream, Answer("Yes."), stream))) as between:
        for name, ask in ASKS.items():
            sent = await between.ask(client, ask, stream)
            assert (name, sent.status) == (name, 200), bytes(sent.body)
            assert (name, upstream.asked(between.told)) == (name, replace(ask, model=MODEL))
            assert json.loads(between.told).get("stream", False) is stream
            assert (name, await between.lost()) == (name, [])
            # The newest models of Messages do not take it; older ones and other upstreams do.
            misfit = misfits(upstream.NAME, json.loads(between.told))
            assert [one for one in misfit if not one.startswith("$.temperature")] == []
        request = between.running.requests[-1]
        assert request.line.decode() == f"POST {upstream.PATH} HTTP/1.1"
        assert (b"anthropic-version" in request.headers) is (upstream is MESSAGES)


@across
async def test_a_translated_request_says_that_it_does_not_stream(
    client: Tongue, upstream: Tongue
) -> None:
    """Some servers stream what does not say so."""
    async with gate((upstream, telling(upstream, Answer("Yes."), False))) as between:
        await between.ask(client, Ask(), False)
        assert json.loads(between.told)["stream"] is False


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES], ids=["messages", "responses"])
async def test_a_server_that_is_not_openai_is_told_max_tokens(client: Tongue) -> None:
    async with gate((CHAT, telling(CHAT, Answer("Yes."), False))) as between:
        await between.ask(client, Ask(max_tokens=70), False)
        sent = json.loads(between.told)
    assert sent["max_tokens"] == 70
    assert "max_completion_tokens" not in sent


async def test_a_client_of_the_same_dialect_names_the_limit_as_it_likes() -> None:
    async with gate((CHAT, telling(CHAT, Answer("Yes."), False))) as between:
        await between.send(CHAT, CHAT.ask(Ask(max_tokens=70), False))
        sent = json.loads(between.told)
    assert sent["max_completion_tokens"] == 70
    assert "max_tokens" not in sent


STOPPED: list[tuple[Tongue, Tongue, str, str]] = [
    (CHAT, MESSAGES, "stop", "stop_sequences"),
    (MESSAGES, CHAT, "stop_sequences", "stop"),
]


@pytest.mark.parametrize("client, upstream, ours, theirs", STOPPED)
async def test_stop_sequences(client: Tongue, upstream: Tongue, ours: str, theirs: str) -> None:
    async with gate((upstream, telling(upstream, Answer("Yes."), False))) as between:
        await between.send(client, client.ask(Ask(), False, **{ours: ["END"]}))
        assert json.loads(between.told)[theirs] == ["END"]


async def test_thinking_comes_back_to_who_thought_it() -> None:
    """A client of Responses keeps the proof of what a Messages upstream thought."""
    answer = Answer("Yes.", thought="Hm.")
    async with gate((MESSAGES, telling(MESSAGES, answer, False))) as between:
        first = await between.ask(RESPONSES, Ask(), False)
        said = {"type": "message", "role": "user", "content": "Why?"}
        talk = [{**said, "content": "Hello!"}, *first.json["output"], said]
        again = {"model": "m", "input": talk}
        await between.send(RESPONSES, json.dumps(again).encode())
        second = json.loads(between.running.requests[-1].body)
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"}
    assert second["messages"][1]["content"] == [thinking, {"type": "text", "text": "Yes."}]


async def test_reasoning_comes_back_to_who_reasoned() -> None:
    """A client of Messages keeps the proof of what a Responses upstream thought."""
    answer = Answer("Yes.", thought="Hm.")
    async with gate((RESPONSES, telling(RESPONSES, answer, False))) as between:
        first = await between.ask(MESSAGES, Ask(), False)
        turns = [("user", "Hello!"), ("assistant", first.json["content"]), ("user", "Why?")]
        told = [{"role": role, "content": content} for role, content in turns]
        again = {"model": "m", "max_tokens": 9, "messages": told}
        await between.send(MESSAGES, json.dumps(again).encode())
        second = json.loads(between.running.requests[-1].body)
    (item,) = [item for item in second["input"] if item["type"] == "reasoning"]
    assert item["encrypted_content"] == "e"
    assert item["summary"] == [{"type": "summary_text", "text": "Hm."}]
