"""What kind of request asks: whether it offers tools, its system text, the form of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.sessions.request_kind import requester_of

CHAT, RESPONSES, MESSAGES = (
    DIALECTS[name] for name in ("openai-chat", "openai-responses", "anthropic-messages")
)
SCHEMA = {"type": "json_schema", "schema": {}}
FORMS: list[tuple[Any, dict[str, Any], bool]] = [
    (CHAT, {}, False),
    (CHAT, {"response_format": None}, False),
    (CHAT, {"response_format": {"type": "text"}}, False),
    (CHAT, {"response_format": {"type": "json_object"}}, True),
    (CHAT, {"response_format": SCHEMA}, True),
    (CHAT, {"response_format": {}}, True),
    (CHAT, {"response_format": 7}, True),
    (RESPONSES, {"text": None}, False),
    (RESPONSES, {"text": {"verbosity": "low"}}, False),
    (RESPONSES, {"text": {"format": {"type": "text"}}}, False),
    (RESPONSES, {"text": {"format": SCHEMA}}, True),
    (RESPONSES, {"text": 7}, False),
    (MESSAGES, {}, False),
    (MESSAGES, {"output_config": {"effort": "low"}}, False),
    (MESSAGES, {"output_config": {"format": SCHEMA}}, True),
    (MESSAGES, {"output_config": {"format": None}}, False),
    (MESSAGES, {"output_format": SCHEMA}, True),
    (MESSAGES, {"output_config": 7}, False),
]


def read(dialect: Any, **more: Any) -> Any:
    said: dict[str, Any] = {"input": "hi"} if dialect is RESPONSES else {"messages": []}
    return dialect.read(json.dumps({"model": "m", **said, **more}).encode(), 128)


@pytest.mark.parametrize("dialect, more, structured", FORMS)
def test_a_form_other_than_text(dialect: Any, more: dict[str, Any], structured: bool) -> None:
    asked = read(dialect, **more)
    assert (asked.structured, asked.takes_tools) == (structured, not structured)


def test_requests_are_told_apart_by_tools_and_system_text() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    said = [{"role": "system", "content": "Work."}, {"role": "user", "content": "hi"}]
    other = [{"role": "system", "content": "A title."}, {"role": "user", "content": "hi"}]
    work = requester_of(CHAT, read(CHAT, messages=said, tools=tools))
    talk = requester_of(CHAT, read(CHAT, messages=said))
    title = requester_of(CHAT, read(CHAT, messages=other))
    assert work == Requester(True, talk.system)
    assert (work.setter, talk.setter) == (talk.system, "")
    assert work.outranks(title)
    assert not any((work.outranks(talk), talk.outranks(title), title.outranks(work)))
    assert not work.outranks(UNKNOWN)


CHOICES: list[tuple[Any, Any, bool]] = [
    (CHAT, {"type": "function", "function": {"name": "f"}}, True),
    (CHAT, {"type": "custom", "custom": {"name": "f"}}, True),
    (CHAT, {"type": "allowed_tools"}, False),
    (CHAT, {"type": 7}, False),
    (CHAT, "required", False),
    (RESPONSES, {"type": "function", "name": "f"}, True),
    (RESPONSES, {"type": "web_search"}, False),
    (MESSAGES, {"type": "tool", "name": "f"}, True),
    (MESSAGES, {"type": "any"}, False),
    (MESSAGES, None, False),
]


@pytest.mark.parametrize("dialect, choice, forced", CHOICES)
def test_a_call_of_one_tool_is_all_that_can_be_answered(
    dialect: Any, choice: Any, forced: bool
) -> None:
    assert read(dialect, tool_choice=choice).forces_one is forced
