"""What comes before a hold, what keeps one from beginning, and how long all of them may take."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.clock import ManualClock, SystemClock
from tests.clock.holding import (
    BEAT,
    BEATING,
    HOUR,
    NOW,
    SECOND,
    Act,
    acting,
    calls,
    delivered,
    finish_of,
    held,
    held_for,
    metrics,
    remind,
    reminded,
    results,
    room,
    says,
    schedules,
    suffixes,
)
from tests.gateway.client import Answer
from tests.run import Running
from tests.sessions.talk import SESSION, assistant, follow_ups, newest, stop_message, talk, text_of

MINUTE = 60 * SECOND
GO_ON = '<**stopMessage:"go on",2**>'
NUMBERED = acting(*[says(f"text {number}") for number in range(9)])


async def at_once(gate: Running, *headers: str, stream: bool = True, **more: Any) -> Answer:
    """Ask while a reminder is a second away, and get the answer although no time passes."""
    await remind(gate, SECOND)
    answer = await gate.ask(talk("hi", stream=stream, **more), SESSION, *headers)
    assert await delivered(gate) == []
    assert await metrics(gate, "holds_started_total") == {"": 0}
    return answer


class TestStopMessageFirst:
    """A hold is judged only when the stop message did not fire."""

    async def test_the_hold_begins_when_the_stop_message_is_spent(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, NUMBERED) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk(GO_ON + "hi"), SESSION)
            await held(gate)
            assert suffixes(gate) == ["", "stop_followup", "stop_followup.2"]
            assert (await stop_message(gate))["used"] == 2
            clock.advance(SECOND)
            answer = await client.answer()
            assert answer.text == "text 0\n\ntext 1\n\ntext 2\n\ntext 3"
            assert finish_of(answer) == "stop"
            assert suffixes(gate)[3:] == ["clock_hold_followup"]
            assert reminded(gate.requests[3]) == ["drink tea"]

    async def test_a_turn_that_stops_for_its_length_is_held_for_although_it_is_armed(self) -> None:
        clock = ManualClock(NOW)
        model = acting(says("cut", "length"), says("tea"), says("more"), says("most"))
        async with room(clock, model) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk(GO_ON + "hi"), SESSION)
            await held(gate)
            assert not follow_ups(gate.requests)
            clock.advance(SECOND)
            assert text_of(await client.answer()) == "cut\n\ntea\n\nmore\n\nmost"
            assert suffixes(gate)[1:] == ["clock_hold_followup", "stop_followup", "stop_followup.2"]

    async def test_what_falls_due_meanwhile_goes_with_the_stop_message(self) -> None:
        clock = ManualClock(NOW)

        def takes_its_time(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
            clock.advance(SECOND)
            return says("text 1")(asked, ident)

        model = acting(says("text 0"), takes_its_time, says("text 2"))
        async with room(clock, model) as gate:
            await remind(gate, SECOND)
            assert text_of(await gate.ask(talk(GO_ON + "hi"), SESSION)) == (
                "text 0\n\ntext 1\n\ntext 2"
            )
            assert [reminded(asked) for asked in gate.requests] == [[], [], ["drink tea"]]
            assert newest(gate.requests[2]) == "go on"
            assert await delivered(gate) == ["drink tea"]
            assert await metrics(gate, "holds_started_total") == {"": 0}

    async def test_it_is_held_for_when_no_work_is_left_to_go_on_with(self) -> None:
        """What the stop message would have carried is free again, and goes with the hold."""
        clock = ManualClock(NOW)

        def is_done(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
            clock.advance(SECOND)
            return says("All tasks are done.")(asked, ident)

        model = acting(is_done, says("tea", "length"))
        async with room(clock, model, stop_message__bd_mode="heuristic") as gate:
            await remind(gate, SECOND)
            answer = await gate.ask(talk(GO_ON + "hi"), SESSION)
            assert text_of(answer) == "All tasks are done.\n\ntea"
            assert suffixes(gate) == ["", "clock_hold_followup"]
            assert reminded(gate.requests[1]) == ["drink tea"]
            assert await delivered(gate) == ["drink tea"]


class TestHowATurnEnded:
    """Whoever was cut short is waited for; who wants something else is not."""

    async def test_length_holds(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, acting(says("cut", "length"), says("tea"))) as gate:
            (client,) = await held_for(gate, "s")
            clock.advance(SECOND)
            answer = await client.answer()
            assert (answer.text, finish_of(answer)) == ("cut\n\ntea", "stop")

    async def test_a_hold_in_vain_ends_with_length(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, acting(says("cut", "length"))) as gate:
            await held_for(gate, "s")
            answer = await gate.ask(talk("hi"), SESSION, "x-holdgate-hold: off")
            assert finish_of(answer) == "length"

    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("reason", ["content_filter", "insufficient_quota"])
    async def test_other_reasons_do_not(self, reason: str, stream: bool) -> None:
        async with room(ManualClock(NOW), acting(says("no", reason))) as gate:
            answer = await at_once(gate, stream=stream)
            assert text_of(answer) == "no"
            assert reason.encode() in answer.body

    @pytest.mark.parametrize("stream", [True, False])
    async def test_tool_calls_are_the_clients(self, stream: bool) -> None:
        look: Act = calls("look", lambda asked: {"at": "sky"})
        tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
        async with room(ManualClock(NOW), acting(look)) as gate:
            answer = await at_once(gate, stream=stream, tools=tools)
            assert b'"tool_calls"' in answer.body
            assert b"sky" in answer.body


class TestNoHold:
    """Where nobody is to wait, the answer ends at once and the reminder stays."""

    async def test_a_header_says_so(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, NUMBERED) as gate:
            answer = await at_once(gate, "x-holdgate-hold: off")
            assert finish_of(answer) == "stop"
            clock.advance(SECOND)
            await gate.ask(talk("hi"), SESSION, "x-holdgate-hold: off")
            assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"]]

    async def test_the_model_is_told_that_it_comes_later(self) -> None:
        model = acting(schedules(SECOND), says("I will."))
        async with room(ManualClock(NOW), model) as gate:
            answer = await gate.ask(talk("hi"), SESSION, "x-holdgate-hold: off")
            assert text_of(answer) == "I will."
            (result,) = results(gate.requests[1])
            assert result["scheduled"][0]["delivery"] == "next_request"

    async def test_a_request_without_the_clock(self) -> None:
        async with room(ManualClock(NOW), NUMBERED) as gate:
            assert text_of(await at_once(gate, "x-holdgate-clock: off")) == "text 0"

    async def test_a_model_without_the_clock(self) -> None:
        models = [{"name": "m", "routes": ["a/m"], "clock": False}]
        async with room(ManualClock(NOW), NUMBERED, tables={"models": models}) as gate:
            assert text_of(await at_once(gate)) == "text 0"

    async def test_a_request_without_a_session(self) -> None:
        async with room(ManualClock(NOW), NUMBERED) as gate:
            await remind(gate, SECOND)
            assert text_of(await gate.ask(talk("hi"))) == "text 0"

    async def test_several_choices(self) -> None:
        async with room(ManualClock(NOW), NUMBERED) as gate:
            assert text_of(await at_once(gate, n=2)) == "text 0"

    async def test_no_holds_a_session(self) -> None:
        async with room(ManualClock(NOW), NUMBERED, limits__holds_per_session=0) as gate:
            assert text_of(await at_once(gate)) == "text 0"


class TestHowLong:
    """A hold that cannot succeed is not begun."""

    async def test_up_to_the_limit_and_not_beyond(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, NUMBERED, clock__hold_max_ms=5 * SECOND) as gate:
            await remind(gate, 5 * SECOND + 1)
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "text 0"
            assert await metrics(gate, "holds_started_total") == {"": 0}
            clock.advance(1)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            clock.advance(5 * SECOND)
            assert text_of(await client.answer()) == "text 0\n\ntext 1"

    async def test_the_window_counts(self) -> None:
        settings = {"clock__hold_max_ms": MINUTE, "clock__due_window_ms": MINUTE}
        clock = ManualClock(NOW)
        async with room(clock, NUMBERED, **settings) as gate:
            await remind(gate, 2 * MINUTE + 1)
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "text 0"
            clock.advance(1)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            clock.advance(MINUTE)
            assert text_of(await client.answer()) == "text 0\n\ntext 1"

    async def test_the_model_is_told_which_it_is(self) -> None:
        model = acting(schedules(HOUR), says("Later."))
        async with room(ManualClock(NOW), model) as gate:
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "Later."
            (result,) = results(gate.requests[1])
            assert result["scheduled"][0]["delivery"] == "next_request"

    async def test_zero_never_waits(self) -> None:
        async with room(ManualClock(NOW), NUMBERED, clock__hold_max_ms=0) as gate:
            assert text_of(await at_once(gate)) == "text 0"

    async def test_the_earliest_decides(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, NUMBERED) as gate:
            await remind(gate, HOUR, "later")
            await remind(gate, SECOND, "soon")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            clock.advance(SECOND)
            assert text_of(await client.answer()) == "text 0\n\ntext 1"
            assert await delivered(gate) == ["soon"]

    async def test_all_holds_of_an_answer_share_a_limit(self) -> None:
        """In real time: what counts is how long was held, not how long was meant to be."""
        near = [schedules(SECOND // 2, "near"), says("I will.")]
        far = [schedules(10 * SECOND, "far"), says("Near.")]
        settings = {"clock__hold_total_ms": 10 * SECOND, **BEATING}
        async with room(SystemClock(), acting(*near, *far), **settings) as gate:
            answer = await gate.ask(talk("hi"), SESSION)
            assert (answer.text, finish_of(answer)) == ("I will.\n\nNear.", "stop")
            assert BEAT in answer.chunks
            told = [result["scheduled"][0]["delivery"] for result in results(gate.requests[-1])]
            assert told == ["hold", "next_request"]
            assert await delivered(gate) == ["near"]
            # In an answer that has not held before, there is time for it.
            await gate.start(talk("hi", assistant("I will."), assistant("."), "and?"), SESSION)
            await held(gate)
