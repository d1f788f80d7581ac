"""Runs that are messages to agents, and how the results of isolated ones come back.

The row of a run says whether its result is still owed to the session: `ResultReturner` reads the
rows from the store each time, and the row is changed when the result was returned. This is not the
outbox's ledger: results do not wait here for a turn that may or may not carry them. Memory only
knows which results are being returned now, so that none is returned twice. After a crash, all
results that the rows still owe are returned.
"""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup

from gateway.agents.client import AgentListener
from gateway.agents.locks import Lease, Locks
from gateway.agents.model import TURNS, AgentMessage, Outcome
from gateway.agents.service import Agents
from gateway.errors import HoldgateError
from gateway.exchange.model import RequestSource
from gateway.jobs.model import Job, Run
from gateway.jobs.run_services import RunOutcome, SchedulerServices
from gateway.jobs.runner import Slots, make_result_item
from gateway.logs import bind_ids
from gateway.outbox.text import heading
from gateway.stores.documents import StoreUnavailable

log = logging.getLogger("holdgate.jobs")
OwedResult = tuple[Job, Run]

FOR_A_JOB = "job"
# How often to look for results that other instances owed, in a store that they share.
LOOK_SECONDS = 15.0
STILL_CALLING = "The model was still calling tools when all turns were used (limits.turns)."


class AgentRuns:
    """Runs jobs by agents: in the conversation of the job's session, or in a fresh one."""

    def __init__(self, agents: Agents, locks: Locks) -> None:
        self._agents = agents
        self._locks = locks

    async def lock_session(self, job: Job) -> Lease | str | None:
        """Take the session's lock; a fresh conversation needs none."""
        return await self.lock_conversation(job) if _is_main(job) else None

    async def lock_conversation(self, job: Job) -> Lease | str:
        """Take the lock of the job's session; if it is taken, return the holder's reason at once.

        It does not wait, because the caller has a slot that other runs may be waiting for.
        """
        return await self._locks.take(job.user_id, job.session_id, FOR_A_JOB, grace=0)

    async def execute(self, job: Job, run: Run, lease: Lease | None) -> RunOutcome:
        """Send the job's message to its agent, and return the outcome."""
        fresh = not _is_main(job)
        return _make_outcome(await self._chat(job, run, job.message, lease, fresh))

    async def tell(self, job: Job, run: Run, message: str, lease: Lease) -> Outcome:
        """Send the result of a run to the agent of the job's session."""
        return await self._chat(job, run, message, lease, fresh=False, told=run)

    async def _chat(
        self,
        job: Job,
        run: Run,
        message: str,
        lease: Lease | None,
        fresh: bool,
        told: Run | None = None,
    ) -> Outcome:
        name = run.run_id if told is None else name_result(told)
        request = AgentMessage(
            owner=job.user_id,
            agent=self._agents.find(job.agent_id),
            session=job.session_id,
            text=message,
            exchange_id=name,
            request_id=name,
            fresh=fresh,
            may_hold=False,
            may_schedule=False,
            collects=False,
            source=RequestSource("", (), job.agent_id, job.job_id, run.run_id),
            told=told,
        )
        return await self._agents.chat(lease, request, AgentListener())


def _is_main(job: Job) -> bool:
    return job.session_mode == "main"


def _make_outcome(outcome: Outcome) -> RunOutcome:
    if outcome.error is not None:
        return RunOutcome("error", outcome.text, outcome.error)
    if outcome.reason == TURNS:
        return RunOutcome("error", outcome.text, STILL_CALLING)
    return RunOutcome("ok", outcome.text)


