"""What a client hears of an agent: named events in their order, and always an end."""

from __future__ import annotations

import hashlib
import json
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.agents.model import Agent
from gateway.agents.service import Agents
from gateway.clock import ManualClock
from gateway.errors import NotFound
from gateway.exchange.additions import ToolDeclaration
from gateway.timestamps import iso
from tests.agents.talking import (
    begin,
    heard,
    messages_of,
    noted,
    posts,
    reason_of,
    roles,
    room,
    said,
    says,
    text_of,
)
from tests.clock.words import MINUTE, NOW, Call, Said, clock, item, play
from tests.gateway.wire import DONE, data, event, get, hanging, request, streaming, text
from tests.run import until
from tests.sessions.talk import JSON, messages, model, newest, system, user
from tests.wire.fake import CHUNKED, LAST, Story, answering, chunk, once, sized

COMPLETE = {"toolCount": 0, "turns": 1}


def bookmarked(data: dict[str, Any]) -> dict[str, Any]:
    """Take the bookmark out of a complete event."""
    bookmark = data.pop("bookmark")
    assert bookmark["seq"] > 0
    assert bookmark["timestamp"] > 0
    return data


async def test_a_message_and_its_answer() -> None:
    async with room(model("good morning")) as gate:
        answer = await said(gate, "hello", "x-request-id: mine")
        assert heard(answer)[:-1] == [("text", {"delta": "good morning"})]
        name, end = heard(await said(gate, "hello"))[-1]
        assert (name, bookmarked(end)) == ("complete", {"reason": "completed", **COMPLETE})
        asked = gate.requests[0]
        assert messages(asked) == [system("You help."), user("hello")]
        assert json.loads(asked.body)["stream"] is True
        assert asked.headers[b"x-request-id"] == b"mine"


async def test_the_headers_of_an_answer() -> None:
    async with room(model("x")) as gate:
        answer = await said(gate, "hello", "x-request-id: mine", sessionId="a b/ü")
        assert answer.headers["x-request-id"] == "mine"
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.headers["x-holdgate-session"] == "a%20b/%C3%BC"
        assert not answer.repeated
        assert text_of(answer, "a b/ü") == "x"


async def test_every_piece_is_an_event_of_its_own_in_its_order() -> None:
    thought = event({"reasoning_content": "hm"}) + event({"reasoning": "so"})
    both = event({"reasoning_content": "and", "content": "one"})
    pieces = [event({"role": "assistant"}), thought, both, text("two"), event({}, "stop") + DONE]
    async with room(streaming(*pieces)) as gate:
        assert heard(await said(gate, "hello"))[:-1] == [
            ("thinking", {"delta": "hm"}),
            ("thinking", {"delta": "so"}),
            ("thinking", {"delta": "and"}),
            ("text", {"delta": "one"}),
            ("text", {"delta": "two"}),
        ]


async def test_the_start_does_not_wait_for_the_model() -> None:
    async with room(hanging()) as gate:
        client = await begin(gate, "hello")
        await until(lambda: len(gate.requests) == 1)
        client.leave()


async def test_a_silent_model_is_covered_by_comments() -> None:
    async with room(hanging(CHUNKED), server__keepalive_ms=20) as gate:
        client = await begin(gate, "hello")
        await client.saw(b": ping\n\n: ping\n\n")
        client.leave()


async def test_tools_are_told_while_they_run() -> None:
    tea = item(iso(NOW + 30 * MINUTE), "tea")
    acts = Said("one moment", (clock("schedule", tea), clock("get", ident="call_2"))), Said("done")
    async with room(play(*acts), clock=ManualClock(NOW)) as gate:
        found = heard(await said(gate, "remind me"))
        names = [name for name, _ in found]
        assert names == [
            *("text", "tool_start", "tool_end", "tool_start", "tool_end"),
            *("text", "text", "complete"),
        ]
        assert found[1][1] == {
            "name": "clock",
            "input": {"action": "schedule", "items": [tea], "taskId": ""},
        }
        assert found[2][1].keys() == {"name", "durationMs"}
        assert found[2][1]["durationMs"] >= 0
        end = bookmarked(found[-1][1])
        assert end == {"reason": "completed", "toolCount": 2, "turns": 2}
        kept = await messages_of(gate)
        assert roles(kept) == ["user", "assistant", "tool", "tool", "assistant"]
        assert [m["content"] for m in kept if m["role"] == "assistant"] == ["one moment", "done"]


