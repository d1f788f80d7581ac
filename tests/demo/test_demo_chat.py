"""The chat completions dialect: what is read, what is refused, how answers look."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.demo import chat
from gateway.demo.dialect import (
    AnswerStamp,
    CompleteAnswer,
    DialogueRequest,
    Fail,
    UnreadableRequest,
)
from gateway.demo.dialogue import Dialogue, DialogueCall, DialogueMessage

STAMP = AnswerStamp(number=7, created=1_700_000_000)
TALK = Dialogue((DialogueMessage("user", ("two words",)),))
ENVELOPE = (
    '{"id":"chatcmpl-demo00000007","object":"chat.completion.chunk","created":1700000000,'
    '"model":"m","service_tier":"default","system_fingerprint":"fp_holdgate_demo","choices":['
)
OPEN = ',"logprobs":null,"finish_reason":null}]'


def speak(ask: DialogueRequest) -> list[str]:
    """Say one word and call one tool, and return the frames."""
    voice = chat.open_answer(ask, STAMP)
    stream = voice.begin(speaks=True) + voice.say('"☃"\n') + voice.call("t") + voice.argue("{}")
    stream += voice.finish("tool_calls")
    frames = stream.decode().split("\n\n")
    assert frames.pop() == ""
    return [frame.removeprefix("data: ") for frame in frames]


def test_frames_are_compact_and_whole() -> None:
    call = '"id":"call_demo00000007_0_0","type":"function","function":{"name":"t","arguments":""}'
    deltas = [
        '{"role":"assistant","content":"","refusal":null}',
        '{"content":"\\"☃\\"\\n"}',
        '{"tool_calls":[{"index":0,' + call + "}]}",
        '{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}',
    ]
    assert speak(DialogueRequest(TALK, "m")) == [
        *(f'{ENVELOPE}{{"index":0,"delta":{delta}{OPEN}}}' for delta in deltas),
        f'{ENVELOPE}{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"tool_calls"}}]}}',
        "[DONE]",
    ]


def test_usage_comes_last_and_is_null_before() -> None:
    *frames, usage, done = speak(DialogueRequest(TALK, "m", usage=True))
    assert all(json.loads(frame)["usage"] is None for frame in frames)
    assert json.loads(usage)["choices"] == []
    counts = json.loads(usage)["usage"]
    assert [counts[f"{kind}_tokens"] for kind in ("prompt", "completion", "total")] == [2, 2, 4]
    assert done == "[DONE]"


def test_choices_are_interleaved() -> None:
    voice = chat.open_answer(DialogueRequest(TALK, "m", choices=2), STAMP)
    frames = voice.say("x").decode().split("\n\n")[:-1]
    shown = [json.loads(frame.removeprefix("data: "))["choices"][0] for frame in frames]
    assert [(c["index"], c["delta"]) for c in shown] == [
        (0, {"content": "x"}),
        (1, {"content": "x"}),
    ]


def test_a_whole_answer() -> None:
    answer = json.loads(
        chat.open_answer(DialogueRequest(TALK, "m", choices=2), STAMP).write_whole(
            CompleteAnswer("hi", (), 1, "stop")
        )
    )
    assert answer["object"] == "chat.completion"
    assert [c["index"] for c in answer["choices"]] == [0, 1]
    assert answer["choices"][1] == {
        "index": 1,
        "message": {"role": "assistant", "content": "hi", "refusal": None, "annotations": []},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert answer["usage"]["completion_tokens"] == 2


def test_a_whole_answer_that_only_calls_has_no_content() -> None:
    told = CompleteAnswer("", (("t", "{}"),), 2, "tool_calls")
    answer = json.loads(chat.open_answer(DialogueRequest(TALK, "m"), STAMP).write_whole(told))
    message = answer["choices"][0]["message"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"] == {"name": "t", "arguments": "{}"}


ERRORS: dict[Fail, dict[str, Any]] = {
    Fail(400, "m"): {"type": "invalid_request_error", "code": None},
    Fail(401, "m"): {"type": "invalid_request_error", "code": "invalid_api_key"},
    Fail(429, "m"): {"type": "requests", "code": "rate_limit_exceeded"},
    Fail(429, "m", code="c"): {"type": "requests", "code": "c"},
    Fail(502, "m"): {"type": "server_error", "code": None},
}


@pytest.mark.parametrize("fail", ERRORS, ids=str)
def test_errors_look_like_the_real_ones(fail: Fail) -> None:
    expected = {"message": "m", "param": None, **ERRORS[fail]}
    assert json.loads(chat.write_error(fail)) == {"error": expected}


def test_a_request_is_read() -> None:
    ask = chat.read(
        json.dumps(
            {
                "model": "m",
                "stream": True,
                "stream_options": {"include_usage": True},
                "n": 3,
                "max_tokens": 9,
                "temperature": 0.5,
                "tools": [{"type": "function", "function": {"name": "t", "parameters": {}}}],
                "messages": [
                    {"role": "system", "content": "s"},
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "a"},
                            {"type": "image_url", "image_url": {"url": "data:"}},
                            {"type": "text", "text": "b"},
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": None,
                        "tool_calls": [
                            {
                                "id": "c",
                                "type": "function",
                                "function": {"name": "t", "arguments": "{}"},
                            }
                        ],
                    },
                    {"role": "tool", "tool_call_id": "c", "content": "r"},
                ],
            }
        ).encode()
    )
    assert ask == DialogueRequest(
        Dialogue(
            (
                DialogueMessage("system", ("s",)),
                DialogueMessage("user", ("a", "b")),
                DialogueMessage("assistant", (), (DialogueCall("c", "t", "{}"),)),
                DialogueMessage("tool", ("r",), answers="c"),
            ),
            frozenset({"t"}),
            limit=9,
        ),
        "m",
        stream=True,
        choices=3,
        usage=True,
    )


def test_tools_that_must_not_be_used_are_not_on_offer() -> None:
    tools = [{"type": "function", "function": {"name": "t"}}]
    messages = [{"role": "user", "content": "x"}]
    body = {"model": "m", "messages": messages, "tools": tools, "tool_choice": "none"}
    assert chat.read(json.dumps(body).encode()).dialogue.tools == frozenset()


CALL = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "t"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
USER = {"role": "user", "content": "x"}

REFUSED: dict[str, tuple[object, str | None, str]] = {
    "no model": ({"messages": [USER]}, "model", "missing required field `model`"),
    "no messages": ({"model": "m"}, "messages", "missing required field"),
    "empty": ({"model": "m", "messages": []}, "messages", "empty"),
    "a number": ({"model": 3, "messages": [USER]}, "model", "Expected `str`, got `int`"),
    "content": ({"model": "m", "messages": [{"role": "user", "content": 3}]}, None, "Expected"),
    "n": ({"model": "m", "messages": [USER], "n": 999}, "n", "between 1 and 128"),
    "a list": ([], None, "Expected `object`"),
    "a stray result": ({"model": "m", "messages": [RESULT]}, "messages[0]", "must answer a call"),
    "no result": ({"model": "m", "messages": [CALL]}, "messages[0]", "have no results"),
    "something between": (
        {"model": "m", "messages": [CALL, USER, RESULT]},
        "messages[1]",
        "must be answered before it",
    ),
    "two results": (
        {"model": "m", "messages": [CALL, RESULT, RESULT]},
        "messages[2]",
        "must answer a call",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_request_is_refused_with_a_sentence(case: str) -> None:
    body, param, sentence = REFUSED[case]
    with pytest.raises(UnreadableRequest) as caught:
        chat.read(json.dumps(body).encode())
    assert caught.value.fail.status == 400
    assert sentence in caught.value.fail.message
    if param is not None:
        assert caught.value.fail.param == param


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"model":"m","messages":' + b"[" * 100_000])
def test_broken_json_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        chat.read(body)
    assert caught.value.fail.status == 400
