"""What happens at one of two gateways on one PostgreSQL, as clients of the other hear of it."""

from __future__ import annotations

import json

from tests.clock.holding import SECOND, held, remind, remove
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.jobs.words import add, at, cron, ran, seen
from tests.outbox.receiver import receiving
from tests.run import Running, until
from tests.sessions.talk import JSON, SESSION, model, talk

from .pairs import pair

INBOX, EVENTS = "/api/sessions/s/inbox", "/api/sessions/s/events"
POLL = get(f"{INBOX}?wait_ms=30000")


async def run_job(gate: Running, message: str = "what is new?") -> str:
    """Make a job of the relay session, and have it run."""
    job_id = await add(gate, message, agent="")
    assert (await cron(gate, "run", {"job_id": job_id}))["queued"]
    return job_id


async def subscribe(gate: Running) -> Client:
    """Subscribe to the events of the session."""
    client = await gate.send(get(EVENTS))
    await until(lambda: len(gate.gateway.parts.feed.subscribers) == 1)
    await client.head()
    return client


async def poll(gate: Running) -> Client:
    """Wait for the inbox."""
    client = await gate.send(POLL)
    await until(lambda: len(gate.gateway.parts.inbox.subscribers) == 1)
    return client


def events(answer: Answer) -> list[tuple[str, str]]:
    """List the events that were seen: the number and the kind of each."""
    found: list[tuple[str, str]] = []
    for frame in bytes(answer.body).decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.splitlines() if line[:1] != ":")
        if "event" in lines:
            found.append((lines["id"], lines["event"]))
    return found


async def test_a_subscriber_at_one_sees_the_runs_of_the_other() -> None:
    async with pair(model("nothing")) as (one, two):
        here, there = await subscribe(one), await subscribe(two)
        for count in range(1, 4):
            await run_job(one)
            for client in (here, there):
                answer = await client.saw(b"event: run.started")
                while len(events(answer)) < 2 * count:
                    answer = await client.more()
                assert [kind for _, kind in events(answer)] == [
                    "run.started",
                    "run.finished",
                ] * count
        assert events(await here.saw(b"event")) == events(await there.saw(b"event"))


async def test_a_poll_at_one_gets_the_result_of_a_run_of_the_other() -> None:
    async with pair(model("nothing")) as (one, two):
        client = await poll(two)
        await run_job(one)
        (item,) = (await client.answer()).json["items"]
        assert (item["kind"], item["text"]) == ("run", "nothing")
        # What one acknowledges, the other shows no more.
        body = json.dumps({"ids": [item["id"]]}).encode()
        acked = await one.fetch(request("POST", f"{INBOX}/ack", JSON, body=body))
        assert acked.json["acked"] == [item["id"]], acked.json
        client = await poll(two)
        await remind(one, 0, "drink tea")
        (item,) = (await client.answer()).json["items"]
        assert item["kind"] == "reminder"


async def test_a_subscriber_at_one_hears_that_a_reminder_of_the_other_is_due() -> None:
    async with pair(model("hello")) as (one, two):
        client = await subscribe(two)
        await remind(one, SECOND, "drink tea")
        answer = await client.saw(b"event: reminder.due")
        assert b"drink tea" in answer.body
        # Each is told once, though both gateways know of it.
        await remind(two, 0, "drink more tea")
        answer = await client.saw(b"drink more tea")
        assert [kind for _, kind in events(answer)] == ["reminder.due"] * 2


async def test_reminders_set_before_anybody_listened_are_announced_too() -> None:
    async with pair(model("hello")) as (one, two):
        first = await remind(one, 2 * SECOND, "first")
        await remind(one, 3 * SECOND, "second")
        client = await subscribe(two)
        await client.saw(b"first")
        answer = await client.saw(b"second")
        assert [kind for _, kind in events(answer)] == ["reminder.due"] * 2
        # A change after that announces nothing anew.
        await remove(one, first)
        await remind(one, 0, "third")
        answer = await client.saw(b"third")
        assert [kind for _, kind in events(answer)] == ["reminder.due"] * 3
        rows = two.gateway.parts.store.announcements
        assert rows is not None
        await seen(rows.next_ready_ms, lambda next_ms: next_ms is None)


async def test_what_nobody_listens_to_is_not_looked_at() -> None:
    async with pair(model("hello")) as (one, two):
        await remind(one, 0, "first")
        rows = two.gateway.parts.store.announcements
        assert rows is not None
        assert await rows.next_ready_ms() is None
        await remind(two, 60 * SECOND, "later", "t")
        await two.gateway.parts.due_notifier.attend("", "t")
        assert await rows.next_ready_ms() is None


async def test_a_request_at_one_carries_the_result_of_a_run_of_the_other() -> None:
    async with pair(model("nothing")) as (one, two):
        await two.ask(talk("hi"), SESSION)
        job_id = await run_job(one)
        await ran(two, job_id, "ok")
        await two.ask(talk("and now?"), SESSION)
        assert b"nothing" in two.requests[-1].body


async def test_a_hold_at_one_waits_for_a_run_that_was_set_at_the_other() -> None:
    async with pair(model("nothing"), clock__hold_for_jobs=True) as (one, two):
        # The hold hears of a run that comes sooner than the one it waits for.
        now_ms = one.gateway.clock.now_ms()
        await add(one, "later?", agent="", schedule=at(now_ms + 40 * SECOND))
        client = await two.start(talk("hi"), SESSION)
        await held(two)
        await add(one, "soon?", agent="", schedule=at(one.gateway.clock.now_ms() + SECOND))
        await until(lambda: b"nothing" in two.requests[-1].body)
        client.leave()


async def test_a_webhook_gets_what_happens_at_either_once() -> None:
    async with receiving() as receiver:
        hook = {"owner": "local", "url": f"http://127.0.0.1:{receiver.port}/x", "secret": "s"}
        async with pair(model("done"), tables={"webhooks": [hook]}) as (one, two):
            await remind(one, 0)
            await until(lambda: len(receiver.posted) == 1)
            job_id = await run_job(two)
            await ran(one, job_id, "ok")
            await until(lambda: len(receiver.posted) == 3)
            await remind(two, 0, "drink more tea")
            await until(lambda: len(receiver.posted) == 4)
            names = [posted.json["event"] for posted in receiver.posted]
            assert names == ["reminder.due", "run.started", "run.finished", "reminder.due"]
