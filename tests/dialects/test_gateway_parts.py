"""What the gateway itself puts into a request, as upstreams of each kind are told it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.translate.requests import translate_request
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.exchange.additions import (
    NO_PARTS,
    AnsweredTurn,
    GatewayParts,
    ToolDeclaration,
    ToolResult,
    UserText,
    parts_of,
)
from tests.dialects.translation import (
    CHAT,
    FUNCTION,
    HI,
    MESSAGES,
    PICTURE,
    RESPONSES,
    assistant,
    called,
    result,
    text,
    use,
    user,
)

TEA = "drink tea"
TAG, REMINDER = UserText("[Time/Date]: utc=`now`"), UserText("[Clock Reminder]: tea")
CLOCK = ToolDeclaration("clock", "time", '{"type":"object","properties":{}}')
ADDITIONS = (CLOCK, REMINDER, TAG)
PARTS = parts_of(ADDITIONS, frozenset({"clock"}), is_whole=False)
SAID: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": TEA}]},
    RESPONSES: {"input": TEA},
    MESSAGES: {"messages": [{"role": "user", "content": TEA}], "max_tokens": 9},
}


def send(client: str, upstream: str, body: dict[str, Any], profile: str = "") -> dict[str, Any]:
    """Add the clock to a request, and return what the upstream is sent."""
    asked = json.dumps({"model": "m", **body}).encode()
    added = DIALECTS[client].add(asked, ADDITIONS)
    translated = translate_request(added, client, upstream, PROFILES[profile], PARTS)
    assert translated.lost == ()
    sent: dict[str, Any] = json.loads(translated.body)
    return sent


def item(said: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}


@pytest.mark.parametrize("client", [RESPONSES, MESSAGES])
def test_towards_chat_each_addition_is_a_message_of_its_own(client: str) -> None:
    assert send(client, CHAT, SAID[client])["messages"] == [
        {"role": "user", "content": said} for said in (TEA, REMINDER.text, TAG.text)
    ]


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_towards_responses_each_addition_is_an_item_of_its_own(client: str) -> None:
    sent = send(client, RESPONSES, SAID[client])
    assert sent["input"] == [item(TEA), item(REMINDER.text), item(TAG.text)]


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_towards_messages_they_are_blocks_at_the_end_of_the_users_turn(client: str) -> None:
    (turn,) = send(client, MESSAGES, SAID[client])["messages"]
    assert turn == user(text(TEA), text(REMINDER.text), text(TAG.text))


def test_they_follow_what_tools_returned_and_what_it_shows() -> None:
    history = [assistant(use("a")), user(result("a", [PICTURE]), text("Well?"))]
    sent = send(MESSAGES, CHAT, {"messages": history, "max_tokens": 9})["messages"]
    assert [message["role"] for message in sent] == ["assistant", "tool", "user", "user", "user"]
    assert sent[2]["content"][1] == {"type": "text", "text": "Well?"}
    assert [message["content"] for message in sent[3:]] == [REMINDER.text, TAG.text]


def test_what_a_user_says_in_several_messages_stays_several_messages() -> None:
    said = [{"role": "user", "content": TEA}, {"role": "user", "content": "with milk"}]
    body = json.dumps({"model": "m", "messages": said}).encode()
    sent = json.loads(translate_request(body, CHAT, RESPONSES).body)
    assert sent["input"] == [item(TEA), item("with milk")]
    asked = json.dumps({"model": "m", "input": sent["input"]}).encode()
    assert json.loads(translate_request(asked, RESPONSES, CHAT).body)["messages"] == said


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_our_tools_are_not_strict_towards_messages(client: str) -> None:
    strict = {"name": "f", "parameters": {"type": "object", "properties": {}}, "strict": True}
    offered: dict[str, Any] = {"type": "function", **strict}
    if client == CHAT:
        offered = {"type": "function", "function": strict}
    sent = send(client, MESSAGES, {**SAID[client], "tools": [offered]})
    assert [(tool["name"], tool.get("strict")) for tool in sent["tools"]] == [
        ("f", True),
        ("clock", None),
    ]


def test_our_tools_are_strict_where_that_is_understood_and_no_loss_where_not() -> None:
    (tool,) = send(RESPONSES, CHAT, SAID[RESPONSES])["tools"]
    assert tool["function"]["strict"] is True
    (tool,) = send(RESPONSES, CHAT, SAID[RESPONSES], profile="glm")["tools"]
    assert "strict" not in tool["function"]


def test_what_is_ours_is_told_from_what_was_added() -> None:
    added = (*ADDITIONS, ToolResult("a", "done"), AnsweredTurn({}))
    assert parts_of(added, frozenset({"clock"}), is_whole=False) == PARTS
    assert parts_of((), frozenset(), is_whole=False) == NO_PARTS


# The client's own dialect.


OURS = {"role": "assistant", "content": None, "tool_calls": [called("a", "clock")]}
THEIRS = {"role": "assistant", "content": None, "tool_calls": [called("b", "f")]}
MIXED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [called("b", "f"), called("a", "clock")],
}
DONE = {"role": "tool", "tool_call_id": "a", "content": "done"}
NAMED: Any = FUNCTION["function"]
STRICT = {**FUNCTION, "function": {**NAMED, "strict": True}}


def fit(body: dict[str, Any], profile: str, parts: GatewayParts = PARTS) -> dict[str, Any]:
    """Return what an upstream of the client's dialect is sent."""
    speech = UpstreamDialect(CHAT, PROFILES[profile])
    asked = json.dumps({"model": "m", **body}).encode()
    fitted = Translators({"u": speech}, 1000, 1000, lambda: 0.0).fit_body("u", asked, lambda: parts)
    assert (fitted == asked) is (json.loads(fitted) == json.loads(asked))
    sent: dict[str, Any] = json.loads(fitted)
    return sent


