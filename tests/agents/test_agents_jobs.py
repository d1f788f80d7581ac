"""Agents and jobs in one session: who waits for whom, and what each sees of the other."""

from __future__ import annotations

import json
from typing import Any

from gateway.clock import ManualClock
from tests.agents.talking import AGENTS, begin, heard, messages_of, reason_of, roles, room, said
from tests.clock.holding import NOW, SECOND, acting, held, schedules
from tests.clock.holding import says as tells
from tests.clock.words import Call, Said, play, tools
from tests.gateway.wire import Cue, event, get, on_cue, request, turn
from tests.run import Running, until
from tests.sessions.talk import JSON, Message, forget, look, messages, model, user
from tests.wire.fake import CHUNKED, LAST, chunk

ROLE = event({"role": "assistant", "content": ""})
PLANNER = {"id": "planner", "model": "m", "system": "You plan.", "tools": ["schedule_task"]}
JOB = {"schedule": {"kind": "every", "every_ms": 3_600_000}, "message": "look around"}


async def posted(gate: Running, action: str, **members: Any) -> Message:
    """Do something with jobs."""
    body = json.dumps(members).encode()
    answer = await gate.fetch(request("POST", f"/api/cron/{action}", JSON, body=body))
    assert answer.status == 200, bytes(answer.body)
    found: Message = answer.json["data"]
    return found


async def added(gate: Running) -> str:
    """Make a job of the helper's."""
    job: Message = (await posted(gate, "add", **JOB, agent_id="helper"))["job"]
    job_id: str = job["job_id"]
    return job_id


async def test_a_job_makes_its_session_busy() -> None:
    cue = Cue()
    pieces = CHUNKED + chunk(ROLE), chunk(turn("nothing").removeprefix(ROLE)) + LAST
    async with room(on_cue(cue, *pieces)) as gate:
        job_id = await added(gate)
        await posted(gate, "run", job_id=job_id)
        await until(lambda: len(gate.requests) == 1)
        answer = await said(gate, "hello")
        assert (answer.status, answer.error["busy_reason"]) == (429, "job")
        cue.give()
        await gate.quiet()
        await until(lambda: not gate.gateway.parts.locks)
        assert roles(await messages_of(gate)) == ["user", "assistant"]


async def test_a_job_ends_a_held_answer_and_runs() -> None:
    clock = ManualClock(NOW)
    acts = acting(schedules(30 * SECOND), tells("I will"), tells("all is well"))
    async with room(acts, clock=clock, clock__due_window_ms=0) as gate:
        job_id = await added(gate)
        client = await begin(gate, "remind me")
        await held(gate)
        await posted(gate, "run", job_id=job_id)
        assert reason_of(await client.answer()) == "taken_over"
        await until(lambda: len(gate.requests) == 3)
        await gate.quiet()
        asked = [m["content"] for m in messages(gate.requests[2]) if m["role"] == "user"]
        assert asked[:2] == ["remind me", "look around"]


async def test_an_agent_makes_a_job_by_its_tool() -> None:
    arguments = {"action": "add", **JOB, "name": "round"}
    acts = Said(calls=(Call("schedule_task", json.dumps(arguments)),)), Said("every hour")
    async with room(play(*acts), tables={"agents": [*AGENTS, PLANNER]}) as gate:
        found = heard(await said(gate, "look around", agent="planner"), "planner")
        assert [name for name, _ in found] == ["tool_start", "tool_end", "text", "complete"]
        assert tools(gate.requests[0]) == ["schedule_task"]
        system = messages(gate.requests[0])[0]["content"]
        assert system.startswith("You plan.\n\n")
        assert "schedule_task" in system
        (job,) = (await look(gate, "planner")).json["jobs"]
        assert (job["name"], job["agent_id"], job["session_id"]) == ("round", "planner", "planner")
        assert (await forget(gate, "planner")).status == 200
        listed = (await gate.fetch(get("/api/cron/list"))).json
        assert listed["data"]["jobs"] == []


async def test_an_agent_without_the_tool_knows_nothing_of_it() -> None:
    async with room(model("x")) as gate:
        await said(gate, "hello")
        assert tools(gate.requests[0]) == []
        assert "schedule_task" not in gate.requests[0].body.decode()


async def test_a_message_of_a_job_is_no_directive() -> None:
    async with room(model("x")) as gate:
        text = '<**stopMessage:"go on",3**>look'
        job = await posted(gate, "add", **{**JOB, "message": text}, agent_id="helper")
        await posted(gate, "run", job_id=job["job"]["job_id"])
        await until(lambda: len(gate.requests) == 1)
        await gate.quiet()
        assert messages(gate.requests[0])[-1] == user(text)
        shown = (await look(gate, "helper")).json
        assert shown["stopMessage"] is None
        assert len(gate.requests) == 1