BAD_CALLS = [
    (Call("clock", "{"), "{"),
    (clock("dance"), {"action": "dance", "items": [], "taskId": ""}),
    (clock("cancel", task_id="none"), {"action": "cancel", "items": [], "taskId": "none"}),
]


@pytest.mark.parametrize("call, given", BAD_CALLS, ids=["broken", "unknown action", "unknown id"])
async def test_a_tool_that_fails_is_told_and_the_model_goes_on(call: Call, given: Any) -> None:
    async with room(play(Said(calls=(call,)), Said("sorry")), clock=ManualClock(NOW)) as gate:
        start, failed, words, end = heard(await said(gate, "hello"))
        assert start == ("tool_start", {"name": "clock", "input": given})
        assert failed[0] == "tool_error"
        assert failed[1]["name"] == "clock"
        assert failed[1]["error"]
        assert (words, end[0]) == (("text", {"delta": "sorry"}), "complete")
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("beside", [(), (clock("get", ident="call_2"),)], ids=["alone", "mixed"])
async def test_a_tool_that_is_not_there_is_an_error(beside: tuple[Call, ...]) -> None:
    act = Said("let me", (Call("shell", '{"cmd":"ls"}'), *beside))
    async with room(play(act, Said("fine")), clock=ManualClock(NOW)) as gate:
        found = heard(await said(gate, "hello"))
        assert ("tool_error", {"name": "shell", "error": "This agent has no such tool."}) in found
        assert found[-1][0] == "error"
        assert found[-1][1]["code"] == "unknown_tool"
        kept = await messages_of(gate)
        assert roles(kept)[:3] == ["user", "assistant", "tool"]
        assert text_of(await said(gate, "go on")) == "fine"
        assert messages(gate.requests[-1])[1 : len(kept) + 1] == kept


REASONS = [("stop", "completed"), ("length", "length"), ("content_filter", "content_filter")]


@pytest.mark.parametrize("finish, reason", [*REASONS, ("eos", "completed")])
async def test_the_reason_says_how_the_model_ended(finish: str, reason: str) -> None:
    async with room(model(("x", finish))) as gate:
        assert reason_of(await said(gate, "hello")) == reason


async def test_a_model_that_calls_tools_without_end_is_stopped() -> None:
    story = play(Said(calls=(clock("get"),)))
    async with room(story, clock=ManualClock(NOW), limits__turns=3) as gate:
        name, end = heard(await said(gate, "hello"))[-1]
        assert (name, bookmarked(end)) == (
            "complete",
            {"reason": "turns", "toolCount": 3, "turns": 4},
        )
        assert roles(await messages_of(gate)) == ["user", *("assistant", "tool") * 4]


# What goes wrong.

ROLE = event({"role": "assistant", "content": ""})
NO = b'{"error":{"message":"no such key","type":"auth","code":"bad_key"}}'
FAILURES: dict[str, tuple[Story | None, str]] = {
    "nobody is there": (None, "upstream_unreachable"),
    "it hangs up": (once(), "upstream_broke"),
    "an error status": (answering(sized(NO, JSON, status="422 Unprocessable")), "bad_key"),
    "a refused key": (answering(sized(NO, JSON, status="401 Unauthorized")), "upstream_auth"),
    "an error without words": (answering(sized(b"", status="500 Oops")), "upstream_error"),
    "an error in disguise": (answering(sized(NO, JSON)), "bad_key"),
    "not a stream": (answering(sized(b"<html>", "content-type: text/html")), "upstream_broke"),
    "nothing at all": (answering(CHUNKED, LAST), "upstream_broke"),
    "cut in the middle": (once(CHUNKED, chunk(ROLE + text("so far"))), "upstream_broke"),
    "reset": (once(CHUNKED, chunk(ROLE + text("so far")), reset=True), "upstream_broke"),
    "an error in the stream": (streaming(ROLE, text("so far"), data(json.loads(NO))), "bad_key"),
    "garbage": (answering(CHUNKED, chunk(b"data: {]\n\n"), LAST), "upstream_broke"),
}


