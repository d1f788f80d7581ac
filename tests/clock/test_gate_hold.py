"""A reminder that is due soon keeps the answer open, and its turn comes in the same message."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock, SystemClock
from tests.clock.holding import (
    BEAT,
    BEATING,
    HOUR,
    NOW,
    SECOND,
    acting,
    delivered,
    finish_of,
    held,
    listed,
    metrics,
    notes,
    path_of,
    remind,
    reminded,
    results,
    room,
    says,
    schedules,
    suffixes,
    told_ms,
)
from tests.gateway.client import Client
from tests.gateway.wire import request, text
from tests.run import Running
from tests.sessions.talk import SESSION, assistant, messages, talk, text_of, user

SLACK_MS = 250
HELD = acting(says("I will."), says("Drink your tea."))
BOTH = "I will.\n\nDrink your tea."


class TestInThreeSeconds:
    """The promise in real time: to a stream, and to an answer of one piece, side by side."""

    async def test_the_answer_goes_on_when_the_reminder_is_due(self) -> None:
        model = acting(schedules(3 * SECOND), says("I will."), says("Drink your tea."))
        async with room(SystemClock(), model, server__keepalive_ms=500) as gate:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.streams, gate)
                tasks.start_soon(self.comes_whole, gate)
            assert len(gate.requests) == 6
            for session in ("streams", "whole"):
                assert await delivered(gate, session) == ["drink tea"]

    async def streams(self, gate: Running) -> None:
        client = await gate.start(talk("hi"), "x-session-id: streams")
        await client.saw(text("I will."))
        due_ms = await self.due_ms(gate, "streams")
        assert now_ms() < due_ms - SECOND
        async with just_in_time(due_ms):
            answer = await client.saw(b"Drink")
        await client.answer()
        assert (answer.text, finish_of(answer)) == (BOTH, "stop")
        assert answer.chunks.count(BEAT) >= 2

    async def comes_whole(self, gate: Running) -> None:
        client = await gate.start(talk("hi", stream=False), "x-session-id: whole")
        due_ms = await self.due_ms(gate, "whole")
        async with just_in_time(due_ms):
            answer = await client.answer()
        assert text_of(answer) == BOTH

    async def due_ms(self, gate: Running, session: str) -> float:
        """Return when the reminder is due, once there is one."""
        while not (tasks := await listed(gate, session)):
            pass
        return datetime.fromisoformat(tasks[0]["dueAt"]).timestamp() * 1000


@asynccontextmanager
async def just_in_time(due_ms: float) -> AsyncIterator[None]:
    """Demand that what follows ends at this instant, as well as this machine can tell time now."""
    woken: list[float] = []

    async def sleeper() -> None:
        await anyio.sleep((due_ms - now_ms()) / 1000)
        woken.append(now_ms())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sleeper)
        yield
        ended_ms = now_ms()
    assert due_ms - SLACK_MS < ended_ms < woken[0] + SLACK_MS


def now_ms() -> float:
    return time.time() * 1000


async def test_the_text_is_there_at_once_and_the_rest_when_it_is_due() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD, **BEATING) as gate:
        await remind(gate, 3 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        answer = await client.saw(text("I will.") + BEAT + BEAT)
        clock.advance(3 * SECOND - 1)
        client.forget_body()
        await client.saw(BEAT + BEAT)
        assert len(gate.requests) == 1
        assert answer.text == ""
        clock.advance(1)
        await client.answer()
        assert answer.text == "\n\nDrink your tea."
        assert len(gate.requests) == 2


async def test_all_turns_are_one_message_and_every_heartbeat_a_whole_chunk() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD, **BEATING) as gate:
        await remind(gate, SECOND)
        body = talk("hi", stream_options={"include_usage": True})
        client = await gate.start(body, SESSION)
        await client.saw(BEAT)
        clock.advance(SECOND)
        answer = await client.answer()
    assert answer.text == BOTH
    assert answer.events[-1]["usage"] == {"prompt_tokens": 20, "completion_tokens": 2}
    del answer.body[answer.body.rindex(b'data: {"id"') : answer.body.rindex(b"data: [DONE]")]
    assert finish_of(answer) == "stop"
    assert BEAT in answer.chunks
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in answer.chunks)
    beat = json.loads(BEAT.removeprefix(b"data: "))
    assert beat["choices"] == [{"index": 0, "delta": {}, "finish_reason": None}]
    assert {**answer.events[0], "choices": []} == {**beat, "choices": []}


async def test_the_follow_up_is_told_what_was_said_what_is_due_and_the_time() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD) as gate:
        await remind(gate, SECOND)
        client = await gate.start(talk("hi"), SESSION, "x-request-id: mine")
        await held(gate)
        clock.advance(SECOND)
        await client.answer()
        first, second = gate.requests
        assert second.headers[b"x-request-id"] == b"mine:clock_hold_followup"
        before, after = messages(first), messages(second)
        assert after[:-3] == before
        assert after[-3:-1] == [assistant("I will."), user(after[-2]["content"])]
        assert reminded(second) == ["drink tea"]
        assert told_ms(json.loads(first.body)) == NOW
        assert after[-1]["content"].startswith("[Time/Date]")
        assert told_ms(json.loads(second.body)) == NOW + SECOND
        (task,) = await listed(gate)
        assert (task["deliveredAt"], task["deliveryCount"]) == ("2026-02-02T21:22:39.229Z", 1)


async def test_the_window_brings_it_forward() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD, clock__due_window_ms=60 * SECOND) as gate:
        await remind(gate, 61 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(SECOND)
        assert text_of(await client.answer()) == BOTH


async def test_what_is_due_together_comes_together() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD) as gate:
        for task, at in (("second", 900), ("first", 800), ("third", 5000)):
            await remind(gate, at, task)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(SECOND)
        await client.saw(b"Drink")
        await held(gate)
        assert reminded(gate.requests[1]) == ["first", "second"]
        assert await delivered(gate) == ["second", "first"]
        clock.advance(4 * SECOND)
        assert (await client.answer()).text == BOTH + "\n\nDrink your tea."
        assert reminded(gate.requests[2])[2:] == ["third"]


async def test_a_reminder_that_was_due_while_the_model_spoke_is_not_waited_for() -> None:
    clock = ManualClock(NOW)

    def takes_its_time(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
        clock.advance(SECOND)
        return says("I will.")(asked, ident)

    async with room(clock, acting(takes_its_time, says("Drink your tea."))) as gate:
        await remind(gate, SECOND)
        assert text_of(await gate.ask(talk("hi"), SESSION)) == BOTH
        assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"]]


async def test_a_clock_that_is_stepped_shifts_it() -> None:
    clock = ManualClock(NOW)
    async with room(clock, HELD) as gate:
        await remind(gate, SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(-HOUR)
        clock.advance(HOUR)
        await held(gate)
        clock.advance(2 * HOUR // 10)
        assert text_of(await client.answer()) == BOTH
        clock.advance(-HOUR)
        await gate.ask(talk("hi"), SESSION)
        assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"], []]


async def test_the_operators_tools_are_declared_once() -> None:
    tool = {"name": "ring", "description": "Ring a bell.", "parameters": {"type": "object"}}
    standard = {"clock__standard_tools": (json.dumps(tool),)}
    clock = ManualClock(NOW)
    async with room(clock, HELD, **standard) as gate:
        await remind(gate, 0, "first")
        await remind(gate, SECOND, "second")
        await remind(gate, 2 * SECOND, "third")
        client = await gate.start(talk("hi"), SESSION)
        for _ in range(2):
            await held(gate)
            clock.advance(SECOND)
            await client.saw(b"Drink")
        await client.answer()
        assert [len(reminded(asked)) for asked in gate.requests] == [1, 2, 3]
        for asked in gate.requests:
            tools = json.loads(asked.body)["tools"]
            assert [tool["function"]["name"] for tool in tools] == ["clock", "ring"]


class TestTheModelSetsIt:
    """The whole way round: the tool, the hold, the reminder."""

    @pytest.mark.parametrize("stream", [True, False])
    async def test_it_is_told_that_the_answer_waits_and_so_it_does(self, stream: bool) -> None:
        clock = ManualClock(NOW)
        async with room(clock, acting(schedules(SECOND), says("I will."), says("Tea."))) as gate:
            client = await gate.start(talk("hi", stream=stream), SESSION)
            await held(gate)
            clock.advance(SECOND)
            answer = await client.answer()
            assert text_of(answer) == "I will.\n\nTea."
            assert b"clock" not in answer.body
            ((result,),) = [result["scheduled"] for result in results(gate.requests[1])]
            assert result["delivery"] == "hold"
            assert suffixes(gate) == ["", "clock_followup", "clock_hold_followup"]

    async def test_another_one_set_in_the_follow_up_is_waited_for_as_well(self) -> None:
        model = acting(
            schedules(SECOND, "stand"),
            says("I will."),
            schedules(SECOND, "sit"),
            says("Stand up."),
            says("Sit down."),
        )
        clock = ManualClock(NOW)
        async with room(clock, model) as gate:
            client = await gate.start(talk("hi"), SESSION)
            for _ in range(2):
                await held(gate)
                clock.advance(SECOND)
                await client.saw(b"Stand up.")
            answer = await client.answer()
            assert answer.text == "I will.\n\nStand up.\n\nSit down."
            assert finish_of(answer) == "stop"
            assert await delivered(gate) == ["stand", "sit"]
            followed = ["clock_followup", "clock_hold_followup"]
            assert suffixes(gate) == ["", *followed, *[f"{name}.2" for name in followed]]

    @pytest.mark.parametrize("in_ms", [0, 30 * SECOND])
    async def test_within_the_window_it_comes_with_the_next_request(self, in_ms: int) -> None:
        model = acting(schedules(in_ms), says("I will."))
        clock = ManualClock(NOW)
        async with room(clock, model, clock__due_window_ms=30 * SECOND) as gate:
            assert text_of(await gate.ask(talk("hi"), SESSION)) == "I will."
            ((result,),) = [result["scheduled"] for result in results(gate.requests[1])]
            assert result["delivery"] == "next_request"
            await gate.ask(talk("hi", assistant("I will."), "and?"), SESSION)
            assert reminded(gate.requests[2]) == ["drink tea"]


class TestInOnePiece:
    """An answer that does not stream waits too, unless it is not to."""

    async def test_white_space_keeps_the_connection_alive(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD, **BEATING) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=False), SESSION)
            await client.saw(b"   ")
            clock.advance(SECOND)
            answer = await client.answer()
            assert answer.headers["content-type"] == "application/json"
            assert answer.body.lstrip(b" ").startswith(b'{"')
            assert text_of(answer) == BOTH
            assert answer.json["choices"][0]["finish_reason"] == "stop"
            assert answer.json["usage"] == {"prompt_tokens": 20, "completion_tokens": 2}
            assert await delivered(gate) == ["drink tea"]

    async def test_a_short_wait_leaves_no_trace(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=False), SESSION)
            await held(gate)
            clock.advance(SECOND)
            answer = await client.answer()
            assert int(answer.headers["content-length"]) == len(answer.body)
            assert answer.body.startswith(b"{")

    async def test_notes_have_no_place_in_it(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD, **BEATING) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=False), SESSION, "x-holdgate-notes: 1")
            await client.saw(b"   ")
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH

    async def test_switched_off_the_answer_comes_at_once(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD, clock__hold_non_streaming=False) as gate:
            await remind(gate, SECOND)
            assert text_of(await gate.ask(talk("hi", stream=False), SESSION)) == "I will."
            assert await delivered(gate) == []
            clock.advance(HOUR // 6)
            await gate.ask(talk("hi", stream=False), SESSION)
            assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"]]
            await remind(gate, SECOND, "stand up")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH


class TestWhatIsTold:
    """What people and operators see of a hold."""

    async def test_notes_say_how_long_it_takes(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD, **BEATING) as gate:
            await remind(gate, SECOND)
            clock.advance(100)
            client = await gate.start(talk("hi"), SESSION, "x-holdgate-notes: 1")
            await client.saw(BEAT)
            clock.advance(900)
            answer = await client.answer()
            assert text_of(answer) == BOTH
            told = notes(answer)
            assert [(note["state"], note["turn"]) for note in told] == [
                ("holding", 1),
                ("opening", 2),
                ("relaying", 2),
                ("closing", 2),
            ]
            assert told[0] == {
                "state": "holding",
                "turn": 1,
                "until": NOW + SECOND,
                "now": NOW + 100,
            }

    async def test_notes_say_when_it_waits_for_something_else(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD, **BEATING) as gate:
            first = await remind(gate, SECOND)
            await remind(gate, 3 * SECOND, "stand up")
            client = await gate.start(talk("hi"), SESSION, "x-holdgate-notes: 1")
            await client.saw(BEAT)
            await gate.fetch(request("DELETE", f"{path_of('s')}/{first}"))
            await client.saw(b'"until": %d' % (NOW + 3 * SECOND))
            clock.advance(3 * SECOND)
            told = notes(await client.answer())
            assert [(note["state"], note.get("until")) for note in told[:3]] == [
                ("holding", NOW + SECOND),
                ("holding", NOW + 3 * SECOND),
                ("opening", None),
            ]

    async def test_without_being_asked_for_there_are_none(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            clock.advance(SECOND)
            assert notes(await client.answer()) == []

    async def test_metrics_count_holds_and_reminders(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            assert await metrics(gate, "holds_active") == {"": 1}
            assert await metrics(gate, "holds_started_total") == {"": 1}
            assert await metrics(gate, "holds_ended_total") == {}
            clock.advance(SECOND)
            await self.ended(gate, client)
            counted = await metrics(gate, "reminders_total")
            for event in ("scheduled", "reserved", "committed"):
                assert counted[f'event="{event}"'] == 1
            for event in ("released", "expired", "cancelled"):
                assert counted[f'event="{event}"'] == 0

    async def ended(self, gate: Running, client: Client) -> None:
        await client.answer()
        assert await metrics(gate, "holds_active") == {"": 0}
        assert await metrics(gate, "holds_ended_total") == {'outcome="due"': 1}
        (seconds,) = (await metrics(gate, "hold_seconds_sum")).values()
        assert 0 < seconds < 10
        assert await metrics(gate, "hold_seconds_count") == {"": 1}
