"""The scheduler: one task that sleeps until the next job is due, and starts its run.

The idea: no queue and no timer for each job. The store says when the next job is due; the scheduler
sleeps until then, claims due jobs one by one as long as there are slots, and looks again. Every
change of a job, every free slot and every end of a run wakes it.

Invariants:
- A time of a schedule gets exactly one row: a run, or counted in a row `missed`. The claim, the row
  and the lease are one transaction, so only one of several processes gets it.
- The process that claims a run also executes it: a claim goes to `JobRunner` at once, and its lease
  is renewed until the run is recorded. If a lease is lost, its run is cancelled.
- A crash leaves rows `running` with a lease. They end as `interrupted` at the next start of a
  process that has the store for itself, else when their lease has ended.
- A time counts as missed only if the clock can be trusted: a clock that was stepped ahead must stay
  there for `tick_ms`. When the clock is set back, due times are computed anew.
- Results that are owed to sessions are in the rows; `ResultReturner` returns them, also after a
  restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import random
from typing import NoReturn
from uuid import uuid4

import anyio
from anyio.abc import TaskGroup

from gateway.clock.system import ClockSteps
from gateway.jobs.agent_runs import AgentRuns, ResultReturner
from gateway.jobs.model import Job, Run
from gateway.jobs.relay_runs import RelayRuns
from gateway.jobs.run_rules import apply_end, claim_due, claim_manual, finish_run, recompute_due
from gateway.jobs.run_services import SchedulerServices
from gateway.jobs.runner import STOPPED, JobRunner, Slots, make_failure_item, make_missed_item
from gateway.jobs.service import DRAINING, RUNNING, STARTING, Queued
from gateway.jobs.view import SchedulerStatus
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.documents import LATEST, StoreUnavailable
from gateway.stores.job_rows import Claimed, RunNews

NEVER = 2**62
# How often it looks for jobs of which another instance may have told in vain.
LOOK_AGAIN_MS = 5_000
# How often to look for ended leases of other processes; no event tells of them.
LOOK_FOR_LAPSED = 60.0
# The same where instances share the store: what a dead one held is free only when it is buried.
LOOK_FOR_DEAD = 5.0
# How long an instance that has runs lets idle ones claim what is due before it does.
LONGEST_YIELD = 0.05
# How long a manual run waits for a gateway that has just started.
PATIENCE = 5.0
# A clock that goes back by more than this was stepped.
STEP_MS = 1000
# How often to check whether a clock that was stepped ahead stays there.
DOUBT_SECONDS = 0.5
# How many jobs one transaction claims at most.
CLAIMED_AT_ONCE = 20
# A pause for jobs that are due but cannot be claimed, so that the loop does not spin.
SOON = 0.01


class Scheduler:
    """Claims due jobs, gives them to `JobRunner`, and renews their leases.

    `alone` says that no other process shares the store: rows that are `running` at the start are
    then left by a former process. Else others tell of new jobs, and this one looks often, since
    they may not be heard.
    """

    def __init__(
        self, services: SchedulerServices, agents: AgentRuns, relays: RelayRuns, alone: bool = True
    ) -> None:
        self.services = services
        self._alone = alone
        self._holder = uuid4().hex
        self.slots = Slots(services.settings.max_concurrent_runs, self.wake)
        self.results = ResultReturner(services, self.slots, agents)
        self.runner = JobRunner(services, self.slots, agents, relays, self._note_end)
        self._tasks: TaskGroup | None = None
        self._begun = anyio.Event()
        self._nap: anyio.CancelScope | None = None
        self._woken = False
        self._steps = ClockSteps(services.clock, services.settings.tick_ms)
        self._lead_ms = self._clock_lead()
        self._doubts = False
        """Whether runs would count as missed, but the clock is not trusted yet."""
        services.instance.on_distrust(self.runner.cut)
        if not alone:
            services.job_index.watch_all(self.wake)

    def __repr__(self) -> str:
        return f"<Scheduler {self.runner!r}>"

    # For `JobService`.

    def wake(self) -> None:
        """Look again when the next job is due."""
        self._woken = True
        if self._nap is not None:
            self._nap.cancel()

    async def start(self, job: Job) -> Queued:
        """Run a job now, and do not wait for it."""
        services, now_ms = self.services, self.services.clock.now_ms()
        with anyio.move_on_after(PATIENCE):
            await self._begun.wait()
        if self._tasks is None or self.runner.is_leaving:
            return Queued(job, DRAINING if self.runner.is_leaving else STARTING)
        claimed: Claimed | None = None
        # The caller may be cancelled, but a claimed run must be started.
        with anyio.CancelScope(shield=True):
            claimed = await services.rows.claim_now(
                job.job_id,
                job.user_id,
                self._holder,
                self._lease_end(),
                lambda job: Claimed(*claim_manual(job, now_ms, _new_id)),
            )
            if claimed is not None:
                self._start_runs(claimed, self._tasks, has_slot=False)
        return Queued(job, RUNNING) if claimed is None else Queued(claimed.job)

    def replace_executors(self, agents: AgentRuns, relays: RelayRuns) -> None:
        """Have new runs executed by these; a run under way goes on as it began."""
        self.results.agents = agents
        self.runner.agents, self.runner.relays = agents, relays

    async def end_session(self, owner: str, session: str) -> None:
        """End all runs of a session that is deleted, and wait until they are over."""
        await self.runner.end_session(owner, session)

    def status(self) -> SchedulerStatus:
        """Return the status of the scheduler."""
        return SchedulerStatus(
            enabled=True,
            state="draining" if self.runner.is_leaving else "running",
            runs=len(self.runner.live),
            max_concurrent_runs=self.slots.most,
        )

    # Start and shutdown.

    async def run(self) -> None:
        """Run jobs forever."""
        async with anyio.create_task_group() as tasks:
            # First, because runs that start before it would be taken for those of a former process.
            await self._recover()
            self._tasks = tasks
            self._begun.set()
            tasks.start_soon(self._renew_leases)
            tasks.start_soon(self._look_for_lapsed)
            tasks.start_soon(self.results.run)
            while True:
                self._woken = False
                at_ms = await self._look(tasks)
                await self._sleep(at_ms)

    def drain(self) -> None:
        """Start nothing more; current runs may go on until they end or are cut off."""
        self.runner.drain()
        self.results.drain()
        self.wake()

    async def idle(self) -> None:
        """Return when no run is under way."""
        await self.runner.idle()

    async def _sleep(self, at_ms: int) -> None:
        """Sleep until a job is due or until woken; only shortly if the clock is not trusted."""
        if not self._doubts and at_ms <= self.services.clock.now_ms():
            await anyio.sleep(SOON)
        if self._woken:
            return
        try:
            with anyio.CancelScope() as self._nap:
                if self._doubts:
                    await anyio.sleep(DOUBT_SECONDS)
                else:
                    await self.services.clock.sleep_until(at_ms)
        finally:
            self._nap = None

    async def _wait_for_store(self, error: StoreUnavailable) -> None:
        self.services.note("jobs_not_read", why=error.message)
        await anyio.sleep(self.services.settings.store_retry_ms / 1000)

    # Claims.

    async def _look(self, tasks: TaskGroup) -> int:
        """Start all due jobs while there are slots; return when to look again."""
        self._doubts = False
        try:
            await self._handle_clock_set_back()
            acquire = self.slots.acquire_some
            if not self._alone and self.runner.live:
                await anyio.sleep(LONGEST_YIELD * random())
            while self._may_begin() and (slots := acquire(CLAIMED_AT_ONCE)):
                if not await self._claim(tasks, slots):
                    return await self._find_next_look()
        except StoreUnavailable as error:
            await self._wait_for_store(error)
            return 0
        # A slot that gets free wakes the scheduler.
        return NEVER if self.services.instance.is_trusted else self._soon_ms()

    def _may_begin(self) -> bool:
        """Whether runs may begin: not while this process may have been taken for dead."""
        return not self.runner.is_leaving and self.services.instance.is_trusted

    async def _find_next_look(self) -> int:
        next_ms = await self.services.rows.next_run_ms() or NEVER
        return next_ms if self._alone else min(next_ms, self._soon_ms())

    def _soon_ms(self) -> int:
        return self.services.clock.now_ms() + LOOK_AGAIN_MS

    async def _claim(self, tasks: TaskGroup, slots: int) -> bool:
        """Claim jobs that are due, for slots already taken; return whether any was due."""
        services, now_ms, begun = self.services, self.services.clock.now_ms(), 0
        is_ahead = self._steps.is_ahead

        def claim(job: Job) -> Claimed | None:
            claimed, runs = claim_due(job, now_ms, services.rules, _new_id)
            if is_ahead and any(run.status == "missed" for run in runs):
                # Perhaps the clock is wrong: claim nothing, and look again shortly.
                self._doubts = True
                return None
            missed = [run for run in runs if run.status == "missed"]
            items = tuple(make_missed_item(job, run) for run in missed)
            events = tuple(
                self.runner.make_end_event(job, run, item)
                for run, item in zip(missed, items, strict=True)
            )
            return Claimed(claimed, runs, items, events)

        try:
            lease_end = self._lease_end()
            found = await services.rows.claim(now_ms, self._holder, lease_end, claim, slots)
            for claimed in found:
                begun += self._start_runs(claimed, tasks, has_slot=True)
        finally:
            # A run frees its slot itself; a claim with missed times only needs none.
            self.slots.release_unused(slots - begun)
        for claimed in found:
            self._report_missed(claimed)
        return bool(found)

    def _clock_lead(self) -> int:
        return self.services.clock.now_ms() - self.services.clock.steady_ms()

    async def _handle_clock_set_back(self) -> None:
        """Compute anew when jobs are due, if the clock was set back since the last look."""
        lead_ms = self._clock_lead()
        if lead_ms < self._lead_ms - STEP_MS:
            self.services.note("clock_set_back", ms=self._lead_ms - lead_ms)
            await self._recompute_due(await self.services.rows.listing(None))
        self._lead_ms = lead_ms

    async def _recompute_due(self, jobs: Iterable[Job]) -> None:
        services, now_ms = self.services, self.services.clock.now_ms()

        # In the transaction too: the job may have been changed since it was listed.
        def change(job: Job) -> tuple[Job, Job]:
            again = recompute_due(job, now_ms, services.rules)
            return again, again

        for job in jobs:
            if recompute_due(job, now_ms, services.rules) != job:
                kept = await services.rows.change(job.job_id, None, change)
                if kept is not None:
                    services.job_index.note_change(kept)

    def _start_runs(self, claimed: Claimed, tasks: TaskGroup, has_slot: bool) -> bool:
        """Start the claimed run; return whether there is one."""
        job, running = claimed.job, [run for run in claimed.runs if run.status == "running"]
        self.services.job_index.note_change(job)
        for run in running:
            tasks.start_soon(self.runner.run_job, job, run, has_slot)
        return bool(running)

    def _report_missed(self, claimed: Claimed) -> None:
        job = claimed.job
        for item in claimed.items:
            self.services.deliveries.announce(item)
        for run in claimed.runs:
            if run.status == "missed":
                who = {"job": job.job_id, "owner": job.user_id, "session": job.session_id}
                self.services.note("times_missed", **who, count=run.missed)
                self.runner.report_end(job, run)

    def _note_end(self, run: Run) -> None:
        """Wake up after the end of a run."""
        if run.owed:
            self.results.wake()
        self.wake()

    # Leases.

    def _lease_end(self) -> int:
        return self.services.lease_ms() + self.services.settings.lease_ttl_ms

    async def _recover(self) -> None:
        """End the runs of a former process as interrupted, and load all jobs."""
        rows = self.services.rows
        while True:
            try:
                await self._end_lapsed(LATEST if self._alone else self.services.lease_ms())
                if not self._alone:
                    # What jobs a session has is in the look of each request.
                    self.services.job_index.load(())
                    return
                # The clock may have been set back while the gateway was off.
                await self._recompute_due(await rows.listing(None))
                self.services.job_index.load(await rows.listing(None))
                return
            except StoreUnavailable as error:
                await self._wait_for_store(error)

    async def _look_for_lapsed(self) -> NoReturn:
        while True:
            await anyio.sleep(LOOK_FOR_LAPSED if self._alone else LOOK_FOR_DEAD)
            try:
                await self._end_lapsed(self.services.lease_ms())
            except StoreUnavailable as error:
                self.services.note("jobs_not_read", why=error.message)

    async def _end_lapsed(self, before_ms: int) -> None:
        services, now_ms = self.services, self.services.clock.now_ms()

        def change(job: Job, run: Run) -> tuple[Job, Run] | None:
            if run.run_id in self.runner.live:
                # Its lease only seems to have ended because the clock was stepped ahead.
                return None
            over = finish_run(run, now_ms, STOPPED.status, error=STOPPED.error)
            changed = apply_end(job, over, now_ms, services.rules)
            return changed or job, over

        notices: dict[str, OutboxItem] = {}

        def tell(before: Job, after: Job | None, run: Run) -> RunNews:
            item = make_failure_item(before, after, run)
            if item is not None:
                notices[run.run_id] = item
            event = self.runner.make_end_event(after or before, run, item)
            return RunNews(() if item is None else (item,), (event,))

        for run in await services.rows.end_lapsed(before_ms, change, tell):
            services.note("run_interrupted", run=run.run_id, job=run.job_id, owner=run.user_id)
            item = notices.get(run.run_id)
            if item is not None:
                services.deliveries.announce(item)
            job = await services.rows.get(run.job_id)
            if job is not None:
                services.job_index.note_change(job)
                self.runner.report_end(job, run)
            self.wake()

    async def _renew_leases(self) -> NoReturn:
        """Renew the leases of all runs that are under way here."""
        while True:
            # A third of the lease, so that two failures in a row do not lose it.
            await anyio.sleep(self.services.settings.lease_ttl_ms / 1000 / 3)
            for run_id, scope in tuple(self.runner.live.items()):
                try:
                    if not await self.services.rows.extend(run_id, self._holder, self._lease_end()):
                        # Another process ended the run, or its job was removed.
                        scope.cancel()
                except StoreUnavailable as error:
                    self.services.note("lease_not_renewed", run=run_id, why=error.message)


def _new_id() -> str:
    return f"run_{uuid4().hex}"
