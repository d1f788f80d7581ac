"""What a reload changes for new requests and new runs: agents, jobs, limits, webhooks."""

from __future__ import annotations

import json

from gateway.clock import ManualClock
from tests.agents.talking import AGENTS, says, text_of
from tests.clock.holding import NOW, SECOND, acting, held, remind
from tests.clock.holding import says as act
from tests.gateway.wire import Cue, chat, get, request, streaming, turn
from tests.jobs.words import HELPER, HOUR, add, ask, every, house, ran, refused, run_now
from tests.outbox.receiver import receiving
from tests.reload.words import model as public
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON, model, talk
from tests.wire.fake import CHUNKED, LAST, Peer, chunk


async def test_agents_come_change_and_go() -> None:
    async with in_process(model("yes"), tables={"agents": AGENTS}) as gate:
        helper, other = AGENTS
        new = {"id": "new", "model": "m", "system": "You are new."}
        await gate.reload(agents=[{**helper, "system": "You changed."}, new])
        assert text_of(await gate.fetch(says("hi", agent="new")), "new") == "yes"
        assert b"You are new." in gate.requests[-1].body
        assert text_of(await gate.fetch(says("hi"))) == "yes"
        assert b"You changed." in gate.requests[-1].body
        gone = await gate.fetch(says("hi", agent="other"))
        assert (gone.status, "helper, new" in gone.error["message"]) == (404, True)
        listed = (await gate.fetch(get("/api/agents"))).json
        assert other["id"] not in json.dumps(listed)


async def test_a_message_under_way_keeps_its_agent() -> None:
    cue = Cue()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        await cue.wait()
        await peer.send(chunk(turn("still here")) + LAST)

    async with in_process(slow, tables={"agents": AGENTS}) as gate:
        client = await gate.send(says("hi"))
        await until(lambda: len(gate.requests) == 1)
        await gate.reload(agents=[], models=[public("n", "a")])
        cue.give()
        assert text_of(await client.answer()) == "still here"


async def test_jobs_run_by_what_there_is_now() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        job = await add(gate, agent="helper")
        await gate.reload(agents=[{**HELPER, "system": "You changed."}])
        await run_now(gate, job)
        await ran(gate, job, "ok")
        assert b"You changed." in gate.requests[-1].body


async def test_a_job_whose_agent_is_gone_fails_and_says_why() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        job = await add(gate, agent="helper")
        await gate.reload(agents=[{"id": "another", "model": "m"}])
        await run_now(gate, job)
        (run,) = await ran(gate, job, "error")
        assert run["error"] == "No agent is called 'helper'; known agents: another."
        assert gate.requests == []


async def test_a_job_whose_model_is_gone_fails_and_says_why() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        job = await add(gate, agent="", model="m")
        await gate.reload(agents=[], models=[public("other", "a")])
        await run_now(gate, job)
        (run,) = await ran(gate, job, "error")
        assert run["error"].startswith("No model is called 'm'.")


async def test_a_run_under_way_goes_on() -> None:
    cue = Cue()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await cue.wait()
        await peer.send(CHUNKED, chunk(turn("late")) + LAST)

    async with house(slow, clock=ManualClock(NOW)) as gate:
        job = await add(gate, agent="")
        await run_now(gate, job)
        await until(lambda: len(gate.requests) == 1)
        await gate.reload(agents=[], models=[public("other", "a")])
        cue.give()
        (run,) = await ran(gate, job, "ok")
        assert run["result"] == "late"


async def test_new_jobs_are_checked_against_what_there_is_now() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        await gate.reload(agents=[{"id": "new", "model": "n"}], models=[public("n", "a")])
        await add(gate, agent="new")
        job = {"schedule": every(HOUR), "message": "what is new?"}
        answer = await ask(gate, "add", {**job, "agent_id": "helper"})
        assert "there is no agent 'helper'" in refused(answer)[2]
        answer = await ask(gate, "add", {**job, "session_id": "s", "model": "m"})
        assert "No model is called 'm'" in refused(answer)[2]


# Limits.


