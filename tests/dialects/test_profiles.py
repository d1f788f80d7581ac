"""Profiles: one conversation of a coding agent, as each kind of upstream has to be told it."""

from typing import Any

import pytest

from gateway.dialects.profiles import PROFILES, form_for, profile_for
from gateway.dialects.translate.effort import EFFORTS
from tests.dialects.translation import (
    CHAT,
    HI,
    MESSAGES,
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

SCHEMA = {"type": "object", "properties": {}}
ASKED: dict[str, Any] = {
    "model": "model-1",
    "max_tokens": 32000,
    "stream": True,
    "system": [text("You are an agent.")],
    "messages": [
        user(text("<reminder>Be quick.</reminder>"), text("Look around.")),
        assistant({"type": "thinking", "thinking": "Hm.", "signature": ""}, use("toolu_1", "look")),
        user(result("toolu_1", [text("nothing")])),
        assistant(use("toolu_2", "look")),
        user(result("toolu_2", "a door")),
    ],
    "tools": [{"name": "look", "input_schema": SCHEMA, "strict": True}],
    "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "u"},
}


def turn(content: str | None, call: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [called(call, "look")], **more}


def history(first: dict[str, Any], second: dict[str, Any], *asked_for: str) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "\n\n".join(("You are an agent.", *asked_for))},
        {"role": "user", "content": "<reminder>Be quick.</reminder>\n\nLook around."},
        first,
        {"role": "tool", "tool_call_id": "toolu_1", "content": "nothing"},
        second,
        {"role": "tool", "tool_call_id": "toolu_2", "content": "a door"},
    ]


IN_WORDS = (
    "Answer with JSON that follows this JSON schema, and nothing else:\n"
    '{"type":"object","properties":{}}'
)
BY_SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
}
LOOK = {"name": "look", "parameters": SCHEMA}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}

