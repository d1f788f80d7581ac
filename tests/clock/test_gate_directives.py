"""Reminders set and cleared in the text of a message: once, told in a header, guarded like others."""

from __future__ import annotations

import json

import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.clock.holding import (
    NOW,
    SECOND,
    acting,
    delivered,
    held,
    held_for,
    listed,
    remind,
    reminded,
    remove,
    room,
    says,
)
from tests.run import Running, in_process
from tests.sessions.talk import (
    SESSION,
    assistant,
    messages,
    model,
    notes_of,
    system,
    talk,
    text_of,
    told,
    user,
)

MINUTE = 60 * SECOND
CLEAR = "<**clock:clear**>"
SPOKEN = acting(says("I will."), says("Tea."), says("More."))


def remember(in_ms: int, message: str = "drink tea") -> str:
    """Write the directive that sets a reminder."""
    return f"<**clock:{json.dumps({'time': iso(NOW + in_ms), 'message': message})}**>"


async def tasks(gate: Running, session: str = "s") -> list[str]:
    """List what a session is to be reminded of."""
    return [item["task"] for item in await listed(gate, session)]


class TestSetting:
    """A reminder by hand, in the middle of a conversation."""

    @pytest.mark.parametrize("stream", [True, False])
    async def test_it_is_set_and_waited_for(self, stream: bool) -> None:
        clock = ManualClock(NOW)
        async with room(clock, SPOKEN) as gate:
            client = await gate.start(talk(remember(SECOND) + "hi", stream=stream), SESSION)
            await held(gate)
            (task,) = await listed(gate)
            assert (task["task"], task["dueAt"]) == ("drink tea", iso(NOW + SECOND))
            clock.advance(SECOND)
            answer = await client.answer()
            assert text_of(answer) == "I will.\n\nTea."
            assert told(answer) == "set"
            assert messages(gate.requests[0])[0] == user("hi")
            assert reminded(gate.requests[1]) == ["drink tea"]

    @pytest.mark.parametrize("in_ms", [-MINUTE, 0, 59 * SECOND])
    async def test_within_the_window_it_waits_for_the_next_request(self, in_ms: int) -> None:
        clock = ManualClock(NOW)
        async with room(clock, SPOKEN, clock__due_window_ms=MINUTE) as gate:
            first = await gate.ask(talk(remember(in_ms) + "hi"), SESSION)
            assert (text_of(first), told(first)) == ("I will.", "set")
            assert await delivered(gate) == []
            await gate.ask(talk(remember(in_ms) + "hi", assistant("I will."), "and?"), SESSION)
            assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"]]
            assert await delivered(gate) == ["drink tea"]

    async def test_nor_does_a_stop_message_of_the_same_exchange_bring_it(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            body = talk(remember(0) + '<**stopMessage:"go on",2**>hi')
            assert text_of(await gate.ask(body, SESSION)) == "I will.\n\nTea.\n\nMore."
            assert [reminded(asked) for asked in gate.requests] == [[], [], []]

    @pytest.mark.parametrize("time", ["2026-02-02T22:00Z", "2026-02-03T06:00:00+0800"])
    async def test_seconds_and_the_offsets_colon_may_be_left_out(self, time: str) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            written = f'<**clock:{{"time":"{time}","message":"tea"}}**>hi'
            assert told(await gate.ask(talk(written), SESSION)) == "set"
            assert [task["dueAt"] for task in await listed(gate)] == ["2026-02-02T22:00:00.000Z"]

    async def test_its_text_is_data(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            await remind(gate, MINUTE * 9, "stays")
            body = talk(remember(MINUTE * 8, f'say "hi" {CLEAR}') + "hi")
            assert told(await gate.ask(body, SESSION)) == "set"
            assert await tasks(gate) == ["stays", f'say "hi" {CLEAR}']
            assert 'say \\"hi' not in gate.log


class TestOnce:
    """Clients send their whole history again and again; a directive acts once."""

    async def test_in_an_older_message_it_does_nothing(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            said = remember(MINUTE * 5) + "hi"
            await gate.ask(talk(said), SESSION)
            await remove(gate)
            again = await gate.ask(talk(said, assistant("I will."), "and?"), SESSION)
            assert told(again) == ""
            assert await tasks(gate) == []
            assert [m["content"] for m in messages(gate.requests[1])[:3]] == [
                "hi",
                "I will.",
                "and?",
            ]

    async def test_in_the_same_message_it_is_unchanged(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            body = talk(remember(MINUTE * 5) + "hi")
            assert told(await gate.ask(body, SESSION)) == "set"
            assert told(await gate.ask(body, SESSION)) == "unchanged"
            assert await tasks(gate) == ["drink tea"]
            await remove(gate)
            assert told(await gate.ask(body, SESSION)) == "unchanged"
            assert await tasks(gate) == []

    async def test_nor_is_it_set_again_after_it_was_delivered(self) -> None:
        clock = ManualClock(NOW)
        async with room(clock, SPOKEN) as gate:
            said = remember(SECOND) + "hi"
            client = await gate.start(talk(said), SESSION)
            await held(gate)
            clock.advance(SECOND)
            await client.answer()
            for body in (talk(said), talk(said, assistant("I will."), "and?")):
                await gate.ask(body, SESSION)
            assert [reminded(asked) for asked in gate.requests] == [[], ["drink tea"], [], []]

    async def test_clearing_does_not_reach_what_was_set_later(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            await remind(gate, MINUTE * 5, "before")
            assert told(await gate.ask(talk(CLEAR + "hi"), SESSION)) == "set"
            assert await tasks(gate) == []
            await remind(gate, MINUTE * 5, "after")
            assert told(await gate.ask(talk(CLEAR + "hi"), SESSION)) == "unchanged"
            await gate.ask(talk(CLEAR + "hi", assistant("I will."), "and?"), SESSION)
            assert await tasks(gate) == ["after"]


class TestClearing:
    """All reminders of the session, at once."""

    async def test_what_is_due_is_not_carried_any_more(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            await remind(gate, 0)
            await remind(gate, SECOND, "soon")
            await remind(gate, 0, "another's", "t")
            assert text_of(await gate.ask(talk(CLEAR), SESSION)) == "I will."
            assert messages(gate.requests[0])[0] == user(".")
            assert reminded(gate.requests[0]) == []
            assert await tasks(gate, "t") == ["another's"]

    async def test_it_ends_a_hold(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            (client,) = await held_for(gate, "s")
            assert text_of(await gate.ask(talk(CLEAR + "hi"), SESSION)) == "I will."
            assert text_of(await client.answer()) == "I will."

    async def test_in_the_order_of_the_message(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            await remind(gate, MINUTE * 5, "before")
            await gate.ask(talk(CLEAR + remember(MINUTE * 6) + "hi"), SESSION)
            assert await tasks(gate) == ["drink tea"]
            later = talk("hi", assistant("I will."), remember(MINUTE * 7, "gone") + CLEAR)
            await gate.ask(later, SESSION)
            assert await tasks(gate) == []


UNREADABLE = {
    "tomorrow": "use clear, or a JSON object with time and message",
    '{"time":"tomorrow","message":"tea"}': "dueAt must be a date and time",
    '{"time":"2026-02-02T22:00:00","message":"tea"}': "dueAt must be a date and time",
    '{"time":"2026-02-30T22:00:00Z","message":"tea"}': "dueAt is not a real date",
    '{"time":"2028-02-02T22:00:00Z","message":"tea"}': "dueAt is more than a year ahead",
    '{"time":"2026-02-02T20:00:00Z","message":"tea"}': "dueAt is too far in the past",
    '{"time":"2026-02-02T22:00:00Z"}': "the reminder cannot be read",
    '{"time":"2026-02-02T22:00:00Z","message":"tea","tool":"x"}': "the reminder cannot be read",
}


class TestIgnored:
    """What cannot be done is said in the header, and the request goes its way."""

    @pytest.mark.parametrize("written, reason", UNREADABLE.items())
    async def test_what_cannot_be_read(self, written: str, reason: str) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            for _ in range(2):
                answer = await gate.ask(talk(f"<**clock:{written}**>hi"), SESSION)
                assert text_of(answer) == "I will."
                assert told(answer).startswith(f'ignored; reason="clock: {reason}')
            assert await tasks(gate) == []
            assert messages(gate.requests[0])[0] == user("hi")
            assert notes_of(gate, "directive_ignored")

    async def test_the_time_it_is_now_helps(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            answer = await gate.ask(talk('<**clock:{"time":"8pm","message":"tea"}**>hi'), SESSION)
            assert iso(NOW) in told(answer)

    @pytest.mark.parametrize("directive", [CLEAR, remember(SECOND)])
    async def test_without_a_session(self, directive: str) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            answer = await gate.ask(talk(directive + "hi"))
            assert text_of(answer) == "I will."
            assert told(answer).startswith('ignored; reason="this needs a session id')

    @pytest.mark.parametrize("directive", [CLEAR, remember(SECOND)])
    async def test_where_there_is_no_clock(self, directive: str) -> None:
        stop = '<**stopMessage:"go on",1**>'
        async with in_process(model("one", "two")) as gate:
            answer = await gate.ask(talk(directive + stop + "hi"), SESSION)
            assert text_of(answer) == "one\n\ntwo"
            assert told(answer) == 'ignored; reason="clock: switched off (clock.enabled)", set'

    async def test_from_anybody_but_the_user(self) -> None:
        async with room(ManualClock(NOW), SPOKEN) as gate:
            await remind(gate, MINUTE * 5)
            said = (system(CLEAR), "hi", assistant(CLEAR), f"`{CLEAR}` and\n> {CLEAR}\n")
            assert told(await gate.ask(talk(*said), SESSION)) == ""
            assert await tasks(gate) == ["drink tea"]

    async def test_beyond_what_a_session_may_have(self) -> None:
        async with room(ManualClock(NOW), SPOKEN, limits__reminders_per_session=1) as gate:
            await remind(gate, MINUTE * 5, "the one")
            answer = await gate.ask(talk(remember(MINUTE * 6) + "hi"), SESSION)
            assert told(answer).startswith('ignored; reason="clock: A session can have at most 1')
            assert await tasks(gate) == ["the one"]
