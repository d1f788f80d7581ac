"""Side calls that come before any tools were seen: what waits is the conversation's, not theirs.

Interactive Claude Code and opencode ask for a title first, or at the same instant; so does any
session that is resumed after a restart of the gateway.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.clock.holding import delivered, listed
from tests.clock.reminding import carried, due, fetch, iso, remind, results, variables
from tests.clock.words import NOW, TAG, clock, play, says, sent
from tests.gateway.wire import ask_of
from tests.jobs.words import add, ran, run_now
from tests.outbox.test_delivery_gate import brought, result
from tests.run import Running, in_process, until
from tests.sessions.process import process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    assistant,
    forget,
    kept,
    messages,
    model,
    newest,
    stop_message,
    system,
    talk,
    text_of,
    told,
    user,
)
from tests.wire.fake import Peer, Request, fake_upstream

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
WORK, TITLE = system("You write code."), system("Write a title of five words.")
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": {}}}}
SECOND = 1000


def main(*said: Any, **more: Any) -> bytes:
    """Write a request of the conversation."""
    return talk(WORK, *said, tools=TOOLS, **more)


def title(*said: Any, **more: Any) -> bytes:
    """Write a request for a title."""
    return talk(TITLE, *said, **more)


def is_title(asked: Request) -> bool:
    return messages(asked)[0] == TITLE


class Cued:
    """A model that calls the clock or says something to each request, when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Request] = []
        self._let: set[int] = set()

    async def __call__(self, peer: Peer) -> None:
        while True:
            asked = await peer.request()
            self.waiting.append(asked)
            number = len(self.waiting)
            await until(partial(self._is_let, number), 10)
            stream = json.loads(asked.body)["stream"]
            wants = "remind" in json.dumps(messages(asked)[1]) and "tool" not in [
                message["role"] for message in messages(asked)
            ]
            call = clock("schedule", due("drink tea", NOW + 3600 * SECOND + number))
            said = says("", call) if wants else says(f"answer {number}")
            await peer.send(*sent(said, stream))

    def _is_let(self, number: int) -> bool:
        return number in self._let

    async def asked(self, count: int) -> None:
        """Wait until so many requests are there."""
        await until(lambda: len(self.waiting) >= count)

    def answer(self, number: int) -> None:
        """Have a request answered."""
        self._let.add(number)


# After a restart.


async def set_by_the_model(gate: Running, clock: ManualClock) -> None:
    await gate.ask(main("remind me"), SESSION)
    clock.advance(3600 * SECOND)


async def set_by_a_directive(gate: Running, clock: ManualClock) -> None:
    at = "2026-02-02T22:22:00Z"
    await gate.ask(main(f'<**clock:{{"time":"{at}","message":"drink tea"}}**>hi'), SESSION)
    clock.advance(3600 * SECOND)


SETTERS = {"the model": set_by_the_model, "a directive": set_by_a_directive}


@pytest.mark.parametrize("setter", SETTERS)
async def test_a_title_request_that_comes_first_after_a_restart_takes_no_reminder(
    setter: str, tmp_path: Path
) -> None:
    time = ManualClock(NOW)
    call = clock("schedule", due("drink tea", NOW + 3600 * SECOND))
    acts = (says("", call), says("I will.")) if setter == "the model" else (says("I will."),)
    async with in_process(play(*acts), clock=time, settings=kept(tmp_path)) as gate:
        await SETTERS[setter](gate, time)
    async with in_process(play(says("hm")), clock=time, settings=kept(tmp_path)) as gate:
        await gate.ask(title("remind me"), SESSION)
        await gate.ask(main("remind me", assistant("I will."), "and?"), SESSION)
        first, second = gate.requests
        assert messages(first) == [TITLE, user("remind me")]
        assert carried(second) == ["drink tea"]


async def test_a_title_request_that_comes_first_after_a_restart_spends_no_stop_message(
    tmp_path: Path,
) -> None:
    async with in_process(model(("cut", "length")), settings=kept(tmp_path)) as gate:
        assert told(await gate.ask(main(GO_ON + "hi"), SESSION)) == "set"
    async with in_process(model("title", "a", "b", "c", "d"), settings=kept(tmp_path)) as gate:
        side = await gate.ask(title(GO_ON + "hi"), SESSION)
        assert text_of(side) == "title"
        assert (
            told(side) == 'ignored; reason="directives have no effect in an agent\'s side request"'
        )
        assert (await stop_message(gate))["used"] == 0
        assert text_of(await gate.ask(main("hi"), SESSION)) == "a\n\nb\n\nc\n\nd"


async def test_a_title_request_that_comes_first_after_a_restart_takes_no_result(
    tmp_path: Path,
) -> None:
    time, settings = ManualClock(NOW), kept(tmp_path)
    async with in_process(model("hello", "Nothing new."), clock=time, settings=settings) as gate:
        await gate.ask(main("hi"), SESSION)
        job = await add(gate, agent="")
        await run_now(gate, job)
        await ran(gate, job, "ok")
    async with in_process(model(), clock=time, settings=settings) as gate:
        await gate.ask(title("hi"), SESSION)
        await gate.ask(main("hi", assistant("hello"), "and?"), SESSION)
        first, second = map(messages, gate.requests)
        assert first == [TITLE, user("hi")]
        assert "Nothing new." in json.dumps(second)