SENT: dict[str, dict[str, Any]] = {
    "openai": {
        "messages": history(turn(None, "toolu_1"), turn(None, "toolu_2")),
        **STREAMED,
        "tools": [{"type": "function", "function": {**LOOK, "strict": True}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_completion_tokens": 32000,
        "reasoning_effort": "high",
        "response_format": BY_SCHEMA,
        "user": "u",
    },
    "glm": {
        "messages": history(
            turn("", "toolu_1", reasoning_content="Hm."), turn("", "toolu_2"), IN_WORDS
        ),
        "stream": True,
        "tools": [{"type": "function", "function": LOOK}],
        "tool_choice": "auto",
        "max_tokens": 32000,
        "thinking": {"type": "enabled"},
        "response_format": {"type": "json_object"},
    },
    "deepseek": {
        "messages": history(
            turn(None, "toolu_1", reasoning_content="Hm."),
            turn(None, "toolu_2", reasoning_content=" "),
            IN_WORDS,
        ),
        **STREAMED,
        "tools": [{"type": "function", "function": LOOK}],
        "tool_choice": "auto",
        "max_tokens": 32000,
        "thinking": {"type": "enabled"},
        "response_format": {"type": "json_object"},
    },
    "openrouter": {
        "messages": history(turn(None, "toolu_1", reasoning="Hm."), turn(None, "toolu_2")),
        **STREAMED,
        "tools": [{"type": "function", "function": {**LOOK, "strict": True}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_tokens": 32000,
        "reasoning": {"effort": "high"},
        "response_format": BY_SCHEMA,
        "user": "u",
    },
    "vllm": {
        "messages": history(turn(None, "toolu_1", reasoning="Hm."), turn(None, "toolu_2")),
        **STREAMED,
        "tools": [{"type": "function", "function": LOOK}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_tokens": 32000,
        "reasoning_effort": "high",
        "response_format": BY_SCHEMA,
        "user": "u",
    },
    "mistral": {
        "messages": history(turn(None, "toolu_1"), turn(None, "toolu_2")),
        "stream": True,
        "tools": [{"type": "function", "function": {**LOOK, "strict": True}}],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_tokens": 32000,
        "response_format": BY_SCHEMA,
    },
    "plain": {
        "messages": history(turn("", "toolu_1"), turn("", "toolu_2"), IN_WORDS),
        **STREAMED,
        "tools": [{"type": "function", "function": LOOK}],
        "tool_choice": "auto",
        "max_tokens": 32000,
        "response_format": {"type": "json_object"},
    },
}
UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
LOST = {
    "openai": ("reasoning",),
    "glm": ("format", "strict", "parallel_tool_calls", "user"),
    "deepseek": ("format", "strict", "parallel_tool_calls", "user"),
    "openrouter": (),
    "vllm": ("strict",),
    "mistral": ("reasoning", "effort", "user"),
    "plain": ("format", "reasoning", "strict", "effort", "parallel_tool_calls", "user"),
}


@pytest.mark.parametrize("name", SENT)
def test_what_an_upstream_is_sent(name: str) -> None:
    assert told(MESSAGES, CHAT, name, **ASKED) == {"model": "model-1", **SENT[name]}


@pytest.mark.parametrize("name", LOST)
def test_what_an_upstream_is_not_told(name: str) -> None:
    assert lost(MESSAGES, CHAT, name, **ASKED) == LOST[name]


def test_every_profile_of_chat_upstreams_has_its_exchange() -> None:
    assert PROFILES.keys() == SENT.keys() | {"", "anthropic", "gemini"}
    signed = told(MESSAGES, CHAT, "gemini", **ASKED)
    calls = [call for m in signed["messages"] for call in m.get("tool_calls", ())]
    assert [call.pop("extra_content") for call in calls] == [UNSIGNED, UNSIGNED]
    assert signed == told(MESSAGES, CHAT, "", **ASKED)
    sent = told(MESSAGES, CHAT, "openai", **ASKED)
    sent["max_tokens"] = sent.pop("max_completion_tokens")
    for name in ("", "anthropic"):
        assert told(MESSAGES, CHAT, name, **ASKED) == sent


@pytest.mark.parametrize("name", PROFILES)
def test_the_limit_has_one_name_and_only_openai_has_its_own(name: str) -> None:
    sent = told(MESSAGES, CHAT, name, messages=[HI], max_tokens=15)
    limits = {"max_tokens", "max_completion_tokens"} & sent.keys()
    assert limits == {"max_completion_tokens" if name == "openai" else "max_tokens"}


@pytest.mark.parametrize(
    "name, host, found",
    [
        ("", "api.openai.com", "openai"),
        ("", "eu.API.OpenAI.com", "openai"),
        ("", "mine.openai.azure.com", "openai"),
        ("", "mine.cognitiveservices.azure.com", "openai"),
        ("", "mine.services.ai.azure.com", "openai"),
        ("", "127.0.0.1", ""),
        ("", "notapi.openai.com.example.com", ""),
        ("", "azure.com", ""),
        ("openai", "127.0.0.1", "openai"),
        ("deepseek", "mine.services.ai.azure.com", "deepseek"),
    ],
)
def test_openai_is_known_by_its_hosts_unless_a_profile_is_named(
    name: str, host: str, found: str
) -> None:
    assert profile_for(name, host) is PROFILES[found]


def test_where_no_tool_can_be_forced_that_is_said() -> None:
    asked = {"messages": [HI], "tools": [{"name": "look"}]}
    error = refusal(MESSAGES, CHAT, "glm", **asked, tool_choice={"type": "any"})
    assert error.param == "tool_choice"
    sent = told(MESSAGES, CHAT, "glm", **asked, tool_choice={"type": "none"})
    assert not {"tools", "tool_choice"} & sent.keys()


@pytest.mark.parametrize("name", ["glm", "deepseek"])
def test_not_to_think_is_told_where_thinking_is_the_rule(name: str) -> None:
    sent = told(MESSAGES, CHAT, name, messages=[HI], thinking={"type": "disabled"})
    assert sent["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_sound(name: str) -> None:
    profile = PROFILES[name]
    assert set(profile.efforts) <= set(EFFORTS)
    assert {form for _, form in profile.thinking} <= {"", "budget", "adaptive"}
    assert {form for _, form in profile.effort} <= {
        "",
        "reasoning_effort",
        "reasoning",
        "thinking",
    }


@pytest.mark.parametrize(
    "model, form",
    [
        ("claude-3-5-haiku-latest", ""),
        ("claude-3-7-sonnet-latest", "budget"),
        ("claude-sonnet-4-20250514", "budget"),
        ("anthropic/CLAUDE-OPUS-4-5", "budget"),
        ("claude-opus-4-6", "adaptive"),
        ("claude-of-the-future", "adaptive"),
        ("glm-4.7", "budget"),
    ],
)
def test_how_a_model_of_messages_is_told_to_think(model: str, form: str) -> None:
    assert form_for(PROFILES[""].thinking, model) == form


def test_nothing_is_known_of_a_model_without_a_table() -> None:
    assert form_for((), "m") == ""
