"""Messages requests: read, named, added to, refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.anthropic_messages import DIALECT
from gateway.errors import (
    BadRequest,
    BodyTooLarge,
    Draining,
    Forbidden,
    HoldgateError,
    MethodNotAllowed,
    ModelNotFound,
    NoRoute,
    TooMany,
    Unauthorized,
    UnsupportedEncoding,
    UpstreamAnswered,
    UpstreamBroke,
    UpstreamBusy,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from gateway.exchange.additions import AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import ModelRequest
from gateway.wire.sse import data_of

Json = dict[str, Any]


def body(*messages: Any, **fields: Any) -> bytes:
    request = {"model": "m", "max_tokens": 9, "messages": list(messages), **fields}
    return json.dumps(request, separators=(",", ":")).encode()


def read(data: bytes, prefers_stream: bool = False) -> ModelRequest:
    return DIALECT.read(data, 128, prefers_stream)


def user(*content: Any) -> Json:
    return {"role": "user", "content": content[0] if len(content) == 1 else list(content)}


def says(content: Any) -> Json:
    return {"role": "assistant", "content": content}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def result(ident: str, **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": ident, "content": "r", **more}


CALL = {"type": "tool_use", "id": "c1", "name": "clock", "input": {}}
SYSTEM = {"role": "system", "content": "Mind this."}
CACHE = {"type": "ephemeral"}


def test_what_is_read() -> None:
    tools = [{"name": "weather", "input_schema": {"type": "object"}}]
    data = body(
        user("hi"), stream=True, tools=tools, tool_choice={"type": "any"}, metadata={"a": 1}
    )
    assert read(data) == ModelRequest(
        model="m",
        body=data,
        stream=True,
        wants_usage=True,
        tools=b'[{"name":"weather","input_schema":{"type":"object"}}]',
        takes_tools=False,
        identity={"metadata": b'{"a":1}'},
    )


def test_what_is_absent_or_null() -> None:
    data = body(stream=None, tools=None, tool_choice=None)
    assert read(data) == ModelRequest(model="m", body=data, wants_usage=True, last_role="")


@pytest.mark.parametrize(
    "messages, role",
    [
        ([user("x")], "user"),
        ([user("x"), says("{")], "assistant"),
        ([user([result("c")])], "tool"),
        ([user([text("x"), result("c"), text("y")])], "tool"),
        ([user([text('"tool_result"')])], "user"),
        ([user([result("c")]), SYSTEM, SYSTEM], "tool"),
        ([user("x"), SYSTEM], "user"),
        ([says([result("c")])], "assistant"),
        ([SYSTEM], ""),
        ([{"content": "x"}], ""),
        ([{"role": 7}], ""),
        ([7], ""),
    ],
)
def test_who_spoke_last(messages: list[Any], role: str) -> None:
    assert read(body(*messages)).last_role == role


@pytest.mark.parametrize(
    "choice, takes",
    [
        ({"type": "auto"}, True),
        ({"type": "none"}, True),
        ({"type": "any"}, False),
        ({"type": "tool", "name": "x"}, False),
        ("any", True),
        ({"type": 7}, True),
        (None, True),
    ],
)
def test_whether_a_tool_of_ours_may_be_added(choice: Any, takes: bool) -> None:
    data = body(tool_choice=choice)
    assert read(data).takes_tools is takes
    follow_up = json.loads(DIALECT.add(data, (AnsweredTurn(says("x")), UserText("go on"))))
    assert ("tool_choice" in follow_up) is takes
    assert json.loads(DIALECT.add(data, (UserText("hi"),)))["tool_choice"] == choice


@pytest.mark.parametrize(
    "tools, declares",
    [
        ([{"name": "clock"}], True),
        ([{"type": "clock_20260101", "name": "clock"}], True),
        ([{"name": "clocks"}, {"name": "x", "description": "clock"}], False),
        (["clock", {"clock": 1}], False),
        (None, False),
    ],
)
def test_whether_the_client_has_a_tool_of_that_name(tools: Any, declares: bool) -> None:
    assert DIALECT.declares(read(body(tools=tools)).tools, "clock") is declares
    assert DIALECT.declares(b'[{"name":"\\u0063lock"}]', "clock")
    assert not DIALECT.declares(b'{"clock":1}', "clock")


def test_a_client_that_accepts_a_stream_gets_one_where_the_body_is_silent() -> None:
    implied = read(body(), prefers_stream=True)
    assert implied.stream
    assert implied.stream_implied
    assert not read(body(stream=False), prefers_stream=True).stream
    assert json.loads(DIALECT.rewrite(body(), "m", True))["stream"] is True


@pytest.mark.parametrize(
    "data, says, param",
    [
        (b"", "not valid JSON", None),
        (b"[]", "must be a JSON object", None),
        (b'{"messages":[]}', "`model` is missing", "model"),
        (b'{"model":7,"messages":[]}', "`model` is not as expected", "model"),
        (b'{"model":"m"}', "`messages` must be an array", "messages"),
        (b'{"model":"m","messages":"hi"}', "`messages` must be an array", "messages"),
        (b'{"model":"m","messages":[],"stream":"yes"}', "`stream` is not as expected", "stream"),
        (b'{"model":"m","messages":[],"x":"\xff"}', "not valid UTF-8", None),
        (b'{"model":"m","messages":[],"tools":"f"}', "`tools` must be an array", "tools"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(data: bytes, says: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as caught:
        read(data)
    assert says in caught.value.message
    assert caught.value.param == param


def test_of_a_member_given_twice_the_last_counts_for_everybody() -> None:
    asked = read(b'{"model":"a","messages":[], "model":"b","x":1e999}')
    assert asked.model == "b"
    assert asked.body == b'{"model":"b","messages":[],"x":1e999}'


def test_directives_are_noticed() -> None:
    assert read(body(user("<**clear**>"))).directives
    assert not read(body(user("clear"))).directives


def test_only_the_model_changes() -> None:
    data = b'{"model":"public","messages":[{"role":"user","content":"\\u00e9 1e999"}],"seed":12345678901234567890123,"stream":true}'
    assert DIALECT.rewrite(data, "public", True) is data
    assert DIALECT.rewrite(data, "real", True) == data.replace(b"public", b"real")


def added(data: bytes, *additions: Any) -> list[Json]:
    messages = json.loads(DIALECT.add(data, additions))["messages"]
    assert isinstance(messages, list)
    return messages


REMINDER, TAG = UserText("[Clock Reminder]"), UserText("[Time/Date]")
REMINDED = [text(REMINDER.text), text(TAG.text)]


@pytest.mark.parametrize(
    "messages, after",
    [
        ([user("hi")], [user([text("hi"), *REMINDED])]),
        ([user([text("hi", cache_control=CACHE)])], [user([text("hi", cache_control=CACHE), *REMINDED])]),
        ([user([result("c"), text("x")])], [user([result("c"), text("x"), *REMINDED])]),
        ([says("hm")], [says("hm"), user(REMINDED)]),
        ([user("hi"), SYSTEM], [user([text("hi"), *REMINDED]), SYSTEM]),
        ([says("hm"), SYSTEM], [says("hm"), SYSTEM, user(REMINDED)]),
        ([user("")], [user(REMINDED)]),
        ([user([])], [user(REMINDED)]),
        ([], [user(REMINDED)]),
        ([SYSTEM], [SYSTEM, user(REMINDED)]),
        ([user(7)], [user(7), user(REMINDED)]),
        ([7], [7, user(REMINDED)]),
    ],
)  # fmt: skip
def test_texts_stand_at_the_end_of_the_users_last_turn(messages: list[Any], after: Any) -> None:
    assert added(body(*messages), REMINDER, TAG) == after


def test_results_stand_in_one_message_right_after_the_turn() -> None:
    answered = AnsweredTurn(says([text("hm"), CALL, {**CALL, "id": "c2"}]))
    results = (ToolResult("c1", "noon"), ToolResult("c2", "one"))
    assert added(body(user("hi"), SYSTEM), answered, *results, TAG) == [
        user("hi"),
        SYSTEM,
        says([text("hm"), CALL, {**CALL, "id": "c2"}]),
        user(
            {"type": "tool_result", "tool_use_id": "c1", "content": "noon"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "one"},
            text(TAG.text),
        ),
    ]


def test_a_turn_that_said_nothing_is_not_told_of() -> None:
    assert added(body(user("hi")), AnsweredTurn(says([])), TAG) == [
        user([text("hi"), text(TAG.text)])
    ]


@pytest.mark.parametrize("tools", [None, [], [{"name": "x", "cache_control": CACHE}]])
def test_a_tool_is_declared_after_the_clients_own(tools: Any) -> None:
    data = body(user("hi"), tools=tools)
    after = json.loads(DIALECT.add(data, (ToolDeclaration("clock", "d", '{"type":"object"}'),)))
    declared = {"name": "clock", "description": "d", "input_schema": {"type": "object"}}
    assert after == {**json.loads(data), "tools": [*(tools or []), declared]}


@pytest.mark.parametrize(
    "content, before",
    [
        ("hi", [text("hi", cache_control=CACHE)]),
        ([text("a"), result("c")], [text("a"), result("c", cache_control=CACHE)]),
        ([text("a", cache_control={"ttl": "1h"})], [text("a", cache_control={"ttl": "1h"})]),
    ],
)
def test_what_is_cached_to_the_end_is_cached_to_the_end_of_the_clients_words(
    content: Any, before: list[Json]
) -> None:
    after = json.loads(DIALECT.add(body(user(content), cache_control=CACHE), (REMINDER, TAG)))
    assert after["messages"] == [user([*before, *REMINDED])]
    assert "cache_control" not in after


@pytest.mark.parametrize("messages", [[], [says("x")], [user("")], [user([7])]])
def test_and_where_there_are_none_to_the_end(messages: list[Any]) -> None:
    after = json.loads(DIALECT.add(body(*messages, cache_control=CACHE), (TAG,)))
    assert after["cache_control"] == CACHE
    assert json.loads(DIALECT.add(body(user("x"), cache_control=None), (TAG,)))["messages"] == [
        user([text("x"), text(TAG.text)])
    ]


def test_nothing_else_changes_by_a_byte() -> None:
    odd = b'{"role" : "user", "content":"\\u00e9 1e400", "n": 1.000000000000000000001}'
    block = b'{"type":"text","text":"x","cache_control":{"type":"ephemeral"},"n":1e400}'
    last = b'{"role":"user","content":[%b],"m":1.10}' % block
    data = b'{"x": 12345678901234567890123, "messages": [%b, %b], "y":1.0}' % (odd, last)
    after = DIALECT.add(data, (TAG, ToolDeclaration("clock", "d", "{}")))
    for kept in (odd, block, b'"m":1.10', b"12345678901234567890123", b'"y":1.0'):
        assert kept in after


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
BLOCKS = st.lists(st.builds(text, st.text(max_size=5)) | st.just(result("c")) | JSON, max_size=3)
MESSAGES = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]) | JSON,
        st.text(max_size=5) | BLOCKS | JSON,
    )
    | JSON,
    max_size=4,
)


@given(MESSAGES, st.sampled_from([(TAG,), (REMINDER, TAG), (AnsweredTurn(says("x")), TAG)]))
def test_whatever_the_messages_are_the_client_words_stay(
    messages: list[Any], additions: tuple[Any, ...]
) -> None:
    after = added(body(*messages), *additions)
    turns = [message for message in after if message not in messages]
    assert len(after) <= len(messages) + len(additions)
    assert turns[-1]["role"] == "user"
    assert turns[-1]["content"][-1] == text(TAG.text)
    kept = zip(messages, after, strict=False)
    assert sum(before != changed for before, changed in kept) <= 1


ERRORS: dict[HoldgateError, str] = {
    BadRequest("x"): "invalid_request_error",
    NoRoute("x"): "invalid_request_error",
    BodyTooLarge("x"): "request_too_large",
    UnsupportedEncoding("x"): "invalid_request_error",
    Unauthorized("x"): "authentication_error",
    Forbidden("x"): "permission_error",
    ModelNotFound("x"): "not_found_error",
    MethodNotAllowed("x", "POST"): "invalid_request_error",
    TooMany("x"): "rate_limit_error",
    Draining("x"): "overloaded_error",
    UpstreamUnreachable("x"): "api_error",
    UpstreamBroke("x"): "api_error",
    UpstreamTimeout("x"): "timeout_error",
    UpstreamBusy("x"): "overloaded_error",
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_in_the_dialects_shape(error: HoldgateError) -> None:
    expected = {"type": "error", "error": {"type": ERRORS[error], "message": "x"}}
    assert json.loads(DIALECT.error_body(error)) == expected
    frame = DIALECT.error_frame(error)
    assert frame.startswith(b"event: error\ndata: ")
    assert json.loads(data_of(frame) or b"") == expected


def test_the_upstreams_own_error_passes_if_it_is_one() -> None:
    own = b'{"type":"error",\r\n"error":{"type":"new_error","message":"no"},"request_id":"r"}'
    error = UpstreamAnswered(400, (), own)
    assert DIALECT.error_body(error) == own
    assert DIALECT.error_frame(error).count(b"\n") == 3
    assert b"\r" not in DIALECT.error_frame(error)


@pytest.mark.parametrize(
    "status, said, kind, message",
    [
        (400, b'{"error":{"message":"too long"}}', "invalid_request_error", "too long"),
        (529, b'{"error":"busy"}', "overloaded_error", "busy"),
        (402, b'{"type":"error","error":"pay"}', "billing_error", "pay"),
        (500, b"<html>", "api_error", "The upstream answered 500."),
        (418, b'{"error":{"message":7}}', "invalid_request_error", "The upstream answered 418."),
        (502, b'{"detail":"no"}', "api_error", "The upstream answered 502."),
        (500, b"[" * 5000, "api_error", "The upstream answered 500."),
    ],
)
def test_other_errors_are_told_in_this_shape(
    status: int, said: bytes, kind: str, message: str
) -> None:
    shown = json.loads(DIALECT.error_body(UpstreamAnswered(status, (), said)))
    assert shown == {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    "data, status",
    [
        (b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}', 429),
        (b'{"type":"error","error":{"type":"overloaded_error"}}', 529),
        (b'{"type":"error","error":{"type":"invalid_request_error"}}', 400),
        (b'{"type":"error","error":{"type":"new"}}', 502),
        (b'{"type":"error","error":{"type":7}}', 502),
        (b'{"type":"error"}', 502),
        (b'{"error":"plain"}', 502),
    ],
)
def test_an_error_under_a_2xx_status(data: bytes, status: int) -> None:
    refusal = DIALECT.read_disguised_error(data)
    assert isinstance(refusal, UpstreamAnswered)
    assert (refusal.status, refusal.body) == (status, data)


@pytest.mark.parametrize(
    "data", [b"<html>", b"{}", b'{"error":null}', b"[]", b'{"type":"message"}']
)
def test_an_answer_that_makes_no_sense(data: bytes) -> None:
    assert isinstance(DIALECT.read_disguised_error(data), UpstreamBroke)


def test_its_names() -> None:
    assert (DIALECT.name, DIALECT.path) == ("anthropic-messages", "/messages")
