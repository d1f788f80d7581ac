"""Sessions are named by headers and metadata, in a fixed order, and by nothing else."""

import json
from typing import Any

import pytest

from gateway.errors import BadRequest
from gateway.sessions.identity import Identity, identify, sub_agent_prefix, sub_agent_session

UUID = "0199a213-81c0-7800-8aa1-bbab2a035a53"


def session(*headers: tuple[str, str], **body: Any) -> str | None:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    return identify(
        pairs, {name: json.dumps(value).encode() for name, value in body.items()}
    ).session


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
    assert (
        identify([], {"conversation": b"1e400", "metadata": b'{"session_id":1e400}'}).session
        is None
    )


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


def test_many_other_headers_change_nothing() -> None:
    others = [(f"x-made-up-{number}", "1") for number in range(200)]
    assert session(*others, ("x-session-id", "s"), *others) == "s"
    assert session(("y" * 2000, "1"), ("X_Session_Id", "s")) == "s"


def test_an_id_that_is_too_long_is_refused() -> None:
    assert session(("x-session-id", "x" * 256)) == "x" * 256
    with pytest.raises(BadRequest, match="longer than 256 bytes"):
        session(("x-session-id", "é" * 129))


BAD = {
    "NUL": ("a\0b", "U\\+0000"),
    "half a pair": ("a\ud800b", "half a surrogate pair"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("member", ["metadata", "client_metadata", "conversation", "user_id"])
def test_an_id_that_is_no_text_is_refused(name: str, member: str) -> None:
    bad, reason = BAD[name]
    body: dict[str, Any] = {
        "metadata": {"metadata": {"session_id": bad}},
        "client_metadata": {"client_metadata": {"session_id": bad}},
        "conversation": {"conversation": {"id": bad}},
        "user_id": {"metadata": {"user_id": json.dumps({"session_id": bad})}},
    }[member]
    with pytest.raises(BadRequest, match=reason):
        session(**body)


def test_a_header_with_nul_is_refused() -> None:
    with pytest.raises(BadRequest, match="U\\+0000"):
        session(("x-session-id", "a\0b"))
    with pytest.raises(BadRequest, match="U\\+0000"):
        session(("x-session-id", "a"), ("x-claude-code-agent-id", "b\0"))


def test_a_member_that_is_no_json_names_nothing() -> None:
    assert identify([], {"metadata": b'{"session_id":"\\u12"}'}).session is None


AGENTS = {
    "Claude Code": (("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")),
    "another spelling": (("X_Session_Id", "s"), ("X_CLAUDE_CODE_AGENT_ID", "a")),
    "Codex": (("session-id", "s"), ("thread-id", "a"), ("x-openai-subagent", "collab_spawn")),
    "Codex, by its thread": (("session_id", "s"), ("thread_id", "a")),
    "Codex, without a thread": (("session-id", "s"), ("x-openai-subagent", "a")),
    "a session of the user's": (("x-session-id", "s"), ("session-id", "i"), ("thread-id", "a")),
    "both": (
        ("x-session-id", "s"),
        ("x-claude-code-agent-id", "a"),
        ("session-id", "i"),
        ("thread-id", "t"),
    ),
}


@pytest.mark.parametrize("name", AGENTS)
def test_a_sub_agent_has_a_session_of_its_own(name: str) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in AGENTS[name]]
    assert identify(pairs, {}) == Identity("s/agent:a", "s")


NO_AGENTS = {
    "the main thread": (("session-id", "s"), ("thread-id", "s")),
    "a thread alone": (("x-session-id", "s"), ("thread-id", "t")),
    "an empty agent": (("session-id", "s"), ("x-claude-code-agent-id", " ")),
}


@pytest.mark.parametrize("name", NO_AGENTS)
def test_these_are_no_sub_agents(name: str) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in NO_AGENTS[name]]
    assert identify(pairs, {}) == Identity("s")


def test_a_sub_agent_without_a_session_has_none() -> None:
    assert identify([(b"x-claude-code-agent-id", b"a")], {}) == Identity()


def test_the_id_of_a_sub_agent_is_hashed_where_it_is_too_long() -> None:
    for main in ("s", "é" * 100, "m" * 217, "m" * 218, "m" * 256):
        for agent in ("a", "b", "é" * 200, "b" * 400):
            found = sub_agent_session(main, agent)
            assert len(found.encode()) <= 256
            assert found.startswith(sub_agent_prefix(main))
            assert (agent in found) == (len((sub_agent_prefix(main) + agent).encode()) <= 256)
    assert sub_agent_prefix("m" * 217) == "m" * 217 + "/agent:"
    assert sub_agent_prefix("m" * 218) != sub_agent_prefix("n" * 218)
