"""Requests towards Responses upstreams."""

from typing import Any

import pytest

from tests.dialects.translation import (
    CHAT,
    FUNCTION,
    HI,
    MESSAGES,
    PICTURE,
    PICTURE_URL,
    RESPONSES,
    assistant,
    called,
    lost,
    result,
    text,
    told,
    use,
    user,
)


def items(*history: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the input an upstream is sent for a history of Messages."""
    found: list[dict[str, Any]] = told(MESSAGES, RESPONSES, messages=list(history), **more)["input"]
    return found


def message(role: str, *parts: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(parts)}


def given(said: str) -> dict[str, Any]:
    return {"type": "input_text", "text": said}


def test_the_smallest_request_stores_nothing() -> None:
    assert told(CHAT, RESPONSES, messages=[HI]) == {
        "model": "m",
        "input": [message("user", given("hi"))],
        "stream": False,
        "store": False,
    }


def test_a_turn_is_several_items_in_their_order() -> None:
    history = items(
        assistant(text("One."), text("Two."), use("a", city="Rome"), text("Three.")),
        user(result("a", "sun", is_error=True), text("Well?")),
    )
    assert history == [
        message("assistant", *({"type": "output_text", "text": said} for said in ("One.", "Two."))),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"city":"Rome"}'},
        message("assistant", {"type": "output_text", "text": "Three."}),
        {"type": "function_call_output", "call_id": "a", "output": "[tool error] sun"},
        message("user", given("Well?")),
    ]


@pytest.mark.parametrize(
    "content, is_error, output",
    [
        (None, False, ""),
        ([text("a"), text("b")], False, [given("a"), given("b")]),
        ([], True, "[tool error] "),
        (
            [PICTURE],
            True,
            [
                given("[tool error] "),
                {"type": "input_image", "image_url": PICTURE_URL, "detail": "auto"},
            ],
        ),
    ],
)
def test_what_a_tool_returned(content: Any, is_error: bool, output: Any) -> None:
    history = items(assistant(use("a")), user(result("a", content, is_error=is_error)))
    assert history[1]["output"] == output


def test_the_first_instructions_are_the_instructions_and_the_rest_developer_messages() -> None:
    sent = told(
        MESSAGES,
        RESPONSES,
        system=[text("Be kind."), text("Be wise.")],
        messages=[HI, {"role": "system", "content": "Be brief."}],
    )
    assert sent["instructions"] == "Be kind."
    assert sent["input"] == [
        message("developer", given("Be wise.")),
        message("user", given("hi")),
        message("developer", given("Be brief.")),
    ]


@pytest.mark.parametrize(
    "block, part",
    [
        (PICTURE, {"type": "input_image", "image_url": PICTURE_URL, "detail": "auto"}),
        (
            {"type": "document", "source": {"type": "url", "url": "https://x.test/a.pdf"}},
            {"type": "input_file", "file_url": "https://x.test/a.pdf"},
        ),
        (
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
            {
                "type": "input_file",
                "filename": "document",
                "file_data": "data:application/pdf;base64,JVBERi0=",
            },
        ),
        (
            {"type": "document", "title": "t", "source": {"type": "text", "data": "words"}},
            given("t\n\nwords"),
        ),
    ],
)
def test_pictures_and_documents(block: Any, part: Any) -> None:
    assert items(user(block)) == [message("user", part)]


@pytest.mark.parametrize("name", [{"filename": "a.pdf"}, {}])
def test_a_file_the_upstream_knows_is_named_to_it(name: dict[str, str]) -> None:
    part = {"type": "file", "file": {"file_id": "file-1", **name}}
    sent = told(CHAT, RESPONSES, messages=[user(part)])
    assert sent["input"] == [message("user", {"type": "input_file", **name, "file_id": "file-1"})]


def test_a_refusal_keeps_its_place() -> None:
    sent = told(CHAT, RESPONSES, messages=[{"role": "assistant", "refusal": "No."}])
    assert sent["input"] == [message("assistant", {"type": "refusal", "refusal": "No."})]


def thought(signature: str, said: str = "Hm.") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def test_reasoning_comes_home_and_what_others_thought_is_left_out() -> None:
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    turn = assistant(
        thought("holdgate:responses:rs_1:gAAA"),
        thought("holdgate:responses::gBBB", ""),
        thought("abc"),
        redacted,
        text("ho"),
    )
    assert items(HI, turn)[1:-1] == [
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        {"type": "reasoning", "summary": [], "encrypted_content": "gBBB"},
    ]
    assert lost(MESSAGES, RESPONSES, messages=[HI, turn]) == ("reasoning",)


@pytest.mark.parametrize(
    "asked, chosen",
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ({"type": "custom", "custom": {"name": "c"}}, {"type": "custom", "name": "c"}),
    ],
)
def test_tools_and_how_they_are_chosen(asked: Any, chosen: Any) -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /.+/"}}
    custom = {"name": "c", "description": "writes", "format": grammar}
    bare = {"type": "custom", "custom": {"name": "d"}}
    strict = {"type": "function", "function": {"name": "g", "strict": True}}
    sent = told(
        CHAT,
        RESPONSES,
        messages=[HI],
        tools=[FUNCTION, {"type": "custom", "custom": custom}, bare, strict],
        tool_choice=asked,
        parallel_tool_calls=False,
    )
    schema = {"type": "object", "properties": {}}
    assert sent["tools"] == [
        {
            "type": "function",
            "name": "f",
            "description": "does",
            "parameters": schema,
            "strict": False,
        },
        {
            "type": "custom",
            "name": "c",
            "description": "writes",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {"type": "custom", "name": "d"},
        {"type": "function", "name": "g", "parameters": schema, "strict": True},
    ]
    assert sent.get("tool_choice") == chosen
    assert sent["parallel_tool_calls"] is False


def test_custom_calls_stay_custom() -> None:
    call = {"id": "a", "type": "custom", "custom": {"name": "c", "input": "*** x"}}
    history = [
        {"role": "assistant", "tool_calls": [call, called("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]
    assert told(CHAT, RESPONSES, messages=history)["input"] == [
        {"type": "custom_tool_call", "call_id": "a", "name": "c", "input": "*** x"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "one"},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
    ]


def test_parameters() -> None:
    asked: dict[str, Any] = {
        "messages": [HI],
        "max_tokens": 50,
        "temperature": 1.7,
        "top_p": 0.5,
        "stream": True,
        "reasoning_effort": "low",
        "user": "somebody",
        "metadata": {"k": "v"},
        "stop": ["END"],
    }
    sent = told(CHAT, RESPONSES, **asked)
    del sent["input"]
    assert sent == {
        "model": "m",
        "stream": True,
        "store": False,
        "max_output_tokens": 50,
        "temperature": 1.7,
        "top_p": 0.5,
        "reasoning": {"effort": "low"},
        "include": ["reasoning.encrypted_content"],
        "user": "somebody",
        "metadata": {"k": "v"},
    }
    assert lost(CHAT, RESPONSES, **asked) == ("stop",)


def test_fewer_tokens_than_are_allowed_are_the_least_that_are() -> None:
    assert told(MESSAGES, RESPONSES, messages=[HI], max_tokens=1)["max_output_tokens"] == 16


@pytest.mark.parametrize(
    "model, profile, effort, sent",
    [
        ("gpt-5", "", "none", {"effort": "none"}),
        ("gpt-5", "", "xhigh", {"effort": "xhigh"}),
        ("gpt-oss", "vllm", "xhigh", {"effort": "high"}),
        ("gpt-oss", "vllm", "minimal", {"effort": "low"}),
        ("gpt-oss", "vllm", "none", None),
        ("gpt-4o", "", "high", None),
    ],
)
def test_how_much_to_think(model: str, profile: str, effort: str, sent: Any) -> None:
    asked = {"model": model, "messages": [HI], "reasoning_effort": effort}
    body = told(CHAT, RESPONSES, profile, **asked)
    assert body.get("reasoning") == sent
    assert ("include" in body) is (sent not in (None, {"effort": "none"}))
    assert lost(CHAT, RESPONSES, profile, **asked) == (() if sent else ("effort",))


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "asked, sent",
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            {"type": "json_schema", "name": "n", "schema": SCHEMA},
        ),
        (
            {"type": "json_schema", "json_schema": {"schema": SCHEMA, "description": "d"}},
            {"type": "json_schema", "name": "answer", "schema": SCHEMA, "description": "d"},
        ),
    ],
)
def test_the_form_of_the_answer(asked: Any, sent: Any) -> None:
    body = told(CHAT, RESPONSES, messages=[HI], response_format=asked)
    assert body["text"] == {"format": sent}


def test_a_form_that_cannot_be_forced_is_asked_for() -> None:
    asked = {
        "messages": [HI],
        "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
    }
    sent = told(CHAT, RESPONSES, "plain", **asked)
    assert sent["text"] == {"format": {"type": "json_object"}}
    assert '"integer"' in sent["instructions"]
    assert lost(CHAT, RESPONSES, "plain", **asked) == ("format",)
