"""Jobs over REST, under the path of this gateway and that of the one it can stand in for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.api.admission import incoming_of
from gateway.api.auth import Keys
from gateway.api.reminders import BodyLimits
from gateway.dialects.body import read_as
from gateway.errors import BadRequest, HoldgateError, InvalidInput, MethodNotAllowed, NotFound
from gateway.exchange.ports import error_headers
from gateway.jobs.model import Job
from gateway.jobs.reader import read_patch
from gateway.jobs.service import Jobs
from gateway.jobs.view import counted, shown_job, shown_run
from gateway.wire.http_server.request_body import ClientLeft, read_body
from gateway.wire.http_server.response import Receive, Send

Members = dict[str, Any]
Act = Callable[[WebRequest], Awaitable[Members]]

PATHS = ("/api/cron", "/wunder/cron")
ADMIN_PATHS = ("/api/admin/cron", "/wunder/admin/cron")
RUNS, MOST_RUNS = 20, 1000
READS = ("GET", "HEAD")

_members = msgspec.json.Decoder(Members)


@dataclass(frozen=True, slots=True)
class CronArea:
    """The routes about jobs; each owner sees only their own, an admin under `admin` all."""

    jobs: Jobs
    keys: Keys
    limits: BodyLimits

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        reads: dict[str, Act] = {
            "list": self.listing,
            "get": self.get,
            "runs": self.runs,
            "status": self.status,
        }
        writes: dict[str, Act] = {
            "add": self.add,
            "update": self.update,
            "remove": self.remove,
            "enable": self.enable,
            "disable": self.disable,
            "run": self.run,
        }
        own = [_routes(path, reads, writes) for path in PATHS]
        all_reads: dict[str, Act] = {"list": self.list_all}
        all_writes: dict[str, Act] = {"update": self.update_any}
        admin = [_routes(path, all_reads, all_writes) for path in ADMIN_PATHS]
        return [route for routes in (*own, *admin) for route in routes]

    async def listing(self, request: WebRequest) -> Members:
        """List the owner's jobs, all or of a session or an agent."""
        return await self._listing(request, self._owner(request))

    async def get(self, request: WebRequest) -> Members:
        """Show a job."""
        job = await self.jobs.get(self._owner(request), _job_id(request))
        return {"job": shown_job(job)}

    async def runs(self, request: WebRequest) -> Members:
        """Show the runs of a job, the newest first."""
        owner, job_id = self._owner(request), _job_id(request)
        runs = await self.jobs.runs(owner, job_id, _limit(request))
        return {"job_id": job_id, "runs": [shown_run(run) for run in runs]}

    async def status(self, request: WebRequest) -> Members:
        """Show how the scheduler is, and how many jobs the owner has."""
        scheduler, jobs = await self.jobs.status(self._owner(request))
        return {"scheduler": scheduler, "jobs": counted(jobs)}

    async def add(self, request: WebRequest) -> Members:
        """Make a job."""
        owner = self._owner(request)
        job, deduped = await self.jobs.add(owner, await self._body(request))
        return {"job": shown_job(job), "deduped": deduped}

    async def update(self, request: WebRequest) -> Members:
        """Change what is named of a job."""
        owner = self._owner(request)
        return {"job": shown_job(await self.jobs.update(owner, await self._body(request)))}

    async def remove(self, request: WebRequest) -> Members:
        """Delete a job."""
        owner = self._owner(request)
        await self.jobs.remove(owner, await self._meant(request))
        return {"removed": True}

    async def enable(self, request: WebRequest) -> Members:
        """Let a job run again."""
        owner = self._owner(request)
        return {"job": shown_job(await self.jobs.enable(owner, await self._meant(request)))}

    async def disable(self, request: WebRequest) -> Members:
        """Let a job rest."""
        owner = self._owner(request)
        return {"job": shown_job(await self.jobs.disable(owner, await self._meant(request)))}

    async def run(self, request: WebRequest) -> Members:
        """Run a job now; the answer does not wait for it."""
        owner = self._owner(request)
        queued = await self.jobs.run(owner, await self._meant(request))
        said = {"queued": not queued.reason, "job": shown_job(queued.job)}
        return {**said, "reason": queued.reason} if queued.reason else said

    async def list_all(self, request: WebRequest) -> Members:
        """List the jobs of all owners, or of one."""
        self._admin(request)
        return await self._listing(request, request.query_params.get("user_id") or None)

    async def update_any(self, request: WebRequest) -> Members:
        """Change, enable, disable or remove whosoever's job."""
        self._admin(request)
        given = await self._body(request)
        action = given.pop("action", None)
        if action in (None, "update"):
            return {"job": shown_job(await self.jobs.update(None, given))}
        job_id = read_patch(given).job_id
        if action == "remove":
            await self.jobs.remove(None, job_id)
            return {"removed": True}
        changes: dict[object, Callable[[None, str], Awaitable[Job]]] = {
            "enable": self.jobs.enable,
            "disable": self.jobs.disable,
        }
        if not isinstance(action, str) or action not in changes:
            raise InvalidInput("action must be one of update, enable, disable, remove.")
        return {"job": shown_job(await changes[action](None, job_id))}

    async def _listing(self, request: WebRequest, owner: str | None) -> Members:
        session, agent = (request.query_params.get(n) or None for n in ("session_id", "agent_id"))
        jobs = await self.jobs.listing(owner, session, agent)
        return {"jobs": [shown_job(job) for job in jobs]}

    def _owner(self, request: WebRequest) -> str:
        return self.keys.owner(incoming_of(request.scope).headers).name

    def _admin(self, request: WebRequest) -> None:
        self.keys.admin(incoming_of(request.scope).headers)

    async def _meant(self, request: WebRequest) -> str:
        """Read which job is meant; what else is said of it must make sense."""
        return read_patch(await self._body(request)).job_id

    async def _body(self, request: WebRequest) -> Members:
        headers = incoming_of(request.scope).headers
        try:
            body = await read_body(headers, request.receive, self.limits.size)
        except ClientLeft:
            raise BadRequest("The body did not come whole.") from None
        return read_as(_members, body, self.limits.depth)


