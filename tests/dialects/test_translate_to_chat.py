"""Requests towards Chat Completions upstreams."""

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


def messages(*history: Any, profile: str = "", **more: Any) -> list[dict[str, Any]]:
    """Return the messages a chat upstream is sent for a history of Messages."""
    sent = told(MESSAGES, CHAT, profile, messages=list(history), max_tokens=9, **more)
    found: list[dict[str, Any]] = sent["messages"]
    return found


def items(*history: Any, **more: Any) -> list[dict[str, Any]]:
    """Return the messages a chat upstream is sent for an input of Responses."""
    found: list[dict[str, Any]] = told(RESPONSES, CHAT, input=list(history), **more)["messages"]
    return found


def test_a_call_is_a_member_of_its_message_and_not_a_part_of_its_content() -> None:
    asked = assistant(text("Let me look."), use("toolu_123", "get_projects"))
    answered = user(result("toolu_123", '{"projects":[]}'))
    assert messages(asked, answered, profile="glm") == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [called("toolu_123", "get_projects", "{}")],
        },
        {"role": "tool", "tool_call_id": "toolu_123", "content": '{"projects":[]}'},
    ]


@pytest.mark.parametrize("profile, content", [("glm", ""), ("", None), ("deepseek", None)])
def test_the_content_of_a_turn_that_only_calls(profile: str, content: str | None) -> None:
    turn = messages(assistant(use("a")), user(result("a")), profile=profile)[0]
    assert turn["content"] == content


def test_arguments_are_json_and_empty_ones_an_object() -> None:
    bare = {"type": "tool_use", "id": "a", "name": "f"}
    turn = messages(assistant(bare, use("b", city="Łódź")))[0]
    assert [call["function"]["arguments"] for call in turn["tool_calls"]] == [
        "{}",
        '{"city":"Łódź"}',
    ]


def test_results_come_before_the_users_text_in_the_order_of_the_calls() -> None:
    history = messages(
        assistant(use("a"), use("b")),
        user(text("And now?"), result("b", "second"), text("Go on."), result("a", "first")),
    )
    assert history[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "first"},
        {"role": "tool", "tool_call_id": "b", "content": "second"},
        {"role": "user", "content": "And now?\n\nGo on."},
    ]


@pytest.mark.parametrize(
    "content, more, shown",
    [
        ("as is", {}, "as is"),
        ([text("one"), text("two")], {}, "one\ntwo"),
        (None, {}, ""),
        ([], {}, ""),
        ({"projects": []}, {}, '{"projects":[]}'),
        ([{"id": 1}, {"id": 2}], {}, '[{"id":1},{"id":2}]'),
        (["a"], {"is_error": True}, '[tool error] ["a"]'),
        (False, {}, "false"),
        ("no such file", {"is_error": True}, "[tool error] no such file"),
        ([], {"is_error": True}, "[tool error] "),
        ([{"type": "tool_reference", "tool_name": "x"}], {}, "[tool_reference: left out]"),
        (
            [{"type": "search_result", "title": "T", "source": "S", "content": [text("C")]}],
            {},
            "T\nS\nC",
        ),
    ],
)
def test_what_a_tool_returned_is_text(content: Any, more: dict[str, Any], shown: str) -> None:
    history = messages(assistant(use("a")), user(result("a", content, **more)))
    assert history[1]["content"] == shown


@pytest.mark.parametrize("output, shown", [({"ok": True}, '{"ok":true}'), ([1.5], "[1.5]")])
def test_what_other_dialects_tools_returned_is_text_too(output: Any, shown: str) -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f"}
    answer = {"type": "function_call_output", "call_id": "a", "output": output}
    assert items(call, answer)[1]["content"] == shown
    history = [
        {"role": "assistant", "tool_calls": [called("a")]},
        {"role": "tool", "tool_call_id": "a", "content": output},
    ]
    assert told(CHAT, RESPONSES, messages=history)["input"][1]["output"] == shown


def test_a_picture_a_tool_returned_is_shown_by_the_user_who_follows() -> None:
    history = messages(
        assistant(use("a"), use("b")),
        user(result("a", [text("Here:"), PICTURE]), result("b"), text("Well?")),
    )
    shown = {"type": "image_url", "image_url": {"url": PICTURE_URL}}
    assert history[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "Here:\n[image: see below]"},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "user", "content": [shown, {"type": "text", "text": "Well?"}]},
    ]


