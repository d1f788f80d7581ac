"""Runs of jobs: what each leaves, byte for byte."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.wire import get, request
from tests.golden.conftest import Record
from tests.golden.models import CLOCK, HOUR, SECOND, calls, clock, plan, reminder
from tests.golden.record import Stage
from tests.golden.test_golden_agents import says, speaks
from tests.jobs.words import cron, ran, run_now
from tests.outbox.receiver import receiving
from tests.pairs.gate import CHAT, each_tongue, telling, telling_all
from tests.pairs.neutral import Answer, Ask, Call, Tongue, Turn
from tests.run import until
from tests.sessions.talk import JSON
from tests.wire.fake import CHUNKED, LAST, answering, chunk, sized

ASK = Ask((Turn("user", "Hello!"),), system="Be brief.", tools=("look",))
NEXT = Ask((*ASK.turns, Turn("assistant", "Hi."), Turn("user", "And?")), system="Be brief.")


async def add(stage: Stage, **members: Any) -> str:
    """Make a job that is due every hour; return its id."""
    job = {"schedule": {"kind": "every", "every_ms": HOUR}, "message": "what is new?", **members}
    asked = request("POST", "/api/cron/add", JSON, body=json.dumps(job).encode())
    found: str = (await stage.fetch(asked)).json["data"]["job"]["job_id"]
    return found


async def run(stage: Stage, job_id: str, status: str, session: str) -> None:
    """Have the job's hour come, wait until the run has ended so, and record what is told of it."""
    await run_unheard(stage, job_id, status)
    await tell(stage, job_id, session)


async def run_unheard(stage: Stage, job_id: str, *statuses: str) -> None:
    """Have the job's hour come, and wait until its runs have ended so."""
    stage.clock.advance(HOUR)
    await ran(stage.gate, job_id, *statuses)
    await stage.gate.quiet()


async def remind(stage: Stage, session: str, in_ms: int, task: str = "drink tea") -> None:
    """Set a reminder by hand."""
    wanted = reminder(in_ms, task)
    body = json.dumps({"dueAt": wanted["dueAt"], "task": task}).encode()
    await stage.fetch(request("POST", f"/api/sessions/{session}/reminders", JSON, body=body))


async def tell(stage: Stage, job_id: str, session: str) -> None:
    """Record what is told of a job, its runs and its session."""
    await stage.fetch(get(f"/api/cron/get?job_id={job_id}"))
    await stage.fetch(get(f"/api/cron/runs?job_id={job_id}"))
    visitor = await stage.begin(get(f"/api/sessions/{session}/events?after=0"))
    await visitor.saw(b"event: run.finished")
    while not bytes((await visitor.saw(b"")).body).endswith(b"\n\n"):
        await visitor.more()
    visitor.leave()


async def test_an_isolated_run_of_an_agent(record: Record) -> None:
    async with record(telling_all(CHAT, [Answer("Nothing."), Answer("I see.")], True)) as stage:
        job_id = await add(stage, agent_id="helper", session="isolated", name="news")
        await run_unheard(stage, job_id, "ok")
        await until(lambda: stage.keeps("I see.") and not stage.keeps("table owed"))
        await stage.gate.quiet()
        await tell(stage, job_id, "helper")
        await stage.fetch(get("/api/sessions/helper"))


@each_tongue
async def test_a_run_in_a_conversation(record: Record, tongue: Tongue) -> None:
    answers = [Answer("Hi."), Answer("Nothing."), Answer("As I said.")]
    async with record(telling_all(tongue, answers, True), upstream=speaks(tongue)) as stage:
        await stage.fetch(says("hello"))
        job_id = await add(stage, agent_id="helper", session="main")
        await run(stage, job_id, "ok", "helper")
        await stage.fetch(says("what was new?"))
        await stage.fetch(get("/api/sessions/helper"))


async def test_a_run_of_an_agent_that_fails(record: Record) -> None:
    down = answering(sized(CHAT.error("no luck"), JSON, status="500 Internal Server Error"))
    async with record(down) as stage:
        job_id = await add(stage, agent_id="helper")
        await run(stage, job_id, "error", "helper")


@each_tongue
async def test_a_run_of_a_relay_session(record: Record, tongue: Tongue) -> None:
    answers = [Answer("Hi."), Answer("Nothing."), Answer("As I said."), Answer("Bye.")]
    async with record(telling_all(tongue, answers, True), upstream=speaks(tongue)) as stage:
        await stage.ask(tongue, ASK, session=True)
        job_id = await add(stage, session_id="s", name="news")
        stage.look("before the run")
        await run(stage, job_id, "ok", "s")
        stage.look("after the run")
        await stage.ask(tongue, NEXT, session=True)
        await stage.ask(tongue, NEXT, session=True)


async def test_an_isolated_run_of_a_relay_session(record: Record) -> None:
    answers = [Answer("Hi."), Answer("Nothing.")]
    async with record(telling_all(CHAT, answers, True)) as stage:
        await stage.ask(CHAT, ASK, session=True)
        job_id = await add(stage, session_id="s", session="isolated")
        await run(stage, job_id, "ok", "s")
        await stage.fetch(get("/api/sessions/s/inbox?wait_ms=0"))


