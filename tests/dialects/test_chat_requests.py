"""Chat Completions requests: read, named, added to, refused."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects import DIALECTS
from gateway.dialects.raw_json import is_too_deep
from gateway.errors import BadRequest, ModelNotFound, UpstreamAnswered, UpstreamBroke
from gateway.exchange.additions import AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest

CHAT = DIALECTS["openai-chat"]


def body(**fields: object) -> bytes:
    return json.dumps({"model": "m", "messages": [], **fields}, separators=(",", ":")).encode()


def nested(levels: int) -> bytes:
    return b'{"model":"m","messages":[],"x":%b%b}' % (b"[" * levels, b"]" * levels)


def read(data: bytes, prefers_stream: bool = False) -> ModelRequest:
    return CHAT.read(data, 128, prefers_stream)


def test_what_is_read() -> None:
    asked = read(
        body(
            stream=True,
            n=2,
            tools=[{"type": "function", "function": {"name": "weather"}}],
            tool_choice="required",
            stream_options={"include_usage": True},
        )
    )
    assert (asked.model, asked.stream, asked.choices) == ("m", True, 2)
    assert asked.tools == b'[{"type":"function","function":{"name":"weather"}}]'
    assert not asked.takes_tools
    assert asked.wants_usage


def test_what_is_absent_or_null() -> None:
    asked = read(body(stream=None, n=None, tools=None, tool_choice=None, stream_options=None))
    assert asked == ModelRequest(model="m", body=asked.body, last_role="")


@pytest.mark.parametrize(
    "messages, role",
    [
        ([{"role": "system"}, {"role": "user"}], "user"),
        ([{"role": "user"}, {"role": "assistant", "content": "{"}], "assistant"),
        ([{"role": "tool"}], "tool"),
        ([{"role": "function", "name": "f"}], "tool"),
        ([{"content": "x"}], ""),
        ([{"role": 7}], ""),
        ([7], ""),
    ],
)
def test_who_spoke_last(messages: list[object], role: str) -> None:
    assert read(body(messages=messages)).last_role == role


@pytest.mark.parametrize(
    "fields, takes",
    [
        ({}, True),
        ({"n": 1, "tool_choice": "auto"}, True),
        ({"tool_choice": "none", "functions": None}, True),
        ({"n": 2}, False),
        ({"tool_choice": "required"}, False),
        ({"tool_choice": {"type": "function"}}, False),
        ({"functions": [{"name": "f"}]}, False),
    ],
)
def test_whether_a_tool_of_ours_may_be_added(fields: dict[str, object], takes: bool) -> None:
    assert read(body(**fields)).takes_tools is takes


def test_a_name_may_be_written_with_escapes() -> None:
    tools = rb'[{"type":"function","function":{"name":"cl\u006fck"}}]'
    assert CHAT.declares(tools, "clock")


@pytest.mark.parametrize(
    "tools, declares",
    [
        ([{"type": "function", "function": {"name": "clock"}}], True),
        ([{"type": "custom", "custom": {"name": "clock"}}], True),
        ([{"type": "function", "function": {"name": "clocks"}}], False),
        ([{"type": "function", "function": {"name": "x", "description": "clock"}}], False),
        ([{"clock": {}}, "clock", {"function": "clock"}], False),
        (None, False),
    ],
)
def test_whether_the_client_has_a_tool_of_that_name(tools: object, declares: bool) -> None:
    assert CHAT.declares(read(body(tools=tools)).tools, "clock") is declares
    assert not CHAT.declares(b'{"clock":1}', "clock")


@pytest.mark.parametrize(
    "choice, dropped", [("auto", False), ("none", False), ("required", True), ({"type": "x"}, True)]
)
def test_a_forced_tool_is_not_forced_again_in_a_follow_up(choice: object, dropped: bool) -> None:
    data = body(tool_choice=choice)
    answered = AnsweredTurn({"role": "assistant", "content": "done"})
    follow_up = json.loads(CHAT.add(data, (answered, UserText("go on"))))
    assert ("tool_choice" not in follow_up) is dropped
    assert json.loads(CHAT.add(data, (UserText("hi"),)))["tool_choice"] == choice


def test_a_client_that_accepts_a_stream_gets_one_where_the_body_is_silent() -> None:
    assert read(body(), prefers_stream=True).stream
    assert not read(body(stream=False), prefers_stream=True).stream


@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b'{"model":"m","messages":[],"x":NaN}', "not valid JSON"),
        (b'{"model":"m","messages":[],"x":"\xff"}', "not valid UTF-8 (byte 32)"),
        (nested(1_000_000), "nested too deeply"),
        (nested(128), "nested more than 128 levels"),
        (b'{"messages":[]}', "`model` is missing"),
        (b'{"model":"","messages":[]}', "`model` is missing"),
        (b'{"model":7,"messages":[]}', "`model` is not as expected"),
        (b'{"model":null,"messages":[]}', "`model` is missing"),
        (b'{"model":"m"}', "`messages` must be an array"),
        (b'{"model":"m","messages":"hi"}', "`messages` must be an array"),
        (b'{"model":"m","messages":[],"stream":"yes"}', "`stream` is not as expected"),
        (b'{"model":"m","messages":[],"n":"two"}', "`n` is not as expected"),
        (b'{"model":"m","messages":[],"n":0}', "`n` must be at least 1"),
        (b'{"model":"m","messages":[],"tools":{}}', "`tools` must be an array"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(data)
    assert says in caught.value.message


def test_of_a_member_given_twice_the_last_counts_for_everybody() -> None:
    asked = read(b'{"model":"a","messages":[], "stream":false,"model":"b","x":1e999}')
    assert asked.model == "b"
    assert asked.body == b'{"model":"b","messages":[],"stream":false,"x":1e999}'


def test_a_name_inside_a_value_is_no_duplicate() -> None:
    data = body(tools=[{"function": {"name": "model"}}])
    assert read(data).body is data
    assert json.loads(read(data + b" ").body) == json.loads(data)


def test_a_body_with_spaces_is_read_like_a_compact_one() -> None:
    assert read(b'{ "model": "m", "messages": [] }').model == "m"


def test_what_a_session_needs_to_know() -> None:
    asked = read(body(tools=[{"type": "x"}], metadata={"session_id": "s"}, conversation="c"))
    assert asked.tools == b'[{"type":"x"}]'
    assert asked.identity == {"metadata": b'{"session_id":"s"}', "conversation": b'"c"'}
    assert not asked.directives
    assert read(body(messages=[{"role": "user", "content": "<**clear**>"}])).directives


def test_nesting_within_the_limit_is_fine() -> None:
    assert read(nested(127)).model == "m"
    assert not is_too_deep(b'{"a":"' + b"[{" * 500 + b'\\"\\\\"}', 128)


def test_hostile_nesting_is_judged_in_no_time() -> None:
    body = b'{"model":"m","messages":[],"x":[' + b",".join([b"[" * 110 + b"]" * 110] * 5000) + b"]}"
    began = time.process_time()
    assert read(body).model == "m"
    assert time.process_time() - began < 3


@given(
    st.recursive(
        st.none() | st.text('[]{}"\\'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('[]{}"'), inner),
    )
)
def test_depth_agrees_with_a_plain_count(value: object) -> None:
    def depth(part: object) -> int:
        if isinstance(part, dict):
            return 1 + max(map(depth, part.values()), default=0)
        return 1 + max(map(depth, part), default=0) if isinstance(part, list) else 0

    data = json.dumps(value).encode()
    for limit in (1, 2, 3):
        assert is_too_deep(data, limit) == (depth(value) > limit)


def test_a_request_that_needs_no_change_is_not_written_again() -> None:
    data = b'{ "model" : "m", "messages": [ ] , "stream": true}'
    assert CHAT.rewrite(data, "m", True) is data


def test_only_the_model_changes() -> None:
    data = b'{"model":"public","messages":[{"role":"user","content":"\\u00e9 1e999"}],"seed":12345678901234567890123,"stream":true}'
    assert CHAT.rewrite(data, "real", True) == data.replace(b"public", b"real")


def test_a_stream_that_only_the_header_asked_for_is_asked_of_the_upstream() -> None:
    assert json.loads(CHAT.rewrite(body(), "m", True))["stream"] is True


def test_additions_stand_at_the_end_in_order() -> None:
    data = b'{"model":"m","messages":[{"role":"user","content":"hi"} ],"x":1.0}'
    added = CHAT.add(
        data,
        (
            AnsweredTurn({"role": "assistant", "content": "hello"}),
            ToolResult("call_1", "noon"),
            UserText("go on"),
            ToolDeclaration("clock", "Tells the time.", '{"type":"object"}'),
        ),
    )
    assert json.loads(added) == {
        "model": "m",
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
            {"role": "user", "content": "go on"},
        ],
        "x": 1.0,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "clock",
                    "description": "Tells the time.",
                    "parameters": {"type": "object"},
                    "strict": True,
                },
            }
        ],
    }
    assert b'"x":1.0' in added


@pytest.mark.parametrize("tools", [b"null", b"[]", b' [ {"type":"x"} ] '])
def test_a_tool_is_declared_after_the_clients_own(tools: bytes) -> None:
    data = b'{"model":"m","messages":[],"tools":%b}' % tools
    added = json.loads(CHAT.add(data, (ToolDeclaration("clock", "d", "{}"),)))
    assert added["tools"][:-1] == (json.loads(tools) or [])
    assert added["tools"][-1]["function"]["name"] == "clock"


def test_errors_in_the_dialects_shape() -> None:
    shown = json.loads(CHAT.error_body(ModelNotFound("No model is called 'x'.", param="model")))
    assert shown == {
        "error": {
            "message": "No model is called 'x'.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }


def test_the_upstreams_own_error_passes_if_it_is_one() -> None:
    own = b'{"error":{"message":"Too long","code":"context_length_exceeded"}}'
    assert CHAT.error_body(UpstreamAnswered(400, (), own)) == own
    for foreign in (b"<html>", b'{"detail":"no"}', b"\xff", b"[" * 5000):
        shown = json.loads(CHAT.error_body(UpstreamAnswered(500, (), foreign)))
        assert shown["error"]["message"] == "The upstream answered 500."


def test_an_error_frame_is_one_line() -> None:
    own = b'{\n "error":\r\n {"message":"x"}}'
    frame = CHAT.error_frame(UpstreamAnswered(400, (), own))
    assert frame.startswith(b"data: ")
    assert frame.count(b"\n") == 2
    assert b"\r" not in frame


@pytest.mark.parametrize(
    "data, status",
    [
        (b'{"error":{"message":"slow down","code":429}}', 429),
        (b'{"error":{"message":"?","code":"odd"}}', 502),
        (b'{"error":"plain"}', 502),
        (b'{"error":{"code":7}}', 502),
    ],
)
def test_an_error_under_a_2xx_status(data: bytes, status: int) -> None:
    refusal = CHAT.read_disguised_error(data)
    assert isinstance(refusal, UpstreamAnswered)
    assert (refusal.status, refusal.body) == (status, data)


@pytest.mark.parametrize("data", [b"<html>", b"{}", b'{"error":null}', b"[]"])
def test_an_answer_that_makes_no_sense(data: bytes) -> None:
    assert isinstance(CHAT.read_disguised_error(data), UpstreamBroke)
