"""Which calls a history tells of, and errors at the end of an answer that was begun."""

import json

import pytest

from gateway.dialects import DIALECTS
from gateway.errors import UpstreamBroke
from gateway.exchange.model import ModelRequest

CHAT, RESPONSES = DIALECTS["openai-chat"], DIALECTS["openai-responses"]


def call(ident: object) -> dict[str, object]:
    function = {"name": "f", "arguments": "{}"}
    return {"id": ident, "type": "function", "function": function}


@pytest.mark.parametrize(
    "messages, ids",
    [
        ([{"role": "user", "content": "hi"}], ()),
        ([{"role": "assistant", "tool_calls": [call("a"), call("b")]}], ("a",)),
        ([{"role": "assistant", "tool_calls": []}, {"role": "tool", "tool_call_id": "a"}], ()),
        ([{"role": "assistant", "tool_calls": [call(None)]}, 7], ()),
        ([{"role": "assistant", "tool_calls": [call(x)]} for x in ("a", "b")], ("a", "b")),
        ({"tool_calls": 1}, ()),
    ],
)
def test_the_first_call_of_each_turn(messages: object, ids: tuple[str, ...]) -> None:
    assert CHAT.find_call_ids(json.dumps({"model": "m", "messages": messages}).encode()) == ids


def test_an_error_ends_the_answer_that_was_begun() -> None:
    splice = RESPONSES.splice(ModelRequest("m", b"{}", stream=True), frozenset(), 1000)
    tap = splice.tap()
    created = {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1"}}
    text = {"type": "response.in_progress", "sequence_number": 1, "response": {"id": "resp_1"}}
    for event in (created, text):
        tap.feed(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()))  # type: ignore[attr-defined]
    frame = RESPONSES.error_frame(UpstreamBroke("gone"), splice)
    assert b"response.failed" in frame
    assert b"resp_1" in frame
    assert b"resp_1" not in RESPONSES.error_frame(UpstreamBroke("gone"))
