"""What runs of jobs are given, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from gateway.agents.locks import Lease
from gateway.clock.protocol import Clock
from gateway.errors import HoldgateError
from gateway.jobs.index import JobIndex
from gateway.jobs.model import Job, Run, Status
from gateway.jobs.notices import failure_notice, missed_notice
from gateway.jobs.rules import JobRules
from gateway.outbox.feed import Feed
from gateway.outbox.queue import OutboxQueue
from gateway.stores.rows import JobRows, OutboxItem

Note = Callable[..., None]


class JobConflict(HoldgateError):
    """There is one already, and only one can be."""

    status, code, kind = 409, "conflict", "invalid_request_error"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the operator says about runs."""

    max_concurrent_runs: int = 1
    idle_retry_ms: int = 2000
    max_busy_wait_ms: int = 120_000
    run_timeout_ms: int = 300_000
    lease_ttl_ms: int = 300_000
    keep_runs: int = 100
    tick_ms: int = 60_000
    """How long a clock that was stepped ahead has to stay there before times count as missed."""
    store_retry_ms: int = 5000
    """How long to wait for a store that is down."""


@dataclass(slots=True)
class SchedulerServices:
    """What all runs have to do with."""

    rows: JobRows
    clock: Clock
    rules: JobRules
    settings: RunSettings
    job_index: JobIndex
    deliveries: OutboxQueue
    feed: Feed
    note: Note


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: what it said, or what went wrong."""

    status: Status
    text: str = ""
    error: str | None = None


class RunExecutor(Protocol):
    """How the runs of one kind of session are done."""

    async def lease(self, job: Job) -> Lease | str | None:
        """Take what a run must have for itself; a text: somebody else has it, and what for."""

    async def done(self, job: Job, run: Run, lease: Lease | None) -> RunOutcome:
        """Do a run; raises a `HoldgateError` if it cannot even begin."""


def item_of(job: Job, run: Run) -> OutboxItem:
    """Make of what a run said something that waits for its session."""
    return OutboxItem(
        id=run.run_id,
        owner=job.user_id,
        session=job.session_id,
        at_ms=run.finished_ms or 0,
        text=run.result,
        job_id=job.job_id,
        run_id=run.run_id,
        name=job.name,
    )


def failure_item(before: Job, after: Job | None, run: Run) -> OutboxItem | None:
    """Tell the session of a job that is given up by the end of this run."""
    text = failure_notice(before, after, run)
    return None if text is None else replace(item_of(before, run), text=text, status="failed")


def missed_item(job: Job, run: Run) -> OutboxItem:
    """Tell the session of times that were missed; it is dated by the last of them."""
    text = missed_notice(run.missed, run.due_ms)
    item = replace(item_of(job, run), at_ms=run.due_ms, text=text)
    return replace(item, status="missed", missed=run.missed)