@pytest.mark.parametrize(
    "part, kind",
    [(PICTURE, "image"), ({"type": "document", "source": {"type": "url", "url": "u"}}, "file")],
)
def test_what_cannot_be_shown_of_a_result_says_so(part: Any, kind: str) -> None:
    asked = {"messages": [assistant(use("a")), user(result("a", [part]))]}
    assert told(MESSAGES, CHAT, "glm", **asked)["messages"][1]["content"] == f"[{kind}: left out]"
    assert f"tool result {kind}" in lost(MESSAGES, CHAT, "glm", **asked)


def test_a_text_a_tool_returned_as_a_document_is_told() -> None:
    document = {"type": "document", "title": "t.md", "source": {"type": "text", "data": "words"}}
    assert (
        messages(assistant(use("a")), user(result("a", [document])))[1]["content"]
        == "t.md\n\nwords"
    )


def test_a_call_without_a_result_gets_one() -> None:
    history = messages(HI, assistant(use("a"), use("b")), user(result("b"), text("Stop.")))
    made_up = "[tool error] No result came back from this call."
    assert history[2:] == [
        {"role": "tool", "tool_call_id": "a", "content": made_up},
        {"role": "tool", "tool_call_id": "b", "content": "done"},
        {"role": "user", "content": "Stop."},
    ]


@pytest.mark.parametrize(
    "history",
    [
        [user(result("toolu_9"))],
        [assistant(use("a")), user(result("a"), result("toolu_9"))],
        [user(result("toolu_9")), assistant(use("toolu_9"))],
        [assistant(use("toolu_9")), user(result("toolu_9"), result("toolu_9"))],
    ],
)
def test_a_result_without_its_call_is_refused_by_name(history: list[Any]) -> None:
    error = refusal(MESSAGES, CHAT, messages=history)
    assert "toolu_9" in error.message
    assert error.param == "messages"


def test_a_result_may_come_late() -> None:
    history = items(
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"role": "assistant", "content": "Working on it."},
        {"role": "user", "content": "Hurry."},
        {"role": "assistant", "content": "Yes."},
        {"type": "function_call_output", "call_id": "a", "output": "done"},
    )
    assert [message["role"] for message in history] == ["assistant", "tool", "user", "assistant"]


def test_calls_in_a_row_are_one_turn() -> None:
    history = items(
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": ""},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{broken"},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
    )
    assert history[0]["tool_calls"] == [called("a"), called("b", "g", "{broken")]
    assert [message["content"] for message in history[1:]] == ["one", "two"]


def test_system_texts_are_one_message_and_those_inside_keep_their_place() -> None:
    history = messages(
        HI,
        {"role": "system", "content": [text("Be brief.")]},
        system=[text("You are kind."), text(""), text("You are wise.")],
    )
    assert history == [
        {"role": "system", "content": "You are kind.\n\nYou are wise."},
        HI,
        {"role": "system", "content": "Be brief."},
    ]


def test_instructions_and_the_first_developer_messages_are_the_system() -> None:
    developer = {"type": "message", "role": "developer", "content": "Be brief."}
    history = items(developer, HI, developer, instructions="You are kind.")
    assert [(message["role"], message["content"]) for message in history] == [
        ("system", "You are kind.\n\nBe brief."),
        ("user", "hi"),
        ("system", "Be brief."),
    ]


def test_plain_strings_are_accepted_everywhere() -> None:
    assert told(RESPONSES, CHAT, input="hi", instructions="")["messages"] == [HI]
    plain = {"role": "assistant", "content": "ho"}
    assert messages(HI, plain, system="Be kind.")[1:] == [HI, plain]
    assert messages(HI, {"role": "assistant", "content": ""}) == [HI]


@pytest.mark.parametrize(
    "block, part",
    [
        (
            {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
            {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        ),
        (
            {
                "type": "document",
                "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            },
            {
                "type": "file",
                "file": {
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                },
            },
        ),
    ],
)
def test_pictures_and_documents(block: Any, part: Any) -> None:
    assert messages(user(text("Look:"), block))[0]["content"] == [text("Look:"), part]


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "words"},
        {"type": "base64", "media_type": "text/markdown", "data": "d29yZHM="},
        {"type": "content", "content": "words"},
        {"type": "content", "content": [text("words")]},
    ],
)
def test_documents_of_plain_text_are_told(source: Any) -> None:
    assert messages(user({"type": "document", "source": source}))[0]["content"] == "words"


@pytest.mark.parametrize("data", ["***", "/w=="])
def test_a_text_that_is_none_is_a_document(data: str) -> None:
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    part = messages(user({"type": "document", "source": source}))[0]["content"][0]
    assert part["file"] == {
        "filename": "document",
        "file_data": f"data:text/plain;base64,{data}",
    }


