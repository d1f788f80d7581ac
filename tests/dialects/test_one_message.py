"""Requests that hold one message of the user and nothing else that was said."""

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS

HI = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "be kind"}
HELLO = {"role": "assistant", "content": "hello"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
ALONE: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": [HI]}),
    (CHAT, {"messages": [SYSTEM, {**SYSTEM, "role": "developer"}, HI]}),
    (RESPONSES, {"input": "hi", "previous_response_id": "resp_1"}),
    (RESPONSES, {"input": [HI], "instructions": "be kind"}),
    (RESPONSES, {"input": [{**SYSTEM, "type": "message"}, {**HI, "type": "message"}]}),
    (MESSAGES, {"messages": [HI], "system": "be kind"}),
    (MESSAGES, {"messages": [HI, SYSTEM]}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"messages": []}),
    (CHAT, {}),
    (CHAT, {"messages": [HI, HI]}),
    (CHAT, {"messages": [HELLO, HI]}),
    (CHAT, {"messages": [HI, {"role": "tool", "tool_call_id": "c", "content": "1"}]}),
    (RESPONSES, {"input": []}),
    (RESPONSES, {"input": [HI, HI]}),
    (RESPONSES, {"input": [HI, HELLO]}),
    (RESPONSES, {"input": [HI, CALL]}),
    (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]}),
    (MESSAGES, {"messages": [HI, HELLO]}),
    (MESSAGES, {"messages": [HI, HELLO, HI]}),
]


@pytest.mark.parametrize("dialect, body", ALONE)
def test_one_message(dialect: str, body: dict[str, Any]) -> None:
    assert DIALECTS[dialect].has_one_message(json.dumps(body).encode())


@pytest.mark.parametrize("dialect, body", OTHERS)
def test_more_or_less_than_one(dialect: str, body: dict[str, Any]) -> None:
    assert not DIALECTS[dialect].has_one_message(json.dumps(body).encode())
