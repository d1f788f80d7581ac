"""How a hold ends early: with the tail of its turn, as if there had been none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock, TimerQueue
from gateway.reminders.holds import Holds
from tests.clock.holding import (
    HOUR,
    NOW,
    SECOND,
    Act,
    acting,
    delivered,
    fails,
    finish_of,
    held,
    held_for,
    metrics,
    notes,
    remind,
    reminded,
    remove,
    room,
    says,
    suffixes,
)
from tests.gateway.client import Answer, Client
from tests.gateway.wire import Cue, get, text, turn
from tests.run import SOON, Running, until
from tests.sessions.talk import GO_ON, SESSION, assistant, kept, messages, system, talk, text_of
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, sized

HELD = acting(says("I will."), says("Drink your tea."))
BOTH = "I will.\n\nDrink your tea."


async def plain(gate: Running) -> Answer:
    """Return the answer as it is where nothing is held."""
    return await gate.ask(talk("hi"), "x-session-id: another")


async def ends_plainly(gate: Running, client: Client) -> Answer:
    """Read a held answer to its end, which comes at once and is that of its turn."""
    with anyio.fail_after(SOON):
        answer = await client.answer()
    assert answer.body == (await plain(gate)).body
    return answer


async def ended_by(gate: Running) -> str:
    """Return how the one hold there was ended."""
    (outcome,) = await metrics(gate, "holds_ended_total")
    assert await metrics(gate, "holds_active") == {"": 0}
    return outcome


class TestByHand:
    """What is changed over REST meanwhile is looked at at once."""

    @pytest.mark.parametrize("all_of_them", [True, False])
    @pytest.mark.parametrize("store", ["memory", "files"])
    async def test_a_reminder_that_is_removed_ends_it(
        self, tmp_path: Path, store: str, all_of_them: bool
    ) -> None:
        settings = kept(tmp_path) if store == "files" else {}
        async with room(ManualClock(NOW), HELD, **settings) as gate:
            task_id = await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await remove(gate, "" if all_of_them else task_id)
            answer = await ends_plainly(gate, client)
            assert finish_of(answer) == "stop"
            assert await ended_by(gate) == 'outcome="reminder_gone"'
            assert (await metrics(gate, "reminders_total"))['event="cancelled"'] == 1

    async def test_a_whole_answer_ends_as_well(self) -> None:
        async with room(ManualClock(NOW), HELD, server__keepalive_ms=20) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=False), SESSION)
            await client.saw(b" ")
            await remove(gate)
            with anyio.fail_after(SOON):
                assert text_of(await client.answer()) == "I will."

    async def test_a_note_says_why(self) -> None:
        async with room(ManualClock(NOW), HELD) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION, "x-holdgate-notes: 1")
            await held(gate)
            await remove(gate)
            told = notes(await client.answer())
            assert told[-1] == {"state": "closing", "turn": 1, "why": "reminder_gone"}

    async def test_another_one_is_waited_for_instead(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            first = await remind(gate, SECOND, "first")
            await remind(gate, 2 * SECOND, "second")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await remove(gate, first)
            clock.advance(SECOND)
            await _nothing_happens(gate)
            assert len(gate.requests) == 1
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH
            assert reminded(gate.requests[1]) == ["second"]

    async def test_but_not_one_beyond_the_limit(self) -> None:
        async with room(ManualClock(NOW), HELD) as gate:
            first = await remind(gate, SECOND)
            await remind(gate, HOUR, "much later")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await remove(gate, first)
            await ends_plainly(gate, client)
            assert await ended_by(gate) == 'outcome="limit"'

    async def test_an_earlier_one_wakes_it_earlier(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, 50 * SECOND, "late")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await remind(gate, SECOND, "early")
            clock.advance(SECOND)
            await client.saw(b"Drink your tea.")
            await held(gate)
            assert reminded(gate.requests[1]) == ["early"]
            clock.advance(49 * SECOND)
            assert (await client.answer()).text == BOTH + "\n\nDrink your tea."

    async def test_one_that_is_due_at_once_wakes_it_at_once(self) -> None:
        async with room(ManualClock(NOW), HELD) as gate:
            await remind(gate, 50 * SECOND, "late")
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await remind(gate, -SECOND, "past")
            await client.saw(b"Drink your tea.")
            assert reminded(gate.requests[1]) == ["past"]

    async def test_a_later_one_does_not_disturb(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            (client,) = await held_for(gate, "s")
            await remind(gate, HOUR, "much later")
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH


class TestNewRequests:
    """A new request of the session takes over what the old one waited for."""

    async def test_it_ends_the_hold_and_waits_itself(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            (older,) = await held_for(gate, "s")
            newer = await gate.start(talk("hi", assistant("I will."), "and?"), SESSION)
            answer = await older.answer()
            assert answer.body == (await plain(gate)).body
            await held(gate)
            assert await metrics(gate, "holds_ended_total") == {'outcome="taken_over"': 1}
            clock.advance(SECOND)
            assert text_of(await newer.answer()) == "Drink your tea.\n\nDrink your tea."
            assert [r for r in map(reminded, gate.requests) if r] == [["tea of s"]]

    async def test_what_is_due_goes_with_exactly_one_of_them(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            sessions = [f"s{number}" for number in range(30)]
            older = await held_for(gate, *sessions)
            newer = []
            for number, session in enumerate(sessions):
                newer.append(await gate.start(talk("hi"), f"x-session-id: {session}"))
                if number == 15:
                    clock.advance(SECOND)
            for client in (*older, *newer):
                assert finish_of(await client.answer()) == "stop"
            carried = [task for asked in gate.requests for task in reminded(asked)]
            assert sorted(carried) == sorted(f"tea of {session}" for session in sessions)

    async def test_a_side_request_leaves_it_alone(self) -> None:
        tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            await remind(gate, SECOND)
            body = talk(system("You are an agent."), "hi", tools=tools)
            client = await gate.start(body, SESSION)
            await held(gate)
            side = await gate.ask(talk(system("Write a title."), "hi"), SESSION)
            assert text_of(side) == "I will."
            await held(gate)
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH

    async def test_nor_does_a_request_that_is_refused_end_it(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, HELD) as gate:
            (client,) = await held_for(gate, "s")
            assert (await gate.ask(talk("hi", model="nobody"), SESSION)).status == 404
            assert (await gate.ask(b"{", SESSION)).status == 400
            assert (await gate.ask(talk("hi"), "x-session-id: t")).status == 200
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH

    async def test_of_two_holds_the_newer_one_stays(self) -> None:
        cue = Cue()

        async def slow_first(peer: Peer) -> None:
            asked = await peer.request()
            if messages(asked)[0]["content"] == "slow":
                await cue.wait()
            await peer.send(CHUNKED, chunk(turn("I will.")), LAST)

        async with room(ManualClock(NOW), slow_first) as gate:
            await remind(gate, SECOND)
            slow = await gate.start(talk("slow"), SESSION)
            await until(lambda: len(gate.requests) == 1)
            quick = await gate.start(talk("hi"), SESSION)
            await quick.saw(text("I will."))
            await until(lambda: gate.states == ["holding", "opening"])
            cue.give()
            await ends_plainly(gate, quick)
            await held(gate)
            assert await metrics(gate, "holds_ended_total") == {'outcome="replaced"': 1}
            await remove(gate)
            await ends_plainly(gate, slow)


KEYS = {"keys": [{"owner": name, "key": name * 12} for name in ("ann", "bob")]}


class TestLimits:
    """So many holds an owner, so many in all; who comes too late is not held."""

    async def test_an_owner_may_hold_so_many(self) -> None:
        async with room(ManualClock(NOW), HELD, limits__holds_per_owner=2, tables=KEYS) as gate:
            clients = [await self.asks(gate, "ann", session) for session in ("a", "b")]
            await held(gate, 2)
            late = await self.asks(gate, "ann", "c")
            assert (await late.answer()).text == "I will."
            await self.asks(gate, "bob", "c")
            await held(gate, 3)
            clients[0].leave()
            await held(gate, 2)
            await self.asks(gate, "ann", "d")
            await held(gate, 3)

    async def test_the_process_may_hold_so_many(self) -> None:
        async with room(ManualClock(NOW), HELD, limits__holds=2, tables=KEYS) as gate:
            for owner in ("ann", "bob"):
                await self.asks(gate, owner, "a")
            await held(gate, 2)
            late = await self.asks(gate, "ann", "b")
            assert (await late.answer()).text == "I will."
            # A session that is held already needs no further place.
            again = await self.asks(gate, "ann", "a")
            await again.saw(text("I will."))
            await held(gate, 2)

    async def test_a_crowd_does_not_slip_through(self) -> None:
        async with room(ManualClock(NOW), HELD, limits__holds_per_owner=3) as gate:
            sessions = [f"s{number}" for number in range(40)]
            for session in sessions:
                await remind(gate, SECOND, session=session)
            for session in sessions:
                await gate.start(talk("hi"), f"x-session-id: {session}")
            await until(lambda: len(gate.requests) == 40 and set(gate.states) == {"holding"})
            assert len(gate.states) == 3

    async def test_a_clock_that_stands_still_makes_nobody_more_patient(self) -> None:
        async with room(ManualClock(NOW), HELD, clock__hold_max_ms=200) as gate:
            await remind(gate, 100)
            client = await gate.start(talk("hi"), SESSION)
            await held(gate)
            await until(lambda: not len(gate.gateway.holds))
            await ends_plainly(gate, client)
            assert await metrics(gate, "holds_ended_total") == {'outcome="limit"': 1}

    async def test_one_that_slipped_through_ends_at_once(self) -> None:
        holds = Holds(TimerQueue(ManualClock(NOW)), time.monotonic, most=1)
        first, second = (holds.begin("ann", session) for session in "ab")
        assert (first.reason, second.reason) == ("", "limit")

    async def asks(self, gate: Running, owner: str, session: str) -> Client:
        key = f"authorization: Bearer {owner * 12}"
        await remind(gate, SECOND, "drink tea", session, key)
        return await gate.start(talk("hi"), f"x-session-id: {session}", key)


def _says_no(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
    if not asked["stream"]:
        return fails("200 OK")(asked, ident)
    return CHUNKED, chunk(b'data: {"error":{"message":"no"}}\n\n'), LAST


FAILURES: dict[str, Act] = {
    "an error status": fails("500 No"),
    "a refusal": fails("400 No"),
    "an error instead of an answer": _says_no,
    "half an answer": lambda asked, ident: (CHUNKED, chunk(b"data: {"), LAST),
    "another type of answer": lambda asked, ident: (sized(b"<p>", "content-type: text/html"),),
}


class TestFailedFollowUps:
    """A follow-up that comes to nothing is as if there had been no hold; the reminder stays."""

    @pytest.mark.parametrize("failure", FAILURES)
    @pytest.mark.parametrize("stream", [True, False])
    async def test_the_tail_is_shown_and_the_next_request_carries_it(
        self, stream: bool, failure: str
    ) -> None:
        clock = ManualClock(NOW)
        async with room(clock, acting(says("I will."), FAILURES[failure])) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi", stream=stream), SESSION)
            await held(gate)
            clock.advance(SECOND)
            answer = await client.answer()
            same = await gate.ask(talk("hi", stream=stream), "x-session-id: another")
            assert answer.body == same.body
            assert await delivered(gate) == []
            await gate.ask(talk("hi", stream=stream), SESSION)
            assert [reminded(asked) for asked in gate.requests] == [
                [],
                ["drink tea"],
                [],
                ["drink tea"],
            ]
            assert await delivered(gate) == ["drink tea"]

    async def test_a_note_says_why(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, acting(says("I will."), fails("500 No"))) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk("hi"), SESSION, "x-holdgate-notes: 1")
            await held(gate)
            clock.advance(SECOND)
            told = notes(await client.answer())
            assert told[-1] == {"state": "closing", "turn": 2, "why": "the follow-up failed"}

    async def test_another_route_may_answer_it(self) -> None:
        clock = ManualClock(NOW)
        broken, well = acting(says("I will."), fails("500 No")), acting(says("Drink your tea."))
        async with room(clock, broken, well) as gate:
            (client,) = await held_for(gate, "s")
            clock.advance(SECOND)
            assert text_of(await client.answer()) == BOTH
            assert await delivered(gate) == ["tea of s"]

    async def test_broken_after_its_first_byte_it_is_an_error(self) -> None:
        def breaks(asked: dict[str, Any], ident: str) -> tuple[bytes, ...]:
            return CHUNKED, chunk(text("Drink")), LAST

        clock = ManualClock(NOW)
        async with room(clock, acting(says("I will."), breaks)) as gate:
            (client,) = await held_for(gate, "s")
            clock.advance(SECOND)
            answer = await client.answer()
            assert answer.failed == "upstream_broke"
            assert await delivered(gate) == ["tea of s"]

    async def test_a_stop_message_does_not_go_on_after_it(self) -> None:
        clock = ManualClock(NOW)
        model = acting(says("cut", "length"), fails("500 No"))
        async with room(clock, model) as gate:
            await remind(gate, SECOND)
            client = await gate.start(talk(GO_ON + "hi"), SESSION)
            await held(gate)
            clock.advance(SECOND)
            assert finish_of(await client.answer()) == "length"
            assert suffixes(gate) == ["", "clock_hold_followup"]


async def _nothing_happens(gate: Running) -> None:
    """Let the gateway do what it would do now."""
    for _ in range(5):
        assert (await gate.fetch(get("/healthz"))).status == 200


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
FORM = {"type": "json_schema", "json_schema": {"name": "t", "schema": {}}}
TAKES_NOTHING: dict[str, dict[str, Any]] = {
    "asks for an unknown model": {"model": "nobody/m"},
    "wants an answer of a certain form": {"response_format": FORM},
}


@pytest.mark.parametrize("other", TAKES_NOTHING)
async def test_a_hold_of_what_turns_out_to_be_a_side_call_ends_when_it_is_due(other: str) -> None:
    """A request with tools shows it, though it takes no reminder; the next one does."""
    clock = ManualClock(NOW)
    async with room(clock, acting(says("I will."))) as gate:
        await remind(gate, SECOND)
        client = await gate.start(talk(system("Write a title."), "hi"), SESSION)
        await held(gate)
        await gate.ask(talk(system("Work."), "hi", tools=TOOLS, **TAKES_NOTHING[other]), SESSION)
        assert len(gate.gateway.holds) == 1
        clock.advance(SECOND)
        with anyio.fail_after(SOON):
            assert text_of(await client.answer()) == "I will."
        await gate.ask(talk(system("Work."), "hi", tools=TOOLS), SESSION)
        assert reminded(gate.requests[-1]) == ["drink tea"]
