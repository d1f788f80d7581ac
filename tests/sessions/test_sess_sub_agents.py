"""Sub-agents of Claude Code and Codex are sessions of their own.

They send the id of the main session with every request, and beside it their own. What the user
set for the conversation stays with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
import pytest

from gateway.clock import ManualClock
from tests.clock.holding import delivered, held, listed
from tests.clock.reminding import carried, due, remind
from tests.clock.words import NOW, clock, play, says
from tests.gateway.wire import get, hanging, text
from tests.jobs.models import task
from tests.jobs.words import every, inbox
from tests.outbox.test_delivery_gate import brought, result
from tests.run import Running, in_process
from tests.sessions.talk import (
    GO_ON,
    SESSION,
    forget,
    kept,
    look,
    model,
    newest,
    stop_message,
    system,
    talk,
    text_of,
    told,
)
from tests.wire.fake import CHUNKED, chunk

TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CLAUDE = ("x-claude-code-session-id: s", "x-claude-code-agent-id: a1")
CODEX = ("session-id: s", "thread-id: a1", "x-openai-subagent: collab_spawn")
THREAD = ("session_id: s", "Thread_Id: a1")
REVIEW = ("session-id: s", "x-openai-subagent: a1")
HEADERS = {
    "Claude Code": CLAUDE,
    "Codex": CODEX,
    "Codex, by its thread alone": THREAD,
    "Codex, without a thread": REVIEW,
}
AGENT = "s/agent:a1"
SECOND, MINUTE = 1000, 60_000


def main(*said: Any, **more: Any) -> bytes:
    return talk(system("You write code."), *said, tools=TOOLS, **more)


def sub(*said: Any, **more: Any) -> bytes:
    return talk(system("You look for files."), *said, tools=TOOLS, **more)


@pytest.mark.parametrize("name", HEADERS)
async def test_the_users_state_stays_with_the_conversation(name: str) -> None:
    async with in_process(model(), clock=ManualClock(NOW)) as gate:
        await gate.ask(main(GO_ON.replace("3", "1") + "hi", max_tokens=1, n=2), SESSION)
        await remind(gate, "drink tea", NOW)
        await result(gate)
        answer = await gate.ask(sub("find it"), *HEADERS[name])
        assert answer.headers["x-holdgate-session"] == AGENT
        assert text_of(answer).count("answer") == 1
        assert (carried(gate.requests[-1]), brought(gate.requests[-1])) == ([], [])
        assert (await stop_message(gate))["used"] == 0
        assert text_of(await gate.ask(main("and?"), SESSION)).count("answer") == 2
        assert carried(gate.requests[-2]) == ["drink tea"]
        assert len(brought(gate.requests[-2])) == 1


async def test_directives_of_a_sub_agent_are_removed_and_do_not_act() -> None:
    async with in_process(model(), model()) as gate:
        answer = await gate.ask(sub(GO_ON + "<**b.m**><**!b**>find it"), *CLAUDE)
        assert (
            told(answer) == 'ignored; reason="directives have no effect in a sub-agent\'s request"'
        )
        assert text_of(answer) == "answer 1"
        assert newest(gate.fakes[0].requests[0]) == "find it"
        assert (await look(gate)).status == 404


async def test_a_sub_agent_is_bound_to_the_upstreams_of_its_conversation() -> None:
    async with in_process(model(), model()) as gate:
        await gate.ask(main("<**!b**>hi"), SESSION)
        await gate.ask(sub("find it"), *CLAUDE)
        assert [len(fake.requests) for fake in gate.fakes] == [0, 2]


async def test_a_sub_agents_request_does_not_end_a_hold_of_the_conversation() -> None:
    time = ManualClock(NOW)
    story = play(says("I will."), says("found"), says("Drink your tea."))
    async with in_process(story, clock=time, clock__due_window_ms=0) as gate:
        await remind(gate, "drink tea", NOW + 5 * SECOND)
        client = await gate.start(main("hi"), SESSION)
        await held(gate)
        assert text_of(await gate.ask(sub("find it"), *CLAUDE)) == "found"
        time.advance(5 * SECOND)
        assert text_of(await client.answer()) == "I will.\n\nDrink your tea."


def scheduling(*later: str) -> Any:
    """Schedule something for in an hour, then say things."""
    call = clock("schedule", due("drink tea", NOW + 60 * MINUTE))
    return play(says("", call), says("I will."), *map(says, later))


async def scheduled(gate: Running) -> None:
    """Have a sub-agent schedule something."""
    assert text_of(await gate.ask(sub("find it"), *CLAUDE)) == "I will."


async def test_what_a_sub_agent_scheduled_is_its_own_while_it_asks() -> None:
    time = ManualClock(NOW)
    async with in_process(scheduling("hm"), clock=time) as gate:
        await scheduled(gate)
        time.advance(60 * MINUTE)
        await gate.ask(main("hi"), SESSION)
        assert carried(gate.requests[-1]) == []
        await gate.ask(sub("find it"), *CLAUDE)
        assert carried(gate.requests[-1]) == ["drink tea"]
        time.advance(2 * MINUTE)
        assert await delivered(gate, quote(AGENT)) == ["drink tea"]
        assert await listed(gate) == []


async def test_what_nobody_took_in_a_minute_passes_to_the_conversation() -> None:
    time = ManualClock(NOW)
    async with in_process(scheduling("hm"), clock=time) as gate:
        await scheduled(gate)
        time.advance(60 * MINUTE + 59 * SECOND)
        await gate.ask(main("hi"), SESSION)
        assert carried(gate.requests[-1]) == []
        time.advance(SECOND)
        await passed(gate)
        await gate.ask(sub("find it"), *CLAUDE)
        assert carried(gate.requests[-1]) == []
        await gate.ask(main("and?"), SESSION)
        assert carried(gate.requests[-1]) == ["drink tea"]
        await gate.ask(main("and?"), SESSION)
        assert carried(gate.requests[-1]) == []


async def passed(gate: Running) -> None:
    """Wait until the reminder is the conversation's."""
    with anyio.fail_after(5):
        while not await listed(gate) or await listed(gate, quote(AGENT)):
            await anyio.lowlevel.checkpoint()


