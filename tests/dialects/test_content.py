"""Which frames say something to whoever reads them, and which only announce that an answer comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.events import mend_json, read_event

Json = dict[str, Any]


def choice(delta: Any, **more: Any) -> Json:
    return {"id": "a", "choices": [{"index": 0, "delta": delta, **more}]}


def block(kind: str, **more: Any) -> Json:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **more}}


def delta(**more: Any) -> Json:
    return {"type": "content_block_delta", "index": 0, "delta": more}


def added(kind: str, **more: Any) -> Json:
    return {"type": "response.output_item.added", "item": {"type": kind, **more}}


ANNOUNCING: dict[str, list[Json]] = {
    "openai-chat": [
        choice({"role": "assistant"}),
        choice({"role": "assistant", "content": "", "refusal": None, "tool_calls": []}),
        choice({}),
        choice(None),
        choice({}, finish_reason="stop"),
        {"id": "a", "choices": []},
        {"id": "a", "choices": [5]},
        {"id": "a", "choices": "x"},
        {"prompt_filter_results": []},
        {},
    ],
    "anthropic-messages": [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "message_start"},
        {"type": "ping"},
        block("text", text=""),
        block("thinking", thinking="", signature=""),
        delta(type="text_delta", text=""),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "output": []}},
        {"type": "response.in_progress", "response": {"id": "r"}},
        added("message", content=[]),
        added("message", content=[{"type": "output_text", "text": ""}]),
        added("message"),
        added("reasoning", summary=[], encrypted_content="gAAA"),
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.delta", "delta": ""},
    ],
}
SAYING: dict[str, list[Json]] = {
    "openai-chat": [
        choice({"content": "x"}),
        choice({"role": "assistant", "content": "x"}),
        choice({"content": [{"type": "text", "text": "x"}]}),
        choice({"reasoning_content": "hm"}),
        choice({"reasoning": "hm"}),
        choice({"refusal": "no"}),
        choice({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}),
        choice({"function_call": {"name": "f"}}),
        {"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "x"}}]},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]},
    ],
    "anthropic-messages": [
        {"type": "message_start", "message": {"content": [{"type": "text", "text": "x"}]}},
        block("text", text="x"),
        block("thinking", thinking="hm"),
        block("redacted_thinking", data="ZZ"),
        block("tool_use", input={}),
        block("server_tool_use", id="s", name="web_search"),
        delta(type="text_delta", text="x"),
        delta(type="thinking_delta", thinking="x"),
        delta(type="input_json_delta", partial_json="{"),
    ],
    "openai-responses": [
        added("message", content=[{"type": "output_text", "text": "x"}]),
        added("reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
        added("reasoning", content="hm"),
        added("function_call", name="f", arguments=""),
        added("web_search_call"),
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": "x"}},
        {"type": "response.content_part.done", "part": {"type": "refusal", "refusal": "x"}},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.output_text.done", "text": "x"},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
    ],
}


def cases(table: dict[str, list[Json]]) -> list[Any]:
    return [
        pytest.param(name, event, id=f"{name} {json.dumps(event)[:60]}")
        for name, events in table.items()
        for event in events
    ]


def frame(event: Json) -> bytes:
    return b"event: x\ndata: " + json.dumps(event).encode() + b"\n\n"


@pytest.mark.parametrize("name, event", cases(ANNOUNCING))
def test_an_announcement_is_no_content(name: str, event: Json) -> None:
    assert not DIALECTS[name].shows_content(frame(event))


@pytest.mark.parametrize("name, event", cases(SAYING))
def test_content_counts_wherever_it_stands(name: str, event: Json) -> None:
    shows = DIALECTS[name].shows_content
    assert shows(frame(event))
    beginning = b": hello\n\n" + b"".join(map(frame, ANNOUNCING[name])) + b"data: [DONE]\n\n"
    assert not shows(beginning)
    assert shows(beginning + frame(event) + beginning)
    assert shows((beginning + frame(event)).replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("name", DIALECTS)
def test_what_is_no_event_is_no_content(name: str) -> None:
    assert not DIALECTS[name].shows_content(b"")
    assert not DIALECTS[name].shows_content(b"data: {broken\n\ndata: [1]\n\nevent: x\n\n")


MENDED = {
    b'{"a":"x\xffy"}': {"a": "x\ufffdy"},
    b'{"a":"x\0y\ny"}': {"a": "x\0y\ny"},
    b'{"a":"\\ud800"}': {"a": "\ufffd"},
    b'{"a":"\\ud83d\\ude00"}': {"a": "\U0001f600"},
    b'{"a":NaN,"b":[-Infinity]}': {"a": None, "b": [None]},
    b'{"a":"\xc3\xbc"}': {"a": "\xfc"},
}


@pytest.mark.parametrize("data", MENDED)
def test_what_clients_can_read_is_read(data: bytes) -> None:
    assert read_event(data) == MENDED[data]


@pytest.mark.parametrize("data", [b"", b"{", b'{"a":nul}', b"\xff", b"[" * 100_000, b"[1]"])
def test_what_nobody_can_read_is_nothing(data: bytes) -> None:
    assert read_event(data) is None
    assert mend_json(data) in (None, b"[1]")
