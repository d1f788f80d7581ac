"""A gateway that is killed or stopped in a run: the run is told of, and the next time comes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock
from tests.clock.reminding import fetch, variables
from tests.gateway.client import Answer
from tests.gateway.wire import Cue, hanging, in_turn, streaming, turn
from tests.jobs.models import cued
from tests.jobs.words import (
    HELPER,
    HOUR,
    NOW,
    SECOND,
    add,
    asked,
    cron,
    every,
    house,
    inbox,
    job_of,
    ms_of,
    ran,
    run_now,
    runs_of,
    seen,
    statuses,
)
from tests.run import until
from tests.sessions.process import process
from tests.sessions.talk import kept, model
from tests.wire.fake import FakeUpstream, fake_upstream


class Door:
    """The door of a gateway in a process of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def fetch(self, request: bytes) -> Answer:
        """Send a request, and read its answer to the end."""
        return await fetch(self._port, request)


def settings(fake: FakeUpstream, **more: object) -> Mapping[str, str]:
    """Write the environment of a gateway with an agent, whose upstream this is."""
    return variables(fake.port, agents=json.dumps([HELPER]), **more)


async def test_a_gateway_that_is_killed_in_a_run(tmp_path: Path) -> None:
    story = in_turn(hanging(), streaming(turn("done")))
    async with fake_upstream(story) as fake:
        async with process(tmp_path, settings(fake)) as gate:
            job_id = await add(Door(gate.port), schedule=every(2 * SECOND))
            await until(lambda: len(fake.requests) == 1, patience=30)
            assert await statuses(Door(gate.port), job_id) == ["running"]
            await gate.kill()
        async with process(tmp_path, settings(fake)) as gate:
            door = Door(gate.port)
            found = await seen(lambda: statuses(door, job_id), lambda found: "ok" in found, 30)
            assert found[0] == "interrupted"
            cut, *others = await runs_of(door, job_id)
            assert cut["error"]
            # Each time once, and none lost without a word.
            times = [ms_of(run["due_at"]) for run in (cut, *others)]
            assert times == sorted(set(times))
            assert (await job_of(door, job_id))["consecutive_failures"] == 0


async def test_a_gateway_that_is_stopped_lets_a_run_finish(tmp_path: Path) -> None:
    cue = Cue()
    async with fake_upstream(cued(cue, "done")) as fake:
        async with process(tmp_path, settings(fake)) as gate:
            door = Door(gate.port)
            job_id = await add(door, schedule=every(HOUR))
            await run_now(door, job_id)
            await until(lambda: len(fake.requests) == 1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(gate.terminate)
                await until(lambda: '"draining"' in gate.log.read_text())
                cue.give()
        async with process(tmp_path, settings(fake)) as gate:
            (run,) = await ran(Door(gate.port), job_id, "ok")
            assert run["result"] == "done"


async def test_a_gateway_that_is_stopped_cuts_a_run_off_at_its_limit(tmp_path: Path) -> None:
    async with fake_upstream(hanging()) as fake:
        short = settings(fake, server__drain_ms=300)
        async with process(tmp_path, short) as gate:
            door = Door(gate.port)
            jobs = [
                await add(door, schedule=every(HOUR)),
                await add(door, schedule=every(HOUR), session_id="t"),
            ]
            for job_id in jobs:
                await run_now(door, job_id)
            await until(lambda: len(fake.requests) == 1)
            assert await gate.terminate() == 0
        async with process(tmp_path, short) as gate:
            for job_id in jobs:
                (run,) = await ran(Door(gate.port), job_id, "interrupted")
                assert ms_of(run["finished_at"]) > 0
                job = await job_of(Door(gate.port), job_id)
                assert (job["enabled"], job["consecutive_failures"]) == (True, 0)


async def test_what_was_said_before_a_stop_is_delivered_after_it(tmp_path: Path) -> None:
    async with house(model("it rains"), settings=kept(tmp_path)) as gate:
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
    async with house(model(), settings=kept(tmp_path)) as gate:
        assert [item["text"] for item in await inbox(gate)] == ["it rains"]


async def test_a_run_whose_lease_was_lost_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, renewals = ManualClock(NOW), 0
    # A lease is renewed three times before it ends.
    quick = {"cron__lease_ttl_ms": 300}
    async with house(hanging(), clock=clock, settings=quick) as gate:
        job_id = await add(gate)
        await run_now(gate, job_id)
        await asked(gate, 1)
        rows = gate.gateway.parts.rows.jobs
        extend = rows.extend

        async def count(*lease: Any) -> bool:
            nonlocal renewals
            renewals += 1
            return await extend(*lease)

        monkeypatch.setattr(rows, "extend", count)
        # By now the first lease would be over.
        await until(lambda: renewals > 3)
        assert await statuses(gate, job_id) == ["running"]
        await cron(gate, "remove", {"job_id": job_id})
        # Nobody waits for the answer any more.
        await gate.quiet()