@pytest.mark.parametrize("story, code", FAILURES.values(), ids=FAILURES)
async def test_a_model_that_fails_always_ends_in_an_error(story: Story | None, code: str) -> None:
    async with room(story) as gate:
        answer = await said(gate, "hello")
        name, end = heard(answer)[-1]
        assert (name, end["code"]) == ("error", code)
        assert end["message"]
        shown = b"so far" in answer.body
        kept = [user("hello"), {"role": "assistant", "content": "so far"}]
        assert await messages_of(gate) == (kept if shown else [])
        assert not gate.live
        assert [line["why"] for line in noted(gate, "lock_released")] == ["error"]


async def test_a_model_that_is_silent_for_too_long() -> None:
    async with room(hanging(CHUNKED, chunk(ROLE)), upstream={"idle_ms": 50}) as gate:
        assert reason_of(await said(gate, "hello")) == "upstream_timeout"


async def test_a_model_that_fails_after_its_tools_ran() -> None:
    """The client shall not take the answer for complete; the history keeps what was done."""
    left = [play(Said("wait", (clock("get"),))), once()]

    async def story(peer: Any) -> None:
        await peer.asked()
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    async with room(story, clock=ManualClock(NOW)) as gate:
        gate.fakes[0].requests.clear()
        found = heard(await said(gate, "hello"))
        assert [name for name, _ in found] == ["text", "tool_start", "tool_end", "error"]
        assert found[-1][1]["code"] == "upstream_error"
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool"]


class Broken:
    """A tool with a fault: it raises, which none may."""

    declaration = ToolDeclaration("broken", "", '{"type":"object"}')

    async def run(self, arguments: str) -> str:
        raise RuntimeError("a fault")


async def test_a_fault_of_ours_is_an_error_as_well(caplog: pytest.LogCaptureFixture) -> None:
    act = Said("let me", (Call("broken"),))
    async with room(play(act), clock=ManualClock(NOW)) as gate:
        gate.gateway.serving.agents.services.tools = lambda message: (Broken(),)
        found = heard(await said(gate, "hello"))
        assert [name for name, _ in found] == ["text", "tool_start", "error"]
        assert found[-1][1]["code"] == "unavailable"
        assert "a fault" not in found[-1][1]["message"]
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool"]
        assert "a fault" in caplog.text
        gate.gateway.serving.agents.services.tools = lambda message: ()
        assert (await said(gate, "hello")).status == 200


# What cannot be asked.

BROKEN: dict[str, tuple[Any, str, str]] = {
    "no JSON": (b"{", "not valid JSON", ""),
    "no object": ([], "must be a JSON object", ""),
    "no message": ({"agentId": "helper"}, "`message` is missing", "message"),
    "an empty one": ({"agentId": "helper", "message": " \n"}, "`message` is empty", "message"),
    "no text": ({"agentId": "helper", "message": 1}, "`message` is not as expected", "message"),
    "no agent": ({"message": "x"}, "`agentId` is missing", "agentId"),
    "a long session": (
        {"message": "x", "agentId": "helper", "sessionId": "s" * 257},
        "`sessionId` is longer than 256 bytes",
        "sessionId",
    ),
    "unknown members": (
        {"message": "x", "agentId": "helper", "model": "m", "tools": []},
        "Unknown: `model`, `tools`; a message has `message`, `agentId`",
        "model",
    ),
    "half a character": (b'{"agentId":"helper","message":"\\ud800"}', "not valid JSON", ""),
}


@pytest.mark.parametrize("body, says_, param", BROKEN.values(), ids=BROKEN)
async def test_what_cannot_be_read_is_refused(body: Any, says_: str, param: str) -> None:
    async with room(model("x")) as gate:
        answer = await gate.fetch(posts(body))
        assert answer.status == 400
        assert says_ in answer.error["message"]
        assert (answer.error["param"] or "") == param
        assert answer.headers["x-request-id"]
        assert not gate.requests


async def test_an_unknown_agent_is_told_the_known_ones() -> None:
    async with room(model("x")) as gate:
        answer = await said(gate, "hello", agent="nobody")
        assert (answer.status, answer.error["code"]) == (404, "not_found")
        assert (
            answer.error["message"] == "No agent is called 'nobody'; known agents: helper, other."
        )


