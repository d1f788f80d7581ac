"""Requests towards Messages upstreams."""

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
    TOOL,
    assistant,
    called,
    lost,
    refusal,
    result,
    text,
    told,
    use,
    user,
)


def messages(*history: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the messages an upstream is sent for a history of Chat Completions."""
    found: list[dict[str, Any]] = told(CHAT, MESSAGES, messages=list(history), **more)["messages"]
    return found


def answered(call_id: str, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_the_smallest_request_has_a_limit() -> None:
    assert told(CHAT, MESSAGES, messages=[HI]) == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [HI],
        "stream": False,
    }


def test_calls_and_results_are_blocks_of_their_turns() -> None:
    history = messages(
        HI,
        {"role": "assistant", "content": "Let me see.", "tool_calls": [called("a"), called("b")]},
        answered("b", [text("two"), text("")]),
        answered("a", "[tool error] no"),
        {"role": "user", "content": "Well?"},
    )
    assert history[1:] == [
        assistant(text("Let me see."), use("a"), use("b")),
        user(result("a", "no", is_error=True), result("b", [text("two")]), text("Well?")),
    ]


def test_instructions_are_the_system_and_inside_they_are_told_where_they_stood() -> None:
    developer = {"role": "developer", "content": [text("Be wise."), text("")]}
    asked = [{"role": "system", "content": "Be kind."}, developer, HI, developer]
    sent = told(CHAT, MESSAGES, messages=asked)
    assert sent["system"] == [text("Be kind."), text("Be wise.")]
    assert sent["messages"] == [user(text("hi"), text("<system>\nBe wise.\n</system>"))]
    assert told(CHAT, MESSAGES, messages=asked[1:])["system"] == "Be wise."


def test_a_turn_is_all_that_one_side_says_in_a_row() -> None:
    said = {"role": "assistant", "content": "ho"}
    assert messages(HI, HI, said, said) == [
        user(text("hi"), text("hi")),
        assistant(text("ho"), text("ho")),
    ]


def test_the_user_begins_and_nothing_is_empty() -> None:
    blank = {"role": "user", "content": " "}
    history = messages(
        {"role": "assistant", "content": "Welcome!"},
        blank,
        {"role": "assistant", "content": "So: "},
    )
    assert history == [
        {"role": "user", "content": "."},
        assistant(text("Welcome!"), text("So:")),
    ]
    assert messages(blank) == messages({"role": "system", "content": "Greet me."})
    assert messages(blank) == [{"role": "user", "content": "."}]
    assert messages() == []


def test_the_model_does_not_go_on_from_thinking() -> None:
    said = {"role": "assistant", "content": "So: "}
    for last in ([], [said]):
        asked: dict[str, Any] = {"input": [HI, reasoned("holdgate:signature:abc"), *last]}
        sent = told(RESPONSES, MESSAGES, **asked)["messages"]
        assert sent == [HI, *({"role": "assistant", "content": "So:"} for _ in last)]
        assert lost(RESPONSES, MESSAGES, **asked) == ("reasoning",)


def test_a_turn_that_ends_in_a_call_stays_as_it_is() -> None:
    asked = {"role": "assistant", "content": None, "tool_calls": [called("a")]}
    assert messages(HI, asked)[1:] == [
        assistant(use("a")),
        user(result("a", "No result came back from this call.", is_error=True)),
    ]


@pytest.mark.parametrize(
    "arguments", ["{broken", "[1]", '"text"', '{"a":' * 200 + "1" + "}" * 200, "[" * 5000]
)
def test_broken_arguments_are_an_empty_object(arguments: str) -> None:
    asked: dict[str, Any] = {
        "messages": [{"role": "assistant", "tool_calls": [called("a", "f", arguments)]}]
    }
    assert told(CHAT, MESSAGES, **asked)["messages"][1] == assistant(use("a"))
    assert lost(CHAT, MESSAGES, **asked) == ("arguments",)


def test_arguments_keep_their_numbers() -> None:
    big = {"role": "assistant", "tool_calls": [called("a", "f", '{"n":123456789012345678901}')]}
    assert messages(big)[1]["content"] == [use("a", n=123456789012345678901)]


def test_ids_are_of_characters_that_are_taken() -> None:
    history = messages(
        {"role": "assistant", "tool_calls": [called("functions.f:0")]}, answered("functions.f:0")
    )
    call, outcome = history[1]["content"][0], history[2]["content"][0]
    assert call["id"] == outcome["tool_use_id"]
    assert call["id"].replace("_", "").isalnum()


def test_ids_that_come_again_are_made_different() -> None:
    again = {"role": "assistant", "tool_calls": [called("a"), called("a"), called("a_1")]}
    history = messages(
        again,
        answered("a", "1"),
        answered("a", "2"),
        answered("a_1", "3"),
        again,
        answered("a", "4"),
    )
    calls = [block["id"] for turn in history[1::2] for block in turn["content"]]
    assert calls == ["a", "a_1", "a_1_1", "a_2", "a_3", "a_1_2"]
    results = [block for turn in history[2::2] for block in turn["content"]]
    assert [block["tool_use_id"] for block in results] == calls
    assert [block["content"] for block in results[:4]] == ["1", "2", "3", "4"]
    assert [block.get("is_error") for block in results[3:]] == [None, True, True]


def test_calls_without_an_id_get_one() -> None:
    bare = {"type": "function", "function": {"name": "f"}}
    older = {"role": "assistant", "function_call": {"name": "g", "arguments": "{}"}}
    history = messages(
        {"role": "assistant", "tool_calls": [bare, bare]},
        {"role": "tool", "content": "one"},
        {"role": "tool", "content": "two"},
        older,
        {"role": "function", "name": "g", "content": "three"},
    )
    first, second = (block["id"] for block in history[1]["content"])
    assert first != second
    assert history[2] == user(result(first, "one"), result(second, "two"))
    third = history[3]["content"][0]["id"]
    assert history[4] == user(result(third, "three"))


def test_a_result_without_an_id_is_refused() -> None:
    error = refusal(CHAT, MESSAGES, messages=[{"role": "tool", "content": ""}])
    assert error.param == "messages[0].tool_call_id"


def test_a_custom_call_is_told_as_a_functions() -> None:
    call = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    history = messages({"role": "assistant", "tool_calls": [call]}, answered("a"))
    assert history[1] == assistant(use("a", "patch", input="*** x"))


@pytest.mark.parametrize(
    "part, block",
    [
        ({"type": "image_url", "image_url": {"url": PICTURE_URL}}, PICTURE),
        ({"type": "image_url", "image_url": PICTURE_URL}, PICTURE),
        (
            {"type": "image_url", "image_url": "data:image/jpg;base64,AAAA"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
            },
        ),
        (
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "auto"}},
            {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
        ),
        (
            {"type": "file", "file": {"filename": "a", "file_data": "JVBERi0="}},
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "title": "a",
            },
        ),
        (
            {"type": "file", "file": {"filename": "a", "file_data": "data:text/csv;base64,YSxi"}},
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a,b"},
                "title": "a",
            },
        ),
    ],
)
def test_pictures_and_documents(part: Any, block: Any) -> None:
    assert messages(user(text("Look:"), part)) == [user(text("Look:"), block)]


def test_a_document_at_an_address() -> None:
    part = {"type": "input_file", "file_url": "https://x.test/a.pdf"}
    sent = told(RESPONSES, MESSAGES, input=[{"role": "user", "content": [part]}])
    source = {"type": "url", "url": "https://x.test/a.pdf"}
    assert sent["messages"] == [user({"type": "document", "source": source})]


def test_how_closely_a_picture_is_to_be_looked_at_is_lost() -> None:
    part = {"type": "image_url", "image_url": {"url": PICTURE_URL, "detail": "high"}}
    assert lost(CHAT, MESSAGES, messages=[user(part)]) == ("image.detail",)


def test_a_file_another_upstream_knows_is_refused() -> None:
    part = {"type": "file", "file": {"file_id": "file-1"}}
    assert "file-1" in refusal(CHAT, MESSAGES, messages=[user(part)]).message


@pytest.mark.parametrize(
    "part, words",
    [
        ({"type": "input_file", "file_id": "file-1"}, "[file: left out]"),
        ({"type": "input_image", "file_id": "file-1"}, "[input_image: left out]"),
    ],
)
def test_one_that_a_tool_returned_is_missed(part: Any, words: str) -> None:
    history = [
        {"type": "function_call", "call_id": "a", "name": "f"},
        {"type": "function_call_output", "call_id": "a", "output": [part]},
    ]
    assert told(RESPONSES, MESSAGES, input=history)["messages"][2] == user(result("a", words))
    assert lost(RESPONSES, MESSAGES, input=history)[0].startswith("tool result")


def test_a_refusal_is_told_as_text() -> None:
    parts = [{"type": "refusal", "refusal": "No."}]
    assert messages(HI, {"role": "assistant", "content": parts, "refusal": "Never."})[
        1
    ] == assistant(text("No."), text("Never."))


def test_reasoning_needs_its_proof() -> None:
    thought = {"role": "assistant", "content": "ho", "reasoning_content": "Hm."}
    assert told(CHAT, MESSAGES, messages=[HI, thought])["messages"][1]["content"] == "ho"
    assert lost(CHAT, MESSAGES, messages=[HI, thought]) == ("reasoning",)


def reasoned(proof: str, summary: str = "Hm.") -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": summary}]
    return {"type": "reasoning", "id": "rs_1", "summary": parts, "encrypted_content": proof}


def test_proofs_that_travelled_through_another_dialect_come_home() -> None:
    history = [
        HI,
        reasoned("holdgate:signature:abc"),
        reasoned("holdgate:redacted:xyz"),
        reasoned("gAAA"),
    ]
    said = {"role": "assistant", "content": "ho"}
    sent = told(RESPONSES, MESSAGES, input=[*history, said, HI])
    assert sent["messages"][1] == assistant(
        {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
        {"type": "redacted_thinking", "data": "xyz"},
        text("ho"),
    )
    assert lost(RESPONSES, MESSAGES, input=history) == ("reasoning",)


@pytest.mark.parametrize(
    "asked, chosen",
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"type": "tool", "name": "f"},
        ),
        (
            {"tool_choice": {"type": "custom", "custom": {"name": "f"}}},
            {"type": "tool", "name": "f"},
        ),
        ({"function_call": {"name": "f"}}, {"type": "tool", "name": "f"}),
        ({"function_call": "none"}, {"type": "none"}),
        ({"parallel_tool_calls": True}, None),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "required", "parallel_tool_calls": True},
            {"type": "any", "disable_parallel_tool_use": False},
        ),
    ],
)
def test_tools_and_how_they_are_chosen(asked: dict[str, Any], chosen: Any) -> None:
    sent = told(CHAT, MESSAGES, messages=[HI], tools=[FUNCTION], **asked)
    assert sent["tools"] == [TOOL]
    assert sent.get("tool_choice") == chosen


def test_only_allowed_tools_are_offered() -> None:
    other = {"type": "function", "function": {"name": "g"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"tools": [FUNCTION]}}
    sent = told(CHAT, MESSAGES, messages=[HI], tools=[FUNCTION, other], tool_choice=allowed)
    assert (sent["tools"], sent["tool_choice"]) == ([TOOL], {"type": "auto"})


def test_tools_of_every_kind() -> None:
    function = {"name": "f", "parameters": {"properties": {}}, "strict": True}
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "x+"}}
    sent = told(
        CHAT,
        MESSAGES,
        messages=[HI],
        tools=[
            {"type": "function", "function": function},
            {"type": "custom", "custom": {"name": "c", "format": grammar}},
            {"type": "custom", "custom": {"name": "d"}},
            {"type": "mystery"},
        ],
        functions=[{"name": "old"}],
    )
    assert [tool["name"] for tool in sent["tools"]] == ["f", "c", "d", "old"]
    assert sent["tools"][0] == {
        "name": "f",
        "input_schema": {"type": "object", "properties": {}},
        "strict": True,
    }
    assert sent["tools"][1]["description"] == "The input must follow this regex grammar:\nx+"
    assert "description" not in sent["tools"][2]


def test_parameters() -> None:
    sent = told(
        CHAT,
        MESSAGES,
        messages=[HI],
        max_tokens=5,
        max_completion_tokens=50,
        temperature=1.7,
        stop="END",
        stream=True,
        stream_options={"include_usage": True},
        user="somebody",
    )
    assert sent == {
        "model": "m",
        "max_tokens": 50,
        "messages": [HI],
        "stream": True,
        "temperature": 1.0,
        "stop_sequences": ["END"],
        "metadata": {"user_id": "somebody"},
    }


@pytest.mark.parametrize(
    "model, kept",
    [
        ("m", "temperature"),
        ("claude-sonnet-4-6", "temperature"),
        ("claude-opus-4-8", ""),
        ("claude-new-6", ""),
    ],
)
def test_one_word_on_sampling_or_none(model: str, kept: str) -> None:
    asked: dict[str, Any] = {"model": model, "messages": [HI], "temperature": 0, "top_p": 0.5}
    assert {"temperature", "top_p"} & told(CHAT, MESSAGES, **asked).keys() == (
        {kept} if kept else set()
    )
    assert set(lost(CHAT, MESSAGES, **asked)) == {"temperature", "top_p"} - {kept}


def thinking(model: str, effort: str, **more: Any) -> dict[str, Any]:
    """Return what a model is told about thinking."""
    asked = {"messages": [HI], "reasoning_effort": effort, **more}
    sent = told(CHAT, MESSAGES, model=model, **asked)
    return {
        name: sent[name] for name in ("thinking", "output_config", "max_tokens") if name in sent
    }


@pytest.mark.parametrize(
    "effort, budget",
    [
        ("minimal", 1024),
        ("low", 2048),
        ("medium", 8192),
        ("high", 16384),
        ("xhigh", 32768),
        ("max", 65536),
    ],
)
def test_how_much_to_think_is_a_budget(effort: str, budget: int) -> None:
    assert thinking("claude-sonnet-4-5", effort) == {
        "thinking": {"type": "enabled", "budget_tokens": budget},
        "max_tokens": 8192 + budget,
    }


@pytest.mark.parametrize(
    "effort, word",
    [("minimal", "low"), ("low", "low"), ("medium", "medium"), ("high", "high"), ("max", "high")],
)
def test_or_a_word(effort: str, word: str) -> None:
    assert thinking("claude-opus-4-7", effort, max_tokens=9) == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": word},
        "max_tokens": 9,
    }


def test_the_budget_leaves_room_for_the_answer() -> None:
    assert thinking("claude-haiku-4-5", "high", max_tokens=4000)["thinking"] == {
        "type": "enabled",
        "budget_tokens": 3999,
    }


CALLED = [HI, {"role": "assistant", "tool_calls": [called("a")]}, answered("a")]
HURRY = {"role": "system", "content": "Hurry."}


@pytest.mark.parametrize(
    "model, more",
    [
        ("claude-3-5-sonnet-latest", {}),
        ("claude-sonnet-4-5", {"max_tokens": 1024}),
        ("claude-sonnet-4-5", {"tools": [FUNCTION], "tool_choice": "required"}),
        ("claude-opus-4-8", {"tools": [FUNCTION], "tool_choice": "required"}),
        ("claude-sonnet-4-5", {"messages": CALLED}),
        ("claude-sonnet-4-5", {"messages": [*CALLED, HURRY]}),
        ("claude-sonnet-4-5", {"messages": [*CALLED, HURRY, HI]}),
    ],
)
def test_thinking_is_left_out_where_it_would_be_refused(model: str, more: dict[str, Any]) -> None:
    asked = {"messages": [HI], "reasoning_effort": "high", **more}
    assert "thinking" not in told(CHAT, MESSAGES, model=model, **asked)
    assert lost(CHAT, MESSAGES, model=model, **asked) == ("effort",)


def test_thinking_goes_on_where_it_began() -> None:
    history = [
        HI,
        reasoned("holdgate:signature:abc"),
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
    ]
    sent = told(RESPONSES, MESSAGES, input=history, reasoning={"effort": "low"}, temperature=1)
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert "temperature" not in sent


def test_not_to_think_is_to_say_nothing() -> None:
    asked: dict[str, Any] = {"messages": [HI], "reasoning_effort": "none"}
    assert "thinking" not in told(CHAT, MESSAGES, **asked)
    assert lost(CHAT, MESSAGES, **asked) == ()
    assert "thinking" not in told(CHAT, MESSAGES, messages=[], reasoning_effort="")
    assert "thinking" in told(CHAT, MESSAGES, messages=[], reasoning_effort="low")


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def schema(strict: bool) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": strict}}


def test_a_strict_form_of_the_answer_is_asked_for() -> None:
    sent = told(
        CHAT,
        MESSAGES,
        model="claude-x",
        messages=[HI],
        response_format=schema(True),
        reasoning_effort="low",
    )
    assert sent["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": SCHEMA},
    }


@pytest.mark.parametrize(
    "asked, word",
    [(schema(False), '"integer"'), ({"type": "json_object"}, "one JSON object")],
)
def test_a_looser_one_is_asked_for_in_words(asked: Any, word: str) -> None:
    members = {
        "messages": [{"role": "system", "content": "Be kind."}, HI],
        "response_format": asked,
    }
    sent = told(CHAT, MESSAGES, **members)
    assert word in sent["system"][1]["text"]
    assert "output_config" not in sent
    assert lost(CHAT, MESSAGES, **members) == ("format",)
    assert told(CHAT, MESSAGES, messages=[HI], response_format={"type": "text"})["messages"] == [HI]


def test_metadata_is_lost_but_who_asks_is_told() -> None:
    asked: dict[str, Any] = {"input": "hi", "metadata": {"k": "v"}, "user": "u" * 300}
    assert len(told(RESPONSES, MESSAGES, **asked)["metadata"]["user_id"]) < 64
    assert lost(RESPONSES, MESSAGES, **asked) == ("metadata",)
