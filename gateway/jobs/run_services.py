"""What runs of jobs are given, and what they come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.agents.locks import Lease
from gateway.clock.protocol import Clock
from gateway.jobs.model import Job, JobRules, Run, Status
from gateway.jobs.relay_sessions import JobIndex
from gateway.outbox.feed import Feed
from gateway.outbox.queue import OutboxQueue
from gateway.stores.rows import JobRows

Note = Callable[..., None]


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

    async def lock_session(self, job: Job) -> Lease | str | None:
        """Take what a run must have for itself; a text: somebody else has it, and what for."""

    async def execute(self, job: Job, run: Run, lease: Lease | None) -> RunOutcome:
        """Execute a run; raises a `HoldgateError` if it cannot even begin."""
