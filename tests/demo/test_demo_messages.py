"""The Messages dialect: what is read, what is refused, how answers look, and its real SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta, timezone
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import MessageParam, ToolParam

from gateway.clock.protocol import NtpState
from gateway.demo import messages
from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    UnreadableRequest,
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.demo.server import DemoServer
from gateway.dialects.anthropic_messages import DIALECT
from gateway.exchange.additions import Addition, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ToolCall
from gateway.reminders import clock_calls as clock
from gateway.reminders.model import Reminder
from gateway.reminders.text import reminder_text, time_tag
from tests.dialects.messages_wire import Message as Seen
from tests.dialects.messages_wire import events, read

from .peer import connected, request

STAMP = AnswerStamp(number=7, created=1_700_000_000)
TALK = Dialogue((DialogueMessage("user", ("two words",)),))
ASK = DialogueRequest(TALK, "m", usage=True)
NOON = 1_770_067_358_229
ZONE = timezone(timedelta(hours=-8))


def told(told: object) -> bytes:
    return json.dumps(told).encode()


def speak(ask: DialogueRequest, reason: str = "tool_calls") -> bytes:
    """Say two words and call one tool."""
    voice = messages.open_answer(ask, STAMP)
    said = voice.begin(speaks=True) + voice.say('"☃"\n') + voice.say(" x")
    return said + voice.call("t") + voice.argue("{}") + voice.finish(reason)


def test_a_stream_is_what_a_strict_client_expects() -> None:
    stream = speak(ASK)
    message = read(stream)
    assert message.content == [
        {"type": "text", "text": '"☃"\n x'},
        {"type": "tool_use", "id": "toolu_demo00000007_0", "name": "t", "input": "{}"},
    ]
    assert message.start["usage"]["input_tokens"] == 2
    assert message.stop_reason == "tool_use"
    assert message.end["usage"]["output_tokens"] == 3
    assert [told["type"] for told in events(stream)][:4] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
    ]
    kinds = [line[7:] for line in stream.decode().split("\n") if line.startswith("event: ")]
    assert kinds == [told["type"] for told in events(stream)]


def test_a_stream_without_usage() -> None:
    assert b"usage" not in speak(DialogueRequest(TALK, "m"))


@pytest.mark.parametrize(
    "reason, shown",
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("odd", "odd")],
)
def test_reasons(reason: str, shown: str) -> None:
    assert read(speak(ASK, reason)).stop_reason == shown
    answer = json.loads(
        messages.open_answer(ASK, STAMP).write_whole(CompleteAnswer("x", (), 1, reason))
    )
    assert answer["stop_reason"] == shown


def test_a_whole_answer() -> None:
    said = CompleteAnswer("hi", (("t", '{"a":1}'), ("u", "broken")), 4, "tool_calls")
    assert json.loads(messages.open_answer(ASK, STAMP).write_whole(said)) == {
        "id": "msg_demo00000007",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "toolu_demo00000007_0", "name": "t", "input": {"a": 1}},
            {"type": "tool_use", "id": "toolu_demo00000007_1", "name": "u", "input": "broken"},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 2,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 4,
            "service_tier": "standard",
        },
    }
    assert (
        json.loads(messages.open_answer(ASK, STAMP).write_whole(CompleteAnswer("", (), 0, "stop")))[
            "content"
        ]
        == []
    )


@pytest.mark.parametrize(
    "fail, kind, details",
    [
        (Fail(400, "m"), "invalid_request_error", None),
        (Fail(418, "m"), "invalid_request_error", None),
        (Fail(429, "m", code="c"), "rate_limit_error", {"code": "c"}),
        (Fail(529, "m"), "overloaded_error", None),
        (Fail(502, "m"), "api_error", None),
    ],
)
def test_errors_look_like_the_real_ones(fail: Fail, kind: str, details: object) -> None:
    shown = {"details": details, "type": kind, "message": "m"}
    assert json.loads(messages.write_error(fail)) == {"type": "error", "error": shown}


CALL = {"type": "tool_use", "id": "c", "name": "t", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
TEXT = {"type": "text", "text": "x"}


def user(*blocks: object) -> dict[str, object]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: object) -> dict[str, object]:
    return {"role": "assistant", "content": list(blocks)}


def test_a_request_is_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}, 7]
    body: dict[str, Any] = {
        "model": "m",
        "max_tokens": 9,
        "stream": True,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "t", "input_schema": {}}, {"type": "hosted"}],
        "thinking": {"type": "adaptive"},
        "messages": [
            {"role": "user", "content": "hi"},
            assistant(THOUGHT, TEXT),
            assistant(CALL, {**CALL, "id": "d"}),
            user(RESULT),
            user({**RESULT, "tool_use_id": "d", "content": parts}, TEXT),
            {"role": "system", "content": "mind"},
        ],
    }
    calls = (DialogueCall("c", "t", '{"a":1}'), DialogueCall("d", "t", '{"a":1}'))
    expected = DialogueRequest(
        Dialogue(
            (
                DialogueMessage("system", ("s",)),
                DialogueMessage("user", ("hi",)),
                DialogueMessage("assistant", ("x",), calls),
                DialogueMessage("tool", ("r",), answers="c"),
                DialogueMessage("tool", ("a",), answers="d"),
                DialogueMessage("user", ("x",)),
                DialogueMessage("system", ("mind",)),
            ),
            frozenset({"t"}),
            limit=9,
        ),
        "m",
        stream=True,
        usage=True,
    )
    assert messages.read(told(body)) == expected
    body["tool_choice"] = {"type": "none"}
    assert messages.read(told(body)).dialogue.tools == frozenset()


def asked(*said: object, **fields: object) -> dict[str, object]:
    return {"model": "m", "max_tokens": 9, "messages": list(said), **fields}


REFUSED: dict[str, tuple[object, str]] = {
    "no model": ({"max_tokens": 1, "messages": [user(TEXT)]}, "missing required field `model`"),
    "no limit": ({"model": "m", "messages": [user(TEXT)]}, "missing required field `max_tokens`"),
    "no message": (asked(), "at least one message"),
    "no such role": (asked({"role": "tool", "content": "x"}), "Invalid enum value 'tool'"),
    "nothing said": (asked(user()), "messages.0: a message must have content"),
    "a blank text": (asked(user({"type": "text", "text": " \n"})), "white space"),
    "nothing as text": (asked({"role": "user", "content": ""}), "white space"),
    "a thought at the end": (asked(user(TEXT), assistant(THOUGHT)), "must not end in a thought"),
    "a stray result": (asked(user(RESULT)), "messages.0: no tool_use has the id 'c'"),
    "two results": (asked(assistant(CALL), user(RESULT, RESULT)), "messages.1: no tool_use"),
    "no result": (asked(assistant(CALL)), "messages.0: the tool_use 'c' has no result"),
    "something before": (asked(assistant(CALL), user(TEXT, RESULT)), "has no result right after"),
    "only one": (asked(assistant(CALL, {**CALL, "id": "d"}), user(RESULT, TEXT)), "'d' has no"),
    "too late": (
        asked(assistant(CALL, {**CALL, "id": "d"}), user(RESULT), assistant(TEXT)),
        "the tool_use 'd' has no result",
    ),
    "a list": ([], "Expected `object`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_request_is_refused_with_a_sentence(case: str) -> None:
    body, sentence = REFUSED[case]
    with pytest.raises(UnreadableRequest) as caught:
        messages.read(told(body))
    assert caught.value.fail.status == 400
    assert sentence in caught.value.fail.message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"model":"m","messages":' + b"[" * 100_000])
def test_broken_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableRequest):
        messages.read(body)


class Gate:
    """The gateway's part in one exchange: additions, turns joined to one answer, a clock."""

    def __init__(self, url: str, prompt: str, *, stream: bool) -> None:
        self.url = url
        self.now = NOON
        self.body = told(asked({"role": "user", "content": prompt}, stream=stream, max_tokens=500))
        tool = ToolDeclaration("clock", "Tells the time.", '{"type":"object"}')
        self._asked = DIALECT.read(self.body, 128)
        self._splice = DIALECT.splice(self._asked, frozenset({"clock"}), 10**6)
        self._shown = b""
        self._add(tool, self._tag())

    async def turns(self) -> None:
        """Ask, and run the clock, until the model has no more to ask."""
        while True:
            tap = self._splice.tap()
            self._shown += tap.feed(await self._answer())
            if not tap.ended:
                self._shown += tap.close()
            self._splice.take(tap)
            calls = tap.end().server_calls
            self._add(tap.rebuild_turn(), *map(self._run, calls))
            if not calls:
                return

    def wake(self, task: str, seconds: int) -> None:
        """Let time pass until a reminder is due."""
        self.now += seconds * 1000
        self._add(
            UserText(reminder_text((Reminder("1", self.now, 0, 0, task),), False)), self._tag()
        )

    def answer(self) -> bytes:
        """Return what the client has got."""
        return self._shown + self._splice.tail(neutral_finish=False)

    async def _answer(self) -> bytes:
        async with connected(self.url) as peer:
            await peer.send(request(self.body, path=messages.path))
            answer = await peer.answer()
        assert answer.status == 200, answer.body
        return answer.body

    def _add(self, *additions: Addition) -> None:
        self.body = DIALECT.add(self.body, additions)

    def _tag(self) -> UserText:
        return UserText(time_tag(self.now, ZONE, "America/Los_Angeles", -12))

    def _run(self, call: ToolCall) -> ToolResult:
        asked = clock.read_call(call.arguments)
        if isinstance(asked, clock.Get):
            return ToolResult(call.id, clock.render_time(self.now, ZONE, "x", NtpState("disabled")))
        assert isinstance(asked, clock.Schedule)
        (item,) = asked.items
        task = Reminder("1", self.now + 20_000, self.now, self.now, item.task)
        return ToolResult(call.id, clock.render_scheduled((task,), lambda _: True))


