"""Jobs over REST, under the path of this gateway and that of the one it can stand in for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import Keys, incoming_of
from gateway.api.job_answers import (
    AnyJobChange,
    AnyJobChangeWithin,
    BulkFailure,
    BulkRequest,
    BulkResult,
    Data,
    JobAdded,
    JobAnswer,
    JobCalendar,
    JobError,
    JobErrorDetail,
    JobList,
    JobQueued,
    JobRemoved,
    JobsStatus,
    RunAnswer,
    RunList,
    WithinJob,
)
from gateway.api.job_queries import (
    JOB_FILTERS,
    OF_OWNER,
    RUN_FILTERS,
    SPANS,
    WHICH,
    WHICH_RUN,
    read_id,
    read_job_query,
    read_run_query,
    read_spans,
)
from gateway.api.requests import find_owner, read_members, receive_small_body
from gateway.api.route import Access, ApiRoute, bind_all
from gateway.dialects.raw_json import read_as
from gateway.errors import BadRequest, HoldgateError, InvalidInput
from gateway.jobs.model import Job
from gateway.jobs.reader import JobChange, JobName, JobRequest, PreviewRequest, read_patch
from gateway.jobs.service import JobChanged, JobConflict, JobService
from gateway.jobs.view import JobView, SchedulePreview, count_jobs, show_run
from gateway.timestamps import iso
from gateway.wire.http_server.request_body import BodyLimits

JobMembers = dict[str, Any]

PATHS = ("/api/cron", "/wunder/cron")
ADMIN_PATHS = ("/api/admin/cron", "/wunder/admin/cron")

_members = msgspec.json.Decoder(JobMembers)


class JobNotQueued(JobConflict):
    """A job is not run now, for a reason that the message says."""

    code = "not_queued"


class JobChangedMeanwhile(JobConflict):
    """The job was changed since the client read it; the answer shows what it is now."""

    def __init__(self, message: str, job: JobView) -> None:
        super().__init__(message)
        self.job = job


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
        """List your jobs: all, the oldest first, or some of them, page by page."""
        return await self._list(request, find_owner(self.keys, request))

    async def get(self, request: WebRequest) -> JobAnswer:
        """Show a job."""
        return await self._get(request, find_owner(self.keys, request))

    async def list_runs(self, request: WebRequest) -> RunList:
        """Show runs, the newest first: of a job, or of all your jobs."""
        return await self._list_runs(request, find_owner(self.keys, request))

    async def get_run(self, request: WebRequest) -> RunAnswer:
        """Show a run with its result."""
        return await self._get_run(request, find_owner(self.keys, request))

    async def show_status(self, request: WebRequest) -> JobsStatus:
        """Show how the scheduler is, and how many jobs you have."""
        scheduler, jobs = await self.jobs.status(find_owner(self.keys, request))
        return JobsStatus(scheduler, count_jobs(jobs))

    async def show_calendar(self, request: WebRequest) -> JobCalendar:
        """Count the runs that are planned for your jobs in each span of time."""
        return await self._count_runs(request, find_owner(self.keys, request))

    async def preview(self, request: WebRequest) -> SchedulePreview:
        """Show what a schedule means, before a job has it."""
        find_owner(self.keys, request)
        return self.jobs.preview(await self._read_body(request))

    async def add(self, request: WebRequest) -> JobAdded:
        """Make a job."""
        owner = find_owner(self.keys, request)
        job, deduped = await self.jobs.add(owner, await self._read_body(request))
        return JobAdded(await self.jobs.show(job), deduped)

    async def update(self, request: WebRequest) -> JobAnswer:
        """Change the members of a job that are sent."""
        owner = find_owner(self.keys, request)
        return await self._update(owner, await self._read_body(request))

    async def remove(self, request: WebRequest) -> JobRemoved:
        """Delete a job and its runs."""
        await self.jobs.remove(*await self._read_owner_and_id(request))
        return JobRemoved(removed=True)

    async def enable(self, request: WebRequest) -> JobAnswer:
        """Enable a job."""
        return await self._show(await self.jobs.enable(*await self._read_owner_and_id(request)))

    async def disable(self, request: WebRequest) -> JobAnswer:
        """Disable a job; it stays in the list."""
        return await self._show(await self.jobs.disable(*await self._read_owner_and_id(request)))

    async def run(self, request: WebRequest) -> JobQueued:
        """Run a job now; the answer does not wait for it."""
        return await self._run(*await self._read_owner_and_id(request))

    async def change_several(self, request: WebRequest) -> BulkResult:
        """Enable, disable, remove or run several jobs; one that fails does not stop the others."""
        return await self._change_several(request, find_owner(self.keys, request))

    # For admins.

    async def list_all(self, request: WebRequest) -> JobList:
        """List the jobs of all owners, or of one."""
        return await self._list(request, self._find_named_owner(request))

    async def get_any(self, request: WebRequest) -> JobAnswer:
        """Show the job of any owner."""
        self._check_admin(request)
        return await self._get(request, None)

    async def show_whole_calendar(self, request: WebRequest) -> JobCalendar:
        """Count the runs that are planned for the jobs of all owners, or of one."""
        return await self._count_runs(request, self._find_named_owner(request))

    async def change_any(self, request: WebRequest) -> BulkResult:
        """Enable, disable, remove or run several jobs of any owners."""
        self._check_admin(request)
        return await self._change_several(request, None)

    async def list_all_runs(self, request: WebRequest) -> RunList:
        """Show runs of the jobs of all owners, the newest first."""
        return await self._list_runs(request, self._find_named_owner(request))

    async def get_any_run(self, request: WebRequest) -> RunAnswer:
        """Show a run of any owner's job."""
        self._check_admin(request)
        return await self._get_run(request, None)

    async def run_any(self, request: WebRequest) -> JobQueued:
        """Run the job of any owner now."""
        self._check_admin(request)
        return await self._run(None, read_patch(await self._read_body(request)).job_id)

    async def update_any(self, request: WebRequest) -> JobAnswer | JobRemoved:
        """Change, enable, disable or remove the job of any owner."""
        self._check_admin(request)
        given = await self._read_body(request)
        action = given.pop("action", None)
        if action in (None, "update"):
            return await self._update(None, given)
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
        return await self._show(await changes[action](None, job_id))

    # What both do.

    async def _show(self, job: Job) -> JobAnswer:
        return JobAnswer(await self.jobs.show(job))

    async def _list(self, request: WebRequest, owner: str | None) -> JobList:
        session, agent = (request.query_params.get(n) or None for n in ("session_id", "agent_id"))
        page = await self.jobs.find_page(owner, session, agent, read_job_query(request))
        return JobList(await self.jobs.show_jobs(page.jobs), page.next, page.totals)

    async def _get(self, request: WebRequest, owner: str | None) -> JobAnswer:
        job_id = read_id(request, "job_id", "jobs that list shows")
        return await self._show(await self.jobs.get(owner, job_id))

    async def _count_runs(self, request: WebRequest, owner: str | None) -> JobCalendar:
        spans = read_spans(request, self.jobs.now_ms())
        counts = await self.jobs.count_planned_runs(owner, spans)
        return JobCalendar(
            since=iso(spans.from_ms), bucket_ms=spans.length_ms, counts=counts, total=sum(counts)
        )

    async def _list_runs(self, request: WebRequest, owner: str | None) -> RunList:
        query = read_run_query(request, owner)
        found = await self.jobs.list_runs(query)
        page, with_result = found[: query.limit - 1], request.query_params.get("results") != "0"
        return RunList(
            query.job_id,
            [show_run(run, with_result) for _, run in page],
            str(page[-1][0]) if len(found) > len(page) else None,
        )

    async def _get_run(self, request: WebRequest, owner: str | None) -> RunAnswer:
        run_id = read_id(request, "run_id", "runs that runs shows")
        return RunAnswer(show_run(await self.jobs.get_run(owner, run_id)))

    async def _update(self, owner: str | None, given: JobMembers) -> JobAnswer:
        try:
            return await self._show(await self.jobs.update(owner, given))
        except JobChanged as changed:
            shown = await self.jobs.show(changed.job)
            raise JobChangedMeanwhile(changed.message, shown) from None

    async def _run(self, owner: str | None, job_id: str) -> JobQueued:
        queued = await self.jobs.run(owner, job_id)
        shown = await self.jobs.show(queued.job)
        return JobQueued(not queued.reason, shown, queued.reason or UNSET)

    async def _change_several(self, request: WebRequest, owner: str | None) -> BulkResult:
        body = await receive_small_body(request, self.limits)
        asked = read_members(body, self.limits.depth, BulkRequest, "The request")
        failures: dict[str, BulkFailure] = {}

        async def change(job_id: str) -> None:
            try:
                await self._change_one(asked.action, owner, job_id)
            except InvalidInput as invalid:
                failures[job_id] = BulkFailure(job_id, BadRequest.code, str(invalid))
            except HoldgateError as error:
                failures[job_id] = BulkFailure(job_id, error.code, error.message)

        job_ids = list(dict.fromkeys(asked.job_ids))
        # At once, so that the store writes many of them in one transaction.
        async with anyio.create_task_group() as tasks:
            for job_id in job_ids:
                tasks.start_soon(change, job_id)
        done = [job_id for job_id in job_ids if job_id not in failures]
        return BulkResult(done, [failures[one] for one in job_ids if one in failures])

    async def _change_one(self, action: str, owner: str | None, job_id: str) -> None:
        if action != "run":
            changes: Mapping[str, Callable[[str | None, str], Awaitable[Job]]] = {
                "enable": self.jobs.enable,
                "disable": self.jobs.disable,
                "remove": self.jobs.remove,
            }
            await changes[action](owner, job_id)
        elif reason := (await self.jobs.run(owner, job_id)).reason:
            raise JobNotQueued(f"It was not started: {reason}.")

    def _find_named_owner(self, request: WebRequest) -> str | None:
        """Return the owner whom an admin names; None: all."""
        self._check_admin(request)
        return request.query_params.get("user_id") or None

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
    job = error.job if isinstance(error, JobChangedMeanwhile) else UNSET
    details = JobErrorDetail(error.code, error.message, job)
    return msgspec.json.encode(JobError(ok=False, error=details))


