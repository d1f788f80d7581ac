"""Runs in relay sessions, whose conversations are kept by their clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from gateway.agents.locks import Lease
from gateway.dialects import DIALECTS
from gateway.dialects.protocol import Dialect
from gateway.errors import Headers, NotFound
from gateway.exchange.additions import Addition, UserText
from gateway.exchange.model import ModelRequest, RequestSource
from gateway.exchange.prepare import ExchangeInput, ExchangePreparer
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.collecting_client import CollectingClient
from gateway.jobs.model import Job, Run
from gateway.jobs.relay_sessions import Snapshots
from gateway.jobs.run_services import RunOutcome
from gateway.reminders.tool_scope import ServerTool
from gateway.routing import PublicModel
from gateway.stores.conversation_rows import Snapshot

Tools = Callable[[Job], tuple[ServerTool, ...]]

CHAT = DIALECTS["openai-chat"]
JSON_DEPTH = 128
NO_MODEL = "No model is listed in the configuration; set model in the job."


class RelayRuns:
    """Sends requests like the next request of the session's client, and collects the answers.

    `tools` returns the tools that a run has beside the clock.
    """

    def __init__(
        self,
        exchanges: LiveExchanges,
        preparer: ExchangePreparer,
        snapshots: Snapshots,
        tools: Tools,
        json_depth: int = JSON_DEPTH,
    ) -> None:
        self._exchanges = exchanges
        self._preparer = preparer
        self._snapshots = snapshots
        self._tools = tools
        self._json_depth = json_depth

    async def lock_session(self, job: Job) -> Lease | str | None:
        """Return None: a relay session needs no lock and is never busy."""
        return None

    async def execute(self, job: Job, run: Run, lease: Lease | None) -> RunOutcome:
        """Send the job's message, and return the outcome."""
        client = CollectingClient()
        snapshot = await self._snapshots.find(job.user_id, job.session_id)
        model = self._model(job, snapshot)
        size = len(snapshot.body) if snapshot is not None else 0
        work = partial(_speech, job, snapshot, model.name, self._json_depth)
        speech = await self._exchanges.services.offload.run(job.user_id, size, work)
        given = ExchangeInput(
            id=run.run_id,
            exchange_id=run.run_id,
            owner=job.user_id,
            session=job.session_id,
            asked=speech.asked,
            dialect=speech.dialect,
            headers=speech.headers,
            tools=self._tools(job),
            acts=False,
            takes_over=False,
            may_hold=False,
            collects=False,
            source=RequestSource(job_id=job.job_id, run_id=run.run_id),
        )
        request = await self._preparer.prepare(given, lambda view: client)
        await self._exchanges.run(request, client)
        return client.sum_up()

    def _model(self, job: Job, snapshot: Snapshot | None) -> PublicModel:
        models = self._preparer.models.of(job.user_id)
        name = job.model or (snapshot.model if snapshot is not None else "")
        if name:
            return models.find(name)
        if not models.listed:
            raise NotFound(NO_MODEL)
        return models.listed[0]


@dataclass(frozen=True, slots=True)
class _Speech:
    """The request to the model: its dialect, the body, and headers."""

    dialect: Dialect
    asked: ModelRequest
    headers: Headers = ()


def _speech(job: Job, snapshot: Snapshot | None, model: str, depth: int) -> _Speech:
    """Continue the session's last request, or make a request of the message alone."""
    if snapshot is None or job.session_mode != "main":
        messages = [{"role": "user", "content": job.message}]
        body = msgspec.json.encode({"model": model, "messages": messages, "stream": True})
        return _Speech(CHAT, CHAT.read(body, depth))
    dialect = DIALECTS[snapshot.dialect]
    said: tuple[Addition, ...] = (
        (dialect.make_assistant_turn(snapshot.answer),) if snapshot.answer else ()
    )
    body = dialect.add(dialect.strip_tools(snapshot.body), (*said, UserText(job.message)))
    headers = tuple((name.encode(), value.encode("latin-1")) for name, value in snapshot.headers)
    asked = dialect.read(dialect.rewrite(body, model, True), depth)
    return _Speech(dialect, asked, headers)
