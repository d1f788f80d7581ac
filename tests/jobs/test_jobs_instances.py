"""Several schedulers on one store: each time runs once, and who is gone is made up for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from gateway.clock import ManualClock
from gateway.jobs.model import Job, JobRules, Run
from gateway.jobs.run_rules import apply_no_result, claim_manual, finish_run
from gateway.jobs.scheduler import Scheduler
from gateway.jobs.service import RUNNING
from gateway.stores.job_rows import Claimed
from gateway.stores.urls import system_ms
from tests.gateway.wire import hanging
from tests.jobs.words import (
    HOUR,
    MINUTE,
    NOW,
    add,
    asked,
    every,
    house,
    job_of,
    ran,
    run_now,
    runs_of,
    statuses,
)
from tests.run import Running
from tests.sessions.talk import model


@asynccontextmanager
async def others(gate: Running, count: int) -> AsyncIterator[list[Scheduler]]:
    """Run more schedulers on the store of a gateway, as other instances would."""
    parts = gate.gateway.parts
    assert parts.scheduler is not None
    agents, relays = gate.gateway.serving.agent_runs, gate.gateway.serving.relay_runs
    found = [Scheduler(parts.scheduler.services, agents, relays, alone=False) for _ in range(count)]
    async with anyio.create_task_group() as tasks:
        for scheduler in found:
            tasks.start_soon(scheduler.run)
        yield found
        tasks.cancel_scope.cancel()


async def test_each_time_runs_once() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        jobs = [await add(gate, agent="", schedule=every(MINUTE)) for _ in range(5)]
        async with others(gate, 3):
            for count in range(1, 6):
                clock.advance(MINUTE)
                for job_id in jobs:
                    await ran(gate, job_id, *["ok"] * count)
        assert len(gate.requests) == 25
        for job_id in jobs:
            times = [run["due_at"] for run in await runs_of(gate, job_id)]
            assert len(set(times)) == 5


async def test_a_run_of_an_instance_that_is_gone_is_interrupted_when_its_lease_ends() -> None:
    clock = ManualClock(NOW)
    async with house(model("done"), clock=clock) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        rows = gate.gateway.parts.rows.jobs

        async def claim(until_ms: int) -> None:
            await rows.claim_now(
                job_id,
                None,
                "gone",
                until_ms,
                lambda job: Claimed(*claim_manual(job, NOW, lambda: f"run_{until_ms}")),
            )

        await claim(system_ms() + HOUR)
        async with others(gate, 1) as (other,):
            kept = await rows.get(job_id)
            assert kept is not None
            # It answers when it has looked for runs of those who are gone.
            assert (await other.start(kept)).reason == RUNNING
            assert await statuses(gate, job_id) == ["running"]
        run_id = (await runs_of(gate, job_id))[0]["run_id"]
        assert await rows.extend(run_id, "gone", system_ms() - 1)
        async with others(gate, 1):
            await ran(gate, job_id, "interrupted")
            job = await job_of(gate, job_id)
            assert (job["running_at"], job["consecutive_failures"]) == (None, 0)
            await run_now(gate, job_id)
            await ran(gate, job_id, "interrupted", "ok")


async def test_a_run_that_others_took_for_dead_is_given_up() -> None:
    quick = {"cron__lease_ttl_ms": 150}
    async with house(hanging(), clock=ManualClock(NOW), settings=quick) as gate:
        job_id = await add(gate, agent="", schedule=every(HOUR))
        await run_now(gate, job_id)
        await asked(gate, 1)

        def end(job: Job, run: Run) -> tuple[Job, Run]:
            over = finish_run(run, NOW, "interrupted", error="It was taken for dead.")
            return apply_no_result(job, over, NOW, JobRules()), over

        assert len(await gate.gateway.parts.rows.jobs.end_lapsed(2**62, end)) == 1
        # Its lease cannot be renewed any more, so nobody waits for the answer.
        await gate.quiet()
        (run,) = await ran(gate, job_id, "interrupted")
        assert run["error"] == "It was taken for dead."