@pytest.mark.parametrize("profile, content", [("glm", ""), ("plain", ""), ("openai", None)])
def test_a_turn_that_we_put_together_has_the_content_its_upstream_wants(
    profile: str, content: str | None
) -> None:
    sent = fit({"messages": [HI, THEIRS, MIXED, OURS, DONE]}, profile)
    contents = [message["content"] for message in sent["messages"]]
    assert contents == ["hi", None, content, content, "done"]


def test_an_agents_history_is_all_ours() -> None:
    parts = parts_of((), frozenset({"clock"}), is_whole=True)
    spoken = {"role": "assistant", "content": "Look:", "tool_calls": [called("c", "f")]}
    sent = fit({"messages": [HI, THEIRS, spoken, OURS, DONE]}, "glm", parts)
    contents = [message["content"] for message in sent["messages"]]
    assert contents == ["hi", "", "Look:", "", "done"]


def test_deepseek_misses_no_reasoning_in_our_turns() -> None:
    thought = {**OURS, "reasoning_content": "Hm."}
    sent = fit({"messages": [HI, THEIRS, OURS, thought]}, "deepseek")["messages"]
    told = [message.get("reasoning_content") for message in sent]
    assert told == [None, None, " ", "Hm."]
    assert sent[2]["content"] is None


@pytest.mark.parametrize("profile", ["glm", "deepseek", "vllm", "plain"])
def test_only_our_tools_lose_their_strictness(profile: str) -> None:
    ours = {"type": "function", "function": {"name": "clock", "strict": True}}
    hosted = {"type": "web_search"}
    sent = fit({"messages": [HI], "tools": [STRICT, hosted, ours]}, profile)
    bare = {"type": "function", "function": {"name": "clock"}}
    assert sent["tools"] == [STRICT, hosted, bare]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [HI, THEIRS]},
        {"messages": "tool_calls"},
        {"tools": [], "messages": [HI]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": "odd"}, 7]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"custom": {}}]}]},
        {"messages": [{**OURS, "content": ""}]},
    ],
)
def test_what_needs_no_change_stays_as_it_is(body: dict[str, Any]) -> None:
    assert fit(body, "glm") == {"model": "m", **body}


def test_an_upstream_nothing_is_known_of_gets_what_was_written() -> None:
    translators = Translators({}, 1000, 1000, lambda: 0.0)
    assert translators.fit_body("u", b"{}", lambda: PARTS) == b"{}"
