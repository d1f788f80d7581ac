"""A long wait between two turns changes nothing of the answer, and keeps little of it."""

import gc
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice
from gateway.exchange.model import ModelRequest
from tests.dialects import messages_wire as messages
from tests.dialects.responses_wire import Teller, call, message, usage

CLOCK = frozenset({"clock"})
DONE = b"data: [DONE]\n\n"


def chat(ident: str, *deltas: dict[str, Any], finish: str = "stop") -> bytes:
    """Write a turn of Chat Completions as a stream."""
    spoken: list[tuple[dict[str, Any], str | None]]
    spoken = [(delta, None) for delta in ({"role": "assistant"}, *deltas)]
    ends = [*spoken, ({}, finish)]
    choices = [[{"index": 0, "delta": delta, "finish_reason": end}] for delta, end in ends]
    used = {"prompt_tokens": 2, "completion_tokens": 3}
    chunks: list[dict[str, Any]]
    chunks = [{"id": ident, "model": ident, "choices": choice} for choice in choices]
    chunks.append({"id": ident, "choices": [], "usage": used})
    return b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + DONE


def chat_body(ident: str, finish: str = "stop", **said: Any) -> bytes:
    """Write one as a body."""
    choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}
    used = {"prompt_tokens": 2, "completion_tokens": 3}
    return json.dumps({"id": ident, "choices": [choice], "usage": used}).encode()


def messages_body(ident: str, reason: str, *content: Any) -> bytes:
    """Write a turn of Messages as a body."""
    used = {"input_tokens": 2, "output_tokens": 3}
    members = {"id": ident, "type": "message", "role": "assistant", "model": ident}
    ended = {"stop_reason": reason, "usage": used}
    return json.dumps({**members, "content": content, **ended}).encode()


def responses(ident: str, *items: Any) -> bytes:
    """Write a turn of Responses as a stream."""
    teller = Teller(ident)
    for item in items:
        teller.fill(teller.begin(item))
    return teller.end(usage=usage(2, 3))


def responses_body(ident: str, *items: Any) -> bytes:
    """Write one as a body."""
    members = {"id": ident, "object": "response", "status": "completed"}
    return json.dumps({**members, "output": items, "usage": usage(2, 3)}).encode()


def function(name: str) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": "{}"}}


# Each calls our tool without an id, says something, and says something more.
TURNS: dict[tuple[str, bool], tuple[bytes, ...]] = {
    ("openai-chat", True): (
        chat("a", {"tool_calls": [{"index": 0, **function("clock")}]}, finish="tool_calls"),
        chat("b", {"content": "I will."}),
        chat("c", {"content": "It is "}, {"content": "time."}),
    ),
    ("openai-chat", False): (
        chat_body("a", "tool_calls", tool_calls=[function("clock")]),
        chat_body("b", content="I will."),
        chat_body("c", content="It is time."),
    ),
    ("anthropic-messages", True): (
        messages.start("msg_a") + messages.call(0, "clock", None) + messages.finish("tool_use"),
        messages.turn("I will.", "msg_b"),
        messages.turn("It is time.", "msg_c"),
    ),
    ("anthropic-messages", False): (
        messages_body("a", "tool_use", {"type": "tool_use", "name": "clock", "input": {}}),
        messages_body("b", "end_turn", {"type": "text", "text": "I will."}),
        messages_body("c", "end_turn", {"type": "text", "text": "It is time."}),
    ),
    ("openai-responses", True): (
        responses("resp_a", call("1", "clock", call_id="")),
        responses("resp_b", message("msg_1", "I will.")),
        responses("resp_c", message("msg_1", "It is time.")),
    ),
    ("openai-responses", False): (
        responses_body("resp_a", call("1", "clock", call_id="")),
        responses_body("resp_b", message("msg_1", "I will.")),
        responses_body("resp_c", message("msg_1", "It is time.")),
    ),
}
EACH = pytest.mark.parametrize("dialect, stream", TURNS, ids=lambda part: str(part))


def begun(dialect: str, stream: bool, body: bytes) -> Splice:
    asked = ModelRequest(model="m", body=body, stream=stream, wants_usage=True)
    return DIALECTS[dialect].splice(asked, CLOCK, 10**6)


def passed(answer: Splice, turn: bytes) -> bytes:
    """Let a turn pass, and return what the client sees of it."""
    tap = answer.tap()
    shown = tap.feed(turn)
    if not tap.ended:
        shown += tap.close()
    answer.take(tap)
    tap.rebuild_turn()
    return shown


def wait(answer: Splice) -> None:
    answer.rest()
    answer.rest()


def joined(answer: Splice, turns: tuple[bytes, ...], between: Callable[[Splice], object]) -> bytes:
    shown = b""
    for turn in turns:
        shown += passed(answer, turn)
        between(answer)
        shown += answer.heartbeat()
    return shown + answer.tail(neutral_finish=False)


@EACH
def test_the_answer_is_the_same(dialect: str, stream: bool) -> None:
    turns = TURNS[dialect, stream]
    for count in range(1, len(turns) + 1):
        at_once, late = (begun(dialect, stream, b"{}") for _ in "ab")
        told = joined(at_once, turns[:count], lambda answer: None)
        assert joined(late, turns[:count], wait) == told
    assert b"It is " in told
    assert b"clock" not in told


@EACH
def test_an_answer_that_ends_after_the_wait_ends_as_it_would_have(
    dialect: str, stream: bool
) -> None:
    at_once, late = (begun(dialect, stream, b"{}") for _ in "ab")
    for answer in (at_once, late):
        for turn in TURNS[dialect, stream][:2]:
            passed(answer, turn)
    late.rest()
    for neutral_finish in (True, False):
        assert late.tail(neutral_finish) == at_once.tail(neutral_finish)


@EACH
def test_what_was_asked_is_let_go_of(dialect: str, stream: bool) -> None:
    body = b'{"messages":[]}'
    before = sys.getrefcount(body)
    answer = begun(dialect, stream, body)
    passed(answer, TURNS[dialect, stream][1])
    answer.rest()
    assert sys.getrefcount(body) == before


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_was_streamed_is_let_go_of(dialect: str) -> None:
    answer = begun(dialect, True, b"{}")
    for turn in TURNS[dialect, True]:
        passed(answer, turn)
    answer.rest()
    gc.collect()
    kept = {type(thing).__name__ for thing in _reachable(answer)}
    assert not {name for name in kept if name.endswith("Tap")} | kept & {"Framer", "Tape"}


def _reachable(thing: object) -> list[object]:
    """Return all that a thing holds of ours, however far away."""
    found: dict[int, object] = {}
    left = [thing]
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type):
            found[id(one)] = one
            left += gc.get_referents(one)
    return list(found.values())
