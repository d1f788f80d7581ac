"""Jobs and runs of a database; a row that cannot be read hurts nobody but itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from gateway.jobs.model import Job, Run
from gateway.stores.documents import StoreUnavailable
from gateway.stores.rows import Claimed, Notice, OutboxItem, no_notice
from gateway.stores.sqlite import job_table, run_table
from gateway.stores.sqlite.engine import Engine
from gateway.stores.sqlite.row_forms import Spoiled, set_aside
from gateway.stores.sqlite.run_table import RunLease

R = TypeVar("R")

# So many at once are not some bad rows, but a database that is beyond help.
MOST_SPOILED = 1000

Query = Callable[[sqlite3.Connection], R]
Reported = Callable[[str, str], None]


class SqliteJobs:
    """The `JobRows` of a database."""

    def __init__(self, engine: Engine, now_ms: Callable[[], int], on_quarantine: Reported) -> None:
        self._engine = engine
        self._now_ms = now_ms
        self._on_quarantine = on_quarantine

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Keep a new job, or what becomes of its owner's job of the same `dedupe_key`."""
        return await self._whole(self._engine.change, partial(job_table.add, job, again, most))

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """Return a job; with an owner, only if it is theirs."""
        return await self._whole(self._engine.ask, partial(job_table.find, job_id, owner))

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first."""
        query = partial(job_table.listing, owner, session, agent)
        return await self._whole(self._engine.ask, query)

    async def change(
        self, job_id: str, owner: str | None, change: Callable[[Job], tuple[Job | None, R]]
    ) -> R | None:
        """Replace a job by what a function makes of it, or delete it with its runs."""

        def query(connection: sqlite3.Connection) -> R | None:
            return job_table.change(job_id, owner, change, connection)

        return await self._whole(self._engine.mend, query)

    async def next_run_ms(self) -> int | None:
        """Return when the earliest job is to be looked at."""
        return await self._engine.ask(job_table.next_run_ms)

    async def claim(
        self, now_ms: int, holder: str, until_ms: int, claim: Callable[[Job], Claimed | None]
    ) -> Claimed | None:
        """Claim the earliest job that is due and not running."""
        query = partial(run_table.claim, now_ms, RunLease(holder, until_ms), claim)
        return await self._whole(self._engine.mend, query)

    async def claim_now(
        self,
        job_id: str,
        owner: str | None,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed],
    ) -> Claimed | None:
        """Claim one job, due or not, unless it is running."""
        query = partial(run_table.claim_now, (job_id, owner), RunLease(holder, until_ms), claim)
        return await self._whole(self._engine.mend, query)

    async def extend(self, run_id: str, holder: str, until_ms: int) -> bool:
        """Lengthen the lease of a run that is the holder's."""
        return await self._engine.mend(
            partial(run_table.extend, run_id, RunLease(holder, until_ms))
        )

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        item: OutboxItem | None,
        keep_runs: int,
        notice: Notice = no_notice,
    ) -> Job | None:
        """Record how a run ended, what that makes of its job, and what is delivered."""
        query = partial(run_table.finish, run, change, item, keep_runs, notice)
        return await self._whole(self._engine.mend, query)

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and keep what that makes of its job."""
        return await self._whole(self._engine.mend, partial(run_table.give_back, run_id, change))

    async def lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        notice: Notice = no_notice,
    ) -> list[Run]:
        """Record what became of each running run whose lease ended before a time."""
        query = partial(run_table.lapsed, before_ms, change, notice)
        return await self._whole(self._engine.mend, query)

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""
        return await self._whole(self._engine.ask, partial(run_table.listing, job_id, limit))

    async def owed(self) -> list[tuple[Job, Run]]:
        """Return runs whose result is not yet in the session it came from, the oldest first."""
        return await self._whole(self._engine.ask, run_table.owed)

    async def paid(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Take it that a run's result is in the session it came from, or put it into its queue."""
        return await self._whole(self._engine.mend, partial(run_table.paid, run_id, item))

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; say how many."""
        return await self._engine.mend(partial(job_table.forget, owner, session))

    async def _whole(self, do: Callable[[Query[R]], Awaitable[R]], query: Query[R]) -> R:
        # Each round takes one bad row out of the way.
        for _ in range(MOST_SPOILED):
            try:
                return await do(query)
            except Spoiled as spoiled:
                await self._set_aside(spoiled)
        raise StoreUnavailable("Too many of the rows that are kept cannot be read.")

    async def _set_aside(self, spoiled: Spoiled) -> None:
        if await self._engine.mend(partial(set_aside, spoiled, self._now_ms())):
            self._on_quarantine(f"{spoiled.table}/{spoiled.row_id}", spoiled.reason)