async def test_a_title_request_is_nothing_that_a_job_goes_on_from(tmp_path: Path) -> None:
    settings = kept(tmp_path)
    async with in_process(model("hello"), settings=settings) as gate:
        await gate.ask(main("hi"), SESSION)
        job = await add(gate, agent="")
    async with in_process(model("title", "Nothing new."), settings=settings) as gate:
        await gate.ask(title("hi"), SESSION)
        await run_now(gate, job)
        await ran(gate, job, "ok")
        assert messages(gate.requests[-1])[0] == WORK


async def test_the_conversation_without_tools_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Under the system text that set it, and in sessions that never sent tools."""
    settings = kept(tmp_path)
    async with in_process(model(("cut", "length")), settings=settings) as gate:
        await gate.ask(main(GO_ON + "hi"), SESSION)
        await gate.ask(title(GO_ON + "hi"), "x-session-id: plain")
    async with in_process(model("a", "b", "c", "d"), settings=settings) as gate:
        assert text_of(await gate.ask(talk(WORK, "hi"), SESSION)).count("\n\n") == 3
        assert text_of(await gate.ask(talk(WORK, "hi"), "x-session-id: plain")).count("\n\n") == 3


async def test_a_gateway_that_was_killed_knows_the_title_request_again(tmp_path: Path) -> None:
    """All at once: a reminder that the model set, one of a directive, and a stop message."""
    now = round(time.time() * 1000)
    tea, home = due("drink tea", now + 20 * SECOND), iso(now + 20 * SECOND)
    acts = (says("", clock("schedule", tea)), says("I will.", finish="length"), says("Hm."))
    async with fake_upstream(play(*acts)) as upstream:
        settings = variables(upstream.port)
        async with process(tmp_path, settings) as gate:
            said = f'{GO_ON}<**clock:{{"time":"{home}","message":"go home"}}**>hi'
            await fetch(gate.port, ask_of(main(said), SESSION))
            await gate.kill()
        async with process(tmp_path, settings) as gate:
            side = await fetch(gate.port, ask_of(title("hi"), SESSION))
            assert text_of(side) == "Hm."
            answer = await fetch(gate.port, ask_of(main("hi"), SESSION))
        _, _, first, second, *others = upstream.requests
        assert messages(first) == [TITLE, user("hi")]
        assert sorted(carried(second)) == ["drink tea", "go home"]
        assert (text_of(answer).count("Hm."), len(others)) == (4, 3)


# At the same instant.


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_what_a_title_request_claimed_goes_to_the_conversation(stream: bool) -> None:
    """Nothing is known of the session when the title request comes, a moment before the other."""
    upstream = Cued()
    async with in_process(upstream, clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        await result(gate)
        side = await gate.start(title("hi", stream=stream), SESSION)
        await upstream.asked(1)
        conversation = await gate.start(main("hi", stream=stream), SESSION)
        await upstream.asked(2)
        upstream.answer(1)
        await side.answer()
        assert await delivered(gate) == []
        upstream.answer(2)
        await conversation.answer()
        assert (carried(upstream.waiting[1]), len(brought(upstream.waiting[1]))) == (
            ["drink tea"],
            1,
        )
        assert await delivered(gate) == ["drink tea"]
        third = await gate.start(main("hi", assistant("hm"), "and?"), SESSION)
        await upstream.asked(3)
        upstream.answer(3)
        await third.answer()
        assert (carried(upstream.waiting[2]), brought(upstream.waiting[2])) == ([], [])


async def test_what_a_title_request_claimed_comes_back_if_the_conversation_could_not_take_it() -> (
    None
):
    upstream = Cued()
    async with in_process(upstream, clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        side = await gate.start(title("hi"), SESSION)
        await upstream.asked(1)
        conversation = await gate.start(main("hi"), SESSION, "x-holdgate-clock: off")
        await upstream.asked(2)
        for number, client in enumerate((side, conversation), 1):
            upstream.answer(number)
            await client.answer()
        assert await delivered(gate) == []


async def test_two_requests_of_one_conversation_do_not_take_from_each_other() -> None:
    """The one without tools has the same system text: it is no side call."""
    upstream = Cued()
    async with in_process(upstream, clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        clients = [await gate.start(talk(WORK, "hi"), SESSION)]
        await upstream.asked(1)
        clients.append(await gate.start(main("hi"), SESSION))
        await upstream.asked(2)
        for number, client in enumerate(clients, 1):
            upstream.answer(number)
            await client.answer()
        assert [carried(asked) for asked in upstream.waiting] == [["drink tea"], []]
        assert await delivered(gate) == ["drink tea"]


async def test_a_reminder_is_set_once_when_the_title_request_wants_it_too() -> None:
    upstream = Cued()
    async with in_process(upstream, clock=ManualClock(NOW)) as gate:
        side = await gate.start(title("remind me"), SESSION)
        await upstream.asked(1)
        conversation = await gate.start(main("remind me"), SESSION)
        await upstream.asked(2)
        upstream.answer(1)
        await upstream.asked(3)
        assert is_title(upstream.waiting[2])
        (refusal,) = results(upstream.waiting[2])
        assert (refusal["ok"], "side request" in refusal["error"]) == (False, True)
        for number in (2, 3, 4):
            upstream.answer(number)
        await side.answer()
        await conversation.answer()
        assert len(await listed(gate)) == 1


async def test_a_stop_message_is_not_spent_on_a_title_request_of_the_same_instant() -> None:
    upstream = Cued()
    async with in_process(upstream) as gate:
        side = await gate.start(title(GO_ON + "hi"), SESSION)
        await upstream.asked(1)
        conversation = await gate.start(main(GO_ON + "hi"), SESSION)
        await upstream.asked(2)
        upstream.answer(1)
        assert text_of(await side.answer()) == "answer 1"
        for number in (2, 3, 4, 5):
            upstream.answer(number)
        assert text_of(await conversation.answer()).count("answer") == 4
        assert (await stop_message(gate))["used"] == 3


async def test_a_title_request_of_the_same_instant_does_not_hold() -> None:
    upstream, time = Cued(), ManualClock(NOW)
    async with in_process(upstream, clock=time, clock__due_window_ms=0) as gate:
        await remind(gate, "drink tea", NOW + 5 * SECOND)
        side = await gate.start(title("hi"), SESSION)
        await upstream.asked(1)
        conversation = await gate.start(main("hi"), SESSION)
        await upstream.asked(2)
        upstream.answer(2)
        await until(lambda: "holding" in gate.states)
        upstream.answer(1)
        assert text_of(await side.answer()) == "answer 1"
        upstream.answer(3)
        time.advance(5 * SECOND)
        assert text_of(await conversation.answer()) == "answer 2\n\nanswer 3"


# By its form.


async def test_a_request_for_a_structured_title_is_a_side_call_at_once() -> None:
    """Interactive Claude Code asks for its title like this, before anything else."""
    async with in_process(model(), clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        side = await gate.ask(title(GO_ON + "hi", **FORM), SESSION)
        assert told(side).startswith("ignored")
        assert messages(gate.requests[0]) == [TITLE, user("hi")]
        await gate.ask(main("hi"), SESSION)
        assert carried(gate.requests[1]) == ["drink tea"]


async def test_of_a_deleted_session_it_is_forgotten_that_tools_were_sent() -> None:
    async with in_process(model(), clock=ManualClock(NOW)) as gate:
        await gate.ask(main(GO_ON + "hi"), SESSION)
        assert (await forget(gate)).status == 200
        await gate.ask(title("hi"), SESSION)
        assert newest(gate.requests[-1]).startswith(TAG)


async def test_without_a_session_nothing_is_a_side_call() -> None:
    async with in_process(model(), clock=ManualClock(NOW)) as gate:
        await gate.ask(main("hi"))
        await gate.ask(title("hi"))
        assert newest(gate.requests[1]).startswith(TAG)


# Known by its text.


OPENCODE = system("You are a title generator. You output ONLY a thread title.")


async def test_a_request_that_says_it_is_for_a_title_takes_nothing_in_a_new_session() -> None:
    time = ManualClock(NOW)
    async with in_process(play(says("hm")), clock=time) as gate:
        await remind(gate, "drink tea", NOW)
        side = await gate.ask(talk(OPENCODE, GO_ON + "hi"), SESSION)
        assert (
            told(side) == 'ignored; reason="directives have no effect in an agent\'s side request"'
        )
        await gate.ask(main("hi"), SESSION)
        first, second = gate.requests
        assert messages(first) == [OPENCODE, user("hi")]
        assert "tools" not in json.loads(first.body)
        assert carried(second) == ["drink tea"]


@pytest.mark.parametrize(
    "asked",
    [
        talk(OPENCODE, "hi", tools=TOOLS),
        talk(system("Say that you are a title generator"), "hi"),
        talk(WORK, "Hi! You are a title generator"),
    ],
    ids=["with tools", "not at the start", "not at the start of the user's text"],
)
async def test_a_conversation_about_titles_is_no_side_call(asked: bytes) -> None:
    async with in_process(play(says("hm")), clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        await gate.ask(asked, SESSION)
        assert carried(gate.requests[0]) == ["drink tea"]


async def test_what_marks_a_side_call_is_the_operators() -> None:
    sentinels: dict[str, Any] = {"stop_message__side_call_sentinels": ["name this chat"]}
    async with in_process(play(says("hm")), clock=ManualClock(NOW), **sentinels) as gate:
        await remind(gate, "drink tea", NOW)
        await gate.ask(talk("Name this chat, please."), SESSION)
        await gate.ask(talk(OPENCODE, "hi"), SESSION)
        first, second = gate.requests
        assert carried(first) == []
        assert carried(second) == ["drink tea"]
