"""Answers of one body, in the dialect of a client that speaks another."""

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS as SPOKEN
from gateway.dialects.translate.answer_context import AnswerContext, read_context
from gateway.dialects.translate.answers import BodyTranslator, error_body
from gateway.errors import UpstreamAnswered, UpstreamBroke
from gateway.exchange.model import ModelRequest
from tests.dialects.answers_wire import CHAT, MESSAGES, PAIRS, RESPONSES, WANTED, body_translated

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1.0}'}}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 5,
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Look.",
                    "refusal": None,
                    "reasoning_content": "Hm.",
                    "tool_calls": [CALL],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 9,
            "total_tokens": 109,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
    },
    MESSAGES: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "Look."},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1.0}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 0,
            "output_tokens": 9,
            "output_tokens_details": {"thinking_tokens": 4},
        },
    },
    RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "created_at": 5,
        "status": "completed",
        "model": "gpt",
        "output": [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "enc",
            },
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Look."}],
            },
            {
                "id": "fc_1",
                "type": "function_call",
                "call_id": "c1",
                "name": "f",
                "arguments": '{"a": 1.0}',
            },
        ],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 4},
            "total_tokens": 109,
        },
    },
}
SEALED = {
    CHAT: "holdgate:unproven",
    MESSAGES: "holdgate:signature:sig",
    RESPONSES: "holdgate:responses:rs_1:enc",
}


def told_chat(body: dict[str, Any], source: str) -> None:
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "Look.",
        "refusal": None,
        "reasoning_content": "Hm.",
        "tool_calls": [CALL],
    }
    assert body["object"] == "chat.completion"
    assert body["usage"] == BODIES[CHAT]["usage"]


def told_messages(body: dict[str, Any], source: str) -> None:
    expected = BODIES[MESSAGES]
    thought = {**expected["content"][0], "signature": SEALED[source]}
    assert body["content"] == [thought, *expected["content"][1:]]
    for name in ("type", "role", "stop_reason", "stop_sequence", "usage"):
        assert body[name] == expected[name]