NO_JOB = {404: "There is no such job, or it belongs to another owner."}
NO_RUN = {404: "There is no such run, or it belongs to another owner."}
NO_JOB_OR_TAKEN = {
    **NO_JOB,
    409: "Another job has this dedupe_key, or the job was changed after `if_updated_at`.",
}
NOT_ADDED = {
    409: "The job_id or the dedupe_key is taken.",
    429: "The owner has the largest number of jobs allowed.",
}
NEW = (JobRequest, WithinJob[JobRequest])
NAMED = (JobName, WithinJob[JobName])
CHANGE = (JobChange, WithinJob[JobChange])
ANY_CHANGE = (AnyJobChange, AnyJobChangeWithin)

# Paths and names are those below one of the paths that all this is found under.
OWN = (
    ApiRoute("get", "list", "List", JobsArea.list_jobs, JOB_FILTERS),
    ApiRoute("get", "get", "Get", JobsArea.get, (WHICH,), errors=NO_JOB),
    ApiRoute("get", "runs", "Runs", JobsArea.list_runs, RUN_FILTERS, errors=NO_JOB),
    ApiRoute("get", "run", "GetRun", JobsArea.get_run, (WHICH_RUN,), errors=NO_RUN),
    ApiRoute("get", "status", "Status", JobsArea.show_status),
    ApiRoute("get", "calendar", "Calendar", JobsArea.show_calendar, SPANS),
    ApiRoute("post", "preview", "Preview", JobsArea.preview, body=PreviewRequest),
    ApiRoute("post", "add", "Add", JobsArea.add, body=NEW, errors=NOT_ADDED),
    ApiRoute("post", "update", "Update", JobsArea.update, body=CHANGE, errors=NO_JOB_OR_TAKEN),
    ApiRoute("post", "enable", "Enable", JobsArea.enable, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "disable", "Disable", JobsArea.disable, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "remove", "Remove", JobsArea.remove, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "run", "Run", JobsArea.run, body=NAMED, errors=NO_JOB),
    ApiRoute("post", "bulk", "Bulk", JobsArea.change_several, body=BulkRequest),
)
FOR_ADMIN = (
    ApiRoute("get", "list", "List", JobsArea.list_all, (*JOB_FILTERS, OF_OWNER)),
    ApiRoute("get", "get", "Get", JobsArea.get_any, (WHICH,), errors=NO_JOB),
    ApiRoute("get", "calendar", "Calendar", JobsArea.show_whole_calendar, (*SPANS, OF_OWNER)),
    ApiRoute("post", "bulk", "Bulk", JobsArea.change_any, body=BulkRequest),
    ApiRoute(
        "get", "runs", "Runs", JobsArea.list_all_runs, (*RUN_FILTERS, OF_OWNER), errors=NO_JOB
    ),
    ApiRoute("get", "run", "GetRun", JobsArea.get_any_run, (WHICH_RUN,), errors=NO_RUN),
    ApiRoute("post", "run", "Run", JobsArea.run_any, body=NAMED, errors=NO_JOB),
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
