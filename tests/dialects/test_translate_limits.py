"""Requests that cannot be translated whole: what is refused, and what is left out and named."""

from typing import Any

import pytest

from gateway.dialects.translate.requests import READERS
from gateway.errors import BadRequest
from tests.dialects.translation import (
    CHAT,
    HI,
    MESSAGES,
    PICTURE,
    RESPONSES,
    assistant,
    lost,
    refusal,
    result,
    text,
    use,
    user,
)

ELSEWHERE = {CHAT: MESSAGES, RESPONSES: CHAT, MESSAGES: RESPONSES}


def said(*parts: Any) -> dict[str, Any]:
    return {"messages": [user(*parts)]}


def item(**members: Any) -> dict[str, Any]:
    return {"input": [members]}


@pytest.mark.parametrize(
    "client, members, param",
    [
        (CHAT, {"n": 2}, "n"),
        (CHAT, {"n": "2"}, "n"),
        (CHAT, {"n": True}, "n"),
        (CHAT, {"n": 1.5}, "n"),
        (CHAT, {"modalities": ["text", "audio"]}, "modalities"),
        (CHAT, {"model": ""}, "model"),
        (CHAT, {"messages": 7}, "messages"),
        (CHAT, {"messages": [7]}, "messages[0]"),
        (CHAT, {"messages": [{"role": "judge"}]}, "messages[0].role"),
        (CHAT, {"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        (CHAT, said({"type": "input_audio"}), "messages[0].content[0]"),
        (CHAT, said({"type": "tool_use"}), "messages[0].content[0]"),
        (CHAT, said({"type": "refusal"}), "messages[0].content[0]"),
        (CHAT, said({"type": "image_url"}), "messages[0].content[0].image_url.url"),
        (CHAT, said({"type": "file"}), "messages[0].content[0].file.file_data"),
        (
            CHAT,
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        (CHAT, {"tools": [{"type": "function"}]}, "tools[0].function.name"),
        (
            CHAT,
            {"tools": [{"type": "custom", "custom": {"name": "c", "format": {"type": "grammar"}}}]},
            "tools[0].custom.format.grammar.syntax",
        ),
        (
            CHAT,
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": [{"name": {}}]}}},
            "tool_choice.allowed_tools.tools[0].name",
        ),
        (
            RESPONSES,
            {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "custom", "name": []}]}},
            "tool_choice.tools[0].name",
        ),
        (CHAT, {"stop": [1]}, "stop"),
        (CHAT, {"stop": 1}, "stop"),
        (CHAT, {"temperature": "hot"}, "temperature"),
        (CHAT, {"stream": "yes"}, "stream"),
        (CHAT, {"metadata": []}, "metadata"),
        (CHAT, {"response_format": {"type": "grammar"}}, "response_format"),
        (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id"),
        (RESPONSES, {"conversation": {"id": "conv_1"}}, "conversation"),
        (RESPONSES, {"prompt": {"id": "pmpt_1"}}, "prompt"),
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, item(type="item_reference", id="msg_1"), "input[0]"),
        (RESPONSES, item(type="compaction", encrypted_content="x"), "input[0]"),
        (RESPONSES, item(role="judge", content="x"), "input[0].role"),
        (RESPONSES, item(role="user", content=[{"type": "output_text"}]), "input[0].content[0]"),
        (
            RESPONSES,
            item(role="user", content=[{"type": "input_image", "file_id": "f"}]),
            "input[0].content[0]",
        ),
        (
            RESPONSES,
            item(role="user", content=[{"type": "input_file"}]),
            "input[0].content[0].file_data",
        ),
        (RESPONSES, item(type="function_call", name="f"), "input[0].call_id"),
        (RESPONSES, item(type="function_call_output", call_id="call_9"), "input"),
        (RESPONSES, {"text": {"format": {"type": "grammar"}}}, "text.format"),
        (RESPONSES, {"tools": [{"type": "function"}]}, "tools[0].name"),
        (MESSAGES, {"messages": [{"role": "tool"}]}, "messages[0].role"),
        (MESSAGES, said({"type": "container_upload"}), "messages[0].content[0]"),
        (MESSAGES, said({"type": "thinking"}), "messages[0].content[0]"),
        (
            MESSAGES,
            said({"type": "image", "source": {"type": "file", "file_id": "f"}}),
            "messages[0].content[0]",
        ),
        (MESSAGES, said({"type": "document"}), "messages[0].content[0]"),
        (
            MESSAGES,
            said({"type": "document", "source": {"type": "content", "content": [PICTURE]}}),
            "messages[0].content[0]",
        ),
        (MESSAGES, said({"type": "tool_result"}), "messages[0].content[0].tool_use_id"),
        (MESSAGES, {"messages": [assistant({"type": "tool_use"})]}, "messages[0].content[0].id"),
        (MESSAGES, {"stop_sequences": "END"}, "stop_sequences"),
        (MESSAGES, {"thinking": "much"}, "thinking"),
        (MESSAGES, {"output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        (
            MESSAGES,
            {
                "tool_choice": {"type": "tool", "name": "web_search"},
                "tools": [{"type": "web_search_1"}],
            },
            "tool_choice",
        ),
        (MESSAGES, {"tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_what_would_change_the_meaning_is_refused_by_name(
    client: str, members: dict[str, Any], param: str
) -> None:
    asked = {"input": "hi"} if client == RESPONSES else {"messages": [HI]}
    assert refusal(client, ELSEWHERE[client], **{**asked, **members}).param == param


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'"\xff"', b'{"a":"\\ud800"}', b'{"a":1e999}', b'{"a":' * 5000]
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    for read in READERS.values():
        with pytest.raises(BadRequest):
            read(body)


@pytest.mark.parametrize(
    "client, members, names",
    [
        (CHAT, {"seed": 0, "logprobs": True, "n": 1, "modalities": ["text"]}, ("seed", "logprobs")),
        (CHAT, {"logit_bias": {}, "store": False, "audio": None, "stop": None}, ()),
        (
            CHAT,
            {"stream_options": {"include_obfuscation": True}},
            ("stream_options.include_obfuscation",),
        ),
        (CHAT, {"reasoning_effort": "utmost"}, ("reasoning_effort",)),
        (CHAT, {"messages": [{**HI, "name": "Ann"}]}, ("messages.name",)),
        (
            CHAT,
            {"messages": [{"role": "system", "content": [{"type": "image_url"}]}]},
            ("image_url",),
        ),
        (
            CHAT,
            {"messages": [user({**text("a"), "prompt_cache_breakpoint": {"mode": "x"}})]},
            ("text.prompt_cache_breakpoint",),
        ),
        (CHAT, {"tools": [{"type": "mystery"}]}, ("tools.mystery",)),
        (
            RESPONSES,
            {
                "include": ["reasoning.encrypted_content"],
                "prompt_cache_key": "k",
                "client_metadata": {"a": "b"},
                "store": False,
                "text": {"verbosity": "low"},
                "reasoning": {"summary": "auto", "effort": None},
                "service_tier": "auto",
            },
            (
                "include",
                "prompt_cache_key",
                "client_metadata",
                "service_tier",
                "reasoning.summary",
                "text.verbosity",
            ),
        ),
        (RESPONSES, item(type="web_search_call", id="ws_1"), ("input.web_search_call",)),
        (
            RESPONSES,
            item(
                type="message",
                role="assistant",
                id="msg_1",
                status="completed",
                phase="x",
                content=[],
            ),
            ("message.phase",),
        ),
        (
            MESSAGES,
            {
                "context_management": {"edits": []},
                "top_k": 5,
                "output_config": {"effort": "high", "task_budget": {"total": 9}},
                "metadata": {"user_id": "u", "x": 1},
                "thinking": {"type": "adaptive", "display": "omitted"},
            },
            (
                "context_management",
                "top_k",
                "metadata.x",
                "output_config.task_budget",
                "thinking.display",
            ),
        ),
        (
            MESSAGES,
            {"messages": [user({**text("a"), "cache_control": {"type": "ephemeral"}})]},
            ("text.cache_control",),
        ),
        (
            MESSAGES,
            {
                "messages": [
                    HI,
                    assistant(
                        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                        text("ho"),
                    ),
                ]
            },
            ("server_tool_use", "web_search_tool_result"),
        ),
        (
            MESSAGES,
            {"messages": [assistant(use("a")), user(result("a", [{"type": "browser_state"}]))]},
            ("tool result browser_state",),
        ),
    ],
)
def test_what_has_no_counterpart_is_left_out_and_named_once(
    client: str, members: dict[str, Any], names: tuple[str, ...]
) -> None:
    asked = {"input": "hi"} if client == RESPONSES else {"messages": [HI]}
    assert lost(client, ELSEWHERE[client], **{**asked, **members}) == names


def test_of_a_million_unknown_members_the_first_are_named_in_the_log() -> None:
    members: dict[str, Any] = {"k" * 200: 1} | {f"k{number}": 1 for number in range(1000)}
    told = lost("openai-chat", "anthropic-messages", messages=[], **members)
    assert told[:3] == ("k" * 100, "k0", "k1")
    assert len(told) == 50