def told_responses(body: dict[str, Any], source: str) -> None:
    thought, message, call = body["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert thought["encrypted_content"] == SEALED[source]
    assert message["content"] == [
        {"type": "output_text", "text": "Look.", "annotations": [], "logprobs": []}
    ]
    assert (call["call_id"], call["name"], call["arguments"]) == ("c1", "f", '{"a": 1.0}')
    assert [item["id"].split("_")[0] for item in body["output"]] == ["rs", "msg", "fc"]
    assert (body["object"], body["status"], body["error"]) == ("response", "completed", None)
    assert body["usage"]["total_tokens"] == 109
    assert body["usage"]["input_tokens_details"]["cached_tokens"] == 60


TOLD = {CHAT: told_chat, MESSAGES: told_messages, RESPONSES: told_responses}


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_answer_says_the_same_in_another_dialect(source: str, target: str) -> None:
    body = body_translated(BODIES[source], source, target)
    TOLD[target](body, source)
    assert body["model"] == BODIES[source]["model"]
    assert body == body_translated(BODIES[source], source, target)


@pytest.mark.parametrize("source, target", PAIRS)
def test_the_clients_tap_reads_it(source: str, target: str) -> None:
    splice = SPOKEN[target].splice(ModelRequest(model="m", body=b"{}"), frozenset(), 10**6)
    tap = splice.tap()
    tap.feed(json.dumps(body_translated(BODIES[source], source, target)).encode())
    tap.close()
    end = tap.end()
    assert end.client_calls
    assert end.usage is not None
    assert (end.usage.input, end.usage.output) == (100, 9)
    assert (tap.text(), tap.client_call_ids()) == ("Look.", ("c1",))


def test_what_was_used_is_known() -> None:
    passage = BodyTranslator(MESSAGES, CHAT, WANTED, 10**6)
    passage.feed(json.dumps(BODIES[MESSAGES]).encode())
    passage.close()
    assert passage.tokens is not None
    assert (passage.tokens.input, passage.tokens.cached, passage.tokens.reasoning) == (100, 60, 4)


def chat(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def test_broken_arguments_stay_a_text() -> None:
    for arguments in ('{"a":', "[1]", '"x"'):
        broken = {"id": "c", "function": {"name": "f", "arguments": arguments}}
        body = body_translated(chat({"content": None, "tool_calls": [broken, 5]}), CHAT, MESSAGES)
        assert body["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": arguments}]
        assert body["stop_reason"] == "tool_use"


def test_several_calls_of_one_message_without_ids() -> None:
    called = {"function": {"name": "f", "arguments": "{}"}}
    body = body_translated(chat({"tool_calls": [called, called]}), CHAT, RESPONSES)
    first, second = body["output"]
    assert first["call_id"].startswith("call_")
    assert first["call_id"] != second["call_id"]


def test_refusals() -> None:
    body = body_translated(chat({"content": None, "refusal": "No."}), CHAT, RESPONSES)
    assert body["output"][0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert body["status"] == "completed"
    body = body_translated(chat({"content": None, "refusal": "No."}), CHAT, MESSAGES)
    assert body["content"] == [{"type": "text", "text": "No."}]
    assert body["stop_reason"] == "refusal"
    output = [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]
    body = body_translated({"status": "completed", "output": output}, RESPONSES, CHAT)
    assert body["choices"][0]["message"]["refusal"] == "No."
    assert body["choices"][0]["finish_reason"] == "stop"


def test_an_answer_that_says_nothing() -> None:
    empty = {"type": "message", "content": [], "stop_reason": "end_turn"}
    body = body_translated(empty, MESSAGES, CHAT)
    assert body["choices"][0]["message"] == {"role": "assistant", "content": "", "refusal": None}
    assert "usage" not in body
    assert body["model"] == "my-model"
    body = body_translated(empty, MESSAGES, RESPONSES)
    assert (body["output"], body["usage"]) == ([], None)


def test_an_answer_cut_at_its_length() -> None:
    body = body_translated(chat({"content": "Once"}, "length"), CHAT, RESPONSES)
    assert body["status"] == "incomplete"
    assert body["incomplete_details"] == {"reason": "max_output_tokens"}


def test_redacted_thinking_and_thoughts_in_a_row() -> None:
    content = [
        {"type": "thinking", "thinking": "A.", "signature": "s1"},
        {"type": "thinking", "thinking": "B.", "signature": "s2"},
        {"type": "thinking", "thinking": "C."},
        {"type": "redacted_thinking", "data": "d"},
    ]
    body = body_translated({"content": content, "stop_reason": "end_turn"}, MESSAGES, RESPONSES)
    told = [(i.get("encrypted_content"), [p["text"] for p in i["summary"]]) for i in body["output"]]
    assert told == [
        ("holdgate:signature:s1", ["A."]),
        ("holdgate:signature:s2", ["B."]),
        ("holdgate:unproven", ["C."]),
        ("holdgate:redacted:d", []),
    ]


def test_redacted_thinking_is_a_block_of_its_own() -> None:
    content = [{"type": "redacted_thinking", "data": "d"}]
    body = body_translated({"content": content, "stop_reason": "end_turn"}, MESSAGES, MESSAGES)
    assert body["content"] == content


def test_calls_of_tools_that_take_plain_text() -> None:
    tools = json.dumps([{"type": "custom", "name": "patch"}]).encode()
    asked = ModelRequest(model="m", body=b"{}", tools=tools)
    called = {"id": "c", "function": {"name": "patch", "arguments": '{"input":"*"}'}}
    body = body_translated(
        chat({"tool_calls": [called]}, "tool_calls"),
        CHAT,
        RESPONSES,
        read_context(asked, RESPONSES, "s", 0),
    )
    (item,) = body["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*")
    assert item["id"].startswith("ctc_")
    block = {"type": "tool_use", "id": "c", "name": "patch", "input": {"input": "*"}}
    body = body_translated({"content": [block]}, MESSAGES, CHAT, read_context(asked, CHAT, "s", 0))
    (call,) = body["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*"}}
    assert read_context(ModelRequest(model="m", body=b"{}"), CHAT, "s", 3) == AnswerContext(
        "m", "s", 3
    )


def test_what_messages_call_custom_is_a_function() -> None:
    tool = {"type": "custom", "name": "say", "input_schema": {"type": "object"}}
    asked = ModelRequest(model="m", body=b"{}", tools=json.dumps([tool]).encode())
    called = {"id": "c", "function": {"name": "say", "arguments": '{"input":"*"}'}}
    answer = chat({"tool_calls": [called]}, "tool_calls")
    body = body_translated(answer, CHAT, MESSAGES, read_context(asked, MESSAGES, "s", 0))
    (block,) = body["content"]
    assert block["input"] == {"input": "*"}


NO_ANSWERS = (b"[]", b"{}", b'{"choices":[]}', b'{"content":5}', b'{"output":5}', b"<html>", b"")


@pytest.mark.parametrize("body", NO_ANSWERS)
@pytest.mark.parametrize("source, target", PAIRS)
def test_what_is_no_answer_is_broken(source: str, target: str, body: bytes) -> None:
    passage = BodyTranslator(source, target, WANTED, 10**6)
    passage.feed(body)
    with pytest.raises(UpstreamBroke):
        passage.close()


@pytest.mark.parametrize("source, target", PAIRS)
def test_an_error_instead_of_an_answer(source: str, target: str) -> None:
    passage = BodyTranslator(source, target, WANTED, 10**6)
    error = {"type": "rate_limit_error", "message": "Slow down.", "code": None}
    passage.feed(json.dumps({"type": "error", "error": error}).encode())
    with pytest.raises(UpstreamAnswered) as caught:
        passage.close()
    assert caught.value.status == 429
    assert json.loads(caught.value.body)["error"]["message"] == "Slow down."


def test_a_response_that_did_not_complete_is_an_error() -> None:
    passage = BodyTranslator(RESPONSES, CHAT, WANTED, 10**6)
    passage.feed(b'{"status":"cancelled","output":[]}')
    with pytest.raises(UpstreamAnswered):
        passage.close()


def test_a_body_that_is_too_long_is_broken() -> None:
    passage = BodyTranslator(CHAT, MESSAGES, WANTED, 10)
    with pytest.raises(UpstreamBroke):
        passage.feed(b"x" * 11)


# Errors that come with their status


OPENAI = (CHAT, RESPONSES)


def error_in(body: Any, source: str, target: str, status: int = 0) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    told = json.loads(error_body(raw, source, target, status))
    assert set(told) == ({"error"} if target in OPENAI else {"type", "error"})
    error = told["error"]
    assert isinstance(error, dict)
    return error


def test_errors_of_messages_for_others() -> None:
    for target in OPENAI:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        assert error_in(body, MESSAGES, target) == {
            "message": "Overloaded",
            "type": "server_error",
            "param": None,
            "code": "server_is_overloaded",
        }
        body = {"error": {"type": "invalid_request_error", "message": "Prompt is too long: 9 > 5"}}
        assert error_in(body, MESSAGES, target)["code"] == "context_length_exceeded"
        body = {"error": {"type": "invalid_request_error", "message": "max_tokens: required"}}
        assert error_in(body, MESSAGES, target, 400)["code"] is None


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (404, "not_found_error"),
        (418, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_errors_of_others_for_messages(status: int, kind: str) -> None:
    body = {"error": {"message": "No.", "type": "tokens", "param": None, "code": "some_code"}}
    for source in OPENAI:
        assert error_in(body, source, MESSAGES, status) == {"type": kind, "message": "No."}


def test_the_status_is_told_by_what_the_error_is_called_if_by_nothing_else() -> None:
    body: dict[str, Any] = {"error": {"message": "No.", "type": "x", "code": "insufficient_quota"}}
    assert error_in(body, CHAT, MESSAGES)["type"] == "rate_limit_error"
    body = {"error": {"message": "No.", "type": "x", "code": 999}}
    assert error_in(body, CHAT, MESSAGES)["type"] == "api_error"


def test_errors_pass_as_they_are_between_dialects_that_share_their_form() -> None:
    body = b'{"error": {"message": "No.", "param": "input", "extra": 1}}'
    assert error_body(body, CHAT, RESPONSES) == body
    assert error_body(body, RESPONSES, CHAT, 400) == body


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"error":null}', b'{"detail":5}'])
def test_what_cannot_be_read_is_told_by_its_status(body: bytes) -> None:
    for source, target in PAIRS:
        assert error_in(body, source, target, 503)["message"] == "The upstream answered 503."
        assert error_in(body, source, target)["message"] == "The upstream reported an error."


def test_an_error_that_is_a_text_or_stands_alone() -> None:
    assert error_in({"error": "No."}, CHAT, RESPONSES, 400)["message"] == "No."
    assert error_in({"message": "No.", "code": 1214}, CHAT, MESSAGES, 400)["message"] == "No."
    assert error_in({"detail": "Not Found"}, CHAT, MESSAGES, 404)["message"] == "Not Found"
