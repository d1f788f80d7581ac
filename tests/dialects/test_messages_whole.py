"""Messages answers of one piece: passed as they are, or joined by the same rules."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages import DIALECT
from gateway.dialects.protocol import Splice
from gateway.exchange.model import ModelRequest, Stop, ToolCall, Usage
from tests.dialects.whole_answers import run

CLOCK = frozenset({"clock"})
Json = dict[str, Any]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def call(name: str, ident: Any = None, **given: Any) -> Json:
    identified = {"id": ident} if ident is not None else {}
    return {"type": "tool_use", **identified, "name": name, "input": given}


def body(*content: Any, reason: str | None = "end_turn", ident: str = "a", **more: Any) -> bytes:
    usage = {"input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 3}
    envelope = {"id": ident, "type": "message", "role": "assistant", "model": f"m-{ident}"}
    ended = {"stop_reason": reason, "stop_sequence": None, "usage": usage, **more}
    return json.dumps({**envelope, "content": list(content), **ended}).encode()


def splice(tools: frozenset[str] = CLOCK) -> Splice:
    return DIALECT.splice(ModelRequest(model="m", body=b"{}"), tools, 10_000)


def shown(answer: Splice, neutral_finish: bool = False) -> Json:
    told = json.loads(answer.tail(neutral_finish))
    assert isinstance(told, dict)
    return told


def test_one_turn_passes_byte_for_byte() -> None:
    for tools in (CLOCK, frozenset[str]()):
        answer = splice(tools)
        said = body(text("hi"), call("weather", "w"), odd=1e2)
        tap = run(answer, said)
        assert answer.tail(neutral_finish=False) == said
        assert tap.text() == "hi"
        assert tap.end().usage == Usage(6, 3, cached=4)
        assert tap.end().spoke
        assert tap.end().client_calls
        assert tap.client_call_ids() == ("w",)
    assert answer.content_type == b"application/json"
    assert answer.heartbeat() == b""


@given(
    st.lists(st.text()),
    st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn", "new", ""]),
    st.sampled_from(
        [
            None,
            {"input_tokens": 5, "output_tokens": 1},
            {"output_tokens": 1},
            {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 3},
            {"input_tokens": 5, "output_tokens": 1, "cache_creation_input_tokens": 3},
            {},
        ]
    ),
)
def test_a_plain_answer_is_read_as_any_other(texts: list[str], reason: str, usage: Any) -> None:
    plain = body(*map(text, texts), reason=reason, usage=usage)
    other = plain.replace(b'"type": "message", ', b"", 1)
    first, second = (run(splice(), data) for data in (plain, other))
    assert first.end() == second.end()
    assert first.rebuild_turn() == second.rebuild_turn()


def test_two_turns_are_one_body() -> None:
    answer = splice()
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    run(answer, body(thought, text("one"), ident="first", container=None))
    more: Json = {"container": {"id": "c"}, "stop_details": None}
    run(answer, body(text("two"), reason="max_tokens", ident="second", **more))
    joined = shown(answer)
    assert (joined["id"], joined["model"]) == ("first", "m-first")
    assert joined["content"] == [thought, text("one"), text("\n\ntwo")]
    assert joined["stop_reason"] == "max_tokens"
    assert joined["container"] == {"id": "c"}
    entry = {"type": "message", "input_tokens": 2, "cache_creation_input_tokens": 0}
    entry |= {"cache_read_input_tokens": 4, "output_tokens": 3}
    assert joined["usage"] == {
        "input_tokens": 4,
        "cache_read_input_tokens": 8,
        "output_tokens": 6,
        "iterations": [{**entry, "model": "m-first"}, {**entry, "model": "m-second"}],
    }


def test_calls_to_server_tools_are_taken_out() -> None:
    answer = splice()
    blocks = [text("So."), call("clock", "c1", action="get"), call("weather", "w1")]
    tap = run(answer, body(*blocks, reason="tool_use"))
    end = tap.end()
    assert end.stop is Stop.TOOL_CALLS
    assert end.server_calls == (ToolCall("c1", "clock", '{"action": "get"}'),)
    assert end.client_calls
    assert shown(answer)["content"] == [blocks[0], blocks[2]]
    assert shown(answer)["stop_reason"] == "tool_use"
    assert "iterations" not in shown(answer)["usage"]
    assert json.loads(msgspec.json.encode(tap.rebuild_turn().message)) == {
        "role": "assistant",
        "content": blocks,
    }


def test_only_server_tools_end_plainly_unless_a_turn_follows() -> None:
    answer = splice()
    tap = run(answer, body(call("clock", "c1"), reason="tool_use"))
    assert not tap.end().client_calls
    assert shown(answer, neutral_finish=True)["stop_reason"] == "end_turn"
    assert shown(answer)["stop_reason"] == "end_turn"
    assert shown(answer)["content"] == []
    run(answer, body(text("Noon."), reason="refusal"))
    assert shown(answer)["stop_reason"] == "refusal"
    assert shown(answer)["content"] == [text("Noon.")]


@pytest.mark.parametrize("names", [["weather"], ["clock", "weather"], ["weather", "clock", "news"]])
def test_calls_without_ids_get_them_and_keep_them(names: list[str]) -> None:
    answer = splice()
    tap = run(answer, body(*map(call, names), reason="tool_use"))
    message = json.loads(msgspec.json.encode(tap.rebuild_turn().message))
    ids = [block["id"] for block in message["content"]]
    assert len(set(ids)) == len(names)
    ours = {made.id for made in tap.end().server_calls}
    assert [block["id"] for block in shown(answer)["content"]] == list(tap.client_call_ids())
    assert [ident for ident in ids if ident not in ours] == list(tap.client_call_ids())
    assert len(ours) == names.count("clock")


def test_without_server_tools_calls_pass_even_without_ids() -> None:
    answer = splice(frozenset())
    said = body(call("clock"), reason="tool_use")
    run(answer, said)
    assert answer.tail(neutral_finish=False) == said


def test_input_that_is_missing_or_no_object() -> None:
    blocks = [
        {"type": "tool_use", "id": 7, "name": "clock"},
        {"type": "tool_use", "id": "c2", "name": "clock", "input": '{"broken'},
        {"type": "tool_use", "id": "c3", "name": "clock", "input": [1]},
        {"type": "tool_use", "id": "c4", "name": "clock", "input": None},
        "odd",
        7,
    ]
    tap = run(splice(), body(*blocks, reason="tool_use"))
    assert [(made.id, made.arguments) for made in tap.end().server_calls] == [
        ("7", "{}"),
        ("c2", '{"broken'),
        ("c3", "[1]"),
        ("c4", "{}"),
    ]
    message = json.loads(msgspec.json.encode(tap.rebuild_turn().message))
    assert [block["input"] for block in message["content"]] == [{}, {}, {}, {}]


def test_numbers_stay_as_they_were_written() -> None:
    said = body(call("clock", "c", n="BIG"), call("weather", "w", n="BIG"), reason="tool_use")
    big = b"12345678901234567890123.10"
    answer = splice()
    tap = run(answer, said.replace(b'"BIG"', big))
    assert big in answer.tail(neutral_finish=False)
    assert msgspec.json.encode(tap.rebuild_turn().message).count(big) == 2
    assert big.decode() in tap.end().server_calls[0].arguments


@pytest.mark.parametrize("data", [b"{}", b'{"content":"x"}', b'{"content":[]}'])
def test_a_body_that_says_nothing(data: bytes) -> None:
    answer = splice()
    tap = run(answer, data)
    assert answer.tail(neutral_finish=False) == data
    assert tap.end().usage is None
    assert not tap.end().spoke
    assert not tap.end().continuable
    assert tap.rebuild_turn().message == {"role": "assistant", "content": []}
