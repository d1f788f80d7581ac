"""Runs of jobs, from their claim to their record: they wait, are done, and end in one way."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

import anyio
from msgspec.structs import asdict, replace

from gateway.agents.locks import Lease
from gateway.errors import HoldgateError
from gateway.jobs.model import Job, Run
from gateway.jobs.run_rules import after, finished, give_back
from gateway.jobs.run_services import (
    RunExecutor,
    RunOutcome,
    SchedulerServices,
    failure_item,
    item_of,
)
from gateway.jobs.slots import Slots
from gateway.jobs.view import show_run
from gateway.outbox.feed import RUN_FINISHED, RUN_STARTED
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.rows import OutboxItem

log = logging.getLogger("holdgate.jobs")

STOPPED = RunOutcome("interrupted", error="The gateway was stopped before it came to an end.")
REMOVED = RunOutcome("interrupted", error="Its job was removed before it began.")
DISABLED = RunOutcome("skipped", error="Its job was disabled before it began.")
BROKEN = RunOutcome("error", error="Something went wrong inside the gateway.")
# A result beyond this is cut: a model has to read it, and it is kept for a while.
LONGEST_RESULT = 1024 * 1024
# How long the record of a run may take, whatever is being cancelled.
PATIENCE = 5.0


class JobRunner:
    """Does the runs that were claimed, so many at a time, and records how each ended."""

    def __init__(
        self,
        services: SchedulerServices,
        slots: Slots,
        agents: RunExecutor,
        relays: RunExecutor,
        over: Callable[[Run], None],
    ) -> None:
        self._services = services
        self._slots = slots
        self._agents = agents
        self._relays = relays
        self._over = over
        self._leaving = anyio.Event()
        self._less = anyio.Event()
        self.live: dict[str, anyio.CancelScope] = {}
        """What cancels each run that is under way."""
        self._sessions: dict[str, SessionKey] = {}
        """Whose each of them is."""
        self._waiting: set[str] = set()
        """The runs that have asked nothing yet."""
        self.counts: Counter[str] = Counter()
        """How many runs ended how since the process began; of times that were missed, each."""

    def __repr__(self) -> str:
        return f"<JobRunner {len(self.live)} under way, {self._slots!r}>"

    @property
    def is_leaving(self) -> bool:
        """Whether nothing new is begun any more."""
        return self._leaving.is_set()

    def drain(self) -> None:
        """Begin nothing more; what has only waited so far is given back."""
        self._leaving.set()

    async def idle(self) -> None:
        """Return when no run is under way."""
        while self.live:
            await self._wait_for_an_end()

    async def end_session(self, owner: str, session: str) -> None:
        """Cancel all runs of a session, and return when they are over."""
        while found := self._of_session(owner, session):
            for scope in found:
                scope.cancel()
            await self._wait_for_an_end()

    def _of_session(self, owner: str, session: str) -> list[anyio.CancelScope]:
        place = (owner, session)
        return [self.live[run_id] for run_id, of in self._sessions.items() if of == place]

    async def _wait_for_an_end(self) -> None:
        if self._less.is_set():
            self._less = anyio.Event()
        await self._less.wait()

    async def carry_out(self, job: Job, run: Run, has_slot: bool) -> None:
        """Do a run, and record how it ended, whatever happens."""
        ended = STOPPED
        self._waiting.add(run.run_id)
        self._sessions[run.run_id] = (job.user_id, job.session_id)
        try:
            try:
                with anyio.CancelScope() as self.live[run.run_id]:
                    ended = await self._judged(job, run, has_slot)
            except Exception as error:
                # The outer loop of a run: a bug hurts only the job it shows up in.
                log.exception("run %s failed", run.run_id, exc_info=error)
                ended = BROKEN
            finally:
                record = self._record(job, run, ended)
                is_kept = await self._kept(job, record)
                self._waiting.discard(run.run_id)
            while not is_kept and not self.is_leaving:
                await self._pause(self._services.settings.store_retry_ms / 1000)
                is_kept = await self._kept(job, record)
        finally:
            del self.live[run.run_id], self._sessions[run.run_id]
            self._less.set()
            self._over(record)

    async def _judged(self, job: Job, run: Run, has_slot: bool) -> RunOutcome:
        ended = await self._awaited(job, run, has_slot)
        # What the gateway cuts off when it leaves is no failure of the job.
        return STOPPED if self.is_leaving and ended.status == "error" else ended

    async def _awaited(self, job: Job, run: Run, has_slot: bool) -> RunOutcome:
        """Do a run when there is a slot and its session is idle; it waits without a slot."""
        settings, since = self._services.settings, None
        while True:
            if not has_slot and not await self._has_slot():
                return STOPPED
            has_slot = False
            try:
                found = STOPPED if self.is_leaving else await self._tried(job, run)
            finally:
                self._slots.give()
            if isinstance(found, RunOutcome):
                return found
            since = since or time.monotonic()
            if (time.monotonic() - since) * 1000 >= settings.max_busy_wait_ms:
                return _skipped(found, settings.max_busy_wait_ms)
            await self._pause(settings.idle_retry_ms / 1000)

    async def _has_slot(self) -> bool:
        """Wait for a slot; False when we leave before there is one."""
        if self._slots.take_now():
            return True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel_when_leaving, tasks.cancel_scope)
            await self._slots.take()
            tasks.cancel_scope.cancel()
            return True
        return False

    async def _cancel_when_leaving(self, scope: anyio.CancelScope) -> None:
        await self._leaving.wait()
        scope.cancel()

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._leaving.wait()

    async def _tried(self, job: Job, run: Run) -> RunOutcome | str:
        """Do a run, unless its session is busy; then return what with."""
        work = self._agents if job.agent_id else self._relays
        try:
            lease = await work.lease(job)
            if isinstance(lease, str):
                return lease
            try:
                return await self._begin(work, job, run, lease)
            finally:
                if lease is not None:
                    await lease.release()
        except HoldgateError as error:
            return RunOutcome("error", error=error.message)

    async def _begin(
        self, work: RunExecutor, job: Job, run: Run, lease: Lease | None
    ) -> RunOutcome:
        """Look at the job again, and do its run; it may have waited for long."""
        current = await self._services.rows.get(job.job_id)
        if current is None:
            return REMOVED
        if job.enabled and not current.enabled:
            return DISABLED
        self._waiting.discard(run.run_id)
        # What it says may have changed, but the lock is that of the session it was claimed for.
        return await self._timed(work, current if _is_there(job, current) else job, run, lease)

    async def _timed(
        self, work: RunExecutor, job: Job, run: Run, lease: Lease | None
    ) -> RunOutcome:
        most_ms = self._services.settings.run_timeout_ms
        await self._publish(job, run, RUN_STARTED)
        with anyio.move_on_after(most_ms / 1000):
            return await work.done(job, run, lease)
        return RunOutcome("error", error=f"It took longer than {most_ms} ms (cron.run_timeout_ms).")

    # The record.

    def _record(self, job: Job, run: Run, ended: RunOutcome) -> Run:
        text, now_ms = ended.text[:LONGEST_RESULT], self._services.clock.now_ms()
        over = finished(run, now_ms, ended.status, text, ended.error)
        apart = bool(job.agent_id) and job.session_mode == "isolated"
        return replace(over, owed=apart and _has_result(over))

    async def _kept(self, job: Job, run: Run) -> bool:
        """Keep how a run ended, within a while; tell whether that went well."""
        with anyio.move_on_after(PATIENCE, shield=True):
            try:
                if self._is_to_give_back(run):
                    await self._give_back(job, run)
                else:
                    await self._keep(job, run)
                return True
            except StoreUnavailable as error:
                self._log("run_not_recorded", job, run, error.message)
        return False

    def _is_to_give_back(self, run: Run) -> bool:
        """Whether it only waited until we leave; who asked for it by hand is told of that."""
        waits = self.is_leaving and run.run_id in self._waiting
        return waits and run.status == STOPPED.status and run.trigger == "timer"

    async def _give_back(self, job: Job, run: Run) -> None:
        """Leave a run that asked nothing to the next start, as if it had not been claimed."""
        kept = await self._services.rows.give_back(run.run_id, give_back)
        if kept is not None:
            self._services.job_index.put(kept)
        self._log("run_given_back", job, run, None)

    async def _keep(self, job: Job, run: Run) -> None:
        services, found = self._services, False
        now_ms = run.finished_ms or 0
        notice: OutboxItem | None = None

        def change(current: Job) -> Job | None:
            nonlocal found
            found = True
            return after(current, run, now_ms, services.rules)

        def tell(before: Job, after: Job | None, run: Run) -> OutboxItem | None:
            nonlocal notice
            notice = failure_item(before, after, run)
            return notice

        item = _item(job, run)
        kept = await services.rows.finish(run, change, item, services.settings.keep_runs, tell)
        for told in (item, notice):
            if told is not None:
                services.deliveries.announce(told)
        if not found:
            # A second attempt finds nothing to change, though the first one may have succeeded.
            services.deliveries.look_again(job.user_id, job.session_id)
            kept = await services.rows.get(job.job_id)
        if kept is None:
            services.job_index.drop(job.job_id)
        else:
            services.job_index.put(kept)
        is_gone = kept is None and not found
        self._log("run_dropped" if is_gone else "run_ended", job, run, run.error)
        if not is_gone:
            await self.tell(job, run, notice)

    async def tell(self, job: Job, run: Run, notice: OutboxItem | None = None) -> None:
        """Count how a run ended, and tell whoever listens to the session."""
        self.counts[run.status] += run.missed or 1
        await self.announce(job, run, notice)

    async def announce(self, job: Job, run: Run, notice: OutboxItem | None = None) -> None:
        """Tell whoever listens to the session how a run ended, and what its queue says of it."""
        await self._publish(job, run, RUN_FINISHED, notice)

    async def _publish(
        self, job: Job, run: Run, kind: str, notice: OutboxItem | None = None
    ) -> None:
        told = {"name": job.name, **asdict(show_run(run))}
        if notice is not None:
            told["notice"] = notice.text
        await self._services.feed.publish(job.user_id, job.session_id, kind, run.run_id, told)

    def _log(self, event: str, job: Job, run: Run, why: str | None) -> None:
        self._services.note(
            event,
            run=run.run_id,
            job=job.job_id,
            owner=job.user_id,
            session=job.session_id,
            status=run.status,
            why=why,
        )


def _skipped(busy_with: str, most_ms: int) -> RunOutcome:
    return RunOutcome("skipped", error=f"Its session was busy ({busy_with}) for {most_ms} ms.")


def _item(job: Job, run: Run) -> OutboxItem | None:
    """Return what is delivered of a run: in relay sessions, what was said."""
    return None if job.agent_id or not _has_result(run) else item_of(job, run)


def _is_there(job: Job, current: Job) -> bool:
    """Whether a job still belongs where it was claimed for."""
    place = (job.agent_id, job.session_id, job.session_mode)
    return place == (current.agent_id, current.session_id, current.session_mode)


def _has_result(run: Run) -> bool:
    return run.status == "ok" and bool(run.result.strip())