PROMISE = "I set it: drink tea. This answer stays open and I go on at 13:22:58."


async def test_a_reminder_from_the_wish_to_its_time_as_one_stream(server: DemoServer) -> None:
    gate = Gate(server.url, "remind me in 20 seconds to drink tea", stream=True)
    await gate.turns()
    gate.wake("drink tea", 20)
    await gate.turns()
    stream = gate.answer()
    message: Seen = read(stream)
    assert message.texts == [PROMISE, "\n\nIt is time: drink tea."]
    assert message.stop_reason == "end_turn"
    assert len(message.end["usage"]["iterations"]) == 3
    assert b"clock" not in stream
    last = [m["role"] for m in json.loads(server.requests[-1].body)["messages"]]
    assert last == ["user", "assistant", "user", "assistant", "user"]


async def test_and_as_one_document(server: DemoServer) -> None:
    gate = Gate(server.url, "20秒后提醒我喝茶", stream=False)
    await gate.turns()
    gate.wake("喝茶", 20)
    await gate.turns()
    answer = json.loads(gate.answer())
    texts = [block["text"] for block in answer["content"]]
    assert texts == [
        "好的，记下了：喝茶。这条回答会保持打开，我在 13:22:58 继续。",
        "\n\n时间到了：喝茶。",
    ]
    assert answer["id"] == "msg_demo00000001"


