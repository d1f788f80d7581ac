"""Answers that come as a stream where a body was asked for, and the other translator round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Dialect
from gateway.dialects.translators import Translator, Translators, UpstreamDialect
from gateway.errors import UpstreamAnswered, UpstreamBroke

ANSWERS = Path(__file__).parents[1] / "fixtures" / "answers"
CHAT, RESPONSES = DIALECTS["openai-chat"], DIALECTS["openai-responses"]
BODY = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}],
}
ASKED = b'{"model":"m","messages":[]}'


def translators(**dialects: str) -> Translators:
    spoken = {name: UpstreamDialect(dialect) for name, dialect in dialects.items()}
    return Translators(spoken, 10**6, 10**6, lambda: 7.0)


def convert(through: Translators, dialect: Dialect, asked: bytes, stream: bool) -> Translator:
    return through.make_converter(
        "a", dialect, through.make_context_reader(dialect, asked, "turn")(), stream
    )


def test_a_body_becomes_a_stream_and_keeps_its_id() -> None:
    translator = convert(translators(), CHAT, ASKED, True)
    assert translator.feed(json.dumps(BODY).encode()) == b""
    told = translator.close()
    assert told.count(b'"id":"chatcmpl-1"') == told.count(b"data: {")
    assert b'"content":"Hi."' in told
    assert told.endswith(b"data: [DONE]\n\n")
    assert translator.failure is None


def test_a_body_without_an_id_gets_one() -> None:
    translator = convert(translators(), CHAT, ASKED, True)
    translator.feed(json.dumps({**BODY, "id": ""}).encode())
    assert b'"id":"chatcmpl-' in translator.close()


def test_a_stream_becomes_a_body_and_keeps_its_id() -> None:
    translator = convert(translators(a="openai-responses"), RESPONSES, b'{"model":"m"}', False)
    stream = ANSWERS.joinpath("responses_text.sse").read_bytes()
    for at in range(0, len(stream), 100):
        assert translator.feed(stream[at : at + 100]) == b""
    body = json.loads(translator.close())
    assert body["id"].encode() in stream
    assert body["output"][0]["content"][0]["text"]


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_in_another_form_keeps_its_status(stream: bool) -> None:
    error = b'{"error":{"message":"No.","code":"rate_limit_exceeded"}}'
    translator = convert(
        translators(a="openai-chat"), DIALECTS["anthropic-messages"], ASKED, stream
    )
    translator.feed(error if stream else b"data: " + error + b"\n\n")
    with pytest.raises(UpstreamAnswered) as raised:
        translator.close()
    assert raised.value.status == 429
    assert json.loads(raised.value.body)["type"] == "error"


def test_a_stream_that_breaks_off_is_no_body() -> None:
    translator = convert(translators(), CHAT, ASKED, False)
    translator.feed(b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
    with pytest.raises(UpstreamBroke):
        translator.close()


def test_of_a_large_request_only_what_the_answer_repeats_is_kept() -> None:
    asked = b'{"model":"m","temperature":0.5,"input":"%b"}' % (b"x" * 100_000)
    told = translators().make_context_reader(RESPONSES, asked, "turn")()
    assert told.model == "m"
    assert told.request == b'{"temperature":0.5}'
    small = b'{"model":"m","input":"x"}'
    assert translators().make_context_reader(RESPONSES, small, "turn")().request == small