class ResultReturner:
    """Returns owed results to each session when it is idle, in order, also after a restart.

    If the session's model does not answer, the result goes into the session's queue instead.
    """

    def __init__(self, services: SchedulerServices, slots: Slots, agents: AgentRuns) -> None:
        self._services = services
        self._slots = slots
        self.agents = agents
        self._returning: set[str] = set()
        self._leaving = False
        self._wakeup = anyio.Event()

    def __repr__(self) -> str:
        return f"<ResultReturner {len(self._returning)} under way>"

    def wake(self) -> None:
        """Look again: a result is owed."""
        self._wakeup.set()

    def drain(self) -> None:
        """Start nothing more; what is owed stays owed until the next start."""
        self._leaving = True

    async def run(self) -> None:
        """Return results forever; while one is owed, check again whether its session is idle."""
        async with anyio.create_task_group() as tasks:
            while True:
                self._wakeup = anyio.Event()
                pause = await self._look(tasks)
                with anyio.move_on_after(pause):
                    await self._wakeup.wait()

    async def _look(self, tasks: TaskGroup) -> float | None:
        """Start to return owed results; return after how many seconds to look again."""
        try:
            owed = await self._services.rows.take_owed()
        except StoreUnavailable as error:
            self._services.note("results_not_read", why=error.message)
            return self._services.settings.store_retry_ms / 1000
        for job, run in owed:
            if run.run_id not in self._returning and not self._leaving:
                self._returning.add(run.run_id)
                tasks.start_soon(self._return, job, run)
        if owed:
            return self._services.settings.idle_retry_ms / 1000
        # Nobody tells of what an instance that died had taken.
        return LOOK_SECONDS if self._services.deliveries.rows.is_shared else None

    async def _return(self, job: Job, run: Run) -> None:
        bind_ids(name_result(run))
        try:
            async with self._slots.hold_slot():
                if not self._leaving:
                    await self._settle(job, run)
        except StoreUnavailable as error:
            self._log("result_not_brought", job, run, error.message)
        except Exception as error:
            log.exception("the result of run %s was not returned yet", run.run_id, exc_info=error)
        finally:
            self._returning.discard(run.run_id)

    async def _settle(self, job: Job, run: Run) -> None:
        """Return a result to its session unless that is busy; if it fails, put it in the queue.

        A result that is no longer owed, because its job or session was deleted, is dropped.
        """
        lease = await self.agents.lock_conversation(job)
        if isinstance(lease, str):
            return
        rows = self._services.rows
        try:
            if not any(owed.run_id == run.run_id for _, owed in await rows.list_owed()):
                return
            why = await self._tell_session(job, run, lease)
        finally:
            await lease.release()
        if not why:
            await rows.settle_owed(run.run_id)
        elif not self._leaving:
            self._log("result_not_told", job, run, why)
            item = make_result_item(job, run)
            if await rows.settle_owed(run.run_id, item):
                self._services.deliveries.announce(item)

    async def _tell_session(self, job: Job, run: Run, lease: Lease) -> str:
        """Send a result to the session's agent; return why that failed, or an empty string."""
        most_ms = self._services.settings.run_timeout_ms
        try:
            with anyio.move_on_after(most_ms / 1000):
                outcome = await self.agents.tell(job, run, _write_message(job, run), lease)
                return "" if _is_kept(outcome) else outcome.error or outcome.reason
        except StoreUnavailable:
            raise
        except HoldgateError as error:
            return error.message
        except Exception as error:
            # A bug must not end the other tasks, nor come back at every start.
            log.exception("the result of run %s could not be told", run.run_id, exc_info=error)
            return "Something went wrong inside the gateway."
        return f"The answer took longer than {most_ms} ms (cron.run_timeout_ms)."

    def _log(self, event: str, job: Job, run: Run, why: str) -> None:
        who = {"owner": job.user_id, "session": job.session_id}
        self._services.note(event, run=run.run_id, job=job.job_id, **who, why=why)


def name_result(run: Run) -> str:
    """Return the id of the exchange that tells an agent the result of a run."""
    return f"{run.run_id}.result"


def _write_message(job: Job, run: Run) -> str:
    return f"{heading(job.name)}\n{run.result}"


def _is_kept(outcome: Outcome) -> bool:
    """Whether the result is stored in the conversation, which needs an answer to it."""
    return outcome.version > 0 and bool(outcome.turns or outcome.text)
