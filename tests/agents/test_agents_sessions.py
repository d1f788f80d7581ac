"""Sessions over REST: what was said in them and what is to come, listed, shown and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.clock import ManualClock
from tests.agents.talking import begin, heard, messages_of, room, said
from tests.agents.test_agents_chat import OWNED, key
from tests.clock.holding import NOW, SECOND, acting, held, remind, schedules
from tests.clock.holding import says as tells
from tests.gateway.client import Answer
from tests.gateway.wire import get, request
from tests.run import Running
from tests.sessions.talk import assistant, forget, kept, look, model, talk, user


async def listed(gate: Running, limit: int = 50, *headers: str) -> list[tuple[str, str | None]]:
    """Walk through all pages."""
    found: list[tuple[str, str | None]] = []
    after: str | None = ""
    while after is not None:
        page = (await gate.fetch(get(f"/api/sessions?limit={limit}&after={after}", *headers))).json
        assert len(page["sessions"]) <= limit
        found += [(item["sessionId"], item["agentId"]) for item in page["sessions"]]
        after = page["next"]
    return found


async def test_a_session_with_all_that_is_in_it() -> None:
    clock = ManualClock(NOW)
    async with room(model("one"), clock=clock) as gate:
        await said(gate, "<**!a**>hello", sessionId="s")
        task = await remind(gate, 600 * SECOND, "tea", "s")
        shown = (await look(gate)).json
        bookmark = shown.pop("bookmark")
        (reminder,) = shown.pop("reminders")
        assert shown == {
            "sessionId": "s",
            "agentId": "helper",
            "agents": ["helper"],
            "messages": [user("hello"), assistant("one")],
            "endedReminders": [],
            "jobs": [],
            "deliveries": 0,
            "directives": ["<**!a**>"],
            "stopMessage": None,
        }
        assert (reminder["taskId"], reminder["task"]) == (task, "tea")
        assert bookmark["timestamp"] == NOW


async def test_a_bookmark_is_the_same_wherever_it_is_shown() -> None:
    async with room(model()) as gate:
        for _ in range(3):
            _, end = heard(await said(gate, "hello"))[-1]
            assert (await look(gate, "helper")).json["bookmark"] == end["bookmark"]


async def test_a_session_of_two_agents() -> None:
    async with room(model("one", "two")) as gate:
        await said(gate, "first", sessionId="s")
        await said(gate, "second", agent="other", sessionId="s")
        shown = (await look(gate)).json
        assert (shown["agentId"], shown["agents"]) == ("other", ["other", "helper"])
        assert shown["messages"] == [user("second"), assistant("two")]
        shown = (await gate.fetch(get("/api/sessions/s?agentId=helper"))).json
        assert shown["messages"] == [user("first"), assistant("one")]
        shown = (await gate.fetch(get("/api/sessions/s?agentId=nobody"))).json
        assert (shown["agentId"], shown["messages"]) == (None, [])
        assert await listed(gate) == [("s", "other")]
        assert await listed(gate, 1) == [("s", "other")]


async def test_a_relay_session_has_no_messages() -> None:
    async with room(model("one")) as gate:
        await gate.ask(talk("<**!a**>hello"), "x-session-id: s")
        shown = (await look(gate)).json
        assert (shown["agentId"], shown["agents"], shown["messages"]) == (None, [], [])
        assert shown["bookmark"] is None


async def test_all_sessions_are_one_list(tmp_path: Path) -> None:
    """Whatever the length of a page, each is listed once, where it was used last."""
    clock = ManualClock(NOW)
    async with room(model("x"), clock=clock, **kept(tmp_path)) as gate:
        for number in range(3):
            await said(gate, "hello", sessionId=f"agent:{number}")
            clock.advance(1)
            await gate.ask(talk("<**!a**>hello"), f"x-session-id: relay:{number}")
            clock.advance(1)
        # One with state first and talk later, one the other way round, one with both at once.
        await said(gate, "hello", sessionId="relay:1")
        clock.advance(1)
        await gate.ask(talk("<**!a**>hello"), "x-session-id: agent:0")
        clock.advance(1)
        await said(gate, "<**!a**>hello", sessionId="both")
        whole = [
            ("both", "helper"),
            ("agent:0", "helper"),
            ("relay:1", "helper"),
            ("relay:2", None),
            ("agent:2", "helper"),
            ("agent:1", "helper"),
            ("relay:0", None),
        ]
        for limit in (1, 2, 3, 4, 50):
            assert await listed(gate, limit) == whole, limit


async def test_somebody_elses_is_like_none() -> None:
    async with room(model("x"), tables=OWNED) as gate:
        await said(gate, "hello", key("alice"), sessionId="s")
        assert (await look(gate, "s", key("bob"))).status == 404
        assert (await forget(gate, "s", key("bob"))).status == 404
        assert await listed(gate, 50, key("bob")) == []
        assert await listed(gate, 50, key("alice")) == [("s", "helper")]


async def test_a_forgotten_session_is_gone_with_all_that_was_in_it() -> None:
    async with room(model("one"), clock=ManualClock(NOW)) as gate:
        await said(gate, '<**stopMessage:"go on",1**>hello', sessionId="s")
        await remind(gate, 600 * SECOND, "tea", "s")
        answer = await forget(gate)
        assert (answer.status, answer.json) == (200, {"sessionId": "s", "deleted": True})
        assert (await look(gate)).status == (await forget(gate)).status == 404
        assert await listed(gate) == []
        await said(gate, "hello", sessionId="s")
        assert await messages_of(gate, "s") == [user("hello"), assistant("one")]


async def test_to_forget_a_session_ends_what_it_is_held_for() -> None:
    acts = acting(schedules(30 * SECOND), tells("I will"))
    async with room(acts, clock=ManualClock(NOW), clock__due_window_ms=0) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        answer: Answer = await gate.fetch(request("DELETE", "/api/sessions/helper"))
        assert answer.status == 200
        found: Any = await client.answer()
        assert b"event: complete" in found.body