async def test_other_ways_to_ask() -> None:
    async with room(model("x")) as gate:
        answer = await gate.fetch(get("/api/chat"))
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        body = json.dumps({"message": "x", "agentId": "helper"}).encode()
        plain = request("POST", "/api/chat", "content-type: text/plain", body=body)
        assert (await gate.fetch(plain)).status == 415
        foreign = says("x", "origin: http://evil.example")
        assert (await gate.fetch(foreign)).status == 403


async def test_the_agents_are_listed_and_logged() -> None:
    async with room(model("x")) as gate:
        answer = await gate.fetch(get("/api/agents"))
        assert answer.json == {
            "agents": [
                {"id": "helper", "name": "Helper", "model": "m", "tools": []},
                {"id": "other", "name": "other", "model": "m", "tools": []},
            ]
        }
        found = [(line["id"], line["name"]) for line in noted(gate, "agent_registered")]
        assert found == [("helper", "Helper"), ("other", "other")]


# Whose it is.

KEYS = {"alice": ("alice's", False), "bob": ("bob's", False), "root": ("root's", True)}
OWNED = {
    "keys": [
        {"owner": owner, "key_sha256": hashlib.sha256(key.encode()).hexdigest(), "admin": admin}
        for owner, (key, admin) in KEYS.items()
    ]
}


def key(owner: str) -> str:
    return f"authorization: Bearer {KEYS[owner][0]}"


async def test_each_owner_has_conversations_of_their_own() -> None:
    async with room(model(), tables=OWNED) as gate:
        assert (await said(gate, "hello")).status == 401
        assert (await gate.fetch(get("/api/agents"))).status == 401
        for owner in ("alice", "bob", "alice"):
            assert (await said(gate, f"I am {owner}", key(owner))).status == 200
        assert [len(messages(asked)) for asked in gate.requests] == [2, 2, 4]


async def test_only_an_admin_speaks_for_others() -> None:
    async with room(model(), tables=OWNED) as gate:
        await said(gate, "one", key("alice"))
        await said(gate, "two", key("bob"), userId="alice")
        await said(gate, "three", key("root"), userId="alice")
        await said(gate, "four", key("root"))
        assert [len(messages(asked)) for asked in gate.requests] == [2, 2, 4, 2]


async def test_without_keys_the_user_id_means_nothing() -> None:
    async with room(model()) as gate:
        await said(gate, "one", userId="alice")
        await said(gate, "two", userId="bob")
        assert len(messages(gate.requests[-1])) == 4


# Directives.


async def test_directives_act_and_are_not_kept() -> None:
    async with room(model()) as gate:
        answer = await said(gate, '<**stopMessage:"go on",2**>hello')
        assert answer.headers["x-holdgate-directive"] == "set"
        assert text_of(answer) == "answer 1\n\nanswer 2\n\nanswer 3"
        assert [newest(asked) for asked in gate.requests] == ["hello", "go on", "go on"]
        kept = await messages_of(gate)
        assert [m["content"] for m in kept if m["role"] == "user"] == ["hello", "go on", "go on"]
        shown = (await gate.fetch(get("/api/sessions/helper"))).json
        assert shown["stopMessage"]["used"] == 2


async def test_routing_directives_count() -> None:
    async with room(model("from a"), model("from b")) as gate:
        assert text_of(await said(gate, "<**!b**>hello")) == "from b"
        assert text_of(await said(gate, "hello")) == "from b"
        assert text_of(await said(gate, "<**a.m**>hello")) == "from a"
        refused = await said(gate, "<**#b**>hello")
        assert (refused.status, refused.error["code"]) == (400, "no_route")
        assert text_of(await said(gate, "<**clear**>hello")) == "from a"


def test_of_two_agents_of_one_id_the_later_counts(caplog: pytest.LogCaptureFixture) -> None:
    noted_: list[Any] = []
    means: Any = SimpleNamespace(note=lambda event, **fields: noted_.append((event, fields)))
    first, other, second = Agent("a", "A", "m"), Agent("b", "B", "m"), Agent("a", "C", "m")
    agents = Agents([first, other, second], means)
    agents.announce()
    assert agents.find("a") is second
    assert [fields["name"] for _, fields in noted_] == ["B", "C"]
    assert caplog.messages == ["the agent a is configured twice; the later one is used"]
    with pytest.raises(NotFound, match="none is configured"):
        Agents([], means).find("a")
