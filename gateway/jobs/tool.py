"""The `schedule_task` tool, bound to the session that may call it."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.agents.model import AgentMessage
from gateway.errors import HoldgateError, InvalidInput, NotFound
from gateway.exchange.additions import ToolDeclaration
from gateway.jobs.model import Job
from gateway.jobs.reader import Members, read_job_id
from gateway.jobs.service import JobService
from gateway.jobs.tool_calls import (
    DECLARATION,
    IN_A_RUN,
    NAME,
    NEEDS_SESSION,
    ScheduleTaskCall,
    describe_unknown_job,
    read_call,
    render_job,
    render_jobs,
    render_removal,
    render_status,
)
from gateway.jobs.view import count_jobs
from gateway.reminders.clock_calls import ToolError
from gateway.stores.documents import StoreUnavailable


@dataclass(frozen=True, slots=True)
class ScheduleTask:
    """Runs the calls of a model; they change the jobs of its owner."""

    jobs: JobService
    owner: str
    session: str | None
    agent: str = ""
    may_add: bool = True
    """False in a run: a run of a job cannot add jobs."""

    @property
    def declaration(self) -> ToolDeclaration:
        """The declaration that is offered to the model."""
        return DECLARATION

    async def run(self, arguments: str) -> str:
        """Run a call of the model, and return its result as JSON, or raise `ToolError`."""
        call = read_call(arguments)
        try:
            return await self._answer(call)
        except NotFound:
            raise describe_unknown_job(call.action, read_job_id(call.members)) from None
        except StoreUnavailable as error:
            says = f"{error.message} Nothing was changed; try again later."
            raise ToolError(call.action, says) from None
        except HoldgateError as error:
            raise ToolError(call.action, error.message) from None
        except InvalidInput as invalid:
            raise ToolError(call.action, str(invalid)) from None

    async def _answer(self, call: ScheduleTaskCall) -> str:
        members = call.members
        match call.action:
            case "add":
                return await self._add(members)
            case "list":
                return render_jobs(await self._listing())
            case "status":
                scheduler, jobs = await self.jobs.status(self.owner)
                return render_status(scheduler, count_jobs(jobs))
            case "update":
                return render_job("update", await self.jobs.update(self.owner, members))
            case "remove":
                return render_removal(
                    (await self.jobs.remove(self.owner, read_job_id(members))).job_id
                )
            case "run":
                queued = await self.jobs.run(self.owner, read_job_id(members))
                reason = queued.reason or None
                return render_job("run", queued.job, queued=reason is None, reason=reason)
        act = {"get": self.jobs.get, "enable": self.jobs.enable, "disable": self.jobs.disable}
        job = await act[call.action](self.owner, read_job_id(members))
        return render_job(call.action, job)

    async def _add(self, members: Members) -> str:
        """Make a job that belongs to this session, whatever the model says it belongs to."""
        if not self.may_add:
            raise ToolError("add", IN_A_RUN)
        if self.session is None:
            raise ToolError("add", NEEDS_SESSION)
        job, deduped = await self.jobs.add(self.owner, members, self.session, self.agent)
        return render_job("add", job, deduped=deduped or None)

    async def _listing(self) -> list[Job]:
        """Return the jobs of this session; of an agent, those of all its sessions."""
        session = None if self.agent else self.session
        if session is None and not self.agent:
            return []
        return await self.jobs.listing(self.owner, session, self.agent)


@dataclass(frozen=True, slots=True)
class ScheduleTaskOffer:
    """Decides who is offered the tool."""

    jobs: JobService
    to_clients: bool
    """Whether the operator lets relay sessions have it (`cron.offer_to_clients`)."""

    def for_client(self, owner: str, session: str | None) -> tuple[ScheduleTask, ...]:
        """Return the tools for a relay session."""
        return (ScheduleTask(self.jobs, owner, session),) if self.to_clients else ()

    def for_agent(self, message: AgentMessage) -> tuple[ScheduleTask, ...]:
        """Return the tools for an agent."""
        if NAME not in message.agent.tools:
            return ()
        owner, session, may_add = message.owner, message.session, message.may_schedule
        return (ScheduleTask(self.jobs, owner, session, message.agent.id, may_add),)

    def for_run(self, job: Job) -> tuple[ScheduleTask, ...]:
        """Return the tools for a run of a relay session."""
        if not self.to_clients:
            return ()
        return (ScheduleTask(self.jobs, job.user_id, job.session_id, may_add=False),)
