"""What every dialect owes of an answer of one piece."""

from __future__ import annotations

import json

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import ModelRequest, Stop
from tests.dialects.responses_wire import message, usage
from tests.dialects.whole_answers import run

LIMIT = 10_000
each = pytest.mark.parametrize("dialect", DIALECTS)

# An answer as plain as can be: one text, and its price.
ANSWERS = {
    "openai-chat": {
        "id": "a",
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3},
    },
    "anthropic-messages": {
        "id": "a",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 2, "output_tokens": 3},
    },
    "openai-responses": {
        "id": "a",
        "object": "response",
        "status": "completed",
        "output": [message("m", "hi")],
        "usage": usage(2, 3),
    },
}
# An error that comes under a status of success, and the status that it stands for.
ERRORS = {
    "openai-chat": (b'{"error":{"message":"no","code":503}}', 503),
    "anthropic-messages": (
        b'{"type":"error","error":{"type":"rate_limit_error","message":"no"}}',
        429,
    ),
    "openai-responses": (b'{"error":{"message":"no","code":503}}', 503),
}


def write(dialect: str) -> bytes:
    """Write the plain answer of a dialect."""
    return json.dumps(ANSWERS[dialect]).encode()


def begin(dialect: str) -> Splice:
    """Begin an answer that is not streamed."""
    return DIALECTS[dialect].splice(ModelRequest(model="m", body=b"{}"), frozenset(), LIMIT)


@each
def test_one_turn_passes_byte_for_byte(dialect: str) -> None:
    answer = begin(dialect)
    tap = run(answer, write(dialect))
    assert answer.tail(neutral_finish=False) == write(dialect)
    assert tap.text() == "hi"
    assert tap.end().stop is Stop.STOP
    assert tap.end().spoke
    usage = tap.end().usage
    assert usage is not None
    assert (usage.input, usage.output) == (2, 3)
    assert answer.content_type == b"application/json"
    assert answer.heartbeat() == b""


@each
def test_what_is_not_text_is_no_answer_wherever_it_stands(dialect: str) -> None:
    with pytest.raises(UpstreamBroke, match="not JSON"):
        run(begin(dialect), write(dialect).replace(b'"id": "a"', b'"id": "\xff"'))


@each
@pytest.mark.parametrize("data", [b"", b"<html>", b"data: {}\n\n", b"[]"])
def test_what_is_no_json_object_is_broken(dialect: str, data: bytes) -> None:
    tap = begin(dialect).tap()
    tap.feed(data)
    with pytest.raises(UpstreamBroke):
        tap.close()


@each
def test_an_error_under_a_2xx_status(dialect: str) -> None:
    data, status = ERRORS[dialect]
    tap = begin(dialect).tap()
    tap.feed(data)
    with pytest.raises(UpstreamAnswered) as caught:
        tap.close()
    assert caught.value.status == status


@each
def test_an_answer_longer_than_the_limit(dialect: str) -> None:
    tap = begin(dialect).tap()
    tap.feed(b"x" * (LIMIT - 1000))
    with pytest.raises(UpstreamBroke):
        tap.feed(b"x" * 2000)


@each
@pytest.mark.parametrize(
    "kind", [b"application/json; charset=utf-8", b"application/problem+json", b""]
)
def test_what_a_whole_answer_accepts(dialect: str, kind: bytes) -> None:
    assert begin(dialect).accepts(kind)
    assert not begin(dialect).accepts(b"text/event-stream")
