"""Runs in relay sessions, whose conversations their clients keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from gateway.agents.locks import Lease
from gateway.agents.requests import ALONE, SHY, AgentServices
from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Dialect
from gateway.errors import Headers, NoRoute, NotFound
from gateway.exchange.additions import Addition, UserText
from gateway.exchange.model import Asked, Route
from gateway.exchange.ports import Request
from gateway.jobs.collecting_client import CollectingClient
from gateway.jobs.model import Job, Run
from gateway.jobs.run_services import Ended
from gateway.jobs.snapshots import Snapshots
from gateway.reminders.timepiece import Timepiece
from gateway.reminders.tool_scope import ServerTool, ToolScope
from gateway.routing import PublicModel
from gateway.sessions.directives.routing import NOTHING, candidates, no_route
from gateway.sessions.session_request import KIND
from gateway.stores.documents import DocumentKey
from gateway.stores.rows import Snapshot

Tools = Callable[[Job], tuple[ServerTool, ...]]

CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128
NO_MODEL = "No model is configured that could answer; name one in the job."


class RelayRuns:
    """Asks what a client of the session might ask next, and hears the answer for it.

    `tools` gives those that a run has beside the clock.
    """

    def __init__(
        self, means: AgentServices, snapshots: Snapshots, tools: Tools, json_depth: int = JSON_DEPTH
    ) -> None:
        self._means = means
        self._snapshots = snapshots
        self._tools = tools
        self._json_depth = json_depth

    async def lease(self, job: Job) -> Lease | str | None:
        """Take nothing: a relay session is never busy."""
        return None

    async def done(self, job: Job, run: Run, lease: Lease | None) -> Ended:
        """Send the job's message, and hear what is answered."""
        hearing = CollectingClient()
        await self._means.driver.run(await self._request(job, run, hearing), hearing)
        return hearing.ended()

    async def _request(self, job: Job, run: Run, hearing: CollectingClient) -> Request:
        snapshot = await self._snapshots.find(job.user_id, job.session_id)
        model = self._model(job, snapshot)
        size = len(snapshot.body) if snapshot is not None else 0
        work = partial(_speech, job, snapshot, model.name, self._json_depth)
        speech = await self._means.driver.services.offload.run(job.user_id, size, work)
        asked = speech.asked
        routes = await self._routes(job, model)
        errand = ToolScope(
            owner=job.user_id,
            session=job.session_id,
            chain=run.run_id,
            asked=asked,
            dialect=speech.dialect,
            may_hold=False,
            extras=self._tools(job),
            collects=False,
        )
        return Request(
            id=run.run_id,
            owner=job.user_id,
            asked=asked,
            dialect=speech.dialect,
            routes=routes,
            headers=speech.headers,
            session=ALONE,
            time=self._time(errand, model, routes[0]),
            witness=hearing,
            session_id=job.session_id,
        )

    def _model(self, job: Job, snapshot: Snapshot | None) -> PublicModel:
        models = self._means.models
        name = job.model or (snapshot.model if snapshot is not None else "")
        if name:
            return models.find(name)
        if not models.listed:
            raise NotFound(NO_MODEL)
        return models.listed[0]

    async def _routes(self, job: Job, model: PublicModel) -> tuple[Route, ...]:
        """Return whom to ask: where the model leads, as far as the session's directives go."""
        state = await self._means.sessions.states.read(
            DocumentKey(KIND, job.user_id, job.session_id)
        )
        if state.routing == NOTHING:
            return model.routes
        routes = tuple(
            route
            for route in candidates(model.routes, state.routing, None)
            if route in model.routes or self._means.models.offers(route)
        )
        if not routes:
            raise NoRoute(no_route(model.name, state.routing))
        return routes

    def _time(self, errand: ToolScope, model: PublicModel, route: Route) -> Timepiece | None:
        """Give the exchange its clock and tools, if it is to have any."""
        means = self._means
        clock = means.clock and model.clock
        if not (clock or errand.extras):
            return None
        shy = means.driver.services.translators.find_dialect(route.upstream) in SHY
        errand = msgspec.structs.replace(errand, clock=clock, tags_results=not shy)
        return means.timepieces.give(errand)


@dataclass(frozen=True, slots=True)
class _Speech:
    """What is said to the model: in which language, and how."""

    dialect: Dialect
    asked: Asked
    headers: Headers = ()


def _speech(job: Job, snapshot: Snapshot | None, model: str, depth: int) -> _Speech:
    """Go on from the session's last request, or begin with the message alone."""
    if snapshot is None or job.session != "main":
        messages = [{"role": "user", "content": job.message}]
        body = msgspec.json.encode({"model": model, "messages": messages, "stream": True})
        return _Speech(CHAT, CHAT.read(body, depth))
    dialect = DIALECTS[snapshot.dialect]
    said: tuple[Addition, ...] = (dialect.said(snapshot.answer),) if snapshot.answer else ()
    body = dialect.add(dialect.bare(snapshot.body), (*said, UserText(job.message)))
    headers = tuple((name.encode(), value.encode("latin-1")) for name, value in snapshot.headers)
    asked = dialect.read(dialect.rewrite(body, model, True), depth)
    return _Speech(dialect, asked, headers)
