"""The tool by which models set jobs: every action, in agents and in relay sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.clock import ManualClock
from tests.agents.talking import said as tell
from tests.clock.words import Call, play, says, tools
from tests.jobs.models import task, told
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    add,
    cron,
    every,
    house,
    job_of,
    key,
    keys,
    ms_of,
    ran,
    said,
)
from tests.run import Running
from tests.sessions.talk import SESSION, talk

COMPACT = [
    "job_id",
    "name",
    "enabled",
    "schedule",
    "next_run_at",
    "last_run_at",
    "last_status",
]


class Model:
    """A model that makes one call after the other, and remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.told: list[Any] = []

    def act(self, asked: dict[str, Any]) -> Any:
        """Make the next call, if one is left; else come to an end."""
        if asked["messages"][-1]["role"] == "tool":
            self.told.append(told(asked))
        return says("", self.calls.pop(0)) if self.calls else says("done")

    async def __call__(self, gate: Running, *calls: Call, **who: Any) -> list[Any]:
        """Have these calls made in one answer; return what the tool said to each."""
        self.calls, self.told = list(calls), []
        await talking(gate, **who)
        assert not self.calls
        return self.told


async def talking(
    gate: Running, agent: str = "helper", session: str = "s", owner: str = ""
) -> None:
    """Say something to an agent, or in a relay session if none is named."""
    headers = [key(owner)] if owner else []
    if agent:
        answer = await tell(gate, "go on", *headers, agent=agent, sessionId=session)
    else:
        answer = await gate.ask(talk("go on"), f"x-session-id: {session}", *headers)
    assert answer.status == 200, bytes(answer.body)


def kitchen(model: Model, **options: Any) -> Any:
    """Run a gateway with this model, which has little to say."""
    return house(play(model.act), clock=options.pop("clock", ManualClock(NOW)), **options)


@pytest.mark.parametrize("agent", ["helper", ""])
async def test_a_job_from_its_making_to_its_end(agent: str) -> None:
    model = Model()
    async with kitchen(model) as gate:
        make = task("add", name="news", schedule_text="every 2 hours", message="what is new?")
        (made,) = await model(gate, make, agent=agent)
        assert list(made) == ["ok", "action", "job"]
        assert (made["ok"], made["action"]) == (True, "add")
        assert list(made["job"]) == COMPACT
        job_id = made["job"]["job_id"]
        shown = await job_of(gate, job_id)
        assert (shown["session_id"], shown["agent_id"]) == ("s", agent)
        assert ms_of(shown["next_run_at"]) == NOW + 2 * HOUR
        answers = await model(
            gate,
            task("get", job_id=job_id),
            task("list"),
            task("disable", job_id=job_id),
            task("enable", job={"job_id": job_id}),
            task("update", job_id=job_id, schedule=every(MINUTE)),
            task("status"),
            task("remove", job_id=job_id),
            task("list"),
            agent=agent,
        )
        got, listed, off, on, changed, status, removed, empty = answers
        assert got == {"ok": True, "action": "get", "job": made["job"]}
        assert listed["jobs"] == [made["job"]]
        assert (off["job"]["enabled"], on["job"]["enabled"]) == (False, True)
        assert ms_of(changed["job"]["next_run_at"]) == NOW + MINUTE
        assert status["jobs"]["total"] == 1
        assert (removed["ok"], empty["jobs"]) == (True, [])
        assert (await cron(gate, "list"))["jobs"] == []


async def test_a_job_is_run_by_a_call() -> None:
    model = Model()
    async with kitchen(model, settings={"cron__max_concurrent_runs": 2}) as gate:
        job_id = await add(gate, agent="", session_id="s")
        (queued,) = await model(gate, task("run", job_id=job_id), agent="")
        assert (queued["queued"], queued["job"]["job_id"]) == (True, job_id)
        await ran(gate, job_id, "ok")


async def test_nested_and_flat_are_the_same() -> None:
    model = Model()
    async with kitchen(model) as gate:
        job = {"name": "n", "schedule": every(HOUR), "payload": {"message": "m"}}
        flat = {"name": "n", "schedule": every(HOUR), "message": "m"}
        one, two = await model(gate, task("add", job=job), task("add", **flat))
        assert one["ok"]
        assert two["ok"]
        first, second = (await cron(gate, "list"))["jobs"]
        differing = {"job_id"}
        assert {k: v for k, v in first.items() if k not in differing} == {
            k: v for k, v in second.items() if k not in differing
        }


async def test_a_known_key_changes_the_job_that_has_it() -> None:
    model = Model()
    async with kitchen(model) as gate:
        make = task("add", schedule_text="hourly", message="one", dedupe_key="k")
        again = task("add", schedule_text="hourly", message="two", dedupe_key="k")
        first, second = await model(gate, make, again)
        assert "deduped" not in first
        assert second["deduped"] is True
        assert second["job"]["job_id"] == first["job"]["job_id"]


