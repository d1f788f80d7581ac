"""The ways to upstreams of the client's dialect and of others."""

import json
import pickle

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.protocol import Dialect
from gateway.dialects.translate.responses_answer_writer import repeated
from gateway.dialects.translators import Speech, Ways, say_again
from gateway.errors import BadRequest
from gateway.exchange.additions import GatewayParts

CHAT, MESSAGES = DIALECTS["openai-chat"], DIALECTS["anthropic-messages"]
RESPONSES = DIALECTS["openai-responses"]
VERSION = (b"anthropic-version", b"2023-06-01")
WAYS = Ways(
    {
        "chat": Speech("openai-chat", PROFILES["glm"]),
        "messages": Speech("anthropic-messages", always=(VERSION,)),
    },
    event_bytes=10_000,
    answer_bytes=10_000,
    wall=lambda: 7.9,
)

CHOICE = {"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}
CHUNK = {"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}
MESSAGE = {
    "id": "msg_1",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
}
# What each upstream says, streamed or not.
GREETINGS = {
    ("chat", False): json.dumps({"id": "c", "model": "m", "choices": [CHOICE]}).encode(),
    ("chat", True): b"data: %b\n\ndata: [DONE]\n\n"
    % json.dumps({"id": "c", "model": "m", "choices": [CHUNK]}).encode(),
    ("messages", False): json.dumps(MESSAGE).encode(),
    ("messages", True): b"event: message_start\ndata: %b\n\n"
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    % json.dumps({"type": "message_start", "message": {**MESSAGE, "content": []}}).encode(),
}


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


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "upstream"), [(RESPONSES, "chat"), (CHAT, "messages")])
def test_a_large_request_is_said_as_a_small_one_is(
    client: Dialect, upstream: str, stream: bool
) -> None:
    text = [{"role": "user", "content": "hi"}]
    members = {"model": "m", "messages": text, "input": text, "stream": stream, "seed": 1}
    body = json.dumps(members | {"metadata": {"a": "b"}}).encode()
    saying = WAYS.saying(upstream, client, "turn", GatewayParts)
    way = WAYS.to(upstream, client, body, "turn")
    assert saying is not None
    assert way is not None
    said = say_again(pickle.loads(pickle.dumps(saying)), body)
    back = WAYS.back(upstream, client, said)
    assert (said.body, said.lost) == (way.request(body), way.lost)
    assert back.lost == way.lost
    answer = GREETINGS[upstream, stream]
    assert back.feed(answer) + back.close() == way.feed(answer) + way.close()


@pytest.mark.parametrize("upstream", ["chat", "unheard of"])
def test_a_large_request_is_left_as_it_is_for_one_that_speaks_the_same(upstream: str) -> None:
    assert WAYS.saying(upstream, CHAT, "turn", GatewayParts) is None


def test_an_answer_repeats_nothing_long_of_its_request() -> None:
    body = json.dumps({"metadata": {"a": "x" * 70_000}, "user": "me", "other": 1}).encode()
    assert repeated(body) == b'{"user":"me"}'