def test_a_file_the_upstream_knows_is_named_to_it() -> None:
    parts = [
        {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
        {"type": "input_image", "image_url": PICTURE_URL, "detail": "low"},
    ]
    content = items({"role": "user", "content": parts})[0]["content"]
    assert content == [
        {"type": "file", "file": {"filename": "a.pdf", "file_id": "file-1"}},
        {"type": "image_url", "image_url": {"url": PICTURE_URL, "detail": "low"}},
    ]


@pytest.mark.parametrize(
    "profile, part",
    [
        ("", {"type": "input_file", "file_url": "https://x.test/a.pdf"}),
        ("glm", {"type": "input_image", "image_url": PICTURE_URL}),
    ],
)
def test_what_a_user_shows_and_the_upstream_cannot_see_is_refused(profile: str, part: Any) -> None:
    error = refusal(RESPONSES, CHAT, profile, input=[{"role": "user", "content": [part]}])
    assert "upstream" in error.message


def test_reasoning_is_left_out_and_named() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    asked: dict[str, Any] = {"messages": [HI, assistant(thought, text("ho"))]}
    assert told(MESSAGES, CHAT, **asked)["messages"][1] == {"role": "assistant", "content": "ho"}
    assert lost(MESSAGES, CHAT, **asked) == ("reasoning",)
    assert messages(HI, assistant(thought)) == [HI]
    assert lost(MESSAGES, CHAT, "deepseek", messages=[HI, assistant(thought)]) == ("reasoning",)


def test_a_refusal_keeps_its_place() -> None:
    part = {"type": "refusal", "refusal": "No."}
    turn = items({"role": "assistant", "content": [part]})[0]
    assert turn == {"role": "assistant", "content": None, "refusal": "No."}


def test_tools_and_how_they_are_chosen() -> None:
    choices = [
        (None, None),
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ]
    for asked, chosen in choices:
        sent = told(MESSAGES, CHAT, messages=[HI], tools=[TOOL], tool_choice=asked)
        assert sent["tools"] == [FUNCTION]
        assert sent.get("tool_choice") == chosen


def test_strict_tools_stay_strict_and_one_at_a_time_stays_so() -> None:
    sent = told(
        MESSAGES,
        CHAT,
        messages=[HI],
        tools=[{**TOOL, "type": "custom", "strict": True}, {"name": "g"}],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )
    assert [tool["function"].get("strict") for tool in sent["tools"]] == [True, None]
    assert sent["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert sent["parallel_tool_calls"] is False


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
@pytest.mark.parametrize("schema", [None, {}, {"type": "object"}])
def test_a_tool_without_parameters_has_properties(upstream: str, schema: Any) -> None:
    tool = {"name": "f", "input_schema": schema}
    (sent,) = told(MESSAGES, upstream, messages=[HI], tools=[tool])["tools"]
    assert sent.get("function", sent)["parameters"] == {"type": "object", "properties": {}}


def test_a_choice_without_tools_is_not_sent() -> None:
    assert "tool_choice" not in told(MESSAGES, CHAT, messages=[HI], tool_choice={"type": "auto"})


HOSTED = [
    {"type": "web_search"},
    {"type": "namespace", "name": "mcp__files", "description": "", "tools": []},
    {"type": "function", "name": "f", "parameters": None, "defer_loading": True},
]


def test_hosted_tools_are_left_out_and_named() -> None:
    asked: dict[str, Any] = {"input": "hi", "tools": HOSTED, "tool_choice": "auto"}
    assert [tool["function"]["name"] for tool in told(RESPONSES, CHAT, **asked)["tools"]] == ["f"]
    assert lost(RESPONSES, CHAT, **asked) == (
        "tools.web_search",
        "tools.namespace.mcp__files",
        "tools.defer_loading",
    )


@pytest.mark.parametrize(
    "tools, choice, named",
    [
        (HOSTED, {"type": "web_search"}, "web_search"),
        (HOSTED, {"type": "mcp", "server_label": "x", "name": "read"}, "read"),
        (HOSTED, {"type": "function", "name": "g"}, "`g`"),
        (HOSTED[:1], "required", "none can"),
        (None, "required", "none can"),
        (HOSTED, {"type": "allowed_tools", "mode": "required", "tools": [HOSTED[0]]}, "none can"),
        (HOSTED, "sometimes", "must be"),
        (HOSTED, 7, "must be"),
        (HOSTED, {"type": None}, "must be"),
    ],
)
def test_forcing_what_is_not_there_is_refused(tools: Any, choice: Any, named: str) -> None:
    error = refusal(RESPONSES, CHAT, input="hi", tools=tools, tool_choice=choice)
    assert named in error.message
    assert error.param == "tool_choice"


def test_only_allowed_tools_are_offered() -> None:
    functions = [{"type": "function", "name": name} for name in ("f", "g", "h")]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": functions[:2]}
    sent = told(RESPONSES, CHAT, input="hi", tools=functions, tool_choice=allowed)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["f", "g"]
    assert sent["tool_choice"] == "required"


PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}


def test_a_custom_tool_is_a_function_with_one_text() -> None:
    plain = {"type": "custom", "name": "say", "format": {"type": "text"}}
    sent = told(
        RESPONSES,
        CHAT,
        input="hi",
        tools=[PATCH, plain],
        tool_choice={"type": "custom", "name": "say"},
    )
    schema = {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    grammar = "Edits files.\n\nThe input must follow this lark grammar:\nstart: /.+/"
    assert [tool["function"] for tool in sent["tools"]] == [
        {"name": "apply_patch", "description": grammar, "parameters": schema},
        {"name": "say", "parameters": schema},
    ]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "say"}}


