"""Runs of jobs, from their claim to their record.

The idea: a claimed run is a row `running` that is leased to this process. `run_job` does three
things: wait for a slot and an idle session, execute the run within the time limit, and record how
it ended.

Invariants:
- Every run is recorded, also after a bug or a cancel, so each row gets one end. While the store is
  down the record is tried again until the gateway shuts down; then the row stays `running`, and
  after its lease another process ends it as `interrupted`, as after a crash.
- The end of a run, the change of its job, and the items and events for its session are stored in
  one transaction. Listeners are woken after it, so they never hear of anything that could be lost.
- A run has a slot only while it executes, not while it waits for its session.
- A run that has sent nothing yet when the gateway shuts down is given back: its time is due again
  at the next start, as if nobody had claimed it.
- The result of an isolated run of an agent is owed to its session: its row says so from the record
  on, until `ResultReturner` has returned it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from msgspec.structs import asdict, replace

from gateway.errors import HoldgateError, LimitExceeded
from gateway.jobs.model import Job, Run
from gateway.jobs.run_rules import (
    apply_end,
    finish_run,
    give_back_claim,
    write_failure_notice,
    write_missed_notice,
)
from gateway.jobs.run_services import RunExecutor, RunOutcome, SchedulerServices
from gateway.jobs.view import show_run
from gateway.logs import INFO, WARNING, bind_ids
from gateway.outbox.feed import RUN_FINISHED, RUN_STARTED
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.job_rows import NO_NEWS, RunNews

log = logging.getLogger("holdgate.jobs")

STOPPED = RunOutcome("interrupted", error="The gateway was stopped before the run ended.")
REMOVED = RunOutcome("interrupted", error="The job was removed before the run began.")
DISABLED = RunOutcome("skipped", error="The job was disabled before the run began.")
BROKEN = RunOutcome("error", error="Something went wrong inside the gateway.")
# A longer result is cut: a model has to read it, and it is stored for a while.
LONGEST_RESULT = 1024 * 1024
# How long the record of a run may take, even if the run is cancelled.
PATIENCE = 5.0


class Slots:
    """Limits how many runs execute at a time; `freed` is called when a used slot is free again."""

    def __init__(self, most: int, freed: Callable[[], None]) -> None:
        self._free = anyio.Semaphore(most)
        self._freed = freed
        self.most = most

    def __repr__(self) -> str:
        return f"<Slots {self.taken} of {self.most} taken>"

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self.most - self._free.value

    def acquire_now(self) -> bool:
        """Take a slot without waiting; return whether there was one."""
        return self.acquire_some(1) > 0

    def acquire_some(self, most: int) -> int:
        """Take free slots without waiting; return how many."""
        taken = 0
        with suppress(anyio.WouldBlock):
            while taken < most:
                self._free.acquire_nowait()
                taken += 1
        return taken

    async def acquire(self) -> None:
        """Wait for a free slot, and take it."""
        await self._free.acquire()

    def release(self) -> None:
        """Free a slot, and call `freed`."""
        self._free.release()
        self._freed()

    def release_unused(self, count: int = 1) -> None:
        """Free slots that were not used, without calling `freed`."""
        for _ in range(count):
            self._free.release()

    @asynccontextmanager
    async def hold_slot(self) -> AsyncIterator[None]:
        """Take a slot for the time of a `with` block."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()


