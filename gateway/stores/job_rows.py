"""The protocol of a store of jobs and their runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from gateway.jobs.model import Job, Run, Status
from gateway.stores.delivery_rows import OutboxItem, SessionEvent

R = TypeVar("R")


class Claimed(msgspec.Struct, frozen=True):
    """The claim of a due job: the changed job, and the new run rows.

    If there is a row whose status is `running`, the claimer executes it.
    """

    job: Job
    runs: tuple[Run, ...]
    items: tuple[OutboxItem, ...] = ()
    """Items for the session's queue."""
    events: tuple[SessionEvent, ...] = ()


class RunNews(msgspec.Struct, frozen=True):
    """What a session gets when a run ends: items for its queue, and events."""

    items: tuple[OutboxItem, ...] = ()
    events: tuple[SessionEvent, ...] = ()


NO_NEWS = RunNews()
TellEnd = Callable[[Job, Job | None, Run], RunNews]
"""Makes the news of a run's end from its job before, the job after (None: deleted), and the run."""


def tell_nothing(before: Job, after: Job | None, run: Run) -> RunNews:
    """Return that there are no news."""
    return NO_NEWS


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are asked for, the newest first; None: any."""

    owner: str | None = None
    job_id: str | None = None
    before: int | None = None
    """Only those with a lower number."""
    limit: int


class JobRows(Protocol):
    """Jobs and their runs.

    Items and events about a run are stored in the transaction that changes it, so none is missing
    or too much after a crash. In a store that instances share, a run is held by the instance that
    claimed it until that is buried; `holder` and `until_ms` only count in a store of one process.
    """

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Add a job; if its owner has one with its `dedupe_key`, change that one by `again`.

        Return the stored job, and whether it existed. Raise `Conflict` if the `job_id` exists,
        `TooMany` if its owner already has `most` jobs.
        """

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """Return a job; with an owner, only if it is theirs."""

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first: an owner's or everybody's, of a session or an agent."""

    async def change(
        self, job_id: str, owner: str | None, change: Callable[[Job], tuple[Job | None, R]]
    ) -> R | None:
        """Change a job by a function; if that returns None, delete the job with its runs.

        Return the function's answer; None if there is no such job. Raise `Conflict` if another
        job has the new `dedupe_key`.
        """

    async def next_run_ms(self) -> int | None:
        """Return the earliest `next_run_ms` of all jobs that are not running."""

    async def claim(
        self,
        now_ms: int,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed | None],
        most: int = 1,
    ) -> list[Claimed]:
        """Claim jobs whose `next_run_ms` has come and that are not running, the earliest first.

        What the function returns is stored in one transaction, the running row with a lease of the
        holder until `until_ms`. Jobs for which it returns None are left out.
        A (job, due time) with a row does not get another one: the function is then called again
        with a later `due_ms`.
        """

    async def claim_now(
        self,
        job_id: str,
        owner: str | None,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed],
    ) -> Claimed | None:
        """Claim one job, due or not; None if there is no such job, or it is running."""

    async def extend(self, run_id: str, holder: str, until_ms: int) -> bool:
        """Extend the lease of a run; return False if the holder has lost it."""

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        keep_runs: int,
        tell: TellEnd = tell_nothing,
    ) -> Job | None:
        """Record the end of a run, the change of its job, and the news of it.

        All in one transaction, and only while the run's row is still `running`. Return the stored
        job; None if it was deleted (or the run was ended as interrupted meanwhile). A removed job
        gets no rows and delivers nothing. Rows beyond `keep_runs` are deleted, the oldest first,
        never one that is running or owed.
        """

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and change its job; None if the row does not exist."""

    async def end_lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        tell: TellEnd = tell_nothing,
    ) -> list[Run]:
        """End each running run whose lease ended before a time, as the function says.

        If it returns None, the run is left as it is. A process that has the store for itself calls
        this at its start with `LATEST`, since the former process is gone. In a store that instances
        share, the runs of instances whose lease ended are ended, and these are buried with it.
        """

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""

    async def list_runs(self, query: RunQuery) -> list[tuple[int, Run]]:
        """Return runs with their numbers, the newest first; a later run has a higher number."""

    async def get_run(self, run_id: str, owner: str | None = None) -> Run | None:
        """Return a run; with an owner, only if it is theirs."""

    async def last_statuses(
        self, job_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[Status, ...]]:
        """Return the statuses of the newest runs of each job, the oldest of them first."""

    async def list_owed(self) -> list[tuple[Job, Run]]:
        """Return successful runs whose result was not returned to the job's session yet.

        The oldest first; also runs of jobs that were deleted after that run.
        """

    async def take_owed(self) -> list[tuple[Job, Run]]:
        """Return the oldest result that is owed to each session, for this process to return.

        In a store that instances share, no other instance gets them while this one lives.
        """

    async def settle_owed(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Mark a run's result as returned to its session; return False if it was not owed.

        An item is added to the session's queue in the same transaction.
        """

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; return how many."""
