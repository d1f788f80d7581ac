"""Jobs as REST, the tool and the command line use them; each owner sees only their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Protocol

from anyio import to_thread

from gateway.clock.protocol import Clock
from gateway.errors import HoldgateError, InvalidInput, ModelNotFound, NotFound, TooMany
from gateway.jobs.job_views import show_jobs
from gateway.jobs.lifecycle import enable_job, find_first_due, make_job, patch_job, renew_job
from gateway.jobs.listing import JobPage, JobQuery, find_jobs
from gateway.jobs.model import Draft, Job, JobRules, Run
from gateway.jobs.planned_runs import RunSpans, count_planned_runs
from gateway.jobs.reader import Members, read_draft, read_patch, read_preview
from gateway.jobs.relay_sessions import JobIndex, JobListener, Snapshots
from gateway.jobs.run_rules import disable_job
from gateway.jobs.run_services import Note
from gateway.jobs.view import JobView, SchedulePreview, SchedulerStatus, show_preview
from gateway.routing import Models
from gateway.sessions.identity import refuse_session_id
from gateway.stores.documents import Conflict
from gateway.stores.job_rows import JobRows, RunQuery
from gateway.stores.waiting import Unsubscribe

# Why a manual run is not started.
RUNNING = "running"
SWITCHED_OFF = "switched off"
STARTING = "starting"
DRAINING = "shutting down"
# When somebody at the limit of jobs may look again: only removing a job helps.
JOB_LIMIT_SECONDS = 60


class JobConflict(HoldgateError):
    """Another job has the same id or `dedupe_key`."""

    status, code, kind = 409, "conflict", "invalid_request_error"


class JobChanged(JobConflict):
    """The job was changed since the caller read it."""

    def __init__(self, job: Job) -> None:
        super().__init__("The job was changed meanwhile; look at it and decide again.")
        self.job = job


@dataclass(frozen=True, slots=True)
class Queued:
    """The answer to a manual run; without a reason, the run is started."""

    job: Job
    reason: str = ""


class SchedulerPort(Protocol):
    """The scheduler, as `JobService` uses it."""

    def wake(self) -> None:
        """Look again when the next job is due."""

    async def start(self, job: Job) -> Queued:
        """Run a job now, and do not wait for it."""

    async def end_session(self, owner: str, session: str) -> None:
        """End all runs of a session that is deleted, and wait until they are over."""

    def status(self) -> SchedulerStatus:
        """Return the status of the scheduler."""


class DisabledScheduler:
    """Runs nothing: jobs are stored, but not run."""

    def wake(self) -> None:
        """Do nothing: no job is run."""

    async def start(self, job: Job) -> Queued:
        """Return that the scheduler is off."""
        return Queued(job, SWITCHED_OFF)

    async def end_session(self, owner: str, session: str) -> None:
        """Do nothing: there are no runs."""

    def status(self) -> SchedulerStatus:
        """Return that the scheduler is off."""
        return SchedulerStatus(enabled=False, state="off")


class JobService:
    """Makes, changes and shows jobs; wakes the scheduler after every change.

    The owner None is an admin, who sees all jobs. For others, a job of another owner is not found.
    """

    def __init__(
        self,
        rows: JobRows,
        clock: Clock,
        rules: JobRules,
        job_index: JobIndex,
        snapshots: Snapshots,
        note: Note,
        agents: Collection[str] = (),
        models: Models | None = None,
    ) -> None:
        self.rows = rows
        self.rules = rules
        self.scheduler: SchedulerPort = DisabledScheduler()
        self._clock = clock
        self._job_index = job_index
        self._snapshots = snapshots
        self._note = note
        self._agents = agents
        self._models = models

    def __repr__(self) -> str:
        return f"<JobService {self._job_index!r}>"

    async def add(
        self, owner: str, given: Members, session: str = "", agent: str = ""
    ) -> tuple[Job, bool]:
        """Make a job; if a job has the same `dedupe_key`, change that job.

        Return the job, and whether it existed. Without a session, the request must name one. Raise
        `InvalidInput`, `JobConflict` if the request has the id of an own job, or `TooMany`.
        """
        now_ms = self._clock.now_ms()
        draft = read_draft(given, now_ms, self.rules)
        if not session:
            session, agent = self._find_session(draft)
        self._check_model(owner, draft.model)
        await self._refuse_id(owner, draft.job_id)
        made = make_job(draft, f"job_{token_hex(8)}", owner, session, agent, now_ms, self.rules)
        try:
            job, deduped = await self.rows.add(
                made,
                lambda known: renew_job(known, made, now_ms, self.rules),
                self.rules.jobs_per_owner,
            )
        except TooMany:
            raise TooMany(
                f"You have {self.rules.jobs_per_owner} jobs already (limits.jobs_per_owner); "
                "remove one first.",
                retry_after=JOB_LIMIT_SECONDS,
            ) from None
        self._note_change("job_renewed" if deduped else "job_added", job)
        if not agent:
            await self._snapshots.keep(owner, session)
        return job, deduped

    async def update(self, owner: str | None, given: Members) -> Job:
        """Change a job as given; raise `InvalidInput`, `NotFound` or `JobConflict`.

        Raise `JobChanged` if the request says when the job must have been changed last, and it was
        changed since then.
        """
        patch, now_ms = read_patch(given), self._clock.now_ms()
        self._check_model(owner, patch.model or "")

        def change(job: Job) -> Job:
            if patch.if_updated_ms not in (None, job.updated_ms):
                raise JobChanged(job)
            return patch_job(job, patch, now_ms, self.rules)

        try:
            return await self._change("job_updated", owner, patch.job_id, change)
        except Conflict:
            raise JobConflict("Another job has this dedupe_key already; update that one.") from None

    async def enable(self, owner: str | None, job_id: str) -> Job:
        """Enable a job; raise `InvalidInput` if it has no further run time, or `NotFound`."""
        now_ms = self._clock.now_ms()
        return await self._change(
            "job_enabled", owner, job_id, lambda job: enable_job(job, now_ms, self.rules)
        )

    async def disable(self, owner: str | None, job_id: str) -> Job:
        """Disable a job; a run that is under way goes on."""
        now_ms = self._clock.now_ms()
        return await self._change(
            "job_disabled", owner, job_id, lambda job: disable_job(job, now_ms)
        )

    async def remove(self, owner: str | None, job_id: str) -> Job:
        """Delete a job and its runs; the result of a run that is under way is lost."""
        job = await self.rows.change(job_id, owner, lambda job: (None, job))
        if job is None:
            raise _not_found(job_id)
        self._note_removal(job)
        return job

    async def get(self, owner: str | None, job_id: str) -> Job:
        """Return a job, or raise `NotFound`."""
        job = await self.rows.get(job_id, owner)
        if job is None:
            raise _not_found(job_id)
        return job

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first."""
        return await self.rows.listing(owner, session, agent)

    async def find_page(
        self, owner: str | None, session: str | None, agent: str | None, query: JobQuery
    ) -> JobPage:
        """Return some of the jobs, with counts of all of them."""
        return find_jobs(await self.rows.listing(owner, session, agent), query)

    async def show_jobs(self, jobs: Sequence[Job]) -> list[JobView]:
        """Return what is shown of jobs, with how their last runs ended."""
        return await show_jobs(self.rows, jobs)

    async def show(self, job: Job) -> JobView:
        """Return what is shown of a job."""
        (shown,) = await self.show_jobs([job])
        return shown

    def preview(self, given: Members) -> SchedulePreview:
        """Return what a schedule means; raise the `InvalidInput` that `add` would raise."""
        now_ms = self._clock.now_ms()
        schedule, tz = read_preview(given, now_ms, self.rules)
        find_first_due(schedule, now_ms, self.rules)
        return show_preview(schedule, tz, now_ms)

    def now_ms(self) -> int:
        """Return the time by which jobs run."""
        return self._clock.now_ms()

    async def count_planned_runs(self, owner: str | None, spans: RunSpans) -> list[int]:
        """Count the runs that are planned for all jobs in each span of time."""
        jobs = await self.rows.listing(owner)
        return await to_thread.run_sync(count_planned_runs, jobs, spans)

    def subscribe(self, listener: JobListener) -> Unsubscribe:
        """Call a function with the owner and id of each job that changes or begins or ends a run.

        It must not wait or raise. Return a function that ends this.
        """
        return self._job_index.subscribe(listener)

    async def run(self, owner: str | None, job_id: str) -> Queued:
        """Start a job now, due or not, enabled or not; do not wait for its end."""
        return await self.scheduler.start(await self.get(owner, job_id))

    async def list_runs(self, query: RunQuery) -> list[tuple[int, Run]]:
        """Return runs with their numbers, the newest first; raise `NotFound` for a job."""
        if query.job_id is not None:
            await self.get(query.owner, query.job_id)
        return await self.rows.list_runs(query)

    async def get_run(self, owner: str | None, run_id: str) -> Run:
        """Return a run, or raise `NotFound`."""
        run = await self.rows.get_run(run_id, owner)
        if run is None:
            raise NotFound(f"No run has the id '{run_id[:100]}'.")
        return run

    async def status(self, owner: str | None) -> tuple[SchedulerStatus, list[Job]]:
        """Return the status of the scheduler, and the jobs."""
        return self.scheduler.status(), await self.rows.listing(owner)

    async def forget(self, owner: str, session: str) -> int:
        """Delete all jobs of a deleted session, and their owed results; return how many jobs.

        Their runs have ended when this returns.
        """
        jobs = await self.rows.listing(owner, session)
        count = await self.rows.forget(owner, session)
        for job in jobs:
            self._note_removal(job)
        await self.scheduler.end_session(owner, session)
        self._snapshots.forget(owner, session)
        return count

    def _find_session(self, draft: Draft) -> tuple[str, str]:
        session, agent = draft.session_id or draft.agent_id, draft.agent_id
        if not session:
            raise InvalidInput(
                "session_id is missing; name the session of the job, or an agent in agent_id."
            )
        if reason := refuse_session_id(session):
            raise InvalidInput(f"session_id {reason}.")
        if agent and agent not in self._agents:
            known = ", ".join(self._agents) or "none"
            raise InvalidInput(f"agent_id: there is no agent '{agent[:60]}'; known: {known}.")
        return session, agent

    def _check_model(self, owner: str | None, model: str) -> None:
        if model and self._models is not None:
            models = self._models if owner is None else self._models.of(owner)
            try:
                models.find(model)
            except ModelNotFound as error:
                raise InvalidInput(f"model: {error.message}") from None

    async def _refuse_id(self, owner: str, job_id: str) -> None:
        if not job_id:
            return
        if await self.rows.get(job_id, owner) is not None:
            raise JobConflict("You have a job with this job_id already; change it with update.")
        raise InvalidInput("job_id cannot be chosen; leave it out, and the new job gets one.")

    async def _change(
        self, event: str, owner: str | None, job_id: str, change: Callable[[Job], Job]
    ) -> Job:
        """Change a job by a function, or raise `NotFound`."""

        def replace_job(job: Job) -> tuple[Job, Job]:
            after = change(job)
            return after, after

        job = await self.rows.change(job_id, owner, replace_job)
        if job is None:
            raise _not_found(job_id)
        self._note_change(event, job)
        return job

    def _note_change(self, event: str, job: Job) -> None:
        self._job_index.note_change(job)
        self._log(event, job)
        self.scheduler.wake()

    def _note_removal(self, job: Job) -> None:
        self._job_index.note_removal(job)
        self._log("job_removed", job)
        self.scheduler.wake()

    def _log(self, event: str, job: Job) -> None:
        # Not its name, which may be the beginning of its message: texts are not logged.
        self._note(event, job=job.job_id, owner=job.user_id, session=job.session_id)


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"No job has the id '{job_id[:100]}'.")