class JobRunner:
    """Executes claimed runs, a limited number at a time, and records how each ended."""

    def __init__(
        self,
        services: SchedulerServices,
        slots: Slots,
        agents: RunExecutor,
        relays: RunExecutor,
        on_end: Callable[[Run], None],
    ) -> None:
        self._services = services
        self._slots = slots
        self.agents = agents
        self.relays = relays
        self._on_end = on_end
        self._leaving = anyio.Event()
        self._fewer = anyio.Event()
        self.live: dict[str, anyio.CancelScope] = {}
        """The cancel scope of each run that is under way, by run id."""
        self._sessions: dict[str, SessionKey] = {}
        """The session of each of them."""
        self._waiting: set[str] = set()
        """The runs that have sent nothing to a model yet."""
        self.counts: Counter[str] = Counter()
        """How many runs ended with each status since the process began; missed times count each."""

    def __repr__(self) -> str:
        return f"<JobRunner {len(self.live)} under way, {self._slots!r}>"

    @property
    def is_leaving(self) -> bool:
        """Whether the gateway shuts down and starts no more runs."""
        return self._leaving.is_set()

    def drain(self) -> None:
        """Start no more runs; runs that only waited until now are given back."""
        self._leaving.set()

    async def idle(self) -> None:
        """Return when no run is under way."""
        while self.live:
            await self._wait_for_an_end()

    def cut(self) -> None:
        """Cancel all runs: this process may have been taken for dead, and others go on."""
        for scope in self.live.values():
            scope.cancel()

    async def end_session(self, owner: str, session: str) -> None:
        """Cancel all runs of a session, and return when they are over."""
        key = (owner, session)
        while run_ids := [run_id for run_id, of in self._sessions.items() if of == key]:
            for run_id in run_ids:
                self.live[run_id].cancel()
            await self._wait_for_an_end()

    async def _wait_for_an_end(self) -> None:
        if self._fewer.is_set():
            self._fewer = anyio.Event()
        # One event for all waiters: each checks again what is left.
        await self._fewer.wait()

    async def run_job(self, job: Job, run: Run, has_slot: bool) -> None:
        """Do a claimed run, and record its end, whatever happens."""
        outcome = STOPPED
        bind_ids(run.run_id)
        self._waiting.add(run.run_id)
        self._sessions[run.run_id] = (job.user_id, job.session_id)
        try:
            try:
                with anyio.CancelScope() as self.live[run.run_id]:
                    outcome = await self._wait_and_execute(job, run, has_slot)
            except Exception as error:
                # The outer loop of a run: a bug fails only this run.
                log.exception("run %s failed", run.run_id, exc_info=error)
                outcome = BROKEN
            finally:
                # At least one try, even if the whole process is cancelled.
                record = self._make_record(job, run, outcome)
                is_kept = await self._record_end(job, record, outcome.begins_ms)
                self._waiting.discard(run.run_id)
            while not is_kept and not self.is_leaving:
                await self._pause(self._services.settings.store_retry_ms / 1000)
                is_kept = await self._record_end(job, record, outcome.begins_ms)
        finally:
            del self.live[run.run_id], self._sessions[run.run_id]
            self._fewer.set()
            self._on_end(record)

    async def _wait_and_execute(self, job: Job, run: Run, has_slot: bool) -> RunOutcome:
        """Execute a run as soon as there is a slot and its session is idle."""
        settings, busy_since = self._services.settings, None
        while True:
            if not has_slot and not await self._acquire_slot():
                return STOPPED
            has_slot = False
            try:
                found = STOPPED if self.is_leaving else await self._execute(job, run)
            finally:
                # Waiting for its session needs no slot: others may run meanwhile.
                self._slots.release()
            if isinstance(found, RunOutcome):
                # A run that the shutdown cuts off does not count as a failure of the job.
                return STOPPED if self.is_leaving and found.status == "error" else found
            busy_since = busy_since or time.monotonic()
            most_ms = settings.max_busy_wait_ms
            if (time.monotonic() - busy_since) * 1000 >= most_ms:
                # This does not count as a failure of the job: its next time stays.
                return RunOutcome(
                    "skipped", error=f"The session was busy ({found}) for {most_ms} ms."
                )
            await self._pause(settings.idle_retry_ms / 1000)

    async def _acquire_slot(self) -> bool:
        """Wait for a slot; return False if the gateway shuts down before there is one."""
        if self._slots.acquire_now():
            return True

        # Two waits: the first to end cancels the other.
        async def cancel_when_leaving() -> None:
            await self._leaving.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_leaving)
            await self._slots.acquire()
            tasks.cancel_scope.cancel()
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._leaving.wait()

    async def _execute(self, job: Job, run: Run) -> RunOutcome | str:
        """Execute a run within its time limit; if its session is busy, return what for."""
        executor = self.agents if job.agent_id else self.relays
        limit_ms = self._services.settings.run_timeout_ms
        try:
            lease = await executor.lock_session(job)
            if isinstance(lease, str):
                return lease
            try:
                # It may have waited long: the job may be removed, disabled or changed by now.
                current = await self._services.rows.get(job.job_id)
                if current is None:
                    return REMOVED
                if job.enabled and not current.enabled:
                    return DISABLED
                self._waiting.discard(run.run_id)
                # The lock is for the session at the claim, so the run stays in that session.
                if _is_same_place(job, current):
                    job = current
                await self._publish_start(job, run)
                with anyio.move_on_after(limit_ms / 1000):
                    return await executor.execute(job, run, lease)
                return RunOutcome(
                    "error", error=f"The run took longer than {limit_ms} ms (cron.run_timeout_ms)."
                )
            finally:
                if lease is not None:
                    await lease.release()
        except LimitExceeded as error:
            # No failure of the job: its next time stays, and it is not disabled for it.
            begins_ms = error.begins_ms
            return RunOutcome("skipped", error=error.message, has_begun=False, begins_ms=begins_ms)
        except HoldgateError as error:
            return RunOutcome("error", error=error.message, has_begun=False)

    # The record.

    def _make_record(self, job: Job, run: Run, outcome: RunOutcome) -> Run:
        text, now_ms = outcome.text[:LONGEST_RESULT], self._services.clock.now_ms()
        over = finish_run(run, now_ms, outcome.status, text, outcome.error)
        is_isolated = bool(job.agent_id) and job.session_mode == "isolated"
        was_asked = outcome.has_begun and run.run_id not in self._waiting
        # The exchange of a run has the id of the run.
        return replace(
            over,
            owed=is_isolated and _has_result(over),
            exchange_id=run.run_id if was_asked else "",
        )

    async def _record_end(self, job: Job, run: Run, begins_ms: int | None) -> bool:
        """Store how a run ended, within a time limit; return whether that worked."""
        # A run that only waited is given back; a manual run is recorded as interrupted instead.
        has_waited = self.is_leaving and run.run_id in self._waiting
        with anyio.move_on_after(PATIENCE, shield=True):
            try:
                if has_waited and run.status == STOPPED.status and run.trigger == "timer":
                    await self._give_back(job, run)
                else:
                    await self._keep_end(job, run, begins_ms)
                return True
            except StoreUnavailable as error:
                # Perhaps it was stored all the same.
                self._services.deliveries.look_again(job.user_id, job.session_id)
                self._log("run_not_recorded", job, run, error.message)
        return False

    async def _give_back(self, job: Job, run: Run) -> None:
        """Undo the claim of a run that sent nothing, so that the next start runs it."""
        kept = await self._services.rows.give_back(run.run_id, give_back_claim)
        if kept is not None:
            self._services.job_index.note_change(kept)
        self._log("run_given_back", job, run, None)

    async def _keep_end(self, job: Job, run: Run, begins_ms: int | None) -> None:
        """Store a run's end, its job and items in one transaction; then publish the end."""
        services, found = self._services, False
        now_ms = run.finished_ms or 0
        news = NO_NEWS

        def change(current: Job) -> Job | None:
            nonlocal found
            found = True
            return apply_end(current, run, now_ms, services.rules, begins_ms)

        # An agent has the answer in its conversation; a relay session gets it by its queue.
        item = make_result_item(job, run) if _has_result(run) and not job.agent_id else None

        def tell(before: Job, after: Job | None, run: Run) -> RunNews:
            nonlocal news
            notice = make_failure_item(before, after, run)
            items = tuple(one for one in (item, notice) if one is not None)
            news = RunNews(items, (self.make_end_event(job, run, notice),))
            return news

        kept = await services.rows.finish(run, change, services.settings.keep_runs, tell)
        for added in news.items:
            services.deliveries.announce(added)
        if not found:
            # A second try finds nothing to change, because the first one may have succeeded.
            services.deliveries.look_again(job.user_id, job.session_id)
            kept = await services.rows.get(job.job_id)
        if kept is None:
            services.job_index.note_removal(job)
        else:
            services.job_index.note_change(kept)
        is_gone = kept is None and not found
        self._log("run_dropped" if is_gone else "run_ended", job, run, run.error)
        if not is_gone:
            self.report_end(job, run)

    def report_end(self, job: Job, run: Run) -> None:
        """Count how a run ended, and wake the readers of its session: its event is stored."""
        self.counts[run.status] += run.missed or 1
        self._services.feed.announce(job.user_id, job.session_id)

    def make_end_event(self, job: Job, run: Run, notice: OutboxItem | None = None) -> SessionEvent:
        """Make the event of a run's end, with the notice if there is one."""
        data = {"name": job.name, **asdict(show_run(run))}
        if notice is not None:
            data["notice"] = notice.text
        feed = self._services.feed
        return feed.make_event(job.user_id, job.session_id, RUN_FINISHED, run.run_id, data)

    async def _publish_start(self, job: Job, run: Run) -> None:
        data = {"name": job.name, **asdict(show_run(run))}
        feed = self._services.feed
        await feed.publish(job.user_id, job.session_id, RUN_STARTED, run.run_id, data)

    def _log(self, event: str, job: Job, run: Run, why: str | None) -> None:
        self._services.note(
            event,
            level=WARNING if run.status == "error" else INFO,
            run=run.run_id,
            job=job.job_id,
            owner=job.user_id,
            session=job.session_id,
            status=run.status,
            why=why,
        )


