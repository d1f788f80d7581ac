"""The ways to upstreams of the client's dialect and of others."""

import json

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.ways import Speech, Ways
from gateway.errors import BadRequest

CHAT, MESSAGES = DIALECTS["openai-chat"], DIALECTS["anthropic-messages"]
VERSION = (b"anthropic-version", b"2023-06-01")
WAYS = Ways(
    {
        "chat": Speech("openai-chat", PROFILES["glm"]),
        "messages": Speech("anthropic-messages", always=(VERSION,)),
    },
    event_bytes=1000,
    answer_bytes=1000,
    wall=lambda: 7.9,
)


def ask(**more: object) -> bytes:
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


@pytest.mark.parametrize("upstream", ["chat", "unheard of"])
def test_none_is_needed_to_one_that_speaks_the_same(upstream: str) -> None:
    assert WAYS.to(upstream, CHAT, ask(), "turn") is None


def test_what_they_speak() -> None:
    assert WAYS.spoken("messages") == "anthropic-messages"
    assert WAYS.spoken("unheard of") == ""


def test_a_request_goes_there_and_a_whole_answer_comes_back() -> None:
    way = WAYS.to("messages", CHAT, ask(seed=1), "turn")
    assert way is not None
    asked = json.loads(way.request(ask(seed=1)))
    assert asked["messages"] == [{"role": "user", "content": "hi"}]
    assert asked["max_tokens"] == 8192
    assert way.lost == ("seed",)
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    assert way.feed(json.dumps(answer).encode()) == b""
    said = json.loads(way.close())
    assert said["choices"][0]["message"]["content"] == "hello"
    assert said["created"] == 7


def test_a_stream_comes_back_frame_by_frame() -> None:
    body = ask(stream=True, max_tokens=5)
    way = WAYS.to("chat", MESSAGES, body, "turn")
    assert way is not None
    assert json.loads(way.request(body))["stream"] is True
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "hello"}}]}
    said = way.feed(b"data: %b\n\n" % json.dumps(chunk).encode())
    assert b"event: message_start" in said
    assert b'"hello"' in said


def test_an_error_is_said_in_the_clients_words() -> None:
    way = WAYS.to("chat", MESSAGES, ask(max_tokens=5), "turn")
    assert way is not None
    told = json.loads(way.error(b'{"error":{"message":"too fast","type":"rate_limit_error"}}'))
    assert told["type"] == "error"
    assert told["error"]["message"] == "too fast"


def test_what_would_change_its_meaning_is_refused() -> None:
    way = WAYS.to("messages", CHAT, ask(n=2), "turn")
    assert way is not None
    with pytest.raises(BadRequest, match="`n`"):
        way.request(ask(n=2))


def test_what_is_told_beside_the_body() -> None:
    headers = ((b"accept", b"*/*"), (b"openai-beta", b"x"))
    assert WAYS.headers("chat", "openai-chat", headers) == headers
    assert WAYS.headers("unheard of", "openai-chat", headers) == headers
    assert WAYS.headers("messages", "openai-chat", headers) == (headers[0], VERSION)
    newer = ((b"anthropic-version", b"2030-01-01"), (b"anthropic-beta", b"x"))
    assert WAYS.headers("messages", "anthropic-messages", newer) == newer
