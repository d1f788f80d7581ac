"""To delete a session ends what goes on in it, and nothing of it comes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import begin, reason_of
from tests.gateway.wire import Cue
from tests.jobs.models import cued
from tests.jobs.words import (
    HOUR,
    NOW,
    add,
    asked,
    asked_besides,
    cron,
    every,
    house,
    inbox,
    mark,
    run_now,
    said,
    seen,
)
from tests.run import Running, until
from tests.sessions.talk import forget, look, model, notes_of


async def nothing_is_left(gate: Running, session: str) -> None:
    """See that a session is gone, and stays so."""
    for _ in range(2):
        assert (await look(gate, session)).status == 404
        assert await inbox(gate, session) == []
        assert (await cron(gate, "list", session_id=session))["jobs"] == []
        await mark(gate)
    parts = gate.gateway.parts
    assert await parts.rows.conversations.snapshot("local", session) is None
    assert await parts.snapshots.find("local", session) is None


async def test_a_chat_is_ended() -> None:
    cue = Cue()
    async with house(cued(cue, "one", "two")) as gate:
        client = await begin(gate, "hello")
        await asked(gate, 1)
        # Nothing is kept of the session yet.
        assert (await forget(gate, "helper")).status == 200
        assert reason_of(await client.answer()) == "session_deleted"
        cue.give()
        await nothing_is_left(gate, "helper")


async def test_a_chat_in_the_middle_of_a_conversation_is_ended() -> None:
    cue = Cue()
    async with house(cued(cue, "one", only="again")) as gate:
        await (await begin(gate, "hello")).answer()
        client = await begin(gate, "again")
        await asked(gate, 2)
        assert (await forget(gate, "helper")).status == 200
        assert reason_of(await client.answer()) == "session_deleted"
        await nothing_is_left(gate, "helper")
        # It may begin anew at once.
        await (await begin(gate, "hello")).answer()
        assert [text for _, text in said(gate.requests[-1])][1:] == ["hello"]


PLACES: dict[str, dict[str, Any]] = {
    "of an agent": {"agent": "helper"},
    "of an agent, isolated": {"agent": "helper", "session": "isolated"},
    "of a relay session": {"agent": ""},
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
async def test_a_run_is_ended(place: dict[str, Any]) -> None:
    clock, cue = ManualClock(NOW), Cue()
    session = place["agent"] or "s"
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, **place, schedule=every(HOUR))
        await run_now(gate, job_id)
        await asked(gate, 1)
        assert (await forget(gate, session)).status == 200
        assert notes_of(gate, "run_dropped")
        cue.give()
        await nothing_is_left(gate, session)
        clock.advance(2 * HOUR)
        await nothing_is_left(gate, session)
        assert len(asked_besides(gate)) == 1


async def test_a_run_that_waits_for_a_chat_is_ended_with_it() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "done"), clock=clock) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        client = await begin(gate, "the user")
        await asked(gate, 1)
        await run_now(gate, job_id)
        assert (await forget(gate, "helper")).status == 200
        assert reason_of(await client.answer()) == "session_deleted"
        await nothing_is_left(gate, "helper")
        assert len(asked_besides(gate)) == 1


async def test_a_result_that_is_being_told_is_told_no_more() -> None:
    clock, cue = ManualClock(NOW), Cue()
    async with house(cued(cue, "it rains", only="it rains"), clock=clock) as gate:
        job_id = await add(gate, session="isolated", schedule=every(HOUR))
        await run_now(gate, job_id)
        await asked(gate, 2)
        assert (await forget(gate, "helper")).status == 200
        await nothing_is_left(gate, "helper")
        assert await gate.gateway.parts.rows.jobs.list_owed() == []


async def test_an_answer_to_a_client_is_ended() -> None:
    """With all that it would have left behind: what the user set, and the last request."""
    cue = Cue()
    async with house(cued(cue, "one")) as gate:
        await add(gate, agent="", session_id="s")
        body = {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": "<**stopmessage:go on,3**> hello"}],
        }
        client = await gate.start(json.dumps(body).encode(), "x-session-id: s")
        await asked(gate, 1)
        assert (await forget(gate, "s")).status == 200
        answer = await client.answer()
        assert b"session_deleted" in answer.body
        cue.give()
        await nothing_is_left(gate, "s")
        await until(lambda: not gate.live)


async def test_other_sessions_go_on() -> None:
    cue = Cue()
    async with house(cued(cue, "done")) as gate:
        client = await begin(gate, "hello", sessionId="other")
        await begin(gate, "hello")
        await asked(gate, 2)
        assert (await forget(gate, "helper")).status == 200
        cue.give()
        answer = await client.answer()
        assert b"event: complete" in answer.body
        await seen(lambda: look(gate, "other"), lambda found: found.status == 200)


async def test_an_idle_session_is_deleted_as_ever() -> None:
    async with house(model("done")) as gate:
        await (await begin(gate, "hello")).answer()
        assert (await forget(gate, "helper")).status == 200
        assert (await forget(gate, "helper")).status == 404