class _Endpoint:
    """One thing that can be done; whatever goes wrong is said in the form of this area."""

    def __init__(self, methods: tuple[str, ...], act: Act) -> None:
        self.methods = methods
        self._act = act

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = WebRequest(scope, receive)
        try:
            if request.method not in self.methods:
                says = f"{request.method[:40]} is not possible on {request.url.path[:200]}."
                raise MethodNotAllowed(says, self.methods[0])
            answer = _json({"data": await self._act(request)})
        except InvalidInput as invalid:
            answer = _refusal(BadRequest(str(invalid)))
        except HoldgateError as error:
            answer = _refusal(error)
        await answer(scope, receive, send)


class _Nothing:
    """All that there is not."""

    methods: tuple[str, ...] = ()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Say so."""
        answer = _refusal(NotFound(f"There is nothing at {scope['path'][:200]}."))
        await answer(scope, receive, send)


def _routes(path: str, reads: dict[str, Act], writes: dict[str, Act]) -> list[Route]:
    return [
        *(Route(f"{path}/{name}", _Endpoint(READS, act)) for name, act in reads.items()),
        *(Route(f"{path}/{name}", _Endpoint(("POST",), act)) for name, act in writes.items()),
        Route(f"{path}/{{rest:path}}", _Nothing()),
    ]


def _job_id(request: WebRequest) -> str:
    job_id = request.query_params.get("job_id", "").strip()
    if not job_id:
        raise InvalidInput("job_id is missing; name one of the jobs that list shows.")
    return job_id


def _limit(request: WebRequest) -> int:
    text = request.query_params.get("limit", "")
    if not text:
        return RUNS
    if not (text.isascii() and text.isdigit() and int(text[:9]) > 0):
        raise InvalidInput("limit must be a positive number.")
    return min(int(text[:9]), MOST_RUNS)


def _refusal(error: HoldgateError) -> Response:
    said = {"ok": False, "error": {"code": error.code, "message": error.message}}
    headers = {name.decode(): value.decode() for name, value in error_headers(error)}
    return Response(msgspec.json.encode(said), error.status, headers)


def _json(members: Members) -> Response:
    return Response(msgspec.json.encode(members), media_type="application/json")
