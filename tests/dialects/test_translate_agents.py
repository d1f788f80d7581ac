"""Requests in the form the two coding agents use, written by hand, told to all dialects."""

import time
from typing import Any

import msgspec
import pytest

from tests.dialects.sdk_types import misfits
from tests.dialects.translation import CHAT, MESSAGES, PICTURE, RESPONSES, ask, text, told

CACHED = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 64000,
    "stream": True,
    "system": [
        text("x-anthropic-billing-header: cc_version=2.1"),
        {**text("You are Claude Code."), **CACHED},
    ],
    "messages": [
        {
            "role": "user",
            "content": [
                text("<system-reminder>…</system-reminder>"),
                {**text("Look at it."), **CACHED},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "EqQB"},
                {"type": "tool_use", "id": "toolu_01A", "name": "Read", "input": {"path": "a.png"}},
                {"type": "tool_use", "id": "toolu_01B", "name": "Read", "input": {"path": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": [PICTURE]},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01B",
                    "content": "<tool_use_error>File does not exist.</tool_use_error>",
                    "is_error": True,
                    **CACHED,
                },
            ],
        },
        {"role": "system", "content": "The user has 3 unread notes."},
    ],
    "tools": [
        {
            "name": "Read",
            "description": "Reads a file",
            "input_schema": SCHEMA,
            "eager_input_streaming": True,
        },
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": '{"device_id":"' + "0" * 64 + '","session_id":"s"}'},
}

CODEX: dict[str, Any] = {
    "model": "gpt-5.5-codex",
    "instructions": "You are Codex.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions instructions>"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAA"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "On it."}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "name": "exec_command",
            "arguments": '{"cmd":"ls"}',
            "call_id": "call_1",
        },
        {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "call_2",
            "name": "apply_patch",
            "input": "*** Begin Patch\n*** End Patch",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "a.py"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done!"},
    ],
    "tools": [
        {
            "type": "function",
            "name": "exec_command",
            "description": "Runs a command",
            "strict": False,
            "parameters": SCHEMA,
        },
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edits files",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin"},
        },
        {"type": "web_search", "external_web_access": False},
        {"type": "namespace", "name": "mcp__docs__", "description": "Docs", "tools": []},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "019a",
    "client_metadata": {"session_id": "019a"},
    "text": {"verbosity": "low"},
}
AGENTS = {MESSAGES: CLAUDE_CODE, RESPONSES: CODEX}
PAIRS = [(MESSAGES, CHAT), (MESSAGES, RESPONSES), (RESPONSES, CHAT), (RESPONSES, MESSAGES)]


@pytest.mark.parametrize("client, upstream", PAIRS)
def test_an_agent_can_be_served_by_any_upstream(client: str, upstream: str) -> None:
    assert misfits(upstream, told(client, upstream, **AGENTS[client])) == []


@pytest.mark.parametrize(
    "client, upstream, names",
    [
        (
            MESSAGES,
            CHAT,
            {
                "context_management",
                "text.cache_control",
                "tool_result.cache_control",
                "tools.eager_input_streaming",
                "tools.web_search_20250305",
                "reasoning",
                "x-anthropic-billing-header",
            },
        ),
        (
            RESPONSES,
            MESSAGES,
            {
                "include",
                "prompt_cache_key",
                "client_metadata",
                "reasoning.summary",
                "text.verbosity",
                "message.phase",
                "tools.web_search",
                "tools.namespace.mcp__docs__",
                "reasoning",
                "effort",
            },
        ),
    ],
)
def test_what_an_agent_asks_in_vain(client: str, upstream: str, names: set[str]) -> None:
    assert set(ask(client, upstream, **AGENTS[client]).lost) == names


def test_claude_code_to_a_chat_upstream() -> None:
    sent = told(MESSAGES, CHAT, "glm", **{**CLAUDE_CODE, "model": "glm-4.7"})["messages"]
    assert [message["role"] for message in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "system",
    ]
    assert sent[3]["content"] == "[image: left out]"
    assert sent[4]["content"].startswith("[tool error] <tool_use_error>")


def test_codex_to_a_messages_upstream() -> None:
    sent = told(RESPONSES, MESSAGES, **CODEX)
    assert sent["system"] == [text("You are Codex."), text("<permissions instructions>")]
    assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
    said, exec_command, apply_patch = sent["messages"][1]["content"]
    assert said == text("On it.")
    assert exec_command["input"] == {"cmd": "ls"}
    assert apply_patch["input"] == {"input": "*** Begin Patch\n*** End Patch"}
    assert [tool["name"] for tool in sent["tools"]] == ["exec_command", "apply_patch"]


def test_a_long_history_is_translated_in_time() -> None:
    """Results that come late must not be looked for from the end each time."""
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "f"} for n in range(20_000)]
    talk = [{"role": role, "content": "x"} for role in ("user", "assistant")] * 10_000
    results = [{"type": "function_call_output", "call_id": f"c{n}"} for n in range(20_000)]
    begun = time.process_time()
    asked = ask(RESPONSES, CHAT, input=[*calls, *talk, *results])
    assert len(msgspec.json.decode(asked.body)["messages"]) == 40_001
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_what_an_agent_notes_for_its_vendor_is_no_instruction(upstream: str) -> None:
    written = ask(MESSAGES, upstream, **CLAUDE_CODE).body
    assert b"billing" not in written
    assert b"You are Claude Code." in written
