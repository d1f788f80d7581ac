"""Services and settings of runs, and their outcome."""

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
from gateway.stores.instance import Instance
from gateway.stores.job_rows import JobRows

Note = Callable[..., None]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The operator's settings for runs."""

    max_concurrent_runs: int = 1
    idle_retry_ms: int = 2000
    max_busy_wait_ms: int = 120_000
    run_timeout_ms: int = 300_000
    lease_ttl_ms: int = 300_000
    keep_runs: int = 100
    tick_ms: int = 60_000
    """How long a clock that was stepped ahead must stay there before runs count as missed."""
    store_retry_ms: int = 5000
    """How long to wait for a store that is down."""


@dataclass(slots=True)
class SchedulerServices:
    """The services that the scheduler and all runs use."""

    rows: JobRows
    clock: Clock
    rules: JobRules
    settings: RunSettings
    job_index: JobIndex
    deliveries: OutboxQueue
    feed: Feed
    note: Note
    lease_ms: Callable[[], int]
    """The host's time, by which leases end."""
    instance: Instance


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: its text, or what went wrong."""

    status: Status
    text: str = ""
    error: str | None = None
    has_begun: bool = True
    """False if something refused it before a model was asked."""
    begins_ms: int | None = None
    """When the budget that refused it begins again."""


class RunExecutor(Protocol):
    """Executes the runs of one kind of session."""

    async def lock_session(self, job: Job) -> Lease | str | None:
        """Lock the session for a run; None: no lock is needed, a text: what it is locked for."""

    async def execute(self, job: Job, run: Run, lease: Lease | None) -> RunOutcome:
        """Execute a run; raise a `HoldgateError` if it cannot start."""
