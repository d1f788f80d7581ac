"""Runs that are messages to agents."""

from __future__ import annotations

from gateway.agents.client import AgentListener
from gateway.agents.locks import Lease, Locks
from gateway.agents.model import TURNS, AgentMessage, Outcome
from gateway.agents.service import Agents
from gateway.jobs.model import Job, Run
from gateway.jobs.run_services import RunOutcome

FOR_A_JOB = "job"
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
        return _make_outcome(await self._chat(job, run.run_id, job.message, lease, fresh))

    async def tell(self, job: Job, run: Run, message: str, lease: Lease) -> Outcome:
        """Send the result of a run to the agent of the job's session."""
        return await self._chat(job, f"{run.run_id}.result", message, lease, fresh=False)

    async def _chat(
        self, job: Job, name: str, message: str, lease: Lease | None, fresh: bool
    ) -> Outcome:
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
