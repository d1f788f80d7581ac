"""A gateway that is told to go: every answer of an agent comes to an end that can be read."""

from __future__ import annotations

from gateway.clock import ManualClock
from tests.agents.talking import (
    begin,
    calling,
    heard,
    messages_of,
    reason_of,
    roles,
    room,
    said,
    text_of,
)
from tests.clock.holding import NOW, SECOND, acting, held, schedules
from tests.clock.holding import says as tells
from tests.clock.words import Said, clock
from tests.gateway.wire import Cue, event, hanging, on_cue, text, turn
from tests.run import Running, until
from tests.sessions.talk import assistant, user
from tests.wire.fake import CHUNKED, LAST, chunk

ROLE = event({"role": "assistant", "content": ""})
SHORT = {"server__drain_ms": 100}


def leave(gate: Running) -> None:
    gate.gateway.leave(lambda: None)


async def test_nothing_new_is_begun() -> None:
    async with room(hanging()) as gate:
        leave(gate)
        answer = await said(gate, "hello")
        assert (answer.status, answer.error["code"]) == (503, "draining")


async def test_what_runs_may_finish() -> None:
    cue = Cue()
    pieces = CHUNKED + chunk(ROLE), chunk(turn("one").removeprefix(ROLE)) + LAST
    async with room(on_cue(cue, *pieces)) as gate:
        client = await begin(gate, "hello")
        await until(lambda: len(gate.requests) == 1)
        leave(gate)
        cue.give()
        assert text_of(await client.answer()) == "one"


async def test_what_does_not_finish_ends_in_an_error_and_is_kept() -> None:
    async with room(hanging(CHUNKED, chunk(ROLE + text("so far"))), settings=SHORT) as gate:
        client = await begin(gate, "hello")
        await client.saw(b"so far")
        leave(gate)
        assert reason_of(await client.answer()) == "draining"
        assert await messages_of(gate) == [user("hello"), assistant("so far")]


async def test_a_model_that_has_not_begun() -> None:
    async with room(hanging(), settings=SHORT) as gate:
        client = await begin(gate, "hello")
        await until(lambda: len(gate.requests) == 1)
        leave(gate)
        assert reason_of(await client.answer()) == "draining"
        assert await messages_of(gate) == []


async def test_a_model_that_was_just_told_what_its_tools_returned() -> None:
    story = calling(Said("wait", (clock("get"),)))
    async with room(story, clock=ManualClock(NOW), settings=SHORT) as gate:
        client = await begin(gate, "hello")
        await until(lambda: len(gate.requests) == 2)
        leave(gate)
        found = heard(await client.answer())
        assert [name for name, _ in found] == ["text", "tool_start", "tool_end", "error"]
        assert found[-1][1]["code"] == "draining"
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool"]


async def test_a_held_answer_is_complete() -> None:
    acts = acting(schedules(30 * SECOND), tells("I will"))
    async with room(acts, clock=ManualClock(NOW), clock__due_window_ms=0) as gate:
        client = await begin(gate, "remind me")
        await held(gate)
        leave(gate)
        assert reason_of(await client.answer()) == "draining"
        assert roles(await messages_of(gate)) == ["user", "assistant", "tool", "assistant"]