async def test_it_passes_into_a_hold_of_the_conversation() -> None:
    time = ManualClock(NOW)
    async with in_process(scheduling("I wait.", "Drink your tea."), clock=time) as gate:
        await scheduled(gate)
        time.advance(60 * MINUTE + 30 * SECOND)
        await remind(gate, "go home", NOW + 62 * MINUTE)
        client = await gate.start(main("hi"), SESSION)
        await held(gate)
        time.advance(30 * SECOND)
        assert text_of(await client.answer()) == "I wait.\n\nDrink your tea."
        assert sorted(carried(gate.requests[-1])) == ["drink tea", "go home"]


async def test_it_passes_after_a_restart_once(tmp_path: Path) -> None:
    time, settings = ManualClock(NOW), kept(tmp_path)
    async with in_process(scheduling(), clock=time, settings=settings) as gate:
        await scheduled(gate)
    time.advance(62 * MINUTE)
    async with in_process(play(says("hm")), clock=time, settings=settings) as gate:
        await passed(gate)
        await gate.ask(main("hi"), SESSION)
        assert carried(gate.requests[-1]) == ["drink tea"]
    async with in_process(play(says("hm")), clock=time, settings=settings) as gate:
        await gate.ask(sub("hi"), *CLAUDE)
        await gate.ask(main("hi"), SESSION)
        assert [carried(one) for one in gate.requests] == [[], []]


async def test_jobs_of_a_sub_agent_are_the_conversations() -> None:
    """They outlive it: what they come to is for the conversation."""
    call = task("add", schedule=every(MINUTE), message="what is new?")
    story = play(says("", call), says("I will."))
    settings = {"cron__offer_to_clients": True}
    async with in_process(story, clock=ManualClock(NOW), settings=settings) as gate:
        await scheduled(gate)
        assert [job["session_id"] for job in (await look(gate)).json["jobs"]] == ["s"]
        assert await inbox(gate, quote(AGENT, safe="")) == []


async def test_a_session_is_forgotten_with_its_sub_agents(tmp_path: Path) -> None:
    time = ManualClock(NOW)
    async with in_process(scheduling("hm"), clock=time, settings=kept(tmp_path)) as gate:
        await scheduled(gate)
        await remind(gate, "stay", NOW, "another")
        answer = await gate.fetch(get(f"/api/sessions/{quote(AGENT, safe='')}"))
        assert (answer.status, len(answer.json["reminders"])) == (200, 1)
        assert (await gate.fetch(get(f"/api/sessions/{AGENT}"))).json == answer.json
        assert (await forget(gate)).status == 200
        assert (await look(gate, AGENT)).status == 404
        assert (await look(gate, "another")).status == 200
        time.advance(62 * MINUTE)
        await gate.ask(main("hi"), SESSION)
        assert carried(gate.requests[-1]) == []


async def test_what_a_sub_agent_is_being_answered_ends_with_its_session() -> None:
    async with in_process(hanging(CHUNKED, chunk(text("so far")))) as gate:
        client = await gate.start(sub("find it"), *CLAUDE)
        await client.saw(b"so far")
        assert (await forget(gate)).status == 200
        assert (await client.answer()).failed
        await gate.quiet()
        assert (await look(gate, AGENT)).status == 404
