"""Stores of rows of every kind, opened the way the gateway opens them, and jobs to keep there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import Every, next_due
from gateway.stores import Documents, Rows, open_documents, open_rows
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.job_rows import Claimed, JobRows, RunNews, TellEnd
from gateway.stores.sqlite.documents import open_sqlite
from tests.postgres.rows import OpenedRows, PostgresRowBackend

from .shapes import SHAPES

NAMES = ("memory", "embedded", "sqlite", "shared")
DURABLE = NAMES[1:]
SHARED = ("postgres", "pooled")
ALL = (*NAMES, *SHARED)
STEP = 1000
NOON = 1_770_000_000_000


class RowBackend:
    """Where rows are, how they are opened again, what was reported, and what time it is."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.root = directory / "sessions"
        self.path = directory / "kept.sqlite3"
        if name == "embedded":
            self.path = self.root / "holdgate.sqlite3"
        self.url = {"memory": "memory:", "embedded": ""}.get(name, f"sqlite://{self.path}")
        self.now_ms = NOON
        self.lease_ms = 0
        self.quarantined: list[tuple[str, str]] = []

    async def documents(self) -> Documents:
        """Open the documents beside the rows."""
        if self.name == "shared":
            # What no gateway does: the rows themselves are ready for several processes.
            return await open_sqlite(self.path, self._now, self._report, shared=True)
        return await open_documents(
            self.url, self.root, SHAPES, now_ms=self._now, on_quarantine=self._report
        )

    async def rows(self, documents: Documents) -> Rows:
        """Open the rows beside documents."""
        return await open_rows(
            self.url,
            self.root,
            documents,
            now_ms=self._now,
            lease_ms=lambda: self.lease_ms,
            on_quarantine=self._report,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Rows]:
        """Open documents and rows, and close them in the end."""
        documents = await self.documents()
        try:
            rows = await self.rows(documents)
            try:
                with anyio.fail_after(30):
                    yield rows
            finally:
                await rows.aclose()
        finally:
            await documents.aclose()

    def _now(self) -> int:
        return self.now_ms

    def _report(self, name: str, reason: str) -> None:
        self.quarantined.append((name, reason))


AnyBackend = RowBackend | PostgresRowBackend


def find_backend(name: str, directory: Path) -> AnyBackend:
    """Return where rows of a kind are."""
    return PostgresRowBackend(name) if name in SHARED else RowBackend(name, directory)


async def abandon(rows: Rows) -> None:
    """Take it that the process that has these rows is gone."""
    if isinstance(rows, OpenedRows):
        await rows.bury()


def job(job_id: str = "j", owner: str = "ann", **fields: object) -> Job:
    """Make a job that is due every second."""
    made = Job(
        job_id=job_id,
        user_id=owner,
        session_id="s",
        name=job_id,
        schedule=Every(every_ms=STEP, anchor_ms=0),
        message="Go on.",
        due_ms=STEP,
        next_run_ms=STEP,
    )
    return replace(made, **fields)


def run(of: Job, due_ms: int, **fields: object) -> Run:
    """Make a run of a job that is under way."""
    run_id = f"{of.job_id}-{due_ms}"
    made = Run(run_id=run_id, job_id=of.job_id, user_id=of.user_id, due_ms=due_ms)
    return replace(made, **fields)


def due(of: Job) -> Claimed:
    """Claim the time at which a job is due, and no other."""
    assert of.due_ms is not None
    after = next_due(of.schedule, of.due_ms)
    under_way = run(of, of.due_ms)
    claimed = replace(of, due_ms=after, next_run_ms=after, run_id=under_way.run_id)
    return Claimed(claimed, (under_way,))


def manually(now_ms: int) -> Callable[[Job], Claimed]:
    """Claim a job for somebody who asks for it now."""

    def claim(of: Job) -> Claimed:
        under_way = run(of, now_ms, run_id=f"{of.job_id}-now-{now_ms}", trigger="manual")
        return Claimed(replace(of, run_id=under_way.run_id), (under_way,))

    return claim


def ended(under_way: Run, **fields: object) -> Run:
    """End a run well, unless said otherwise."""
    return replace(under_way, **{"status": "ok", "result": "Done.", **fields})


def idle(of: Job) -> Job:
    """Take it that a job no longer runs."""
    return replace(of, run_id="")


def cut(of: Job, under_way: Run) -> tuple[Job, Run]:
    """Take it that a run was cut off."""
    return idle(of), replace(under_way, status="interrupted")


def tells(*items: OutboxItem | None, events: tuple[SessionEvent, ...] = ()) -> TellEnd:
    """Tell of the end of a run with these items and events."""
    news = RunNews(tuple(item for item in items if item is not None), events)
    return lambda before, after, run: news


async def claim_one(
    jobs: JobRows,
    now_ms: int,
    holder: str,
    until_ms: int,
    claim: Callable[[Job], Claimed | None],
) -> Claimed | None:
    """Claim the job that is due first; None if there is none."""
    return next(iter(await jobs.claim(now_ms, holder, until_ms, claim)), None)


def same(of: Job) -> Job:
    """Leave a job as it is."""
    return of