@pytest.mark.parametrize(
    "call, says",
    [
        (Call("schedule_task", "nonsense"), "arguments"),
        (task("dance"), "dance"),
        (task("add"), "message"),
        (task("add", message="x", schedule=every(1)), "every_ms"),
        (task("add", message="x", schedule_text="hourly", job_id="mine"), "job_id"),
        (task("get"), "job_id"),
        (task("enable", job_id="job_x"), "job_x"),
    ],
)
async def test_what_cannot_be_is_said_in_a_sentence(call: Call, says: str) -> None:
    model = Model()
    async with kitchen(model) as gate:
        (answer,) = await model(gate, call)
        assert answer["ok"] is False
        assert says in answer["error"]
        assert (await cron(gate, "list"))["jobs"] == []


ON_ANOTHERS = ["get", "update", "remove", "enable", "disable", "run"]


@pytest.mark.parametrize("action", ON_ANOTHERS)
@pytest.mark.parametrize("agent", ["helper", ""])
async def test_somebody_elses_job_is_like_none_at_all(action: str, agent: str) -> None:
    model = Model()
    async with kitchen(model, tables={"keys": keys("ann", "bob")}) as gate:
        job_id = await add(gate, "mine", key("ann"), agent=agent)
        before = await job_of(gate, job_id, key("ann"))
        unknown = "job_0000000000000000"
        theirs, none = await model(
            gate,
            task(action, job_id=job_id, name="x"),
            task(action, job_id=unknown, name="x"),
            agent=agent,
            owner="bob",
        )
        assert json.dumps(theirs).replace(job_id, "") == json.dumps(none).replace(unknown, "")
        assert theirs["ok"] is False
        assert await job_of(gate, job_id, key("ann")) == before


async def test_somebody_elses_id_and_key_make_no_difference() -> None:
    model = Model()
    async with kitchen(model, tables={"keys": keys("ann", "bob")}) as gate:
        job_id = await add(gate, "mine", key("ann"), dedupe_key="k")
        job = {"schedule_text": "hourly", "message": "theirs"}
        by_id, by_key, listed, status = await model(
            gate,
            task("add", **job, job_id=job_id),
            task("add", **job, dedupe_key="k"),
            task("list"),
            task("status"),
            owner="bob",
        )
        assert by_id["ok"] is False
        assert "deduped" not in by_key
        assert [one["job_id"] for one in listed["jobs"]] == [by_key["job"]["job_id"]]
        assert status["jobs"]["total"] == 1
        assert (await job_of(gate, job_id, key("ann")))["payload"]["message"] == "mine"


async def test_a_model_cannot_put_a_job_elsewhere() -> None:
    model = Model()
    async with kitchen(model) as gate:
        job = {"schedule_text": "hourly", "message": "x", "session_id": "t", "agent_id": "aside"}
        (made,) = await model(gate, task("add", **job))
        shown = await job_of(gate, made["job"]["job_id"])
        assert (shown["session_id"], shown["agent_id"]) == ("s", "helper")


async def test_an_agent_sees_the_jobs_of_all_its_sessions() -> None:
    model = Model()
    async with kitchen(model) as gate:
        one = await add(gate, session_id="one")
        two = await add(gate, session_id="two")
        await add(gate, agent="aside")
        await add(gate, agent="", session_id="one")
        (listed,) = await model(gate, task("list"), session="one")
        assert [job["job_id"] for job in listed["jobs"]] == [one, two]


async def test_a_relay_session_sees_its_own_jobs() -> None:
    model = Model()
    async with kitchen(model) as gate:
        one = await add(gate, agent="", session_id="one")
        await add(gate, agent="", session_id="two")
        await add(gate, session_id="one")
        (listed,) = await model(gate, task("list"), agent="", session="one")
        assert [job["job_id"] for job in listed["jobs"]] == [one]


async def test_a_request_that_names_no_session_cannot_have_jobs() -> None:
    model = Model()
    async with kitchen(model) as gate:
        model.calls = [task("add", schedule_text="hourly", message="x"), task("list")]
        answer = await gate.ask(talk("go on"))
        assert answer.status == 200
        made, listed = model.told
        assert "session id" in made["error"]
        assert listed["jobs"] == []


async def test_who_is_offered_the_tool() -> None:
    for offer, wanted in ((True, True), (False, False)):
        model = Model()
        async with kitchen(model, settings={"cron__offer_to_clients": offer}) as gate:
            await gate.ask(talk("hi"), SESSION)
            await tell(gate, "hi")
            await tell(gate, "hi", agent="aside")
            offered = ["schedule_task" in tools(one) for one in gate.requests]
            assert offered == [wanted, True, False]
            told_of = ["schedule_task" in str(said(one)) for one in gate.requests]
            assert told_of == [False, True, False]
