"""Chat answers of one piece: passed as they are, or joined by the same rules."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Splice
from gateway.exchange.model import ModelRequest, Stop, ToolCall, Usage
from tests.dialects.whole_answers import run

CHAT = DIALECTS["openai-chat"]


def body(text: str | None, finish: str = "stop", ident: str = "a", **message: Any) -> bytes:
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish}
    usage = {"prompt_tokens": 2, "completion_tokens": 3}
    return json.dumps({"id": ident, "model": ident, "choices": [choice], "usage": usage}).encode()


def tool_call(name: str, ident: str) -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": "{}"}}


def splice(tools: frozenset[str] = frozenset(), choices: int = 1) -> Splice:
    return CHAT.splice(ModelRequest(model="m", body=b"{}", choices=choices), tools, 10_000)


@given(
    st.none() | st.text(),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "eos", ""]),
    st.integers(1, 2),
)
def test_a_simple_answer_is_read_as_any_other(text: str | None, finish: str, choices: int) -> None:
    simple, other = body(text, finish), body(text, finish, tool_calls=[])
    ends = [run(splice(choices=choices), data).end() for data in (simple, other)]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 7}, {"prompt_tokens": "many"}, []])
def test_whatever_an_upstream_says_of_usage_it_is_an_answer(usage: object) -> None:
    said = json.loads(body("hi")) | {"usage": usage}
    tap = run(splice(), json.dumps(said).encode())
    assert tap.text() == "hi"
    assert (tap.end().usage or Usage()).output == 0


def test_a_refusal_is_no_plain_stop() -> None:
    assert run(splice(), body(None, refusal="No.")).end().stop is Stop.FILTER


def test_two_turns_are_one_body() -> None:
    answer = splice()
    run(answer, body("one", ident="first"))
    run(answer, body("two", "length", ident="second"))
    joined = json.loads(answer.tail(neutral_finish=False))
    assert joined["id"] == joined["model"] == "first"
    assert joined["choices"][0]["message"] == {"role": "assistant", "content": "one\n\ntwo"}
    assert joined["choices"][0]["finish_reason"] == "length"
    assert joined["usage"] == {"prompt_tokens": 4, "completion_tokens": 6}


def test_calls_to_server_tools_are_taken_out() -> None:
    answer = splice(frozenset({"clock"}))
    calls = [tool_call("clock", "c1"), tool_call("weather", "w1")]
    tap = run(answer, body(None, "tool_calls", tool_calls=calls))
    end = tap.end()
    assert end.server_calls == (ToolCall("c1", "clock", "{}"),)
    assert end.client_calls
    shown = json.loads(answer.tail(neutral_finish=False))["choices"][0]
    assert shown["message"] == {"role": "assistant", "content": None, "tool_calls": calls[1:]}
    assert tap.rebuild_turn().message == {"role": "assistant", "content": None, "tool_calls": calls}


def test_odd_tool_calls_crash_nothing() -> None:
    calls = [{"id": 1, "function": {"name": ["f"], "arguments": {}}}, {"function": None}]
    answer = splice(frozenset({"clock"}))
    tap = run(answer, body(None, "tool_calls", tool_calls=calls))
    assert tap.end().client_calls
    assert answer.tail(neutral_finish=False) == body(None, "tool_calls", tool_calls=calls)


def test_only_server_tools_and_no_more_turns() -> None:
    answer = splice(frozenset({"clock"}))
    run(answer, body(None, "tool_calls", tool_calls=[tool_call("clock", "c1")]))
    shown = json.loads(answer.tail(neutral_finish=True))["choices"][0]
    assert shown["finish_reason"] == "stop"
    assert "tool_calls" not in shown["message"]


def test_a_hidden_call_that_cannot_be_run_leaves_a_plain_stop() -> None:
    answer = splice(frozenset({"clock"}))
    run(answer, body("x", "tool_calls", tool_calls=[tool_call("clock", "c1")]))
    assert json.loads(answer.tail(neutral_finish=False))["choices"][0]["finish_reason"] == "stop"


def test_ours_only_and_then_the_last_turns_end() -> None:
    answer = splice(frozenset({"clock"}))
    first = run(answer, body(None, "tool_calls", tool_calls=[tool_call("clock", "c1")]))
    assert not first.end().client_calls
    mixed = [tool_call("weather", "w1"), tool_call("clock", "c1")]
    second = run(answer, body("So.", "tool_calls", tool_calls=mixed))
    assert second.client_call_ids() == ("w1",)
    shown = json.loads(answer.tail(neutral_finish=False))["choices"][0]
    assert shown["finish_reason"] == "tool_calls"
    assert shown["message"] == {"role": "assistant", "content": "So.", "tool_calls": mixed[:1]}


@pytest.mark.parametrize("names", [["weather"], ["clock", "weather"], ["weather", "clock", "news"]])
def test_calls_without_ids_get_them_and_keep_them(names: list[str]) -> None:
    """The client, the model and the results all speak of a call by the same id."""
    answer = splice(frozenset({"clock"}))
    calls = [{"function": {"name": name, "arguments": "{}"}} for name in names]
    tap = run(answer, body(None, "tool_calls", tool_calls=calls))
    message = tap.rebuild_turn().message
    assert isinstance(message, dict)
    ids = [call["id"] for call in message["tool_calls"]]
    assert len(set(ids)) == len(names)
    ours = {call.id for call in tap.end().server_calls}
    shown = json.loads(answer.tail(neutral_finish=False))["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in shown] == list(tap.client_call_ids())
    assert [i for i in ids if i not in ours] == list(tap.client_call_ids())
    assert len(ours) == names.count("clock")


def test_without_server_tools_calls_pass_even_without_ids() -> None:
    answer = splice()
    said = body(None, "tool_calls", tool_calls=[{"function": {"name": "weather"}}])
    tap = run(answer, said)
    assert answer.tail(neutral_finish=False) == said
    assert tap.end().client_calls


def test_arguments_that_are_missing_or_no_text() -> None:
    calls = [
        {"id": 7, "function": {"name": "clock"}},
        {"id": "c2", "function": {"name": "clock", "arguments": {"a": 1}}},
    ]
    tap = run(splice(frozenset({"clock"})), body(None, "tool_calls", tool_calls=calls))
    assert tap.end().server_calls == (
        ToolCall("7", "clock", "{}"),
        ToolCall("c2", "clock", '{"a":1}'),
    )
    message = tap.rebuild_turn().message
    assert isinstance(message, dict)
    assert [call["id"] for call in message["tool_calls"]] == ["7", "c2"]


def test_of_many_choices_none_is_touched() -> None:
    answer = CHAT.splice(
        ModelRequest(model="m", body=b"{}", choices=2), frozenset({"clock"}), 10_000
    )
    said = body(None, "tool_calls", tool_calls=[tool_call("clock", "c1")])
    tap = run(answer, said)
    assert tap.end().server_calls == ()
    assert answer.tail(neutral_finish=False) == said


def test_many_choices_and_old_function_calls() -> None:
    answer = splice(choices=2)
    assert not run(answer, body("x")).end().continuable
    assert (
        run(splice(), body(None, "function_call", function_call={"name": "f"})).end().client_calls
    )


def test_a_body_without_usage() -> None:
    answer = splice()
    tap = run(answer, b'{"choices":[]}')
    assert tap.end().usage is None
    assert not tap.end().continuable
    run(answer, b'{"choices":[]}')
    assert "usage" not in json.loads(answer.tail(neutral_finish=False))


@given(
    st.none() | st.text(),
    st.sampled_from(["stop", "length", "content_filter", "new", "", None]),
    st.sampled_from(
        [
            None,
            {"prompt_tokens": 5, "completion_tokens": 1},
            {"prompt_tokens": 5},
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}},
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}},
            {"prompt_tokens": 5, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 2},
            {"prompt_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 4}},
            {"prompt_tokens": 5, "completion_tokens_details": {"reasoning_tokens": "odd"}},
        ]
    ),
)
def test_a_plain_answer_is_read_as_any_other(text: str | None, reason: Any, usage: Any) -> None:
    choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": reason}
    plain = json.dumps({"id": "a", "choices": [choice], "usage": usage}).encode()
    # No glance is enough for a message with a list of calls, be it empty.
    choice["message"]["tool_calls"] = []
    other = json.dumps({"id": "a", "choices": [choice], "usage": usage}).encode()
    first, second = (run(splice(), data) for data in (plain, other))
    assert first.end() == second.end()
    assert first.rebuild_turn() == second.rebuild_turn()
