"""What a session looks up of a request, within bounds."""

import json

import pytest

from gateway.dialects import DIALECTS
from gateway.exchange.model import ModelRequest
from gateway.sessions.request_kind import Sentinels, last_calls, read_facts

CHAT = DIALECTS["openai-chat"]


def turn(name: str) -> dict[str, object]:
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize("is_large", [True, False])
def test_a_call_whose_id_is_megabytes_long_is_not_looked_up(is_large: bool) -> None:
    body = json.dumps({"model": "m", "messages": [turn("c" * 2**20), turn("c1")]}).encode()
    facts = read_facts(CHAT, body, False, Sentinels((), ())) if is_large else None
    assert last_calls(CHAT, ModelRequest("m", body, facts=facts)) == ("c1",)
