"""Jobs over REST, under the path of this gateway and that of the one it can stand in for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import Keys, incoming_of
from gateway.api.requests import find_owner, read_positive, receive_small_body
from gateway.api.route import Access, ApiRoute, Parameter, bind_all
from gateway.dialects.raw_json import read_as
from gateway.errors import HoldgateError, InvalidInput
from gateway.jobs.model import Job
from gateway.jobs.reader import JobChange, JobId, JobName, JobRequest, read_patch
from gateway.jobs.service import JobService
from gateway.jobs.view import (
    JobCounts,
    JobView,
    RunView,
    SchedulerStatus,
    count_jobs,
    show_job,
    show_run,
)
from gateway.wire.http_server.request_body import BodyLimits

T = TypeVar("T")
JobMembers = dict[str, Any]

PATHS = ("/api/cron", "/wunder/cron")
ADMIN_PATHS = ("/api/admin/cron", "/wunder/admin/cron")
RUNS, MOST_RUNS = 20, 1000

_members = msgspec.json.Decoder(JobMembers)


class Data(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    """What all answers of this area stand in."""

    data: T


class JobAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job."""

    job: JobView


class JobAdded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The job that was made, or the one that had its `dedupe_key` and was changed."""

    job: JobView
    deduped: bool


class JobRemoved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The job is gone."""

    removed: Literal[True]


