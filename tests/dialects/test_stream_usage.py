"""Tokens of streams: asked for in the client's place, counted, and kept from the client."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.protocol import Splice, Tap
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.exchange.model import ModelRequest, Usage

CHAT = DIALECTS["openai-chat"]
DONE = b"data: [DONE]\n\n"
TOKENS: dict[str, Any] = {
    "prompt_tokens": 9,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}


def frame(**members: Any) -> bytes:
    return b"data: " + json.dumps({"id": "a", **members}).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return frame(choices=[{"index": 0, "delta": delta, "finish_reason": finish}], **more)


TEXT = chunk({"role": "assistant", "content": "Hi"})
FINISH = chunk({}, "stop")
USAGE = frame(choices=[], usage=TOKENS)


def splice(*, hides: bool, choices: int = 1) -> Splice:
    asked = ModelRequest(model="m", body=b"{}", stream=True, choices=choices)
    answer = CHAT.splice(asked, frozenset(), 10**6)
    answer.hides_usage = hides
    return answer


def run(answer: Splice, *pieces: bytes) -> tuple[bytes, Tap]:
    tap = answer.tap()
    shown = b"".join(map(tap.feed, pieces))
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    return shown + answer.tail(neutral_finish=False), tap


others = st.dictionaries(
    st.text().filter(lambda name: name != "stream_options"), st.integers() | st.text(), min_size=1
)
options = st.none() | st.dictionaries(st.text(), st.booleans())


@given(others, options, st.booleans())
def test_usage_is_asked_for_and_all_else_stays(
    members: dict[str, Any], given_options: Any, has_options: bool
) -> None:
    request = {**members, "stream_options": given_options} if has_options else members
    asked = json.loads(CHAT.ask_usage(json.dumps(request).encode()))
    assert asked.pop("stream_options") == {
        **((given_options or {}) if has_options else {}),
        "include_usage": True,
    }
    assert asked == members


@given(others)
def test_the_fast_twin_writes_what_the_general_form_writes(members: dict[str, Any]) -> None:
    fast = CHAT.ask_usage(json.dumps(members).encode())
    general = CHAT.ask_usage(json.dumps({**members, "stream_options": None}).encode())
    assert json.loads(fast) == json.loads(general)


def test_a_name_with_an_escape_does_not_undo_it() -> None:
    body = rb'{"model":"m","stream\u005foptions":{"include_usage":false}}'
    assert json.loads(CHAT.ask_usage(body))["stream_options"]["include_usage"]


@pytest.mark.parametrize("name", ["openai-responses", "anthropic-messages"])
def test_other_dialects_tell_it_unasked(name: str) -> None:
    assert DIALECTS[name].ask_usage(b'{"model":"m"}') == b'{"model":"m"}'


@pytest.mark.parametrize("at_once", [True, False])
def test_the_chunk_is_counted_and_kept_from_the_client(at_once: bool) -> None:
    pieces = (TEXT, FINISH, USAGE, DONE)
    shown, tap = run(splice(hides=True), *([b"".join(pieces)] if at_once else pieces))
    assert shown == TEXT + FINISH + DONE
    assert tap.end().usage == Usage(9, 5, 4, 3)


def test_what_the_gateway_did_not_ask_for_passes() -> None:
    shown, tap = run(splice(hides=False), TEXT, FINISH, USAGE, DONE)
    assert shown == TEXT + FINISH + USAGE + DONE
    assert tap.end().usage == Usage(9, 5, 4, 3)


def test_usage_that_rides_on_the_finish_passes_with_it() -> None:
    finish = chunk({}, "stop", usage=TOKENS)
    shown, tap = run(splice(hides=True), TEXT, finish, DONE)
    assert shown == TEXT + finish + DONE
    assert tap.end().usage == Usage(9, 5, 4, 3)


def test_of_several_choices_too() -> None:
    other = frame(choices=[{"index": 1, "delta": {"content": "Ho"}, "finish_reason": "stop"}])
    shown, tap = run(splice(hides=True, choices=2), TEXT, other, FINISH, USAGE, DONE)
    assert shown == TEXT + other + FINISH + DONE
    assert tap.end().usage == Usage(9, 5, 4, 3)


def test_the_names_that_deepseek_has() -> None:
    tokens = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_cache_hit_tokens": 6}
    _, tap = run(splice(hides=True), TEXT, FINISH, frame(choices=[], usage=tokens), DONE)
    assert tap.end().usage == Usage(9, 5, 6)


def test_who_is_asked() -> None:
    dialects = {
        "plain": UpstreamDialect("openai-chat"),
        "glm": UpstreamDialect("openai-chat", PROFILES["glm"]),
    }
    translators = Translators(dialects, 10, 10, lambda: 0)
    assert not translators.without_usage("plain").asks_usage("plain")
    assert translators.asks_usage("plain")
    assert not translators.asks_usage("glm")
    assert not translators.asks_usage("unknown")
    assert translators.stop_asking_usage("plain")
    assert not translators.asks_usage("plain")
    assert not translators.stop_asking_usage("plain")
    assert dialects["plain"].profile == PROFILES[""]


def test_usages_add_up() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
