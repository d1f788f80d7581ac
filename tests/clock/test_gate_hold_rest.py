"""While an answer is held little is kept of it; afterwards its connection is as good as before."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from gateway.clock import ManualClock
from tests.clock.holding import NOW, SECOND, acting, held, remind, room, says
from tests.garbage import garbage_kept
from tests.gateway.client import Client
from tests.gateway.wire import ask_of, chat
from tests.run import Running, in_process, until
from tests.sessions.talk import SESSION, talk, text_of

MODEL = acting(says("I will."), says("Drink your tea."))
BOTH = "I will.\n\nDrink your tea."
OTHER = "x-session-id: other"
READING = {"HttpRequestParser", "IncomingRequest", "ChatTap", "Framer", "Tape", "Recorded"}
EXCHANGE = {
    "ExchangeRunner",
    "ExchangeState",
    "RequestCycle",
    "LimitedConnection",
    "ChatStream",
    "ChatWhole",
    "WholeTap",
}


async def holding(gate: Running, sent: bytes = b"") -> Client:
    """Ask for an answer that is held; what is sent with the request follows it."""
    await remind(gate, 5 * SECOND)
    client = await gate.send(ask_of(talk("hi"), SESSION) + sent)
    await held(gate)
    return client


async def test_the_next_request_is_answered() -> None:
    clock = ManualClock(NOW)
    async with room(clock, MODEL) as gate:
        client = await holding(gate)
        clock.advance(5 * SECOND)
        assert text_of(await client.answer()) == BOTH
        for _ in range(2):
            await client.send(ask_of(talk("hi"), OTHER))
            assert text_of(await client.answer()) == "I will."


async def test_and_if_it_was_sent_ahead_it_waits() -> None:
    clock, asked = ManualClock(NOW), ask_of(talk("hi"), OTHER)
    async with room(clock, MODEL) as gate:
        client = await holding(gate)
        await client.send(asked[:70])
        await client.send(asked[70:])
        clock.advance(5 * SECOND)
        assert text_of(await client.answer()) == BOTH
        assert text_of(await client.answer()) == "I will."


@pytest.mark.parametrize("at", [20, -1])
async def test_also_where_its_beginning_came_with_the_one_before(at: int) -> None:
    clock, asked = ManualClock(NOW), ask_of(talk("hi"), OTHER)
    async with room(clock, MODEL) as gate:
        client = await holding(gate, asked[:at])
        await client.send(asked[at:])
        clock.advance(5 * SECOND)
        assert text_of(await client.answer()) == BOTH
        assert text_of(await client.answer()) == "I will."


async def test_one_that_stops_coming_after_a_hold_is_given_up() -> None:
    clock = ManualClock(NOW)
    async with room(clock, MODEL, limits__receive_idle_ms=150) as gate:
        client = await holding(gate)
        clock.advance(5 * SECOND)
        assert text_of(await client.answer()) == BOTH
        await client.send(ask_of(talk("hi"))[:60])
        assert (await client.answer()).status == 408
        assert await client.closed()


async def test_what_read_the_request_and_the_turns_is_gone() -> None:
    async with room(ManualClock(NOW), MODEL) as gate:
        # Other tests of this process may have left some behind.
        before = alive()
        await holding(gate)
        await until(lambda: not alive() - before)


def alive() -> Counter[str]:
    """Count, by type, what read requests and turns."""
    gc.collect()
    return Counter(name for thing in gc.get_objects() if (name := type(thing).__name__) in READING)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_exchange_that_is_over_leaves_nothing_to_a_collection(stream: bool) -> None:
    async with in_process(MODEL) as gate:
        with garbage_kept() as garbage:
            for _ in range(3):
                await gate.ask(chat(stream=stream))
            await gate.quiet()
            assert EXCHANGE.isdisjoint(garbage())


async def test_nor_does_a_client_that_leaves() -> None:
    async with room(ManualClock(NOW), MODEL) as gate:
        with garbage_kept() as garbage:
            client = await holding(gate)
            client.leave()
            await gate.quiet()
            assert EXCHANGE.isdisjoint(garbage())