async def test_requests_go_by_the_new_limits() -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        long = chat("long " * 1000)
        assert (await gate.ask(long)).status == 200
        await gate.reload(limits__body_bytes=1000)
        assert (await gate.ask(long)).status == 413
        assert (await gate.ask()).status == 200
        await gate.reload(limits__body_bytes=10_000, limits__json_depth=2)
        assert (await gate.ask(long)).status == 400


async def set_reminder(gate: Running, task: str) -> int:
    item = {"dueAt": "2027-01-01T00:00:00Z", "task": task}
    body = json.dumps(item).encode()
    return (await gate.fetch(request("POST", "/api/sessions/s/reminders", JSON, body=body))).status


async def test_what_is_kept_goes_by_the_new_limits() -> None:
    async with in_process(streaming(turn("hi")), clock=ManualClock(NOW)) as gate:
        assert await set_reminder(gate, "one") == 201
        await gate.reload(limits__reminders_per_session=1)
        assert await set_reminder(gate, "two") in (400, 429)
        await gate.reload(limits__reminders_per_session=2, limits__task_bytes=3)
        assert await set_reminder(gate, "three") == 400
        assert await set_reminder(gate, "two") == 201


async def test_jobs_and_subscriptions_go_by_the_new_limits() -> None:
    async with house(model("done"), clock=ManualClock(NOW)) as gate:
        await add(gate)
        await gate.reload(limits__jobs_per_owner=1, limits__subscriptions_per_owner=0)
        job = {"schedule": every(HOUR), "message": "what is new?", "session_id": "s"}
        assert "limits.jobs_per_owner" in refused(await ask(gate, "add", job))[2]
        assert (await gate.fetch(get("/api/sessions/s/events"))).status == 429


async def test_a_lower_limit_of_holds_ends_none() -> None:
    clock = ManualClock(NOW)
    settings = {"clock__due_window_ms": 0}
    story = acting(act("one "), act("two"))
    async with in_process(story, clock=clock, settings=settings) as gate:
        await remind(gate, SECOND)
        client = await gate.start(talk("hi"), "x-session-id: s")
        await held(gate)
        await gate.reload(limits__holds=0)
        await remind(gate, SECOND, "tea", "other")
        # Not held: it ends, and its reminder waits for the next request.
        assert "two" not in (await gate.ask(talk("hi"), "x-session-id: other")).text
        clock.advance(SECOND)
        assert "two" in (await client.answer()).text


async def test_limits_that_need_a_restart_stay() -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        await gate.reload(limits__header_bytes=1, limits__slow_reader_ms=1)
        assert (await gate.ask()).status == 200
        assert "limits.header_bytes, limits.slow_reader_ms" in gate.log


# Webhooks.


async def test_webhooks_get_what_happens_from_then_on() -> None:
    clock = ManualClock(NOW)
    async with receiving() as receiver:
        async with house(model("done"), clock=clock) as gate:
            job = await add(gate)
            await run_now(gate, job)
            await ran(gate, job, "ok")
            hook = {"owner": "local", "url": f"http://127.0.0.1:{receiver.port}/x", "secret": "s"}
            # Its session has a reminder that was set before anybody had a hook.
            await remind(gate, SECOND)
            await gate.reload(webhooks=[hook])
            clock.advance(2 * SECOND)
            await until(lambda: len(receiver.posted) == 1)
            assert receiver.posted[0].json["event"] == "reminder.due"
            await run_now(gate, job)
            await until(lambda: len(receiver.posted) == 3)
            names = [posted.json["event"] for posted in receiver.posted]
            assert names == ["reminder.due", "run.started", "run.finished"]
            await gate.reload(webhooks=[])
            await run_now(gate, job)
            await ran(gate, job, "ok", "ok", "ok")
            # What comes to another address later shows that nothing was on its way to the first.
            await gate.reload(webhooks=[{**hook, "url": f"http://127.0.0.1:{receiver.port}/y"}])
            await run_now(gate, job)
            await until(lambda: len(receiver.posted) == 5)
            paths = [posted.line.split()[1] for posted in receiver.posted]
            assert paths == ["/x", "/x", "/x", "/y", "/y"]
