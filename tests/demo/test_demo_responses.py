"""The Responses dialect of the demo: what is read, how answers look, and what the SDK makes of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from gateway.demo import responses
from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    UnreadableRequest,
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage
from gateway.demo.server import DemoServer

from .peer import Answer, connected, request

STAMP = AnswerStamp(number=7, created=1_700_000_000)
TALK = Dialogue((DialogueMessage("user", ("two words",)),))
CLOCK: Any = {"type": "function", "name": "clock", "parameters": {}, "strict": False}
TAG = "[Time/Date]: utc=`2026-02-02T21:22:38.229Z` nowMs=`1770067358229`"


def read(**body: object) -> DialogueRequest:
    return responses.read(json.dumps({"model": "m", **body}).encode())


def speak() -> list[dict[str, Any]]:
    """Say two words and call one tool, and return the events."""
    voice = responses.open_answer(DialogueRequest(TALK, "m", usage=True), STAMP)
    stream = voice.begin(speaks=True) + voice.say('"☃"\n') + voice.say(" %d") + voice.call("t")
    stream += voice.argue("{}") + voice.finish("tool_calls")
    frames = stream.decode().split("\n\n")
    assert frames.pop() == ""
    events = [json.loads(frame.partition("\ndata: ")[2]) for frame in frames]
    assert [f"event: {e['type']}" for e in events] == [frame.split("\n")[0] for frame in frames]
    return events


def test_events_build_up_the_response() -> None:
    events = speak()
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert [e["type"].removeprefix("response.") for e in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [e["delta"] for e in events if "delta" in e] == ['"☃"\n', " %d", "{}"]
    assert events[5]["item_id"] == "msg_demo00000007_0"
    ended = events[-1]["response"]
    assert ended["output"] == [events[8]["item"], events[12]["item"]]
    assert ended["output"][0]["content"][0]["text"] == '"☃"\n %d'
    assert ended["output"][1]["call_id"] == "call_demo00000007_1"
    counts = [ended["usage"][f"{kind}_tokens"] for kind in ("input", "output", "total")]
    assert counts == [2, 3, 5]


ENDS = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", {"reason": "max_output_tokens"}),
    "content_filter": ("incomplete", {"reason": "content_filter"}),
    "tired": ("incomplete", {"reason": "tired"}),
}


@pytest.mark.parametrize("reason", ENDS)
def test_how_an_answer_ends(reason: str) -> None:
    voice = responses.open_answer(DialogueRequest(TALK, "m"), STAMP)
    stream = voice.finish(reason)
    told = responses.open_answer(DialogueRequest(TALK, "m"), STAMP).write_whole(
        CompleteAnswer("hi", (), 1, reason)
    )
    for response in (json.loads(stream.partition(b"data: ")[2])["response"], json.loads(told)):
        assert (response["status"], response["incomplete_details"]) == ENDS[reason]
        assert response["usage"] is None


def test_a_whole_answer() -> None:
    told = CompleteAnswer("hi", (("t", "{}"),), 2, "tool_calls")
    answer = json.loads(
        responses.open_answer(DialogueRequest(TALK, "m", usage=True), STAMP).write_whole(told)
    )
    assert answer["object"] == "response"
    assert [item["id"] for item in answer["output"]] == ["msg_demo00000007_0", "fc_demo00000007_1"]
    assert answer["usage"]["output_tokens"] == 2
    silent = json.loads(
        responses.open_answer(DialogueRequest(TALK, "m"), STAMP).write_whole(
            CompleteAnswer("", (), 0, "stop")
        )
    )
    assert silent["output"] == []


@pytest.mark.parametrize(
    "fail, code", [(Fail(500, "m"), "server_error"), (Fail(429, "m"), "rate_limit_exceeded")]
)
def test_a_failure_in_the_middle(fail: Fail, code: str) -> None:
    frame = responses.open_answer(DialogueRequest(TALK, "m"), STAMP).fail(fail)
    assert frame.startswith(b"event: response.failed\n")
    response = json.loads(frame.partition(b"data: ")[2])["response"]
    assert (response["status"], response["error"]) == ("failed", {"code": code, "message": "m"})


def test_a_text_is_read() -> None:
    ask = read(input="hello", instructions="be kind", stream=True, max_output_tokens=9)
    messages = (DialogueMessage("system", ("be kind",)), DialogueMessage("user", ("hello",)))
    assert ask == DialogueRequest(Dialogue(messages, limit=9), "m", stream=True, usage=True)


def test_items_are_read_and_those_of_one_turn_are_one_message() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
    custom = {"type": "custom_tool_call", "call_id": "d", "name": "p", "input": "x"}
    ask = read(
        tools=[{"type": "function", "name": "t"}, {"type": "web_search"}],
        input=[
            {"role": "developer", "content": "s"},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "u"},
                    "odd",
                    {"type": "input_text", "text": "b"},
                ],
            },
            {"type": "reasoning", "id": "r", "summary": []},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I see."}]},
            call,
            custom,
            {"type": "function_call_output", "call_id": "c", "output": "r"},
            {
                "type": "custom_tool_call_output",
                "call_id": "d",
                "output": [{"type": "input_text", "text": "q"}],
            },
            {"type": "computer_call_output", "call_id": "e", "output": {"type": "image"}},
        ],
    )
    assert ask.dialogue == Dialogue(
        (
            DialogueMessage("developer", ("s",)),
            DialogueMessage("user", ("a", "b")),
            DialogueMessage(
                "assistant",
                ("I see.",),
                (DialogueCall("c", "t", "{}"), DialogueCall("d", "p", "x")),
            ),
            DialogueMessage("tool", ("r",), answers="c"),
            DialogueMessage("tool", ("q",), answers="d"),
        ),
        frozenset({"t"}),
    )


def test_tools_that_must_not_be_used_are_not_on_offer() -> None:
    assert read(input="x", tools=[CLOCK], tool_choice="none").dialogue.tools == frozenset()


def test_where_the_upstream_remembers_the_rest_need_not_be_told() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "r"}
    for chained in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
        assert read(input=[output], **chained).dialogue.messages[0].answers == "c"
        assert read(**chained).dialogue.messages == ()


CALL = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "r"}
REFUSED: dict[str, tuple[dict[str, object], str | None, str]] = {
    "no model": ({"model": 3, "input": "x"}, "model", "Expected `str`, got `int`"),
    "no input": ({"model": "m"}, "input", "no input"),
    "empty": ({"model": "m", "input": []}, "input", "no input"),
    "a number": ({"model": "m", "input": 3}, "input", "Expected"),
    "a stray result": ({"model": "m", "input": [OUTPUT]}, "input[0]", "No tool call found"),
    "no result": ({"model": "m", "input": [CALL]}, "input[0]", "No tool output found"),
    "two results": ({"model": "m", "input": [CALL, OUTPUT, OUTPUT]}, "input[2]", "No tool call"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_request_is_refused_with_a_sentence(case: str) -> None:
    body, param, sentence = REFUSED[case]
    with pytest.raises(UnreadableRequest) as caught:
        responses.read(json.dumps(body).encode())
    assert (caught.value.fail.status, caught.value.fail.param) == (400, param)
    assert sentence in caught.value.fail.message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"model":"m","input":' + b"[" * 100_000])
def test_broken_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        responses.read(body)
    assert caught.value.fail.status == 400


# Over real sockets.


async def ask(server: DemoServer, text: str, **fields: object) -> Answer:
    body = json.dumps({"model": "demo", "stream": True, "input": text, **fields}).encode()
    async with connected(server.url) as peer:
        await peer.send(request(body, path=responses.path))
        return await peer.answer()


def kinds(answer: Answer) -> list[str]:
    return [event["type"].removeprefix("response.") for event in answer.events]


def said(answer: Answer) -> list[str]:
    return [e["delta"] for e in answer.events if e["type"] == "response.output_text.delta"]


async def test_orders_are_obeyed(server: DemoServer) -> None:
    answer = await ask(server, 'demo: say="a b" tokens=3 delay_ms=1 split=7 crlf')
    assert said(answer) == ["a", " b", "a"]
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert b"\r\n\r\n" in answer.body
    assert kinds(answer)[-1] == "completed"


async def test_its_end_may_be_left_out_or_come_twice(server: DemoServer) -> None:
    none, two, more = [
        await ask(server, f"demo: tokens=1 delay_ms=0 {order}")
        for order in ("no_done", "two_done", "after_done=2")
    ]
    assert kinds(none)[-1] == "output_item.done"
    assert kinds(two)[-2:] == ["completed", "completed"]
    assert len(said(more)) == 3
    assert kinds(more)[-2:] == ["output_text.delta", "output_text.delta"]


async def test_usage_may_be_left_out(server: DemoServer) -> None:
    answer = await ask(server, "demo: tokens=1 delay_ms=0 no_usage")
    assert answer.events[-1]["response"]["usage"] is None


async def test_it_breaks_where_it_is_told_to(server: DemoServer) -> None:
    failed = await ask(server, "demo: tokens=9 delay_ms=0 error_after=3 status=503")
    assert kinds(failed)[-1] == "failed"
    assert len(said(failed)) == 3
    dropped = await ask(server, "demo: tokens=9 delay_ms=0 drop_after=3")
    assert (len(said(dropped)), dropped.ending) == (3, "closed")
    refused = await ask(server, 'demo: status=429 retry_after=7 message="Not now."')
    assert (refused.status, refused.headers["retry-after"]) == (429, "7")
    assert refused.json["error"]["code"] == "rate_limit_exceeded"


# As openai-python sees it.


@pytest.fixture
async def client(server: DemoServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


async def test_the_streaming_helper_accumulates(client: AsyncOpenAI) -> None:
    line = 'demo: say="one two" tool=a args={"x":1} tool=b args={"y":"☃"} delay_ms=1'
    async with client.responses.stream(model="demo", input=line) as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert deltas == ["one", " two"]
    assert final.output_text == "one two"
    calls = [(c.name, c.arguments) for c in final.output if c.type == "function_call"]
    assert calls == [("a", '{"x":1}'), ("b", '{"y":"☃"}')]


@pytest.mark.parametrize("name, namespace", [("f", None), ("files.f", "files")])
async def test_a_tool_may_be_one_of_a_namespace(
    name: str, namespace: str | None, client: AsyncOpenAI
) -> None:
    answer = await client.responses.create(model="demo", input=f"demo: tool={name} args={{}}")
    (call,) = answer.output
    assert call.type == "function_call"
    assert (call.name, call.namespace) == ("f", namespace)


async def test_a_whole_answer_that_is_cut(client: AsyncOpenAI) -> None:
    answer = await client.responses.create(model="demo", input="你好", max_output_tokens=3)
    assert answer.output_text == "你好！我是"
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage is not None
    assert answer.usage.output_tokens == 3


async def test_a_reminder_from_wish_to_promise_to_its_time(client: AsyncOpenAI) -> None:
    talk: list[Any] = [user("Remind me in 20 seconds to stretch"), user(TAG)]
    first = await client.responses.create(model="demo", input=talk, tools=[CLOCK])
    (call,) = first.output
    assert call.type == "function_call"
    items = json.loads(call.arguments)["items"]
    assert items[0]["dueAt"] == "2026-02-02T21:22:58.229Z"
    done = json.dumps({"ok": True, "scheduled": [{**items[0], "delivery": "hold"}]})
    talk += [
        call.to_dict(),
        {"type": "function_call_output", "call_id": call.call_id, "output": done},
    ]
    second = await client.responses.create(model="demo", input=talk, tools=[CLOCK])
    assert (
        second.output_text
        == "I set it: stretch. This answer stays open and I go on at 21:22:58 UTC."
    )
    due = '[Clock Reminder]: scheduled tasks are due.\n[scheduled task:"stretch" dueAt=x]'
    talk += [*(item.to_dict() for item in second.output), user(due), user(TAG)]
    third = await client.responses.create(model="demo", input=talk, tools=[CLOCK])
    assert third.output_text == "It is time: stretch."


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


@pytest.mark.parametrize(
    "order, error",
    [
        ("status=401", openai.AuthenticationError),
        ("status=429 retry_after=7", openai.RateLimitError),
        ("nonsense", openai.BadRequestError),
        ("drop", openai.APIConnectionError),
    ],
)
async def test_errors(order: str, error: type[Exception], client: AsyncOpenAI) -> None:
    with pytest.raises(error):
        await client.responses.create(model="demo", input=f"demo: {order}")
