"""A large request is packed away while its answer is held, and is whole again afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.clock import ManualClock
from gateway.exchange.state import ASIDE_ABOVE, PACKED_ABOVE, ExchangeState
from tests.clock.holding import NOW, SECOND, acting, held, remind, reminded, room, says
from tests.run import Running, until
from tests.sessions.talk import SESSION, assistant, messages, system, talk, user

MODEL = acting(says("I will."), says("Drink your tea."))
SIZES = {"small": 100, "packed": 2 * PACKED_ABOVE, "packed aside": 2 * ASIDE_ABOVE}
STORY = "Once upon a time there was a gateway, and it waited. "


def history(size: int) -> list[Any]:
    """Write a conversation of about so many bytes."""
    tale = "".join(f"{number}. {STORY}" for number in range(size // len(STORY) + 1))
    return [system("Be brief."), user(tale), user("Remind me.")]


def course_of(gate: Running) -> ExchangeState:
    """Find the only exchange that is under way."""
    (drive,) = gate.gateway.exchanges.live
    return drive._state


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_the_model_is_asked_the_same_after_the_wait(size: int) -> None:
    clock, said = ManualClock(NOW), history(size)
    async with room(clock, MODEL) as gate:
        await remind(gate, 5 * SECOND)
        client = await gate.start(talk(*said), SESSION)
        await held(gate)
        clock.advance(5 * SECOND)
        answer = await client.answer()
        assert answer.text == "I will.\n\nDrink your tea."
        first, second = map(messages, gate.requests)
        assert second[: len(first)] == first
        assert second[len(first)] == assistant("I will.")
        assert reminded(gate.requests[1]) == ["drink tea"]
        assert first[: len(said)] == said


async def test_it_waits_in_a_small_part_of_its_size() -> None:
    clock, size = ManualClock(NOW), SIZES["packed"]
    async with room(clock, MODEL) as gate:
        await remind(gate, 5 * SECOND)
        await gate.start(talk(*history(size)), SESSION)
        await held(gate)
        course = course_of(gate)
        assert course.packed
        assert len(course.body) < size / 4
        assert course.request.asked.body == b""


async def test_the_time_is_told_when_the_follow_up_is_sent() -> None:
    """Where many are due at once, some have to wait for a place; a minute later it is later."""
    clock = ManualClock(NOW)
    async with room(clock, MODEL, limits__due_followups=1) as gate:
        gate.gateway.exchanges.services.follow_up_slots.acquire_nowait()
        await remind(gate, 5 * SECOND)
        client = await gate.start(talk("hi"), SESSION)
        await held(gate)
        clock.advance(5 * SECOND)
        await until(lambda: not len(gate.gateway.holds))
        clock.advance(60 * SECOND)
        gate.gateway.exchanges.services.follow_up_slots.release()
        await client.answer()
        tag = messages(gate.requests[1])[-1]["content"]
        assert f"nowMs=`{NOW + 65 * SECOND}`" in tag
