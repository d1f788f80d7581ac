"""Jobs and their runs on PostgreSQL; a row that cannot be read does not affect the others.

Each method is one transaction. If the connection breaks while it is committed, it is done again,
and then it first looks whether the first time was stored.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from gateway.jobs.model import Job, Run, Status
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.documents import StoreUnavailable
from gateway.stores.job_content import MOST_CORRUPT, CorruptRow, read_job
from gateway.stores.job_rows import Claimed, RunQuery, TellEnd, tell_nothing
from gateway.stores.postgres import job_claims, job_table, run_ends, run_lists
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.database import Work
from gateway.stores.postgres.job_claims import Claimer
from gateway.stores.postgres.news import NewsWriter
from gateway.stores.postgres.run_ends import RunEnd, WrittenEnd
from gateway.stores.postgres.services import SharedServices

R = TypeVar("R")

IS_HELD = "SELECT 1 FROM @runs WHERE run_id = $1 AND holder = $2 AND status = 'running'"
# How often an add is done again because somebody else adds a job with the same key.
MOST_ADDS = 16


class PostgresJobs:
    """The `JobRows` of a PostgreSQL."""

    def __init__(self, services: SharedServices, news: NewsWriter) -> None:
        self._services = services
        self._database = services.database
        self._news = news

    @property
    def _me(self) -> str:
        return self._services.instance.id

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Add a job, or change its owner's job with the same `dedupe_key`."""
        done: list[tuple[Job, bool]] = []

        async def work(connection: Connection) -> tuple[Job, bool] | None:
            if done and await self._find(job.job_id, job.user_id, connection) == job:
                return done[0]
            added = await job_table.add(job, again, most, connection)
            done[:] = [added] if added is not None else []
            return added

        for _ in range(MOST_ADDS):
            added = await self._change(work)
            if added is not None:
                return added
        raise StoreUnavailable("Too many add a job with this dedupe_key at once; try again.")

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """Return a job; with an owner, only if it is theirs."""
        return await self._ask(partial(self._find, job_id, owner))

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first."""
        statement, values = job_table.find_listing(owner, session, agent)

        async def work(connection: Connection) -> list[Job]:
            return [read_job(*row) for row in await connection.ask(statement, *values)]

        return await self._ask(work)

    async def change(
        self, job_id: str, owner: str | None, change: Callable[[Job], tuple[Job | None, R]]
    ) -> R | None:
        """Change a job by a function, or delete it with its runs."""
        done: list[tuple[Job | None, R]] = []

        def apply(job: Job) -> tuple[Job | None, R]:
            done[:] = [change(job)]
            return done[0]

        async def work(connection: Connection) -> R | None:
            if done and await self._find(job_id, owner, connection) == done[0][0]:
                return done[0][1]
            return await job_table.change(job_id, owner, apply, connection)

        return await self._change(work)

    async def next_run_ms(self) -> int | None:
        """Return the earliest `next_run_ms` of all jobs that are not running."""
        rows = await self._database.ask(job_table.NEXT)
        return rows[0]["next_run_ms"] if rows else None

    async def claim(
        self,
        now_ms: int,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed | None],
        most: int = 1,
    ) -> list[Claimed]:
        """Claim jobs that are due and not running, the earliest first, for this instance."""
        done: list[Claimed] = []

        async def work(connection: Connection) -> list[Claimed]:
            if not await job_claims.were_stored(done, connection):
                claimer = Claimer(self._me, self._news)
                done[:] = await job_claims.claim_due(now_ms, most, claim, claimer, connection)
            return list(done)

        return await self._change(work)

    async def claim_now(
        self,
        job_id: str,
        owner: str | None,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed],
    ) -> Claimed | None:
        """Claim one job, due or not, unless it is running."""
        done: list[Claimed] = []

        async def work(connection: Connection) -> Claimed | None:
            if await job_claims.were_stored(done, connection):
                return done[0]
            claimer, whose = Claimer(self._me, self._news), (job_id, owner)
            claimed = await job_claims.claim_now(whose, claim, claimer, connection)
            done[:] = [claimed] if claimed is not None else []
            return claimed

        return await self._change(work)

    async def extend(self, run_id: str, holder: str, until_ms: int) -> bool:
        """Return whether this instance holds a run; its lease is the instance's."""
        return bool(await self._database.ask(IS_HELD, run_id, self._me))

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        keep_runs: int,
        tell: TellEnd = tell_nothing,
    ) -> Job | None:
        """Record the end of a run, the change of its job, and the news of it."""
        end, done = RunEnd(run, change, keep_runs, tell), list[WrittenEnd]()

        async def work(connection: Connection) -> WrittenEnd | str | None:
            if done and await run_ends.was_finished(done[0], connection):
                return done[0]
            ended = await run_ends.finish(end, self._me, self._news, connection)
            done[:] = [ended] if isinstance(ended, WrittenEnd) else []
            return ended

        ended = await self._change(work)
        if isinstance(ended, WrittenEnd):
            return ended.changed
        if ended is not None:
            self._note_late_write("run", run)
        return None

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and change its job."""
        done: list[Job] = []

        async def work(connection: Connection) -> Job | None:
            job = await run_ends.give_back(run_id, self._me, change, connection)
            if job is None and done and await self._find(done[0].job_id, None, connection):
                return done[0]
            done[:] = [job] if job is not None else []
            return job

        return await self._change(work)

    async def end_lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        tell: TellEnd = tell_nothing,
    ) -> list[Run]:
        """Bury instances whose lease lapsed, and end the runs of all that are buried."""
        may_bury = self._services.instance.may_bury
        work = partial(run_ends.end_abandoned, may_bury, change, tell, self._news)
        return await self._change(work)

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""
        return await self._ask(partial(run_lists.list_runs, job_id, limit))

    async def list_runs(self, query: RunQuery) -> list[tuple[int, Run]]:
        """Return runs with their numbers, the newest first."""
        return await self._ask(partial(run_lists.list_page, query))

    async def get_run(self, run_id: str, owner: str | None = None) -> Run | None:
        """Return a run; with an owner, only if it is theirs."""
        return await self._ask(partial(run_lists.find_run, run_id, owner))

    async def last_statuses(
        self, job_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[Status, ...]]:
        """Return the statuses of the newest runs of each job, the oldest of them first."""
        return await self._ask(partial(run_lists.list_statuses, tuple(job_ids), limit))

    async def list_owed(self) -> list[tuple[Job, Run]]:
        """Return runs whose result was not returned to its session yet, the oldest first."""
        return await self._ask(run_ends.list_owed)

    async def take_owed(self) -> list[tuple[Job, Run]]:
        """Take the oldest result that is owed to each session, unless another instance has it."""
        return await self._change(partial(run_ends.take_owed, self._me))

    async def settle_owed(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Mark a run's result as returned; an item is added to the session's queue."""
        is_done = False

        async def work(connection: Connection) -> bool:
            nonlocal is_done
            is_done = await run_ends.settle_owed(run_id, item, self._me, connection) or is_done
            return is_done

        return await self._change(work)

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; return how many."""
        return await self._database.change(partial(job_table.forget, owner, session))

    async def _find(self, job_id: str, owner: str | None, connection: Connection) -> Job | None:
        row = await connection.ask_one(job_table.FIND, job_id, owner)
        return None if row is None else read_job(*row)

    async def _ask(self, work: Work[R]) -> R:
        return await self._run(partial(self._database.use, work))

    async def _change(self, work: Work[R]) -> R:
        return await self._run(partial(self._database.change, work))

    async def _run(self, do: Callable[[], Awaitable[R]]) -> R:
        # Each round sets one corrupt row aside.
        for _ in range(MOST_CORRUPT):
            try:
                return await do()
            except CorruptRow as row:
                await self._set_aside(row)
        raise StoreUnavailable("Too many rows of the database cannot be read.")

    async def _set_aside(self, row: CorruptRow) -> None:
        work = partial(job_table.set_aside, row, self._services.now_ms())
        if await self._database.change(work):
            self._services.on_quarantine(f"{row.table}/{row.row_id}", row.reason)

    def _note_late_write(self, what: str, run: Run) -> None:
        self._services.note("late_write", what=what, run=run.run_id, owner=run.user_id)
