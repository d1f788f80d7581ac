"""The translators for upstreams of the client's dialect and of others."""

import json
import pickle

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.protocol import Dialect
from gateway.dialects.translate.responses_answer_writer import keep_echo
from gateway.dialects.translators import Translators, UpstreamDialect, translate_large
from gateway.errors import BadRequest
from gateway.exchange.additions import GatewayParts

CHAT, MESSAGES = DIALECTS["openai-chat"], DIALECTS["anthropic-messages"]
RESPONSES = DIALECTS["openai-responses"]
VERSION = (b"anthropic-version", b"2023-06-01")
TRANSLATORS = Translators(
    {
        "chat": UpstreamDialect("openai-chat", PROFILES["glm"]),
        "messages": UpstreamDialect("anthropic-messages", always=(VERSION,)),
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
    assert TRANSLATORS.make_translator(upstream, CHAT, ask(), "turn") is None


def test_what_they_speak() -> None:
    assert TRANSLATORS.find_dialect("messages") == "anthropic-messages"
    assert TRANSLATORS.find_dialect("unheard of") == ""


def test_a_request_goes_there_and_a_whole_answer_comes_back() -> None:
    translator = TRANSLATORS.make_translator("messages", CHAT, ask(seed=1), "turn")
    assert translator is not None
    asked = json.loads(translator.request(ask(seed=1)))
    assert asked["messages"] == [{"role": "user", "content": "hi"}]
    assert asked["max_tokens"] == 8192
    assert translator.lost == ("seed",)
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
    assert translator.feed(json.dumps(answer).encode()) == b""
    said = json.loads(translator.close())
    assert said["choices"][0]["message"]["content"] == "hello"
    assert said["created"] == 7


def test_a_stream_comes_back_frame_by_frame() -> None:
    body = ask(stream=True, max_tokens=5)
    translator = TRANSLATORS.make_translator("chat", MESSAGES, body, "turn")
    assert translator is not None
    assert json.loads(translator.request(body))["stream"] is True
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "hello"}}]}
    said = translator.feed(b"data: %b\n\n" % json.dumps(chunk).encode())
    assert b"event: message_start" in said
    assert b'"hello"' in said


def test_an_error_is_said_in_the_clients_words() -> None:
    translator = TRANSLATORS.make_translator("chat", MESSAGES, ask(max_tokens=5), "turn")
    assert translator is not None
    told = json.loads(
        translator.error(b'{"error":{"message":"too fast","type":"rate_limit_error"}}')
    )
    assert told["type"] == "error"
    assert told["error"]["message"] == "too fast"


def test_what_would_change_its_meaning_is_refused() -> None:
    translator = TRANSLATORS.make_translator("messages", CHAT, ask(n=2), "turn")
    assert translator is not None
    with pytest.raises(BadRequest, match="`n`"):
        translator.request(ask(n=2))


def test_what_is_told_beside_the_body() -> None:
    headers = ((b"accept", b"*/*"), (b"openai-beta", b"x"))
    assert TRANSLATORS.select_headers("chat", "openai-chat", headers) == headers
    assert TRANSLATORS.select_headers("unheard of", "openai-chat", headers) == headers
    assert TRANSLATORS.select_headers("messages", "openai-chat", headers) == (headers[0], VERSION)
    newer = ((b"anthropic-version", b"2030-01-01"), (b"anthropic-beta", b"x"))
    assert TRANSLATORS.select_headers("messages", "anthropic-messages", newer) == newer


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("client", "upstream"), [(RESPONSES, "chat"), (CHAT, "messages")])
def test_a_large_request_is_said_as_a_small_one_is(
    client: Dialect, upstream: str, stream: bool
) -> None:
    text = [{"role": "user", "content": "hi"}]
    members = {"model": "m", "messages": text, "input": text, "stream": stream, "seed": 1}
    body = json.dumps(members | {"metadata": {"a": "b"}}).encode()
    task = TRANSLATORS.plan_translation(upstream, client, "turn", GatewayParts)
    translator = TRANSLATORS.make_translator(upstream, client, body, "turn")
    assert task is not None
    assert translator is not None
    said = translate_large(pickle.loads(pickle.dumps(task)), body)
    back = TRANSLATORS.make_answer_translator(upstream, client, said)
    assert (said.body, said.lost) == (translator.request(body), translator.lost)
    assert back.lost == translator.lost
    answer = GREETINGS[upstream, stream]
    assert back.feed(answer) + back.close() == translator.feed(answer) + translator.close()


@pytest.mark.parametrize("upstream", ["chat", "unheard of"])
def test_a_large_request_is_left_as_it_is_for_one_that_speaks_the_same(upstream: str) -> None:
    assert TRANSLATORS.plan_translation(upstream, CHAT, "turn", GatewayParts) is None


def test_an_answer_repeats_nothing_long_of_its_request() -> None:
    body = json.dumps({"metadata": {"a": "x" * 70_000}, "user": "me", "other": 1}).encode()
    assert keep_echo(body) == b'{"user":"me"}'
