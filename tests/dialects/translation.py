"""Short forms for tests of translated requests."""

from typing import Any

import msgspec
import pytest

from gateway.dialects.profiles import PROFILES
from gateway.dialects.translate.requests import Translated, translate_request
from gateway.errors import BadRequest

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"


def ask(client: str, upstream: str, profile: str = "", **members: Any) -> Translated:
    """Translate a request of these members."""
    body = {"model": "m", **members}
    return translate_request(msgspec.json.encode(body), client, upstream, PROFILES[profile])


def told(client: str, upstream: str, profile: str = "", **members: Any) -> dict[str, Any]:
    """Return what the upstream is sent for a request of these members."""
    sent: dict[str, Any] = msgspec.json.decode(ask(client, upstream, profile, **members).body)
    return sent


def lost(client: str, upstream: str, profile: str = "", **members: Any) -> tuple[str, ...]:
    """Return what is left out of a request of these members."""
    return ask(client, upstream, profile, **members).lost


def refusal(client: str, upstream: str, profile: str = "", **members: Any) -> BadRequest:
    """Return why a request of these members is refused."""
    with pytest.raises(BadRequest) as caught:
        ask(client, upstream, profile, **members)
    assert caught.value.status == 400
    return caught.value


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(call_id: str, name: str = "f", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str, content: Any = "done", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def called(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    """A call as Chat Completions write it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
PICTURE_URL = "data:image/png;base64,AAAA"
TOOL = {"name": "f", "description": "does", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "does",
        "parameters": {"type": "object", "properties": {}},
    },
}
HI = {"role": "user", "content": "hi"}
