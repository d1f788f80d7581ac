"""Runs of agents: in their conversation, or beside it with the result brought back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import begin, messages_of, noted, text_of
from tests.agents.talking import said as tell
from tests.clock.words import Call, play, says
from tests.gateway.wire import Cue, hanging, in_turn, turn
from tests.jobs.faults import Flaky
from tests.jobs.models import cued, failing, failing_after, task, told
from tests.jobs.words import (
    ASIDE,
    HOUR,
    NOW,
    SECOND,
    add,
    ask,
    asked,
    asked_besides,
    at,
    cron,
    every,
    house,
    inbox,
    mark,
    ran,
    refused,
    run_now,
    said,
    seen,
)
from tests.pairs.gate import each_tongue, telling_all
from tests.pairs.neutral import Answer, Tongue
from tests.run import Running, until
from tests.sessions.talk import kept, model, notes_of
from tests.wire.fake import CHUNKED, LAST, chunk, once

HEADING = '[Scheduled task "news" result]:\n'


async def settled(gate: Running, count: int, session: str = "helper") -> list[tuple[str, Any]]:
    """Wait until a conversation has so many messages; return who said what."""
    found = await seen(lambda: messages_of(gate, session), lambda found: len(found) == count)
    return [(message["role"], message["content"]) for message in found]


async def leaving(gate: Running) -> None:
    """Have a gateway begin to leave: from now on nothing new is begun."""
    scheduler = gate.gateway.parts.scheduler
    assert scheduler is not None
    gate.gateway.leave(lambda: None)
    await until(lambda: scheduler.runner.is_leaving)


async def test_a_run_is_a_message_in_the_conversation() -> None:
    clock = ManualClock(NOW)
    async with house(model("hello", "nothing"), clock=clock) as gate:
        assert text_of(await tell(gate, "hi")) == "hello"
        job_id = await add(gate, schedule=every(HOUR))
        clock.advance(HOUR)
        (run,) = await ran(gate, job_id, "ok")
        assert (run["result"], run["trigger"]) == ("nothing", "timer")
        conversation = [("user", "hi"), ("assistant", "hello"), ("user", "what is new?")]
        assert said(gate.requests[1])[1:] == conversation
        assert said(gate.requests[1])[0][1].startswith("You help.")
        assert await settled(gate, 4) == [*conversation, ("assistant", "nothing")]
        assert await inbox(gate, "helper") == []


async def test_a_run_of_a_session_of_its_own() -> None:
    async with house(model("nothing")) as gate:
        job_id = await add(gate, session_id="elsewhere")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        assert len(await messages_of(gate, "elsewhere")) == 2
        assert await messages_of(gate) == []


async def test_what_runs_apart_is_brought_back_in_full_and_answered() -> None:
    long = "x" * 50_000 + " end."
    async with house(model("hello", long, "I see")) as gate:
        await tell(gate, "hi")
        job_id = await add(gate, name="news", session="isolated")
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "ok")
        assert run["result"] == long
        conversation = await settled(gate, 4)
        first, alone, back = (said(one) for one in gate.requests)
        assert alone == [first[0], ("user", "what is new?")]
        assert back == [*first, ("assistant", "hello"), ("user", HEADING + long)]
        assert conversation == [
            ("user", "hi"),
            ("assistant", "hello"),
            ("user", HEADING + long),
            ("assistant", "I see"),
        ]
        await asked(gate, 3)


async def test_what_failed_apart_is_not_brought_back() -> None:
    async with house(failing("hello", "", "result", "I see")) as gate:
        await tell(gate, "hi")
        for ends in ("error", "ok"):
            job_id = await add(gate, name="news", session="isolated")
            await run_now(gate, job_id)
            await ran(gate, job_id, ends)
        # Results are told in order, so the one before it would have been told by now.
        conversation = await settled(gate, 4)
        assert conversation[2:] == [("user", HEADING + "result"), ("assistant", "I see")]
        await asked(gate, 4)
        assert await inbox(gate, "helper") == []


async def test_a_fault_of_our_own_hurts_only_what_is_brought_back() -> None:
    async with house(model("result", "I see")) as gate:
        rows = gate.gateway.parts.conversations.rows
        job_id = await add(gate, name="news", session="isolated")
        faulty = Flaky(rows, "get", error=RuntimeError)
        gate.gateway.parts.conversations.rows = faulty
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await until(lambda: faulty.failures > 0)
        faulty.mend()
        await seen(lambda: inbox(gate, "helper"), lambda items: len(items) == 1)
        # The gateway goes on.
        again = await add(gate)
        await run_now(gate, again)
        await ran(gate, again, "ok")


async def test_a_session_that_is_busy_is_told_when_it_is_idle() -> None:
    cue = Cue()
    async with house(cued(cue, "result", "hello", "I see")) as gate:
        job_id = await add(gate, name="news", session="isolated")
        await run_now(gate, job_id)
        await asked(gate, 1)
        client = await begin(gate, "hi")
        # A conversation of its own needs no lock; only what it comes to has to wait.
        await asked(gate, 2)
        cue.give()
        await ran(gate, job_id, "ok")
        await mark(gate)
        assert len(asked_besides(gate)) == 2
        cue.give()
        assert text_of(await client.answer()) == "hello"
        await until(lambda: len(asked_besides(gate)) == 3)
        assert said(gate.requests[-1])[-1] == ("user", HEADING + "result")
        cue.give()
        assert (await settled(gate, 4))[-1] == ("assistant", "I see")


async def test_results_are_told_in_order() -> None:
    cue = Cue()
    settings = {"cron__max_concurrent_runs": 3}
    story = cued(cue, "first", "second", "third", "x", only="somebody asks")
    async with house(story, settings=settings) as gate:
        client = await begin(gate, "somebody asks")
        await asked(gate, 1)
        for count in range(2, 4):
            job_id = await add(gate, f"{count}", name=f"{count}", session="isolated")
            await run_now(gate, job_id)
            await ran(gate, job_id, "ok")
        for _ in range(3):
            cue.give()
        await client.answer()
        found = [text for role, text in await settled(gate, 6) if role == "user"]
        assert found[1].startswith('[Scheduled task "2"')
        assert found[2].startswith('[Scheduled task "3"')


async def test_lines_about_a_result_carry_the_id_of_its_exchange() -> None:
    async with house(model("result", "I see")) as gate:
        await run_now(gate, await add(gate, name="news", session="isolated"))
        await settled(gate, 2)
        await until(lambda: len(noted(gate, "chat_done")) == 2)
        run, told = [line["exchange"] for line in noted(gate, "chat_done")]
        assert told == f"{run}.result" == gate.exchanges[-1]["exchange"]


async def test_what_is_owed_survives_a_restart(tmp_path: Path) -> None:
    cue = Cue()
    async with house(cued(cue, "result", only="somebody asks"), settings=kept(tmp_path)) as gate:
        await begin(gate, "somebody asks")
        await asked(gate, 1)
        job_id = await add(gate, name="news", session="isolated")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await leaving(gate)
        await asked(gate, 2)
    async with house(model("I see"), settings=kept(tmp_path)) as gate:
        assert await settled(gate, 2) == [("user", HEADING + "result"), ("assistant", "I see")]
    async with house(model("another", "I see"), settings=kept(tmp_path)) as gate:
        await run_now(gate, await add(gate, name="news", session="isolated"))
        # Results are told in order, so this one is not told before what is still owed.
        assert (await settled(gate, 4))[2:] == [
            ("user", HEADING + "another"),
            ("assistant", "I see"),
        ]
        await asked(gate, 2)


async def test_one_that_is_to_be_deleted_still_brings_its_result_back() -> None:
    clock = ManualClock(NOW)
    async with house(model("result", "I see"), clock=clock) as gate:
        schedule = at(NOW + SECOND)
        job_id = await add(
            gate, name="news", session="isolated", schedule=schedule, delete_after_run=True
        )
        clock.advance(SECOND)
        assert await settled(gate, 2) == [("user", HEADING + "result"), ("assistant", "I see")]
        assert refused(await ask(gate, "get", job_id=job_id))[0] == 404


async def test_what_cannot_be_told_waits_for_the_next_message() -> None:
    async with house(failing("result", "", "aha")) as gate:
        job_id = await add(gate, name="news", session="isolated")
        await run_now(gate, job_id)
        await until(lambda: bool(notes_of(gate, "result_not_told")))
        assert await messages_of(gate) == []
        await seen(lambda: inbox(gate, "helper"), bool)
        assert text_of(await tell(gate, "hi")) == "aha"
        assert ("user", HEADING + "result") in said(gate.requests[2])
        assert await inbox(gate, "helper") == []


async def test_an_agent_that_is_slow_to_hear_of_a_result_gets_it_later() -> None:
    settings = {"cron__run_timeout_ms": 200}
    result, aha = (once(CHUNKED, chunk(turn(text)), LAST) for text in ("result", "aha"))
    story = in_turn(result, hanging(), aha)
    async with house(story, settings=settings) as gate:
        job_id = await add(gate, name="news", session="isolated")
        await run_now(gate, job_id)
        await seen(lambda: inbox(gate, "helper"), bool)
        assert text_of(await tell(gate, "hi")) == "aha"
        assert ("user", HEADING + "result") in said(gate.requests[2])


async def test_what_is_owed_to_an_agent_that_is_gone_waits_for_its_session(tmp_path: Path) -> None:
    cue = Cue()
    async with house(cued(cue, "result", only="somebody asks"), settings=kept(tmp_path)) as gate:
        await begin(gate, "somebody asks")
        await asked(gate, 1)
        job_id = await add(gate, session="isolated")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await leaving(gate)
    tables = {"agents": [ASIDE]}
    async with house(model(), settings=kept(tmp_path), tables=tables) as gate:
        (item,) = await seen(lambda: inbox(gate, "helper"), bool)
        assert item["text"] == "result"
        assert gate.requests == []


@each_tongue
@pytest.mark.parametrize("place", ["main", "isolated"])
async def test_agents_whose_models_speak_other_dialects(tongue: Tongue, place: str) -> None:
    answers = [Answer(text) for text in ("hello", "nothing", "I see")]
    story = telling_all(tongue, answers, stream=True)
    async with house(story, upstream={"dialect": tongue.NAME}) as gate:
        assert text_of(await tell(gate, "hi", agent="aside"), "aside") == "hello"
        job_id = await add(gate, agent="aside", name="news", session=place)
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "ok")
        assert run["result"] == "nothing"
        conversation = [text for _, text in await settled(gate, 4, "aside")]
        if place == "main":
            assert conversation == ["hi", "hello", "what is new?", "nothing"]
        else:
            assert conversation == ["hi", "hello", HEADING + "nothing", "I see"]


async def test_a_job_that_is_removed_before_its_result_is_told() -> None:
    cue = Cue()
    async with house(cued(cue, "result", only="somebody asks")) as gate:
        await begin(gate, "somebody asks")
        await asked(gate, 1)
        job_id = await add(gate, session="isolated")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await cron(gate, "remove", {"job_id": job_id})
        cue.give()
        await settled(gate, 2)
        await run_now(gate, await add(gate, name="news", session="isolated"))
        cue.give()
        # Results are told in order, so this one comes after the one whose job is gone.
        assert (await settled(gate, 4))[2] == ("user", HEADING + "result")
        await asked(gate, 4)


@pytest.mark.parametrize("place", ["main", "isolated"])
async def test_the_gateways_own_tools_work_in_a_run_but_make_no_jobs(place: str) -> None:
    results: list[Any] = []

    def look(asked: dict[str, Any]) -> Any:
        results.append(told(asked))
        return says("done") if len(results) == 2 else says("", task("list"))

    add_one = task("add", schedule_text="hourly", message="again")
    async with house(play(says("", add_one), look, look, says("I see"))) as gate:
        job_id = await add(gate, session=place)
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "ok")
        assert run["result"] == "done"
        assert "cannot add" in results[0]["error"]
        assert [job["job_id"] for job in results[1]["jobs"]] == [job_id]
        assert len((await cron(gate, "list"))["jobs"]) == 1


async def test_a_tool_that_the_agent_has_not_is_an_error() -> None:
    async with house(play(says("", Call("look")))) as gate:
        job_id = await add(gate)
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert "tool" in run["error"]


async def test_a_lost_follow_up_is_an_error() -> None:
    async with house(failing_after(says("One moment.", task("list")))) as gate:
        job_id = await add(gate)
        await run_now(gate, job_id)
        (run,) = await ran(gate, job_id, "error")
        assert run["error"]
        assert json.dumps(await messages_of(gate))


async def test_a_model_that_only_calls_tools_is_an_error() -> None:
    async with house(play(says("", task("list"))), settings={"limits__turns": 3}) as gate:
        for agent in ("helper", ""):
            job_id = await add(gate, agent=agent)
            await run_now(gate, job_id)
            (run,) = await ran(gate, job_id, "error")
            assert run["error"]
