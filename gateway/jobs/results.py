"""Returns the results of isolated runs to the sessions of the agents that they belong to.

The row of a run says whether its result is still owed to the session: `_look` reads the rows from
the store each time, and the row is changed when the result was returned. This is not the outbox's
ledger: results do not wait here for a turn that may or may not carry them. Memory only knows which
results are being returned now, so that none is returned twice. After a crash, all results that the
rows still owe are returned.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import anyio
from anyio.abc import TaskGroup

from gateway.agents.locks import Lease
from gateway.agents.model import Outcome
from gateway.errors import HoldgateError
from gateway.jobs.agent_runs import AgentRuns
from gateway.jobs.model import Job, Run
from gateway.jobs.run_services import SchedulerServices
from gateway.jobs.runner import Slots, make_result_item
from gateway.outbox.text import heading
from gateway.stores.documents import SessionKey, StoreUnavailable

log = logging.getLogger("holdgate.jobs")
OwedResult = tuple[Job, Run]


class ResultReturner:
    """Returns owed results to each session when it is idle, in order, also after a restart.

    If the session's model does not answer, the result goes into the session's queue instead.
    """

    def __init__(self, services: SchedulerServices, slots: Slots, agents: AgentRuns) -> None:
        self._services = services
        self._slots = slots
        self._agents = agents
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
            owed = await self._services.rows.list_owed()
        except StoreUnavailable as error:
            self._services.note("results_not_read", why=error.message)
            return self._services.settings.store_retry_ms / 1000
        for job, run in _oldest(owed):
            if run.run_id not in self._returning and not self._leaving:
                self._returning.add(run.run_id)
                tasks.start_soon(self._return, job, run)
        return self._services.settings.idle_retry_ms / 1000 if owed else None

    async def _return(self, job: Job, run: Run) -> None:
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
        lease = await self._agents.lock_conversation(job)
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
                outcome = await self._agents.tell(job, run, _write_message(job, run), lease)
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


def _write_message(job: Job, run: Run) -> str:
    return f"{heading(job.name)}\n{run.result}"


def _is_kept(outcome: Outcome) -> bool:
    """Whether the result is stored in the conversation, which needs an answer to it."""
    return outcome.version > 0 and bool(outcome.turns or outcome.text)


def _oldest(owed: Iterable[OwedResult]) -> Iterable[OwedResult]:
    """Return the oldest result owed to each session: the later ones come after it."""
    first: dict[SessionKey, OwedResult] = {}
    for job, run in owed:
        first.setdefault((job.user_id, job.session_id), (job, run))
    return first.values()
