"""Upstreams of Chat Completions that send content as a list of parts, as Mistral does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.translate.answer_context import AnswerContext
from gateway.dialects.translate.answers import BodyTranslator, StreamTranslator
from gateway.exchange.model import ModelRequest

CHAT = DIALECTS["openai-chat"]
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}, 5]}
PARTS = [THINKING, {"type": "text", "text": "One."}, {"type": "reference"}, 7]


def chunk(delta: Any, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "a", "choices": [choice]}).encode() + b"\n\n"


STREAM = (
    chunk({"role": "assistant", "content": ""})
    + chunk({"content": [THINKING]})
    + chunk({"content": [{"type": "text", "text": "One"}]})
    + chunk({"content": "."})
    + chunk({}, "stop")
    # With the space that some servers put at the end.
    + b"data: [DONE] \n\n"
)
BODY = json.dumps(
    {
        "id": "a",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": PARTS},
                "finish_reason": "stop",
            }
        ],
    }
).encode()


@pytest.mark.parametrize("stream", [True, False])
def test_the_text_is_known_and_the_bytes_pass(stream: bool) -> None:
    splice = CHAT.splice(
        ModelRequest(model="m", body=b"{}", stream=stream), frozenset({"clock"}), 10**6
    )
    tap = splice.tap()
    sent = STREAM if stream else BODY
    shown = tap.feed(sent)
    if not tap.ended:
        shown += tap.close()
    assert tap.text() == "One."
    splice.take(tap)
    assert shown + splice.tail(neutral_finish=False) == sent


@pytest.mark.parametrize("stream", [True, False])
def test_texts_of_two_turns_are_set_apart(stream: bool) -> None:
    splice = CHAT.splice(ModelRequest(model="m", body=b"{}", stream=stream), frozenset(), 10**6)
    shown = b""
    for _ in range(2):
        tap = splice.tap()
        shown += tap.feed(STREAM if stream else BODY)
        shown += b"" if tap.ended else tap.close()
        splice.take(tap)
    shown += splice.tail(neutral_finish=False)
    if stream:
        assert shown.count(b'"content":"\\n\\n"') == 1
        assert shown.index(b"Hm.", shown.index(b"Hm.") + 1) < shown.index(b'"content":"\\n\\n"')
    else:
        assert json.loads(shown)["choices"][0]["message"]["content"] == "One.\n\nOne."


@pytest.mark.parametrize("stream", [True, False])
def test_thinking_beside_text_becomes_a_thinking_block(stream: bool) -> None:
    wanted = AnswerContext("m", "seed")
    if stream:
        passage = StreamTranslator("openai-chat", "anthropic-messages", wanted, 10**6)
        told = passage.feed(STREAM) + passage.close()
        assert b'"thinking_delta","thinking":"Hm."' in told
        assert told.index(b"thinking_delta") < told.index(b'"text_delta","text":"One"')
        assert told.endswith(b'{"type":"message_stop"}\n\n')
    else:
        whole = BodyTranslator("openai-chat", "anthropic-messages", wanted, 10**6)
        whole.feed(BODY)
        content = json.loads(whole.close())["content"]
        assert [(b["type"], b.get("thinking") or b["text"]) for b in content] == [
            ("thinking", "Hm."),
            ("text", "One."),
        ]


def test_a_message_that_begins_with_content_is_translated() -> None:
    blocks = [{"type": "text", "text": "So far."}, {"type": "tool_use", "id": "t", "name": "f"}]
    message = {"id": "m", "content": blocks}
    start = json.dumps({"type": "message_start", "message": message}).encode()
    passage = StreamTranslator(
        "anthropic-messages", "openai-chat", AnswerContext("m", "seed"), 10**6
    )
    told = passage.feed(b"data: " + start + b"\n\n") + passage.feed(b"data: " + start + b"\n\n")
    assert told.count(b'"So far."') == 1
    assert told.count(b'"name":"f"') == 1
