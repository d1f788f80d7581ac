"""Jobs as REST, the tool and the command line handle them; each owner has only their own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from secrets import token_hex
from typing import Protocol

from gateway.clock.protocol import Clock
from gateway.errors import HoldgateError, InvalidInput, ModelNotFound, NotFound, TooMany
from gateway.jobs.lifecycle import enable_job, make_job, patch_job, renew_job
from gateway.jobs.model import Draft, Job, JobRules, Run
from gateway.jobs.reader import Members, read_draft, read_patch
from gateway.jobs.relay_sessions import JobIndex, Snapshots
from gateway.jobs.run_rules import disable_job
from gateway.jobs.run_services import Note
from gateway.jobs.view import SchedulerStatus
from gateway.routing import Models
from gateway.sessions.identity import refuse_session_id
from gateway.stores.documents import Conflict
from gateway.stores.rows import JobRows

# Why a job is not run now that somebody asks for it.
RUNNING = "running"
SWITCHED_OFF = "switched off"
STARTING = "starting"
LEAVING = "shutting down"


class JobConflict(HoldgateError):
    """There is one already, and only one can be."""

    status, code, kind = 409, "conflict", "invalid_request_error"


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of a wish to run a job now; without a reason against it, it is on its way."""

    job: Job
    reason: str = ""


class SchedulerPort(Protocol):
    """Whoever runs jobs."""

    def wake(self) -> None:
        """Look again when the next job is due."""

    async def start(self, job: Job) -> Queued:
        """Run a job now, and do not wait for it."""

    async def end_session(self, owner: str, session: str) -> None:
        """End all runs of a session that is deleted, and wait until they are over."""

    def status(self) -> SchedulerStatus:
        """Show how it is."""


class DisabledScheduler:
    """Runs nothing: jobs are kept, and wait for better times."""

    def wake(self) -> None:
        """Sleep on."""

    async def start(self, job: Job) -> Queued:
        """Say that it is off."""
        return Queued(job, SWITCHED_OFF)

    async def end_session(self, owner: str, session: str) -> None:
        """Have nothing to end."""

    def status(self) -> SchedulerStatus:
        """Say that it is off."""
        return SchedulerStatus(enabled=False, state="off")


class JobService:
    """Makes, changes and shows jobs; whoever runs them is told of every change.

    Of the owner None, an admin, all jobs are. A job that is somebody else's is like none at all.
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
        """Make a job; with a `dedupe_key` that is known, change the job that has it.

        Returns the job, and whether it was there already. Without a session it says itself which
        one it is for. Raises `InvalidInput`, `JobConflict` for an id of one's own, `TooMany`.
        """
        now_ms = self._clock.now_ms()
        draft = read_draft(given, now_ms, self.rules)
        if not session:
            session, agent = self._find_session(draft)
        self._check_model(draft.model)
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
                "remove one first."
            ) from None
        self._note_change("job_renewed" if deduped else "job_added", job)
        if not agent:
            await self._snapshots.keep(owner, session)
        return job, deduped

    async def update(self, owner: str | None, given: Members) -> Job:
        """Change of a job what is given; raises `InvalidInput`, `NotFound`, `JobConflict`."""
        patch, now_ms = read_patch(given), self._clock.now_ms()
        self._check_model(patch.model or "")

        def change(job: Job) -> Job:
            return patch_job(job, patch, now_ms, self.rules)

        try:
            return await self._change("job_updated", owner, patch.job_id, change)
        except Conflict:
            raise JobConflict("Another job has this dedupe_key already; update that one.") from None

    async def enable(self, owner: str | None, job_id: str) -> Job:
        """Let a job run again; raises `InvalidInput` if its only time is past, `NotFound`."""
        now_ms = self._clock.now_ms()
        return await self._change(
            "job_enabled", owner, job_id, lambda job: enable_job(job, now_ms, self.rules)
        )

    async def disable(self, owner: str | None, job_id: str) -> Job:
        """Let a job rest; a run that is under way goes on."""
        now_ms = self._clock.now_ms()
        return await self._change(
            "job_disabled", owner, job_id, lambda job: disable_job(job, now_ms)
        )

    async def remove(self, owner: str | None, job_id: str) -> Job:
        """Delete a job and its runs; what a run of it that is under way says is lost."""
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

    async def run(self, owner: str | None, job_id: str) -> Queued:
        """Run a job now, due or not, enabled or not; it is not waited for."""
        return await self.scheduler.start(await self.get(owner, job_id))

    async def runs(self, owner: str | None, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first; raises `NotFound`."""
        await self.get(owner, job_id)
        return await self.rows.runs(job_id, limit)

    async def status(self, owner: str | None) -> tuple[SchedulerStatus, list[Job]]:
        """Return how the scheduler is, and the jobs."""
        return self.scheduler.status(), await self.rows.listing(owner)

    async def forget(self, owner: str, session: str) -> int:
        """Delete all jobs of a session that is forgotten, and what they owe; say how many.

        Their runs are ended, and over on return.
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

    def _check_model(self, model: str) -> None:
        if model and self._models is not None:
            try:
                self._models.find(model)
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
        """Replace a job by what a function makes of it, or raise `NotFound`."""

        def replace_job(job: Job) -> tuple[Job, Job]:
            after = change(job)
            return after, after

        job = await self.rows.change(job_id, owner, replace_job)
        if job is None:
            raise _not_found(job_id)
        self._note_change(event, job)
        return job

    def _note_change(self, event: str, job: Job) -> None:
        self._job_index.put(job)
        self._log(event, job)
        self.scheduler.wake()

    def _note_removal(self, job: Job) -> None:
        self._job_index.drop(job.job_id)
        self._log("job_removed", job)
        self.scheduler.wake()

    def _log(self, event: str, job: Job) -> None:
        # Not its name, which begins as its message does: texts are not logged.
        self._note(event, job=job.job_id, owner=job.user_id, session=job.session_id)


def _not_found(job_id: str) -> NotFound:
    return NotFound(f"No job has the id '{job_id[:100]}'.")
