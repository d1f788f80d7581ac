"""The topics `summary` and `health`: what is going on, what needs a look, what comes next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import Literal

import msgspec

from gateway.console.feed import Viewer
from gateway.console.live_board import LiveBoard
from gateway.console.topics import ALL
from gateway.exchange.machine import State
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.model import Job
from gateway.jobs.view import SchedulerStatus
from gateway.reminders.reminder_documents import KIND as REMINDERS
from gateway.reminders.service import ReminderService
from gateway.reminders.view import NtpView
from gateway.stores.documents import StoreUnavailable
from gateway.stores.job_rows import JobRows

MOST_COMING = 10
MOST_NEEDS = 50
# Of so many sessions the next reminders are looked up.
MOST_SESSIONS = 100
AHEAD_MS = 24 * 3600 * 1000
# Counts are made at each look, the rest once in a few seconds.
KEPT_SECONDS = 2.0

NeedKind = Literal[
    "job_failing",
    "job_disabled",
    "upstream_cooling",
    "missed",
    "store",
    "ntp",
    "draining",
    "scheduler_off",
]


class Need(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a person should look at."""

    kind: NeedKind
    id: str
    name: str
    count: int | None = None
    until: int | None = None
    at: int | None = None


class ComingEvent(msgspec.Struct, frozen=True):
    """Something that happens soon, in UTC milliseconds."""

    kind: Literal["reminder", "job", "hold"]
    at: int
    name: str
    session: str
    id: str
    owner: str


class SummaryView(msgspec.Struct, frozen=True):
    """What is going on; `ended` counts the last hour."""

    live: Mapping[str, int]
    ended: Mapping[str, int]
    needs: list[Need]
    coming: list[ComingEvent]


@dataclass(frozen=True, slots=True)
class OverviewSources:
    """Who knows what the overview shows."""

    board: LiveBoard
    exchanges: LiveExchanges
    jobs: JobRows
    reminders: ReminderService
    scheduler: Callable[[], SchedulerStatus]
    trouble: Callable[[], Awaitable[str]]
    ntp: Callable[[], NtpView]
    now_ms: Callable[[], int]


class Overview:
    """Reads the summary for one viewer."""

    def __init__(self, sources: OverviewSources, viewer: Viewer) -> None:
        self._sources = sources
        self._viewer = viewer
        self._jobs: list[Job] = []
        self._reminders: list[ComingEvent] = []
        self._trouble = ""
        self._read_at = float("-inf")

    async def read(self) -> Mapping[str, object]:
        """Return the one row of the summary."""
        sources, scope = self._sources, self._viewer.scope
        now = sources.exchanges.services.now()
        if now - self._read_at >= KEPT_SECONDS:
            await self._read_stores()
            self._read_at = now
        coming = (*self._reminders, *self._list_jobs(), *self._list_holds())
        summary = SummaryView(
            sources.board.count_live(scope),
            sources.board.count_ended(scope),
            list(self._list_needs())[:MOST_NEEDS],
            nsmallest(MOST_COMING, coming, key=lambda one: one.at),
        )
        return {ALL: summary}

    async def _read_stores(self) -> None:
        sources = self._sources
        try:
            self._jobs = await sources.jobs.listing(self._viewer.scope, None, None)
            self._reminders = await self._list_reminders()
            self._trouble = await sources.trouble()
        except StoreUnavailable as error:
            self._trouble = error.message

    async def _list_reminders(self) -> list[ComingEvent]:
        sources, viewer = self._sources, self._viewer
        reminders, now_ms = sources.reminders, sources.now_ms()
        keys = await reminders.store.due(REMINDERS, now_ms + AHEAD_MS, MOST_SESSIONS)
        found: list[ComingEvent] = []
        for key in keys:
            if viewer.admin or key.owner == viewer.name:
                # The texts of others stay theirs.
                own = key.owner == viewer.name
                found += [
                    ComingEvent(
                        "reminder",
                        one.due_ms,
                        one.text if own else "",
                        key.session,
                        one.id,
                        key.owner,
                    )
                    for one in await reminders.list_undelivered(key.owner, key.session)
                    if one.due_ms >= now_ms
                ]
        return nsmallest(MOST_COMING, found, key=lambda one: one.at)

    def _list_jobs(self) -> Iterable[ComingEvent]:
        for job in self._jobs:
            if job.enabled and job.next_run_ms is not None:
                yield ComingEvent(
                    "job", job.next_run_ms, job.name, job.session_id, job.job_id, job.user_id
                )

    def _list_holds(self) -> Iterable[ComingEvent]:
        board = self._sources.board
        for runner, trail in board.iterate_live(self._viewer.scope):
            if runner.exchange.state is State.HOLDING:
                row = board.sum_up(runner, trail).show_row()
                if row.until is not None:
                    session = row.session or ""
                    yield ComingEvent("hold", row.until, session, session, row.id, row.owner)

    def _list_needs(self) -> Iterable[Need]:
        sources = self._sources
        if sources.exchanges.draining:
            yield Need("draining", "", "")
        if self._trouble:
            yield Need("store", "", self._trouble)
        if sources.scheduler().state == "off":
            yield Need("scheduler_off", "", "")
        if sources.ntp().status in ("error", "stale"):
            yield Need("ntp", "", sources.ntp().last_error)
        for name, until in _find_cooling(sources.exchanges, sources.now_ms()):
            yield Need("upstream_cooling", name, name, until=until)
        for job in self._jobs:
            yield from _judge_job(job)


def _judge_job(job: Job) -> Iterable[Need]:
    """Say what is wrong with a job."""
    count, last = job.consecutive_failures, job.last_run_ms
    if not job.enabled and job.disabled_reason is not None and count:
        yield Need("job_disabled", job.job_id, job.name, count=count, at=last)
    elif job.enabled and count:
        yield Need("job_failing", job.job_id, job.name, count=count, until=job.next_run_ms, at=last)
    elif job.last_status == "missed":
        # A row that an earlier version wrote has no number.
        yield Need("missed", job.job_id, job.name, count=job.last_missed or None, at=last)


def _find_cooling(exchanges: LiveExchanges, now_ms: int) -> Iterable[tuple[str, int]]:
    """Return the upstreams that are asked last for a while, and until when."""
    services = exchanges.services
    for name in services.upstreams:
        if cooling := services.health.cooling(name, services.now()):
            # To whole seconds: else it would change with each look.
            yield name, round(now_ms / 1000 + cooling) * 1000