def test_a_custom_tools_history_is_told_as_the_functions() -> None:
    history = items(
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": '*** "x"'},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "applied"},
    )
    assert history == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [called("a", "apply_patch", r'{"input":"*** \"x\""}')],
        },
        {"role": "tool", "tool_call_id": "a", "content": "applied"},
    ]


def test_parameters() -> None:
    sent = told(
        MESSAGES,
        CHAT,
        messages=[HI],
        max_tokens=99.0,
        temperature=0.3,
        top_p=1,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "somebody"},
    )
    assert sent == {
        "model": "m",
        "messages": [HI],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 99,
        "temperature": 0.3,
        "top_p": 1,
        "stop": ["END"],
        "user": "somebody",
    }


def test_usage_is_asked_for_only_of_a_stream() -> None:
    assert "stream_options" not in told(MESSAGES, CHAT, messages=[HI])


def test_long_names_are_shortened_the_same_way_each_time() -> None:
    long = "x" * 65
    history = messages(assistant(use(long)), user(result(long)), metadata={"user_id": long})
    assert history[0]["tool_calls"][0]["id"] == history[1]["tool_call_id"]
    assert len(history[1]["tool_call_id"]) <= 40
    assert len(told(MESSAGES, CHAT, messages=[HI], metadata={"user_id": long})["user"]) <= 64


@pytest.mark.parametrize(
    "members, effort",
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 500}}, "minimal"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "minimal"),
        ({"thinking": {"type": "enabled", "budget_tokens": 4000}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 32768}}, "xhigh"),
        ({"thinking": {"type": "enabled", "budget_tokens": 99999}}, "max"),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "max"}}, "max"),
        ({"output_config": {"effort": "utmost"}}, None),
    ],
)
def test_how_much_to_think(members: dict[str, Any], effort: str | None) -> None:
    assert told(MESSAGES, CHAT, messages=[HI], **members).get("reasoning_effort") == effort


@pytest.mark.parametrize(
    "model", ["gpt-4o", "openai/gpt-4.1-mini", "gpt-3.5-turbo", "chatgpt-4o-latest"]
)
def test_a_model_that_does_not_think_is_not_asked_to(model: str) -> None:
    asked: dict[str, Any] = {"model": model, "input": "hi", "reasoning": {"effort": "high"}}
    assert "reasoning_effort" not in told(RESPONSES, CHAT, **asked)
    assert lost(RESPONSES, CHAT, **asked) == ("effort",)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(
    "asked, sent",
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True},
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
        ),
    ],
)
def test_the_form_of_the_answer(asked: Any, sent: Any) -> None:
    body = told(RESPONSES, CHAT, input="hi", text={"format": asked})
    assert body.get("response_format") == sent


def test_the_form_of_the_answer_that_messages_ask_for() -> None:
    output = {"format": {"type": "json_schema", "schema": SCHEMA}}
    sent = told(MESSAGES, CHAT, messages=[HI], output_config=output)["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": True}


def test_metadata_is_left_out_where_nothing_is_stored() -> None:
    asked: dict[str, Any] = {"input": "hi", "metadata": {"k": "v"}}
    assert "metadata" not in told(RESPONSES, CHAT, **asked)
    assert lost(RESPONSES, CHAT, **asked) == ("metadata",)
    assert told(RESPONSES, CHAT, "openrouter", **asked)["metadata"] == {"k": "v"}