class JobQueued(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a job runs now, and if not, why."""

    queued: bool
    job: JobView
    reason: Annotated[str, Meta(description="Why it is not.")] | UnsetType = UNSET


class JobList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs, the oldest first."""

    jobs: list[JobView]


class RunList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs of a job, the newest first."""

    job_id: str
    runs: list[RunView]


class JobsStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the scheduler is, and how many jobs the owner has."""

    scheduler: SchedulerStatus
    jobs: JobCounts


class JobErrorDetail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What went wrong, as a code and as a sentence."""

    code: str
    message: str


class JobError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error, in the form of this area."""

    ok: Literal[False]
    error: JobErrorDetail


Action = Literal["update", "enable", "disable", "remove"]


class WithinJob(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """The same, written within `job`."""

    job: T


class AnyJobChange(JobChange, kw_only=True):
    """What an admin does with a job."""

    action: Action | None = None


class AnyJobChangeWithin(WithinJob[JobChange]):
    """The same, written within `job`."""

    action: Action | None = None


@dataclass(frozen=True, slots=True)
class JobsArea:
    """The routes about jobs; each owner sees only their own, an admin under `admin` all."""

    jobs: JobService
    keys: Keys
    limits: BodyLimits

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def list_jobs(self, request: WebRequest) -> JobList:
        """List your jobs, the oldest first: all, or those of a session or an agent."""
        return await self._list(request, find_owner(self.keys, request))

    async def get(self, request: WebRequest) -> JobAnswer:
        """Show a job."""
        owner = find_owner(self.keys, request)
        return JobAnswer(show_job(await self.jobs.get(owner, _read_job_id(request))))

    async def list_runs(self, request: WebRequest) -> RunList:
        """Show the runs of a job, the newest first."""
        owner, job_id = find_owner(self.keys, request), _read_job_id(request)
        limit = min(read_positive(request, "limit", RUNS), MOST_RUNS)
        runs = await self.jobs.runs(owner, job_id, limit)
        return RunList(job_id, [show_run(run) for run in runs])

    async def show_status(self, request: WebRequest) -> JobsStatus:
        """Show how the scheduler is, and how many jobs you have."""
        scheduler, jobs = await self.jobs.status(find_owner(self.keys, request))
        return JobsStatus(scheduler, count_jobs(jobs))

    async def add(self, request: WebRequest) -> JobAdded:
        """Make a job."""
        owner = find_owner(self.keys, request)
        job, deduped = await self.jobs.add(owner, await self._read_body(request))
        return JobAdded(show_job(job), deduped)

    async def update(self, request: WebRequest) -> JobAnswer:
        """Change the members of a job that are sent."""
        owner = find_owner(self.keys, request)
        return JobAnswer(show_job(await self.jobs.update(owner, await self._read_body(request))))

    async def remove(self, request: WebRequest) -> JobRemoved:
        """Delete a job and its runs."""
        await self.jobs.remove(*await self._read_owner_and_id(request))
        return JobRemoved(removed=True)

    async def enable(self, request: WebRequest) -> JobAnswer:
        """Enable a job."""
        return JobAnswer(show_job(await self.jobs.enable(*await self._read_owner_and_id(request))))

    async def disable(self, request: WebRequest) -> JobAnswer:
        """Disable a job; it stays in the list."""
        return JobAnswer(show_job(await self.jobs.disable(*await self._read_owner_and_id(request))))

    async def run(self, request: WebRequest) -> JobQueued:
        """Run a job now; the answer does not wait for it."""
        queued = await self.jobs.run(*await self._read_owner_and_id(request))
        return JobQueued(not queued.reason, show_job(queued.job), queued.reason or UNSET)

    async def list_all(self, request: WebRequest) -> JobList:
        """List the jobs of all owners, or of one."""
        self._check_admin(request)
        return await self._list(request, request.query_params.get("user_id") or None)

    async def update_any(self, request: WebRequest) -> JobAnswer | JobRemoved:
        """Change, enable, disable or remove the job of any owner."""
        self._check_admin(request)
        given = await self._read_body(request)
        action = given.pop("action", None)
        if action in (None, "update"):
            return JobAnswer(show_job(await self.jobs.update(None, given)))
        job_id = read_patch(given).job_id
        if action == "remove":
            await self.jobs.remove(None, job_id)
            return JobRemoved(removed=True)
        changes: Mapping[str, Callable[[None, str], Awaitable[Job]]] = {
            "enable": self.jobs.enable,
            "disable": self.jobs.disable,
        }
        if not isinstance(action, str) or action not in changes:
            raise InvalidInput("action must be one of update, enable, disable, remove.")
        return JobAnswer(show_job(await changes[action](None, job_id)))

    async def _list(self, request: WebRequest, owner: str | None) -> JobList:
        session, agent = (request.query_params.get(n) or None for n in ("session_id", "agent_id"))
        jobs = await self.jobs.listing(owner, session, agent)
        return JobList([show_job(job) for job in jobs])

    def _check_admin(self, request: WebRequest) -> None:
        self.keys.admin(incoming_of(request.scope))

    async def _read_owner_and_id(self, request: WebRequest) -> tuple[str, str]:
        """Read which job is meant, and whose; what else is said of it must make sense."""
        owner = find_owner(self.keys, request)
        return owner, read_patch(await self._read_body(request)).job_id

    async def _read_body(self, request: WebRequest) -> JobMembers:
        body = await receive_small_body(request, self.limits)
        return read_as(_members, body, self.limits.depth)


def write_job_error(error: HoldgateError) -> bytes:
    """Write an error in the form of this area."""
    details = JobErrorDetail(error.code, error.message)
    return msgspec.json.encode(JobError(ok=False, error=details))


def _read_job_id(request: WebRequest) -> str:
    job_id = request.query_params.get("job_id", "").strip()
    if not job_id:
        raise InvalidInput("job_id is missing; name one of the jobs that list shows.")
    return job_id


NO_JOB = {404: "There is no such job, or it belongs to another owner."}
NO_JOB_OR_TAKEN = {**NO_JOB, 409: "Another job has this dedupe_key."}
NOT_ADDED = {
    409: "The job_id or the dedupe_key is taken.",
    429: "The owner has the largest number of jobs allowed.",
}
NEW = (JobRequest, WithinJob[JobRequest])
NAMED = (JobName, WithinJob[JobName])
CHANGE = (JobChange, WithinJob[JobChange])
ANY_CHANGE = (AnyJobChange, AnyJobChangeWithin)
WHICH = Parameter("job_id", JobId, "The job.", required=True)
OF_SESSION = Parameter("session_id", str, "Only those of this session.")
OF_AGENT = Parameter("agent_id", str, "Only those of this agent.")
OF_OWNER = Parameter("user_id", str, "Only those of this owner.")
LIMIT = Parameter("limit", Annotated[int, Meta(ge=1)], "How many; 20 by default, 1000 at most.")

# Paths and names are those below one of the paths that all this is found under.
OWN = (
    ApiRoute("get", "list", "List", JobsArea.list_jobs, (OF_SESSION, OF_AGENT)),
    ApiRoute("get", "get", "Get", JobsArea.get, (WHICH,), errors=NO_JOB),
    ApiRoute("get", "runs", "Runs", JobsArea.list_runs, (WHICH, LIMIT), errors=NO_JOB),
    ApiRoute("get", "status", "Status", JobsArea.show_status),
    ApiRoute("post", "add", "Add", JobsArea.add, body=NEW, errors=NOT_ADDED),
    ApiRoute("post", "update", "Update", JobsArea.update, body=CHANGE, errors=NO_JOB_OR_TAKEN),
    ApiRoute("post", "enable", "Enable", JobsArea.enable, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "disable", "Disable", JobsArea.disable, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "remove", "Remove", JobsArea.remove, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "run", "Run", JobsArea.run, body=NAMED, errors=NO_JOB),
)
FOR_ADMIN = (
    ApiRoute("get", "list", "List", JobsArea.list_all, (OF_SESSION, OF_AGENT, OF_OWNER)),
    ApiRoute(
        "post", "update", "Update", JobsArea.update_any, body=ANY_CHANGE, errors=NO_JOB_OR_TAKEN
    ),
)


def _place(route: ApiRoute, path: str, access: Access = "key") -> ApiRoute:
    """Put a route under one of its paths."""
    first, *rest = path.strip("/").removeprefix("api/").split("/")
    return replace(
        route,
        path=f"{path}/{route.path}",
        name=first + "".join(map(str.capitalize, rest)) + route.name,
        error="JobError",
        access=access,
        envelope=Data,
    )


ROUTES = (
    *(_place(one, path) for path in PATHS for one in OWN),
    *(_place(one, path, "admin") for path in ADMIN_PATHS for one in FOR_ADMIN),
)
