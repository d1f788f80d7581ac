"""Sessions are named by headers and metadata, in a fixed order, and by nothing else."""

import json
from typing import Any

import pytest

from gateway.dialects.identity import session_of
from gateway.errors import BadRequest

UUID = "0199a213-81c0-7800-8aa1-bbab2a035a53"


def session(*headers: tuple[str, str], **body: Any) -> str | None:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    return session_of(pairs, {name: json.dumps(value).encode() for name, value in body.items()})


@pytest.mark.parametrize(
    "name",
    [
        "x-session-id",
        "X_Session_ID",
        "session-id",
        "session_id",
        "sessionid",
        "Session-Id",
        "anthropic-session-id",
        "x-claude-code-session-id",
    ],
)
def test_headers(name: str) -> None:
    assert session((name, " s1 ")) == "s1"


@pytest.mark.parametrize(
    "name",
    ["x-conversation-id", "conversation_id", "anthropic-conversation-id", "openai-conversation-id"],
)
def test_a_conversation_is_kept_apart(name: str) -> None:
    assert session((name, "c1")) == "conversation:c1"


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"metadata": {"session_id": "m1"}}, "m1"),
        ({"metadata": {"sessionId": "m2"}}, "m2"),
        ({"client_metadata": {"session_id": "m3"}}, "m3"),
        ({"metadata": {"user_id": json.dumps({"device_id": "d", "session_id": UUID})}}, UUID),
        ({"metadata": {"user_id": f"user_ab_account__session_{UUID}"}}, UUID),
        ({"metadata": {"user_id": f"session_{UUID}_more"}}, None),
        ({"metadata": {"user_id": "{broken"}}, None),
        ({"metadata": {"user_id": "[1]"}}, None),
        ({"metadata": {"session_id": 7}}, None),
        ({"metadata": "text"}, None),
        ({"conversation": "c1"}, "conversation:c1"),
        ({"conversation": {"id": "c2"}}, "conversation:c2"),
        ({"conversation": 7}, None),
        ({"prompt_cache_key": "p"}, None),
        ({"user": "u"}, None),
        ({"messages": [{"role": "user", "content": "session_id: x"}]}, None),
        ({}, None),
    ],
)
def test_bodies(body: dict[str, Any], expected: str | None) -> None:
    assert session(**body) == expected


def test_a_number_beyond_all_numbers_names_nothing() -> None:
    assert session_of([], {"conversation": b"1e400", "metadata": b'{"session_id":1e400}'}) is None


def test_the_order() -> None:
    headers = [
        ("openai-conversation-id", "5"),
        ("x-claude-code-session-id", "4"),
        ("anthropic-session-id", "3"),
        ("session_id", "2"),
        ("x-session-id", "1"),
    ]
    body = {"metadata": {"session_id": "m"}, "conversation": "c"}
    for expected in ("1", "2", "3", "4"):
        assert session(*headers, **body) == expected
        headers.pop()
    assert session(*headers, **body) == "m"
    assert session(*headers, conversation="c") == "conversation:5"


def test_an_empty_header_names_nothing() -> None:
    assert session(("x-session-id", "  "), ("session-id", "s2")) == "s2"
    assert session(("x-request-id", "r1"), ("thread-id", "t"), ("accept", "x")) is None


def test_an_id_that_is_too_long_is_refused() -> None:
    assert session(("x-session-id", "x" * 256)) == "x" * 256
    with pytest.raises(BadRequest, match="longer than 256 bytes"):
        session(("x-session-id", "é" * 129))