async def test_orders_are_obeyed_turn_by_turn(server: DemoServer) -> None:
    lines = (
        'demo: say="One." tool=clock args={"action":"get"} delay_ms=0\ndemo: say="Two." delay_ms=0'
    )
    gate = Gate(server.url, lines, stream=True)
    await gate.turns()
    assert read(gate.answer()).texts == ["One.", "\n\nTwo."]


@pytest.fixture
async def client(server: DemoServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


def prompt(text: str) -> list[MessageParam]:
    return [{"role": "user", "content": text}]


CLOCK: ToolParam = {"name": "clock", "input_schema": {"type": "object"}}


async def test_the_sdk_streams_and_accumulates(client: AsyncAnthropic) -> None:
    line = 'demo: say="one two" tool=a args={"x":1} tool=b args={"y":"☃"} delay_ms=1'
    async with client.messages.stream(model="demo", max_tokens=99, messages=prompt(line)) as stream:
        texts = [text async for text in stream.text_stream]
        final = await stream.get_final_message()
    assert texts == ["one", " two"]
    assert [block.type for block in final.content] == ["text", "tool_use", "tool_use"]
    inputs = [block.input for block in final.content if block.type == "tool_use"]
    assert inputs == [{"x": 1}, {"y": "☃"}]
    assert final.stop_reason == "tool_use"
    assert final.usage.output_tokens == 2 + 3 + 3


async def test_the_sdk_reads_a_whole_answer(client: AsyncAnthropic) -> None:
    answer = await client.messages.create(model="demo", max_tokens=3, messages=prompt("你好"))
    assert [block.type for block in answer.content] == ["text"]
    assert answer.stop_reason == "max_tokens"
    assert answer._request_id is None


async def test_the_sdk_takes_a_call_and_brings_its_result(client: AsyncAnthropic) -> None:
    talk = prompt("What time is it?")
    first = await client.messages.create(model="demo", max_tokens=99, messages=talk, tools=[CLOCK])
    (call,) = first.content
    assert call.type == "tool_use"
    result = clock.render_time(NOON, ZONE, "America/Los_Angeles", NtpState("disabled"))
    talk += [
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
        },
    ]
    second = await client.messages.create(model="demo", max_tokens=99, messages=talk, tools=[CLOCK])
    (text,) = second.content
    assert text.type == "text"
    assert text.text == "It is 13:22:38 on Monday 2 February 2026 (America/Los_Angeles)."