def _is_same_place(job: Job, current: Job) -> bool:
    """Whether a job still has the agent, the session and the mode that it was claimed with."""
    claimed = (job.agent_id, job.session_id, job.session_mode)
    return claimed == (current.agent_id, current.session_id, current.session_mode)


def _has_result(run: Run) -> bool:
    return run.status == "ok" and bool(run.result.strip())


# Items for the queue of a session.


def make_result_item(job: Job, run: Run) -> OutboxItem:
    """Make the item that brings the result of a run to its session."""
    return OutboxItem(
        id=run.run_id,
        owner=job.user_id,
        session=job.session_id,
        at_ms=run.finished_ms or 0,
        text=run.result,
        job_id=job.job_id,
        run_id=run.run_id,
        name=job.name,
    )


def make_failure_item(before: Job, after: Job | None, run: Run) -> OutboxItem | None:
    """Make the item that says that this run's end disabled the job; None if it did not."""
    text = write_failure_notice(before, after, run)
    if text is None:
        return None
    return replace(make_result_item(before, run), text=text, status="failed")


def make_missed_item(job: Job, run: Run) -> OutboxItem:
    """Make the item that says that runs were missed; it has the time of the last of them."""
    text = write_missed_notice(run.missed, run.due_ms)
    item = replace(make_result_item(job, run), at_ms=run.due_ms, text=text)
    return replace(item, status="missed", missed=run.missed)
