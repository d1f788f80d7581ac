"""Any course of events on jobs, runs and deliveries, against plain lists that do the same."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from gateway.errors import TooMany
from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import next_due
from gateway.stores import Conflict, Rows
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.job_rows import Claimed
from tests.postgres.rows import PostgresRowBackend

from .row_backends import (
    STEP,
    claim_one,
    cut,
    due,
    ended,
    find_backend,
    idle,
    job,
    manually,
    tells,
)

IDS = st.sampled_from(["a", "b", "c", "d"])
OWNERS = st.sampled_from(["ann", "bob"])
KEYS = st.sampled_from(["", "", "key", "other"])
GRID = st.integers(1, 8).map(lambda step: step * STEP)
MOST = 2
KEEP = 3


class AgainstLists(RuleBasedStateMachine):
    """The rows, and what they should be: jobs and runs in order, leases, what is owed and waits."""

    backend_name: ClassVar[str]
    has_leases: ClassVar[bool] = True
    """Whether each run has a lease; on PostgreSQL it is the instance's."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, Job] = {}
        self.runs: list[Run] = []
        self.leases: dict[str, int] = {}
        self.owed: list[str] = []
        self.items: list[OutboxItem] = []
        self.delivered: set[str] = set()
        self.directory = tempfile.TemporaryDirectory()
        self.backend = find_backend(self.backend_name, Path(self.directory.name))
        self.runner = asyncio.Runner()
        self.serial = 0
        self.rows: Rows = self.run(self.open())

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    async def open(self) -> Rows:
        self.stack = AsyncExitStack()
        if isinstance(self.backend, PostgresRowBackend):
            shared = await self.backend.connect()
            self.stack.push_async_callback(shared.database.aclose)
            return shared
        documents = await self.backend.documents()
        self.stack.push_async_callback(documents.aclose)
        rows = await self.backend.rows(documents)
        self.stack.push_async_callback(rows.aclose)
        return rows

    def running(self, job_id: str) -> Run | None:
        return next((r for r in self.runs if (r.job_id, r.status) == (job_id, "running")), None)

    def is_taken(self, job_id: str, due_ms: int) -> bool:
        timers = ((r.job_id, r.due_ms) for r in self.runs if r.trigger == "timer")
        return (job_id, due_ms) in timers

    def same_key(self, of: Job) -> Job | None:
        if not of.dedupe_key:
            return None
        key = (of.user_id, of.dedupe_key)
        return next((j for j in self.jobs.values() if (j.user_id, j.dedupe_key) == key), None)

    def removed(self, job_id: str) -> None:
        del self.jobs[job_id]
        self.runs = [run for run in self.runs if run.job_id != job_id]

    @rule(job_id=IDS, owner=OWNERS, key=KEYS, due_ms=GRID)
    def add(self, job_id: str, owner: str, key: str, due_ms: int) -> None:
        given = job(job_id, owner, dedupe_key=key, due_ms=due_ms, next_run_ms=due_ms)
        adding = self.rows.jobs.add(given, lambda one: replace(one, name="again"), MOST)
        known = self.same_key(given)
        if known is not None:
            again = self.jobs[known.job_id] = replace(known, name="again")
            assert self.run(adding) == (again, True)
        elif job_id in self.jobs:
            with pytest.raises(Conflict):
                self.run(adding)
        elif sum(one.user_id == owner for one in self.jobs.values()) >= MOST:
            with pytest.raises(TooMany):
                self.run(adding)
        else:
            self.jobs[job_id] = given
            assert self.run(adding) == (given, False)

    @rule(job_id=IDS, due_ms=st.none() | GRID)
    def reschedule(self, job_id: str, due_ms: int | None) -> None:
        def change(one: Job) -> tuple[Job, str]:
            return replace(one, due_ms=due_ms, next_run_ms=due_ms), "changed"

        answer = self.run(self.rows.jobs.change(job_id, None, change))
        assert answer == ("changed" if job_id in self.jobs else None)
        if job_id in self.jobs:
            self.jobs[job_id], _ = change(self.jobs[job_id])

    @rule(job_id=IDS, owner=OWNERS)
    def remove(self, job_id: str, owner: str) -> None:
        answer = self.run(self.rows.jobs.change(job_id, owner, lambda one: (None, True)))
        known = self.jobs.get(job_id)
        assert answer == (True if known and known.user_id == owner else None)
        if answer:
            self.removed(job_id)
            self.owed = [run_id for run_id in self.owed if not run_id.startswith(job_id)]

    def claimable(self, now_ms: int) -> list[Job]:
        waiting = [
            one
            for one in self.jobs.values()
            if one.next_run_ms is not None and one.next_run_ms <= now_ms
            if self.running(one.job_id) is None
        ]
        order = list(self.jobs)
        return sorted(waiting, key=lambda one: (one.next_run_ms, order.index(one.job_id)))

    @rule(now_ms=GRID, until_ms=st.integers(1, 9))
    def claim(self, now_ms: int, until_ms: int) -> None:
        claimed = self.run(claim_one(self.rows.jobs, now_ms, "me", until_ms, due))
        assert claimed == self.expected_claim(now_ms, until_ms)

    def expected_claim(self, now_ms: int, until_ms: int) -> Claimed | None:
        for one in self.claimable(now_ms):
            while one.next_run_ms is not None and one.next_run_ms <= now_ms:
                assert one.due_ms is not None
                if not self.is_taken(one.job_id, one.due_ms):
                    return self.claimed(due(one), until_ms)
                after = next_due(one.schedule, one.due_ms)
                one = replace(one, due_ms=after, next_run_ms=after)
            self.jobs[one.job_id] = one
        return None

    def claimed(self, claimed: Claimed, until_ms: int) -> Claimed:
        self.jobs[claimed.job.job_id] = claimed.job
        self.runs += claimed.runs
        self.leases[claimed.runs[0].run_id] = until_ms
        return claimed

    @rule(job_id=IDS, until_ms=st.integers(1, 9))
    def claim_now(self, job_id: str, until_ms: int) -> None:
        self.serial += 1
        by_hand = manually(self.serial)
        claimed = self.run(self.rows.jobs.claim_now(job_id, None, "me", until_ms, by_hand))
        if job_id in self.jobs and self.running(job_id) is None:
            assert claimed == self.claimed(by_hand(self.jobs[job_id]), until_ms)
        else:
            assert claimed is None

    def some_run(self, data: st.DataObject) -> Run:
        return data.draw(st.sampled_from(self.runs))

    @precondition(lambda self: self.runs and self.has_leases)
    @rule(data=st.data(), holder=st.sampled_from(["me", "me", "you"]), until_ms=st.integers(1, 9))
    def extend(self, data: st.DataObject, holder: str, until_ms: int) -> None:
        run = self.some_run(data)
        extended = self.run(self.rows.jobs.extend(run.run_id, holder, until_ms))
        assert extended == (run.status == "running" and holder == "me")
        if extended:
            self.leases[run.run_id] = until_ms

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), is_owed=st.booleans(), says=st.booleans(), ends=st.booleans())
    def finish(self, data: st.DataObject, is_owed: bool, says: bool, ends: bool) -> None:
        run = self.some_run(data)
        done = ended(run, owed=is_owed)
        item = OutboxItem(f"run:{run.run_id}", run.user_id, "s", 1, "Done.") if says else None

        def change(one: Job) -> Job | None:
            return None if ends else idle(one)

        left = self.run(self.rows.jobs.finish(done, change, KEEP, tells(item)))
        if run.status != "running":
            assert left is None
            return
        assert left == change(self.jobs[run.job_id])
        self.finished(done, left, item)

    def finished(self, done: Run, left: Job | None, item: OutboxItem | None) -> None:
        self.runs = [done if run.run_id == done.run_id else run for run in self.runs]
        if item is not None and item.id not in {one.id for one in self.items}:
            self.items.append(item)
        if done.owed:
            self.owed.append(done.run_id)
        if left is None:
            self.removed(done.job_id)
        else:
            self.jobs[left.job_id] = left
            self.prune(left.job_id)

    def prune(self, job_id: str) -> None:
        old = [run for run in self.runs if run.job_id == job_id][:-KEEP]
        gone = {r.run_id for r in old if r.status != "running" and r.run_id not in self.owed}
        self.runs = [run for run in self.runs if run.run_id not in gone]

    @precondition(lambda self: self.has_leases)
    @rule(before_ms=st.integers(1, 10))
    def lapse(self, before_ms: int) -> None:
        ended_runs = self.run(self.rows.jobs.end_lapsed(before_ms, cut))
        over = [
            run
            for run in self.runs
            if run.status == "running" and self.leases[run.run_id] < before_ms
        ]
        over.sort(key=lambda run: self.leases[run.run_id])
        assert ended_runs == [replace(run, status="interrupted") for run in over]
        for run in over:
            self.runs[self.runs.index(run)] = replace(run, status="interrupted")
            self.jobs[run.job_id] = idle(self.jobs[run.job_id])

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def pay(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from(self.owed))
        self.run(self.rows.jobs.settle_owed(run_id))
        self.owed.remove(run_id)
        self.runs = [replace(r, owed=False) if r.run_id == run_id else r for r in self.runs]

    @precondition(lambda self: self.items)
    @rule(data=st.data(), owner=OWNERS)
    def deliver(self, data: st.DataObject, owner: str) -> None:
        item_id = data.draw(st.sampled_from(self.items)).id
        told = self.run(self.rows.deliveries.deliver(owner, "s", (item_id,)))
        theirs = {one.id for one in self.items if one.owner == owner}
        assert told == ((item_id,) if item_id in theirs - self.delivered else ())
        self.delivered |= set(told)

    @precondition(lambda self: self.backend_name != "memory")
    @rule()
    def close_and_open(self) -> None:
        self.run(self.stack.aclose())
        self.rows = self.run(self.open())

    @invariant()
    def jobs_are_those_that_were_kept(self) -> None:
        assert self.run(self.rows.jobs.listing(None)) == list(self.jobs.values())
        times = [
            one.next_run_ms
            for one in self.jobs.values()
            if one.next_run_ms is not None and self.running(one.job_id) is None
        ]
        assert self.run(self.rows.jobs.next_run_ms()) == min(times, default=None)

    @invariant()
    def runs_are_those_that_were_claimed(self) -> None:
        for job_id in self.jobs:
            newest_first = [run for run in reversed(self.runs) if run.job_id == job_id]
            assert self.run(self.rows.jobs.runs(job_id, 99)) == newest_first

    @invariant()
    def what_is_owed_and_waits_is_found(self) -> None:
        assert [run.run_id for _, run in self.run(self.rows.jobs.list_owed())] == self.owed
        for owner in ("ann", "bob"):
            found = self.run(self.rows.deliveries.pending(owner, "s"))
            waiting = [one for one in self.items if one.owner == owner]
            assert [replace(one, seq=0) for one in found] == [
                one for one in waiting if one.id not in self.delivered
            ]

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()


# The most where it costs least: it is one code for all, which a file can only make slower.
@pytest.mark.parametrize(("name", "examples"), [("memory", 20), ("embedded", 6), ("sqlite", 4)])
def test_any_course_of_events(name: str, examples: int) -> None:
    machine = type("Machine", (AgainstLists,), {"backend_name": name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