ERRORS = {
    "status=400": anthropic.BadRequestError,
    "status=401": anthropic.AuthenticationError,
    "status=404": anthropic.NotFoundError,
    "status=429 retry_after=7": anthropic.RateLimitError,
    "status=529": anthropic.InternalServerError,
    "nonsense": anthropic.BadRequestError,
    "drop": anthropic.APIConnectionError,
}


@pytest.mark.parametrize("order", ERRORS)
async def test_the_sdk_sees_errors(order: str, client: AsyncAnthropic) -> None:
    with pytest.raises(ERRORS[order]):
        await client.messages.create(model="demo", max_tokens=9, messages=prompt(f"demo: {order}"))


async def test_the_sdk_sees_an_error_in_the_middle_of_a_stream(client: AsyncAnthropic) -> None:
    line = 'demo: tokens=5 delay_ms=0 error_after=2 message="Out of words."'
    stream = await client.messages.create(
        model="demo", max_tokens=9, messages=prompt(line), stream=True
    )
    with pytest.raises(anthropic.APIStatusError, match="Out of words"):
        async for _ in stream:
            pass


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def serving(stream: bytes) -> AsyncIterator[str]:
    """Answer every request with these bytes; give the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
        writer.write(HEAD + stream)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


async def test_an_answer_of_several_turns_is_one_message_to_the_sdk(server: DemoServer) -> None:
    gate = Gate(server.url, "remind me in 20 seconds to drink tea", stream=True)
    await gate.turns()
    gate.wake("drink tea", 20)
    await gate.turns()
    async with serving(gate.answer()) as url, AsyncAnthropic(base_url=url, api_key="x") as client:
        async with client.beta.messages.stream(
            model="demo", max_tokens=99, messages=[{"role": "user", "content": "x"}]
        ) as stream:
            texts = "".join([text async for text in stream.text_stream])
            final = await stream.get_final_message()
    assert texts == PROMISE + "\n\nIt is time: drink tea."
    assert [block.type for block in final.content] == ["text", "text"]
    assert final.stop_reason == "end_turn"
    assert final.usage.iterations is not None
    used = [(entry.input_tokens, entry.output_tokens) for entry in final.usage.iterations]
    assert len(used) == 3
    assert final.usage.input_tokens == sum(taken for taken, _ in used)
    assert final.usage.output_tokens == sum(made for _, made in used)