async def test_a_run_of_a_session_with_directives(record: Record) -> None:
    stories = telling(CHAT, Answer("A."), True), telling(CHAT, Answer("B."), True)
    async with record(*stories, upstream={"models": ["m", "n"]}) as stage:
        await stage.ask(CHAT, Ask((Turn("user", "<**!b**> hi"),)), session=True)
        message = "<**a.secret**> <**!a**> what is new?"
        job_id = await add(stage, session_id="s", message=message)
        await run(stage, job_id, "ok", "s")
        other = await add(stage, agent_id="helper", message=message)
        await run(stage, other, "ok", "helper")


async def test_a_run_of_a_session_that_prefers_what_is_not_offered(record: Record) -> None:
    stories = telling(CHAT, Answer("A."), True), telling(CHAT, Answer("B."), True)
    async with record(*stories, upstream={"models": ["m", "n"]}) as stage:
        await stage.ask(CHAT, Ask((Turn("user", "<**!b.secret**> hi"),)), session=True)
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "ok", "s")
        await cron(stage, "remove", {"job_id": job_id})
        await stage.fetch(says("<**!b.secret**> hi"))
        other = await add(stage, agent_id="helper")
        await run(stage, other, "ok", "helper")


async def test_a_run_of_a_session_that_is_led_nowhere(record: Record) -> None:
    async with record(telling(CHAT, Answer("A."), True)) as stage:
        await stage.ask(CHAT, Ask((Turn("user", "<**#a**> hi"),)), session=True)
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "error", "s")
        await cron(stage, "remove", {"job_id": job_id})
        await stage.fetch(says("<**#a**> hi"))
        other = await add(stage, agent_id="helper")
        await run(stage, other, "error", "helper")


async def test_runs_leave_to_the_client_what_waits_for_it(record: Record) -> None:
    answers = [Answer("First."), Answer("Second."), Answer("Tea!")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        await remind(stage, "s", HOUR)
        await remind(stage, "s", 2 * HOUR + 30 * SECOND, "drink more")
        job_id = await add(stage, session_id="s")
        await run_unheard(stage, job_id, "ok")
        await run_unheard(stage, job_id, "ok", "ok")
        await stage.ask(CHAT, Ask(), "x-holdgate-hold: off", session=True)


async def test_runs_of_agents_do_not_hold(record: Record) -> None:
    answers = [Answer("First."), Answer("Tea!")]
    async with record(telling_all(CHAT, answers, True), settings=CLOCK) as stage:
        await remind(stage, "helper", HOUR)
        await remind(stage, "helper", HOUR + 30 * SECOND, "drink more")
        job_id = await add(stage, agent_id="helper")
        await run_unheard(stage, job_id, "ok")
        stage.clock.advance(30 * SECOND)
        await stage.fetch(says("hello"))


async def test_a_run_of_a_relay_session_that_fails(record: Record) -> None:
    story = answering(CHUNKED, *map(chunk, CHAT.broken("Half of it", "no luck")), LAST)
    async with record(story) as stage:
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "error", "s")


async def test_a_run_that_calls_a_tool_of_the_client(record: Record) -> None:
    story = telling_all(CHAT, [Answer("Hi."), calls(Call("call_1", "look", "{}"))], True)
    async with record(story) as stage:
        await stage.ask(CHAT, ASK, session=True)
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "error", "s")


async def test_runs_that_use_the_tools(record: Record) -> None:
    answers = [
        calls(clock("get")),
        calls(clock("schedule", reminder(2 * HOUR), ident="call_2")),
        calls(plan("list", "call_3")),
        calls(plan("add", "call_4", schedule_text="hourly", message="again")),
        Answer("Done."),
    ]
    settings = {**CLOCK, "cron__offer_to_clients": True}
    async with record(telling_all(CHAT, answers * 2, True), settings=settings) as stage:
        job_id = await add(stage, session_id="s")
        await run(stage, job_id, "ok", "s")
        await cron(stage, "remove", {"job_id": job_id})
        other = await add(stage, agent_id="planner")
        await run(stage, other, "ok", "planner")


async def test_a_run_by_hand_that_takes_the_second_route(record: Record) -> None:
    down = answering(sized(b"{}", JSON, status="503 Service Unavailable"))
    async with record(down, telling(CHAT, Answer("Nothing."), True)) as stage:
        job_id = await add(stage, session_id="s")
        await run_now(stage, job_id)
        await ran(stage.gate, job_id, "ok")
        await tell(stage, job_id, "s")


async def test_a_webhook(record: Record) -> None:
    async with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/hook"
        hook = {"owner": "local", "url": url, "secret": "a secret"}
        story = telling(CHAT, Answer("Nothing."), True)
        async with record(story, tables={"webhooks": [hook]}, log_in_order=False) as stage:
            job_id = await add(stage, session_id="s")
            await run(stage, job_id, "ok", "s")
            await until(lambda: len(receiver.posted) >= 2)
            stage.posted += receiver.posted
