"""What a job's request is made of: the session's, without the client's tools, and what was said."""

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.exchange.additions import UserText
from tests.dialects.translation import CHAT, HI, MESSAGES, RESPONSES, told

FUNCTION = {"type": "function", "function": {"name": "f"}}
HISTORY = {CHAT: "messages", MESSAGES: "messages", RESPONSES: "input"}


def bare(dialect: str, **members: Any) -> dict[str, Any]:
    """Take the client's tools out of a request."""
    body = json.dumps({"model": "m", HISTORY[dialect]: [HI], **members}).encode()
    left: dict[str, Any] = json.loads(DIALECTS[dialect].strip_tools(body))
    assert left.pop("model") == "m"
    assert left.pop(HISTORY[dialect]) == [HI]
    return left


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "tools",
    [None, [], [FUNCTION], [{"name": "f"}], [{"type": "custom", "name": "f"}], [7], {"not": "any"}],
)
def test_tools_of_the_client_are_taken_out(dialect: str, tools: Any) -> None:
    given = {"tools": tools, "tool_choice": {"type": "any"}, "temperature": 1}
    assert bare(dialect, **given) == {"temperature": 1}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_without_tools_stays_as_it_is(dialect: str) -> None:
    assert bare(dialect, max_tokens=10, stream=True) == {"max_tokens": 10, "stream": True}


@pytest.mark.parametrize(
    "dialect, kind",
    [
        (MESSAGES, "web_search_20250305"),
        (MESSAGES, "web_fetch_20250910"),
        (MESSAGES, "code_execution_20250825"),
        (MESSAGES, "mcp_toolset"),
        (RESPONSES, "web_search"),
        (RESPONSES, "web_search_preview"),
        (RESPONSES, "file_search"),
        (RESPONSES, "code_interpreter"),
        (RESPONSES, "image_generation"),
        (RESPONSES, "mcp"),
    ],
)
def test_tools_that_the_upstream_runs_by_itself_stay(dialect: str, kind: str) -> None:
    hosted = {"type": kind, "name": "hosted", "max_uses": 3}
    assert bare(dialect, tools=[FUNCTION, hosted]) == {"tools": [hosted]}


@pytest.mark.parametrize(
    "dialect, members",
    [
        (CHAT, {"functions": [{"name": "f"}], "function_call": "auto", "n": 2}),
        (CHAT, {"parallel_tool_calls": True}),
        (RESPONSES, {"parallel_tool_calls": True, "background": True}),
        (RESPONSES, {"conversation": "conv_1"}),
    ],
)
def test_what_would_answer_somebody_else_is_taken_out(
    dialect: str, members: dict[str, Any]
) -> None:
    assert bare(dialect, **members) == {}


def added(dialect: str, answer: str) -> list[Any]:
    """Return a history that goes on with an answer and a new message."""
    spoken = DIALECTS[dialect]
    body = json.dumps({"model": "m", HISTORY[dialect]: [HI]}).encode()
    body = spoken.add(body, (spoken.make_assistant_turn(answer), UserText("go on")))
    history: list[Any] = json.loads(body)[HISTORY[dialect]]
    assert history[0] == HI or not answer.strip()
    return history


def test_what_was_said_in_chat_completions() -> None:
    said = {"role": "assistant", "content": "hello"}
    assert added(CHAT, "hello") == [HI, said, {"role": "user", "content": "go on"}]


def test_what_was_said_in_messages() -> None:
    text = [{"type": "text", "text": "go on"}]
    said = {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    assert added(MESSAGES, "hello") == [HI, said, {"role": "user", "content": text}]


def test_a_blank_answer_is_no_turn_in_messages() -> None:
    texts = [{"type": "text", "text": text} for text in ("hi", "go on")]
    assert added(MESSAGES, " \n") == [{"role": "user", "content": texts}]


def test_what_was_said_in_responses() -> None:
    first, said, last = added(RESPONSES, "hello")
    assert first == HI
    assert (said["type"], said["role"]) == ("message", "assistant")
    assert said["content"] == [{"type": "output_text", "text": "hello"}]
    assert last["role"] == "user"


def test_an_empty_answer_is_no_item_in_responses() -> None:
    assert [item["role"] for item in added(RESPONSES, "")] == ["user", "user"]


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_what_was_said_can_be_translated(upstream: str) -> None:
    given = told(RESPONSES, upstream, input=added(RESPONSES, "hello"), max_output_tokens=5)
    assert [message["role"] for message in given["messages"]] == ["user", "assistant", "user"]
    assert "hello" in json.dumps(given["messages"][1])
