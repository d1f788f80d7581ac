"""What is kept of a conversation: all that was said, and a result for every call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.agents.conversations import (
    CUT,
    Bookmark,
    Conversations,
    Transcript,
    extend_history,
    repair_calls,
)
from gateway.clock import ManualClock
from gateway.exchange.additions import AnsweredTurn, ToolDeclaration, ToolResult, UserText
from gateway.exchange.model import Stop, ToolCall, TurnEnd
from gateway.stores.conversation_rows import AgentConversation
from gateway.stores.documents import Conflict, StoreUnavailable
from gateway.timestamps import iso
from tests.agents.talking import begin, calling, messages_of, noted, reason_of, roles, room, said
from tests.clock.holding import acting, delivered, fails, held, schedules
from tests.clock.holding import says as tells
from tests.clock.words import MINUTE, NOW, Said, clock, item, play
from tests.gateway.wire import Cue, event, hanging, on_cue, text, turn
from tests.run import until
from tests.sessions.talk import assistant, kept, messages, model, system, user
from tests.wire.fake import CHUNKED, LAST, chunk

ROLE = event({"role": "assistant", "content": ""})
STOP = TurnEnd(Stop.STOP)
CALLS = ToolCall("c1", "clock", "{}"), ToolCall("c2", "clock", "{}")
CALLED = TurnEnd(Stop.TOOL_CALLS, CALLS)


def called(*ids: str, content: str | None = None) -> dict[str, Any]:
    function = {"name": "clock", "arguments": "{}"}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# What an exchange transcript.


def test_a_turn_and_its_answer() -> None:
    transcript = Transcript("hi")
    transcript.extend((ToolDeclaration("clock", "", "{}"), UserText("it is late", fleeting=True)))
    transcript.add_text("hel")
    transcript.add_text("lo")
    transcript.end_turn("hello", STOP)
    transcript.extend((AnsweredTurn(assistant("hello")),))
    assert transcript.messages() == [user("hi"), assistant("hello")]


def test_what_was_told_beside_the_message_is_kept_but_not_the_time() -> None:
    transcript = Transcript("hi")
    transcript.extend((UserText("tea is due"), UserText("it is late", fleeting=True)))
    transcript.end_turn("tea!", STOP)
    transcript.extend((AnsweredTurn(assistant("tea!")),))
    assert transcript.messages() == [user("hi"), user("tea is due"), assistant("tea!")]


def test_nothing_is_kept_of_a_message_that_nothing_came_of() -> None:
    transcript = Transcript("hi")
    transcript.extend((UserText("tea is due"),))
    assert transcript.messages() == []


def test_a_cut_turn_is_kept_as_far_as_it_was_shown() -> None:
    transcript = Transcript("hi")
    transcript.add_text("\n\nhel")
    assert transcript.messages() == [user("hi"), assistant("hel")]


def test_calls_whose_tools_were_cut_have_results() -> None:
    transcript = Transcript("hi")
    transcript.end_turn("wait", CALLED)
    transcript.add_result(CALLS[0], "done")
    said = called("c1", "c2", content="wait")
    assert transcript.messages() == [user("hi"), said, result("c1", "done"), result("c2", CUT)]


def test_a_turn_is_told_once_however_often_it_is_offered() -> None:
    """A follow-up that came to nothing leaves the turn before it as the last one."""
    transcript = Transcript("hi")
    transcript.end_turn("", CALLED)
    turn = AnsweredTurn(called("c1", "c2"))
    transcript.extend((turn, ToolResult("c1", "a"), ToolResult("c2", "b")))
    transcript.extend((turn,))
    whole = [user("hi"), called("c1", "c2"), result("c1", "a"), result("c2", "b")]
    assert transcript.messages() == whole
    assert not transcript.unanswered


def test_what_no_turn_answered_comes_again_and_is_not_kept() -> None:
    transcript = Transcript("hi")
    transcript.end_turn("hello", STOP)
    transcript.extend((AnsweredTurn(assistant("hello")),))
    transcript.extend((UserText("tea is due"), UserText("it is late", fleeting=True)))
    assert transcript.messages() == [user("hi"), assistant("hello")]


def test_a_turn_that_said_nothing_is_not_kept() -> None:
    transcript = Transcript("hi")
    transcript.end_turn("", STOP)
    transcript.extend((AnsweredTurn(assistant("")),))
    assert transcript.messages() == []


def test_every_call_gets_its_result_in_its_place() -> None:
    open_calls = [called("a", "b"), result("b"), user("x"), called("c"), assistant("y")]
    assert repair_calls(open_calls, {"c": "found"}) == [
        *(called("a", "b"), result("b"), result("a", CUT), user("x")),
        *(called("c"), result("c", "found"), assistant("y")),
    ]
    whole = [user("x"), called("a", "b"), result("a"), result("b"), assistant("y")]
    assert repair_calls(whole, {}) == whole


# How long it may get.


def exchange(number: int) -> list[dict[str, Any]]:
    return [user(f"q{number}"), called(f"c{number}"), result(f"c{number}"), assistant("a" * 50)]


def test_a_conversation_that_is_too_long_loses_its_beginning() -> None:
    history = b"[]"
    for number in range(20):
        history = extend_history(history, exchange(number), 2000)
        assert len(history) <= 2000
    found = json.loads(history)
    assert roles(found) == ["user", "assistant", "tool", "assistant"] * (len(found) // 4)
    assert found[-4:] == exchange(19)
    assert len(found) > 8


def test_what_is_new_is_kept_however_long_it_is() -> None:
    history = extend_history(b"[]", exchange(1), 2000)
    new = [user("q" * 3000), assistant("a")]
    assert json.loads(extend_history(history, new, 2000)) == new


# Where it is kept.


class Rows:
    """Conversations that somebody else goes on with, a few times in a row."""

    def __init__(self, conflicts: int) -> None:
        self.kept: AgentConversation | None = None
        self.conflicts = conflicts

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        return self.kept

    async def put(self, conversation: AgentConversation) -> int:
        found = self.kept or AgentConversation("o", "a", "s")
        if self.conflicts:
            self.conflicts -= 1
            messages = extend_history(found.messages, [user("mine")])
            self.kept = msgspec.structs.replace(found, messages=messages, version=found.version + 1)
        if conversation.version != (self.kept.version if self.kept else 0):
            raise Conflict("Somebody else was faster.")
        self.kept = msgspec.structs.replace(conversation, version=conversation.version + 1)
        return self.kept.version


async def test_nothing_is_lost_when_somebody_else_is_faster() -> None:
    rows: Any = Rows(conflicts=3)
    record = await Conversations(rows, lambda: 7).open("o", "a", "s")
    assert await record.add([user("yours")]) == Bookmark(4, 7)
    assert json.loads(rows.kept.messages) == [*[user("mine")] * 3, user("yours")]
    assert rows.kept.updated_ms == 7


async def test_but_not_for_ever() -> None:
    rows: Any = Rows(conflicts=1000)
    record = await Conversations(rows, lambda: 7).open("o", "a", "s")
    with pytest.raises(StoreUnavailable):
        await record.add([user("yours")])


# From outside.


async def test_the_model_is_told_what_was_said_before(tmp_path: Path) -> None:
    """Also by a gateway that was started anew in between."""
    async with room(model("one", "two"), **kept(tmp_path)) as gate:
        await said(gate, "first")
        await said(gate, "second")
        whole = [user("first"), assistant("one"), user("second"), assistant("two")]
        assert await messages_of(gate) == whole
    async with room(model("three"), **kept(tmp_path)) as gate:
        await said(gate, "third")
        assert messages(gate.requests[0]) == [system("You help."), *whole, user("third")]
        await said(gate, "third", agent="other", sessionId="helper")
        assert messages(gate.requests[1]) == [user("third")]


async def test_tools_are_part_of_it_and_the_time_is_not(tmp_path: Path) -> None:
    tea = item(iso(NOW + 30 * MINUTE), "tea")
    acts = Said("one moment", (clock("schedule", tea),)), Said("done"), Said("tea time")
    manual = ManualClock(NOW)
    async with room(play(*acts), clock=manual, **kept(tmp_path)) as gate:
        await said(gate, "remind me")
    async with room(play(acts[-1]), clock=manual, **kept(tmp_path)) as gate:
        manual.advance(30 * MINUTE)
        await said(gate, "hello")
        found = await messages_of(gate)
        asked = messages(gate.requests[0])
    assert roles(found) == [
        *("user", "assistant", "tool", "assistant"),
        *("user", "user", "assistant"),
    ]
    assert found[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(found[2]["content"])["ok"] is True
    assert found[5]["content"].startswith("[Clock Reminder]")
    assert not [m for m in found if str(m["content"]).startswith("[Time/Date]")]
    # What was asked is what is kept, between the system text and the time.
    assert asked[1:-1] == found[:-1]


async def test_a_client_that_leaves_in_the_middle_leaves_what_it_saw() -> None:
    async with room(hanging(CHUNKED, chunk(ROLE + text("so far")))) as gate:
        client = await begin(gate, "hello")
        await client.saw(b"so far")
        client.leave()
        await until(lambda: bool(noted(gate, "chat_done")))
        assert await messages_of(gate) == [user("hello"), assistant("so far")]


async def test_a_client_that_leaves_between_two_turns_leaves_results_behind() -> None:
    calls = clock("get"), clock("get", ident="call_2")
    async with room(calling(Said("wait", calls)), clock=ManualClock(NOW)) as gate:
        client = await begin(gate, "hello")
        await until(lambda: len(gate.requests) == 2)
        client.leave()
        await until(lambda: bool(noted(gate, "chat_done")))
        found = await messages_of(gate)
        assert roles(found) == ["user", "assistant", "tool", "tool"]
        assert all(json.loads(m["content"])["ok"] for m in found if m["role"] == "tool")


async def test_a_reminder_that_nobody_answered_comes_again() -> None:
    """The follow-up of a hold fails: the client is told, and the history has nothing of it."""
    manual = ManualClock(NOW)
    story = acting(schedules(30_000), tells("I will"), fails("503 Busy"))
    async with room(story, clock=manual, clock__due_window_ms=0) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        manual.advance(30_000)
        assert reason_of(await client.answer()) == "upstream_error"
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool", "assistant"]
        assert not await delivered(gate, "helper")


async def test_an_answer_that_cannot_be_kept_is_told_to_be_lost(tmp_path: Path) -> None:
    cue = Cue()
    pieces = CHUNKED + chunk(ROLE), chunk(turn("one").removeprefix(ROLE)) + LAST
    async with room(on_cue(cue, *pieces), **kept(tmp_path)) as gate:
        client = await begin(gate, "hello")
        # Where the file of conversations would be, there is something else now.
        tmp_path.joinpath("holdgate.sqlite3").mkdir()
        cue.give()
        answer = await client.answer()
        assert b"one" in answer.body
        assert reason_of(answer) == "store_unavailable"
        answer = await said(gate, "hello")
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        tmp_path.joinpath("holdgate.sqlite3").rmdir()
        assert len(noted(gate, "lock_taken")) == len(noted(gate, "lock_released")) == 2
