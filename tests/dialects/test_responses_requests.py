"""Responses requests: read, named, added to, refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.openai_responses import DIALECT
from gateway.dialects.openai_responses.items import AnsweredItems
from gateway.errors import BadRequest, ModelNotFound, UpstreamAnswered, UpstreamBroke
from gateway.exchange.additions import AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest
from tests.dialects.responses_wire import Json, call, custom, message, reasoning, search

CLOCK = ToolDeclaration("clock", "Tells the time.", '{"type":"object"}')


def body(**fields: object) -> bytes:
    return json.dumps({"model": "m", "input": [], **fields}, separators=(",", ":")).encode()


def read(data: bytes, prefers_stream: bool = False) -> ModelRequest:
    return DIALECT.read(data, 128, prefers_stream)


def answered(*items: Json, remembered: bool = False) -> AnsweredTurn:
    return AnsweredTurn(AnsweredItems(list(items), remembered))


def added(data: bytes, *additions: Any) -> Json:
    found = json.loads(DIALECT.add(data, additions))
    assert isinstance(found, dict)
    return found


def user(text: str) -> Json:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def test_its_name_and_its_path() -> None:
    assert (DIALECT.name, DIALECT.path) == ("openai-responses", "/responses")


def test_what_is_read() -> None:
    tools = [{"type": "function", "name": "weather"}, {"type": "web_search"}]
    asked = read(body(stream=True, tools=tools, metadata={"session_id": "s"}, input="<**x**>"))
    assert (asked.model, asked.stream, asked.choices) == ("m", True, 1)
    assert json.loads(asked.tools) == tools
    assert asked.takes_tools
    assert asked.directives
    assert asked.last_role == "user"
    assert asked.identity == {"metadata": b'{"session_id":"s"}'}


def test_what_is_absent_or_null() -> None:
    for data in (b'{"model":"m"}', body(stream=None, input=None, tools=None, tool_choice=None)):
        assert read(data) == ModelRequest(model="m", body=data, last_role="", wants_usage=True)


def test_who_it_may_be() -> None:
    asked = read(body(client_metadata={"session_id": "s"}, conversation={"id": "c"}))
    assert asked.identity == {
        "client_metadata": b'{"session_id":"s"}',
        "conversation": b'{"id":"c"}',
    }


def test_a_client_that_accepts_a_stream_gets_one_where_the_body_is_silent() -> None:
    assert read(body(), prefers_stream=True).stream
    assert read(body(), prefers_stream=True).stream_implied
    assert not read(body(stream=False), prefers_stream=True).stream


@pytest.mark.parametrize(
    "fields, takes",
    [
        ({}, True),
        ({"tool_choice": "auto"}, True),
        ({"tool_choice": "none", "background": False}, True),
        ({"tool_choice": "required"}, False),
        ({"tool_choice": {"type": "function", "name": "f"}}, False),
        ({"tool_choice": {"type": "web_search_preview"}}, False),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, False),
        ({"background": True}, False),
    ],
)
def test_whether_a_tool_of_ours_may_be_added(fields: dict[str, object], takes: bool) -> None:
    assert read(body(**fields)).takes_tools is takes


@pytest.mark.parametrize(
    "tools, declares",
    [
        ([{"type": "function", "name": "clock"}], True),
        ([{"type": "custom", "name": "clock"}], True),
        ([{"type": "namespace", "name": "clock", "tools": []}], True),
        ([{"type": "namespace", "name": "x", "tools": [{"name": "clock"}]}], False),
        ([{"type": "function", "name": "clocks"}], False),
        ([{"type": "function", "name": "x", "description": "clock"}, "clock"], False),
        (None, False),
    ],
)
def test_whether_the_client_has_a_tool_of_that_name(tools: object, declares: bool) -> None:
    assert DIALECT.declares(read(body(tools=tools)).tools, "clock") is declares
    assert not DIALECT.declares(b'{"clock":1}', "clock")


@pytest.mark.parametrize(
    "data, says",
    [
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"input":[]}', "`model` is missing"),
        (b'{"model":7}', "`model` is not as expected"),
        (b'{"model":"m","input":{}}', "`input` must be a text or an array"),
        (b'{"model":"m","input":7}', "`input` must be a text or an array"),
        (b'{"model":"m","stream":"yes"}', "`stream` is not as expected"),
        (b'{"model":"m","tools":7}', "`tools` must be an array"),
        (b'{"model":"m","x":%b%b}' % (b"[" * 200, b"]" * 200), "nested more than 128 levels"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(data)
    assert says in caught.value.message


def test_of_a_member_given_twice_the_last_counts_for_everybody() -> None:
    asked = read(b'{"model":"a","input":"x", "store":true,"store":false,"model":"b"}')
    assert asked.model == "b"
    assert asked.body == b'{"model":"b","input":"x","store":false}'


def test_only_the_model_changes() -> None:
    data = b'{"model":"public","input":[{"role":"user","content":"\\u00e9 1e999"}],"n":12345678901234567890123,"stream":true}'
    assert DIALECT.rewrite(data, "real", True) == data.replace(b"public", b"real")
    assert DIALECT.rewrite(data, "public", True) is data
    assert json.loads(DIALECT.rewrite(body(), "m", True))["stream"] is True


def test_additions_stand_at_the_end_in_order() -> None:
    data = b'{"model":"m","input":[{"role":"user","content":"hi"} ],"x":1.0,"previous_response_id":"p"}'
    said = [reasoning("rs"), message("msg", "hello"), call("1", "clock")]
    told = added(data, answered(*said), ToolResult("call_1", "noon"), UserText("go on"), CLOCK)
    assert told["input"] == [
        {"role": "user", "content": "hi"},
        *said,
        {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
        user("go on"),
    ]
    assert told["tools"] == [
        {
            "type": "function",
            "name": "clock",
            "description": "Tells the time.",
            "parameters": {"type": "object"},
            "strict": True,
        }
    ]
    assert told["previous_response_id"] == "p"
    assert b'"x":1.0' in DIALECT.add(data, (UserText("x"),))


def test_a_text_becomes_a_list_and_keeps_its_spelling() -> None:
    data = b'{"model":"m","input":"\\u00e9 \\/"}'
    assert b'"text":"\\u00e9 \\/"' in DIALECT.add(data, (UserText("x"),))
    assert added(data, UserText("x"))["input"] == [user("é /"), user("x")]
    assert added(data, CLOCK)["input"] == "é /"


@pytest.mark.parametrize("data", [b'{"model":"m"}', b'{"model":"m","input":null,"tools":null}'])
def test_where_there_is_nothing_yet(data: bytes) -> None:
    told = added(data, UserText("x"), CLOCK)
    assert told["input"] == [user("x")]
    assert [tool["name"] for tool in told["tools"]] == ["clock"]


def test_a_tool_is_declared_after_the_clients_own() -> None:
    told = added(body(tools=[{"type": "web_search"}]), CLOCK)
    assert [tool.get("name") for tool in told["tools"]] == [None, "clock"]


@pytest.mark.parametrize(
    "choice, after",
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", None),
        ({"type": "function", "name": "f"}, None),
        ({"type": "web_search"}, None),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"n": 1}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"n": 1}]},
        ),
    ],
)
def test_a_forced_tool_is_not_forced_again_in_a_follow_up(choice: object, after: object) -> None:
    data = body(tool_choice=choice)
    follow_up = added(data, answered(message("m", "done")), UserText("go on"))
    assert follow_up.get("tool_choice") == after
    assert added(data, UserText("hi"))["tool_choice"] == choice


def test_what_a_stateless_upstream_gets_back() -> None:
    """Nothing was stored: ids lead nowhere, and reasoning without content says nothing."""
    said = [
        reasoning("rs_1"),
        reasoning("rs_2", encrypted_content=None),
        reasoning("rs_3", encrypted_content="", content=[{"type": "reasoning_text", "text": "x"}]),
        message("msg", "hello", phase="commentary"),
        call("1", "clock"),
        custom("2", "patch"),
        search("ws"),
    ]
    stored = added(body(store=True), answered(*said))["input"]
    assert stored == added(body(), answered(*said))["input"] == said
    stateless = added(body(store=False), answered(*said))["input"]
    without = [{k: v for k, v in item.items() if k != "id"} for item in said]
    assert stateless == [without[0], *without[2:6], said[6]]


def test_what_the_upstream_remembers_by_itself_is_not_told_again() -> None:
    data = body(input="hi", conversation="conv_1")
    turn = answered(message("m", "x"), call("1", "clock"), remembered=True)
    told = added(data, turn, ToolResult("call_1", "noon"))
    assert [item["type"] for item in told["input"]] == ["function_call_output"]
    again = added(json.dumps(told).encode(), turn, UserText("go on"))
    assert again["input"] == [user("go on")]
    stateless = added(body(input="hi", conversation="conv_1", store=False), turn)
    assert [item["type"] for item in stateless["input"]] == ["message", "message", "function_call"]


def test_the_answer_that_a_request_goes_on_from() -> None:
    assert DIALECT.previous_id(body()) == ""
    assert DIALECT.previous_id(body(previous_response_id=None)) == ""
    data = body(previous_response_id="resp_1", x=1)
    assert DIALECT.previous_id(data) == "resp_1"
    assert DIALECT.continue_from(data, "resp_2") == data.replace(b"resp_1", b"resp_2")


def test_errors_in_the_dialects_shape() -> None:
    shown = json.loads(DIALECT.error_body(ModelNotFound("No model is called 'x'.", param="model")))
    assert shown["error"] == {
        "message": "No model is called 'x'.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_the_upstreams_own_error_passes_if_it_is_one() -> None:
    own = b'{"error":{"message":"Too long","code":"context_length_exceeded"}}'
    assert DIALECT.error_body(UpstreamAnswered(400, (), own)) == own
    for foreign in (b"<html>", b'{"detail":"no"}', b"\xff", b"[" * 5000):
        shown = json.loads(DIALECT.error_body(UpstreamAnswered(500, (), foreign)))
        assert shown["error"]["message"] == "The upstream answered 500."


def test_an_error_in_a_stream_that_has_not_begun() -> None:
    """Clients accept nothing but a beginning first."""
    begun, failed = DIALECT.error_frame(ModelNotFound("No.")).split(b"\n\n")[:2]
    assert begun.startswith(b"event: response.created\n")
    assert failed.startswith(b"event: response.failed\n")
    assert json.loads(failed.partition(b"data: ")[2])["response"]["error"]["message"] == "No."


@pytest.mark.parametrize(
    "data", [b"<html>", b"{}", b'{"error":null}', b"[]", b'{"object":"response"}']
)
def test_an_answer_that_makes_no_sense(data: bytes) -> None:
    assert isinstance(DIALECT.read_disguised_error(data), UpstreamBroke)


def test_an_error_under_a_2xx_status() -> None:
    refusal = DIALECT.read_disguised_error(b'{"error":"plain"}')
    assert isinstance(refusal, UpstreamAnswered)
    assert (refusal.status, refusal.body) == (502, b'{"error":{"message":"plain"}}')


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["a", "user", "include", "text", "reasoning"]), VALUES),
    st.text() | st.lists(VALUES, max_size=4) | st.none(),
    st.text(),
)
def test_whatever_else_is_asked_stays(more: Json, asked: Any, text: str) -> None:
    data = json.dumps({"model": "m", "input": asked, **more}).encode()
    told = added(data, UserText(text), CLOCK)
    assert {name: told[name] for name in more} == more
    *before, last = told["input"]
    assert last == user(text)
    assert before == ([user(asked)] if isinstance(asked, str) else asked or [])
    read(DIALECT.rewrite(data, "other", False))
