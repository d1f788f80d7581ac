"""The fast paths of the taps: what passes unread is what reading every frame would show."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice
from gateway.exchange.model import ModelRequest, Stop, TurnEnd

# Words that the fast paths search for, as a model may say them in a text.
WORDS = (
    '"finish_reason":"stop"',
    '"finish_reason": "',
    '"error"',
    '"usage":{',
    "[DONE]",
    "event: error",
    "event: message_stop",
    '"content_block_stop"',
    '"message_stop"',
    "response.completed",
    '"delta"',
    "a\\n\\nb",
    "é",
    "x" * 1500,
)
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=8)


def frame(data: object, name: str = "") -> bytes:
    line = b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
    return b"event: %b\n%b" % (name.encode(), line) if name else line


def chat(texts: list[str]) -> bytes:
    return chat_turn([{"role": "assistant", "content": ""}, *({"content": t} for t in texts)])


def chat_turn(deltas: list[dict[str, Any]]) -> bytes:
    said = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices = [*said, {"index": 0, "delta": {}, "finish_reason": "stop"}]
    chunks = [frame({"id": "a", "object": "chunk", "choices": [choice]}) for choice in choices]
    return b"".join(chunks) + b"data: [DONE]\n\n"


def named(kind: str, **members: object) -> bytes:
    return frame({"type": kind, **members}, kind)


def messages(texts: list[str]) -> bytes:
    start = {"id": "a", "type": "message", "content": [], "usage": {"input_tokens": 1}}
    delta = [
        named("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
        for text in texts
    ]
    return b"".join(
        (
            named("message_start", message=start),
            named("content_block_start", index=0, content_block={"type": "text", "text": ""}),
            *delta,
            named("content_block_stop", index=0),
            named("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
            named("message_stop"),
        )
    )


def responses(texts: list[str]) -> bytes:
    item = {"id": "m", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": ""}
    place = {"item_id": "m", "output_index": 0, "content_index": 0}
    said = {**item, "content": [{**part, "text": "".join(texts)}]}
    events: list[tuple[str, dict[str, object]]] = [
        ("response.created", {"response": {"id": "r", "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.content_part.added", {**place, "part": part}),
        *(("response.output_text.delta", {**place, "delta": text}) for text in texts),
        ("response.output_item.done", {"output_index": 0, "item": said}),
        ("response.completed", {"response": {"id": "r", "output": [said]}}),
    ]
    return b"".join(
        named(kind, sequence_number=at, **members) for at, (kind, members) in enumerate(events)
    )


STREAMS = {"openai-chat": chat, "anthropic-messages": messages, "openai-responses": responses}


def begin(dialect: str, tools: frozenset[str]) -> Splice:
    asked = ModelRequest(model="m", body=b"{}", stream=True)
    return DIALECTS[dialect].splice(asked, tools, 10**6)


def run(splice: Splice, pieces: list[bytes], reads_all: bool = False) -> tuple[bytes, TurnEnd, str]:
    """Pass a turn; return what the client sees, its end, and what it said."""
    tap = splice.tap()
    if reads_all:
        # What makes a tap read every frame.
        tap._reads_all = True  # type: ignore[attr-defined]
    shown = b"".join([tap.feed(piece) for piece in pieces])
    shown += b"" if tap.ended else tap.close()
    splice.take(tap)
    return shown + splice.tail(neutral_finish=False), tap.end(), tap.text()


@pytest.mark.parametrize("tools", [frozenset[str](), frozenset({"clock"})], ids=["none", "clock"])
@pytest.mark.parametrize("dialect", STREAMS)
@given(texts=TEXTS, cuts=st.lists(st.integers(0, 3000), max_size=12))
def test_what_passes_unread_is_what_reading_shows(
    dialect: str, tools: frozenset[str], texts: list[str], cuts: list[int]
) -> None:
    stream = STREAMS[dialect](texts)
    points = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[a:b] for a, b in pairwise(points)]
    fast = run(begin(dialect, tools), pieces)
    assert fast == run(begin(dialect, tools), pieces, reads_all=True)
    assert fast[0] == stream
    assert fast[2] == "".join(texts)


CALL = {"index": 0, "id": "c", "function": {"name": "weather", "arguments": "{}"}}
DELTAS: list[dict[str, Any]] = [
    {"content": "hi"},
    {"content": 'say "tool_calls" and "refusal":"no"'},
    {"refusal": "no"},
    {"refusal": None, "tool_calls": None},
    {"tool_calls": [CALL]},
    {"function_call": {"name": "weather", "arguments": "{}"}},
]


@given(deltas=st.lists(st.sampled_from(DELTAS), min_size=1, max_size=4, unique_by=str))
def test_what_a_chat_turn_came_to_is_known_whether_its_calls_are_sifted(
    deltas: list[dict[str, Any]],
) -> None:
    # Without server tools the tape is searched for the words, and read only if they are there.
    stream = chat_turn(deltas)
    unread = run(begin("openai-chat", frozenset()), [stream])
    assert unread == run(begin("openai-chat", frozenset({"clock"})), [stream])
    end = unread[1]
    assert (end.stop is Stop.FILTER) == any(delta.get("refusal") for delta in deltas)
    assert end.client_calls == any(delta.get("tool_calls") for delta in deltas)
