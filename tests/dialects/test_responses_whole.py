"""Responses answers of one piece: passed as they are, or joined by the same rules."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_responses import DIALECT
from gateway.dialects.openai_responses.items import AnsweredItems
from gateway.dialects.openai_responses.whole import ResponsesWhole
from gateway.exchange.model import ModelRequest, Stop, ToolCall, Usage
from tests.dialects.responses_wire import (
    CLOCK,
    Json,
    call,
    custom,
    message,
    reasoning,
    refusal,
    search,
    usage,
)
from tests.dialects.whole_answers import run


def body(*items: Json, ident: str = "a", status: str = "completed", **more: Any) -> bytes:
    response: Json = {"id": ident, "object": "response", "model": ident, "status": status}
    response |= {"error": None, "output": list(items), "usage": usage(2, 3, 1), **more}
    return json.dumps(response).encode()


def splice(tools: frozenset[str] = frozenset()) -> ResponsesWhole:
    made = DIALECT.splice(ModelRequest(model="m", body=b"{}"), tools, 10_000)
    assert isinstance(made, ResponsesWhole)
    return made


def tail(answer: ResponsesWhole) -> Json:
    found = json.loads(answer.tail(neutral_finish=False))
    assert isinstance(found, dict)
    return found


def test_one_turn_passes_byte_for_byte() -> None:
    for tools in (frozenset[str](), CLOCK):
        answer = splice(tools)
        assert (answer.answer_id, answer.upstream_id) == ("", "")
        data = body(reasoning("rs"), message("m", "hi"), call("1", "f"), big=10**30)
        tap = run(answer, data)
        assert answer.tail(neutral_finish=False) == data
        assert tap.text() == "hi"
        assert tap.end().usage == Usage(2, 3, cached=1, reasoning=1)
        assert tap.end().client_calls
        assert tap.failure is None
    assert answer.content_type == b"application/json"
    assert answer.heartbeat() == b""


@pytest.mark.parametrize(
    "data, stop",
    [
        (body(message("m", "x")), Stop.STOP),
        (body(refusal("m", "No.")), Stop.FILTER),
        (body(call("1", "f")), Stop.TOOL_CALLS),
        (body(custom("1", "f")), Stop.TOOL_CALLS),
        (
            body(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            Stop.LENGTH,
        ),
        (body(status="incomplete", incomplete_details=7), Stop.UNKNOWN),
        (body(status="queued"), Stop.UNKNOWN),
        (body(status="failed", error={"code": "server_error", "message": "x"}), Stop.UNKNOWN),
        (b'{"output":7,"usage":7}', Stop.UNKNOWN),
    ],
)
def test_why_a_turn_ended(data: bytes, stop: Stop) -> None:
    answer = splice()
    end = run(answer, data).end()
    assert end.stop is stop
    assert end.continuable is (stop is not Stop.UNKNOWN)
    assert answer.tail(neutral_finish=False) == data


@given(
    st.lists(st.none() | st.text()),
    st.sampled_from(
        [
            None,
            usage(5, 1, 0),
            {"output_tokens": 1},
            {"input_tokens": 5, "output_tokens": 1},
            {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}},
            {"input_tokens": 5, "output_tokens": 1, "output_tokens_details": None},
            {},
        ]
    ),
)
def test_a_plain_answer_is_read_as_any_other(texts: list[str | None], told: Any) -> None:
    items = [reasoning("r") if text is None else message("m", text) for text in texts]
    plain = body(*items, usage=told)
    other = plain.replace(b'"object": "response", ', b"", 1)
    first, second = (run(splice(CLOCK), data) for data in (plain, other))
    assert first.end() == second.end()
    assert first.rebuild_turn() == second.rebuild_turn()
    assert first.text() == second.text()


def test_two_turns_are_one_body() -> None:
    answer = splice()
    run(answer, body(message("m", "one"), ident="first", output_text="one"))
    second = body(
        message("m", "two"), {"type": "odd"}, ident="second", status="incomplete", output_text="two"
    )
    run(answer, second)
    joined = tail(answer)
    assert joined["id"] == joined["model"] == "first"
    assert joined["status"] == "incomplete"
    assert joined["output"] == [message("m", "one"), message("m_2", "\n\ntwo"), {"type": "odd"}]
    assert joined["usage"] == {**usage(2, 6, 2), "total_tokens": 5}
    assert "output_text" not in joined
    assert (answer.answer_id, answer.upstream_id) == ("first", "second")


def test_usage_that_only_some_turns_tell() -> None:
    answer = splice()
    run(answer, body(message("m", "one"), usage=usage(2, 3)))
    run(answer, body(message("n", "two"), usage=None))
    assert tail(answer)["usage"] == usage(2, 3)
    odd = splice()
    assert run(odd, body(usage={"input_tokens": "x"})).end().usage == Usage(0, 0)
    run(odd, body(usage={"input_tokens": 7}))
    assert tail(odd)["usage"] == {"input_tokens": 7}
    none = splice()
    run(none, body(usage=None))
    assert run(none, body(usage=None)).end().usage is None
    assert tail(none)["usage"] is None


def test_calls_to_server_tools_are_taken_out() -> None:
    answer = splice(CLOCK)
    items = [reasoning("rs"), call("1", "clock"), call("2", "weather")]
    tap = run(answer, body(*items))
    assert tap.end().server_calls == (ToolCall("call_1", "clock", "{}"),)
    assert tap.client_call_ids() == ("call_2",)
    assert tail(answer)["output"] == [items[0], items[2]]
    assert tap.rebuild_turn().message == AnsweredItems(items)


def test_ours_only_and_then_the_last_turns_end() -> None:
    answer = splice(CLOCK)
    first = run(answer, body(call("1", "clock"), conversation={"id": "c"}))
    assert not first.end().client_calls
    assert first.rebuild_turn().message == AnsweredItems([call("1", "clock")], remembered=True)
    run(answer, body(search("ws"), message("m", "noon"), ident="b"))
    assert [item["id"] for item in tail(answer)["output"]] == ["ws", "m"]


def test_calls_without_ids_get_them_and_keep_them() -> None:
    answer = splice(CLOCK)
    bare = [{k: v for k, v in call(n, n).items() if k != "call_id"} for n in ("weather", "clock")]
    tap = run(answer, body(*bare))
    (shown,) = tail(answer)["output"]
    assert (shown["call_id"],) == tap.client_call_ids()
    assert tap.end().server_calls[0].id != shown["call_id"]
    plain = splice(CLOCK)
    run(plain, body(bare[0]))
    assert tail(plain)["output"][0]["call_id"].startswith("call_")
