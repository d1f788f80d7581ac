"""With `clock.hold_without_session` a request without a session id may be reminded in its answer."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.holding import HOUR, NOW, SECOND, acting, held, results, room, says, schedules
from tests.clock.reminding import NO_HOLD, carried, due
from tests.clock.words import Call, clock, function, play
from tests.clock.words import says as said
from tests.run import Running
from tests.sessions.talk import talk, text_of

ON = {"clock__hold_without_session": True}
BOTH = "I will.\n\nDrink your tea."


def place(time: ManualClock, *acts: Any, **more: Any) -> Any:
    return room(time, acting(*acts), **{**ON, **more})


def answered(gate: Running) -> Any:
    """Return what the clock said to the first call."""
    return results(gate.requests[1])[0]


@pytest.mark.parametrize("window_ms", [0, 60_000], ids=["no window", "a window"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_the_answer_is_kept_open_until_the_reminder_is_due(
    stream: bool, window_ms: int
) -> None:
    time = ManualClock(NOW)
    acts = (schedules(20 * SECOND), says("I will."), says("Drink your tea."))
    async with place(time, *acts, clock__due_window_ms=window_ms) as gate:
        client = await gate.start(talk("hi", stream=stream))
        await held(gate)
        assert [one["delivery"] for one in answered(gate)["scheduled"]] == ["hold_only"]
        time.advance(20 * SECOND - 1)
        assert len(gate.requests) == 2
        time.advance(1)
        assert text_of(await client.answer()) == BOTH
        assert carried(gate.requests[2]) == ["drink tea"]


async def test_answers_know_nothing_of_each_other() -> None:
    time = ManualClock(NOW)
    tea = clock("schedule", due("drink tea", NOW + 20 * SECOND))
    acts = (said("", tea), said("I will."), said("hello"), said("Drink your tea."))
    async with room(time, play(*acts), **ON) as gate:
        client = await gate.start(talk("hi"))
        await held(gate)
        assert text_of(await gate.ask(talk("hi"))) == "hello"
        time.advance(20 * SECOND)
        assert text_of(await client.answer()) == BOTH


REFUSED: dict[str, tuple[int, dict[str, Any], tuple[str, ...]]] = {
    "later than the longest hold": (HOUR, {}, ()),
    "past": (-SECOND, {}, ()),
    "no holds": (20 * SECOND, {"clock__hold_max_ms": 0}, ()),
    "no hold wanted": (20 * SECOND, {}, (NO_HOLD,)),
    "switched off": (20 * SECOND, {"clock__hold_without_session": False}, ()),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_this_answer_does_not_wait_for_is_refused(name: str) -> None:
    in_ms, settings, headers = REFUSED[name]
    async with place(ManualClock(NOW), schedules(in_ms), says("Hm."), **settings) as gate:
        assert text_of(await gate.ask(talk("hi"), *headers)) == "Hm."
        refusal = answered(gate)
        assert not refusal["ok"]
        assert "session" in refusal["error"]
        assert "x-session-id" in refusal["error"]


async def test_beside_a_tool_of_the_clients_it_is_refused() -> None:
    """The answer ends with the client's call: nothing would be held."""
    tea = clock("schedule", due("drink tea", NOW + 20 * SECOND))
    acts = (said("", tea, Call("f", "{}", "call_2")), said("Hm."))
    async with room(ManualClock(NOW), play(*acts), **ON) as gate:
        first = await gate.ask(talk("hi", tools=[function("f")], stream=False))
        message = first.json["choices"][0]["message"]
        back = {"role": "tool", "tool_call_id": "call_2", "content": "ok"}
        await gate.ask(talk("hi", message, back, tools=[function("f")], stream=False))
        assert "names no session" in str(gate.requests[1].body)


async def test_it_can_be_listed_and_cancelled_within_the_answer() -> None:
    tea = clock("schedule", due("drink tea", NOW + 20 * SECOND))
    acts = (said("", tea), said("", clock("list")), said("", clock("clear")), said("Done."))
    async with room(ManualClock(NOW), play(*acts), **ON) as gate:
        assert text_of(await gate.ask(talk("hi"))) == "Done."
        _, listed, cleared = results(gate.requests[3])
        assert [one["task"] for one in listed["items"]] == ["drink tea"]
        assert cleared["removedCount"] == 1


async def test_with_a_session_nothing_is_different() -> None:
    time = ManualClock(NOW)
    async with place(time, schedules(HOUR), says("I will.")) as gate:
        await gate.ask(talk("hi"), "x-session-id: s")
        assert answered(gate)["scheduled"][0]["delivery"] == "next_request"
