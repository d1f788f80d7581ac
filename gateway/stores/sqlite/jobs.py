"""Jobs and their runs in a database; a row that cannot be read does not affect the others.

Each method of `SqliteJobs` is one transaction of the functions below it, in the engine's thread. A
claim writes the run's row, with the lease of its holder, and the job, in one transaction: a crash
right after it leaves a run that is `running`, which `end_lapsed` ends at the next start or when the
lease has ended. The end of a run, the change of its job, the owed result and the items to deliver
are one transaction too, so nothing is delivered twice or lost. A result stays in `owed` until the
session has it, even if the job is deleted meanwhile. A (job, due time) has one row, by the unique
index; a claim skips a time that has one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gateway.jobs.model import Job, Run, Status
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.documents import LATEST, OnQuarantine, SessionKey, StoreUnavailable
from gateway.stores.job_content import (
    MOST_CORRUPT,
    CorruptRow,
    encode_row,
    read_debt,
    read_job,
    read_run,
    skip_taken,
)
from gateway.stores.job_rows import Claimed, RunNews, RunQuery, TellEnd, tell_nothing
from gateway.stores.sqlite import job_table, run_lists
from gateway.stores.sqlite.deliveries import add_event, add_item
from gateway.stores.sqlite.engine import Engine
from gateway.stores.sqlite.job_table import set_aside

R = TypeVar("R")

Query = Callable[[sqlite3.Connection], R]

DUE = """SELECT next_run_ms, number, job_id, owner, job FROM jobs
    WHERE running = 0 AND next_run_ms <= ? AND (next_run_ms, number) > (?, ?)
    ORDER BY next_run_ms, number LIMIT 1"""
IS_TAKEN = "SELECT 1 FROM runs WHERE job_id = ? AND due_ms = ? AND manual = 0"
IS_RUNNING = "SELECT 1 FROM runs WHERE job_id = ? AND status = 'running'"
ADD = """INSERT INTO runs (job_id, due_ms, manual, status, holder, lease_ms, run, run_id, owner)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
EXTEND = """UPDATE runs SET lease_ms = ?
    WHERE run_id = ? AND holder = ? AND status = 'running'"""
JOB_OF = """SELECT jobs.job_id, jobs.owner, job FROM runs JOIN jobs ON jobs.job_id = runs.job_id
    WHERE run_id = ? AND status = 'running'"""
END = "UPDATE runs SET status = ?, run = ? WHERE run_id = ?"
LAPSED = """SELECT jobs.job_id, jobs.owner, job, run_id, runs.job_id, run
    FROM runs JOIN jobs ON jobs.job_id = runs.job_id
    WHERE status = 'running' AND lease_ms < ? ORDER BY lease_ms, runs.number"""
FIND = "SELECT run_id, job_id, run FROM runs WHERE run_id = ?"
PRUNE = """DELETE FROM runs WHERE job_id = :job_id AND status <> 'running'
    AND number <= (SELECT number FROM runs WHERE job_id = :job_id
        ORDER BY number DESC LIMIT 1 OFFSET :keep)
    AND NOT EXISTS (SELECT 1 FROM owed WHERE owed.run_id = runs.run_id)"""
OWE = """INSERT OR REPLACE INTO owed (run_id, job_id, owner, session, job, run)
    VALUES (?, ?, ?, ?, ?, ?)"""
OWED = "SELECT run_id, job, run FROM owed ORDER BY number"
REMOVE = "DELETE FROM runs WHERE run_id = ?"
PAID = "DELETE FROM owed WHERE run_id = ?"


class RunLease(NamedTuple):
    """The holder that executes a run, and when its lease ends."""

    holder: str
    until_ms: int


class SqliteJobs:
    """The `JobRows` of a database."""

    def __init__(
        self, engine: Engine, now_ms: Callable[[], int], on_quarantine: OnQuarantine
    ) -> None:
        self._engine = engine
        self._now_ms = now_ms
        self._on_quarantine = on_quarantine

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Add a job, or change its owner's job with the same `dedupe_key`."""
        return await self._run(self._engine.change, partial(job_table.add, job, again, most))

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """Return a job; with an owner, only if it is theirs."""
        return await self._run(self._engine.ask, partial(job_table.find, job_id, owner))

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first."""
        query = partial(job_table.listing, owner, session, agent)
        return await self._run(self._engine.ask, query)

    async def change(
        self, job_id: str, owner: str | None, change: Callable[[Job], tuple[Job | None, R]]
    ) -> R | None:
        """Change a job by a function, or delete it with its runs."""

        def query(connection: sqlite3.Connection) -> R | None:
            return job_table.change(job_id, owner, change, connection)

        return await self._run(self._engine.mend, query)

    async def next_run_ms(self) -> int | None:
        """Return the earliest `next_run_ms` of all jobs that are not running."""
        return await self._engine.ask(job_table.next_run_ms)

    async def claim(
        self,
        now_ms: int,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed | None],
        most: int = 1,
    ) -> list[Claimed]:
        """Claim jobs that are due and not running, the earliest first."""
        query = partial(_claim_due, now_ms, RunLease(holder, until_ms), claim, most)
        return await self._run(self._engine.mend, query)

    async def claim_now(
        self,
        job_id: str,
        owner: str | None,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed],
    ) -> Claimed | None:
        """Claim one job, due or not, unless it is running."""
        query = partial(_claim_now, (job_id, owner), RunLease(holder, until_ms), claim)
        return await self._run(self._engine.mend, query)

    async def extend(self, run_id: str, holder: str, until_ms: int) -> bool:
        """Extend the lease of a run, if the holder has it."""
        return await self._engine.mend(partial(_extend_lease, run_id, RunLease(holder, until_ms)))

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        keep_runs: int,
        tell: TellEnd = tell_nothing,
    ) -> Job | None:
        """Record the end of a run, the change of its job, and the news of it."""
        query = partial(_finish_run, run, change, keep_runs, tell)
        return await self._run(self._engine.mend, query)

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and change its job."""
        return await self._run(self._engine.mend, partial(_give_back_run, run_id, change))

    async def end_lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        tell: TellEnd = tell_nothing,
    ) -> list[Run]:
        """End each running run whose lease ended before a time."""
        query = partial(_end_lapsed, before_ms, change, tell)
        return await self._run(self._engine.mend, query)

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""
        return await self._run(self._engine.ask, partial(run_lists.list_runs, job_id, limit))

    async def list_runs(self, query: RunQuery) -> list[tuple[int, Run]]:
        """Return runs with their numbers, the newest first."""
        return await self._run(self._engine.ask, partial(run_lists.list_page, query))

    async def get_run(self, run_id: str, owner: str | None = None) -> Run | None:
        """Return a run; with an owner, only if it is theirs."""
        return await self._run(self._engine.ask, partial(run_lists.find_run, run_id, owner))

    async def last_statuses(
        self, job_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[Status, ...]]:
        """Return the statuses of the newest runs of each job, the oldest of them first."""
        return await self._engine.ask(partial(run_lists.list_statuses, tuple(job_ids), limit))

    async def list_owed(self) -> list[tuple[Job, Run]]:
        """Return runs whose result was not returned to its session yet, the oldest first."""
        return await self._run(self._engine.ask, _list_owed)

    async def take_owed(self) -> list[tuple[Job, Run]]:
        """Return the oldest result that is owed to each session."""
        oldest: dict[SessionKey, tuple[Job, Run]] = {}
        for job, run in await self.list_owed():
            oldest.setdefault((job.user_id, job.session_id), (job, run))
        return list(oldest.values())

    async def settle_owed(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Mark a run's result as returned; an item is added to the session's queue."""
        return await self._run(self._engine.mend, partial(_settle_owed, run_id, item))

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; return how many."""
        return await self._engine.mend(partial(job_table.forget, owner, session))

    async def _run(self, do: Callable[[Query[R]], Awaitable[R]], query: Query[R]) -> R:
        # Each round sets one corrupt row aside.
        for _ in range(MOST_CORRUPT):
            try:
                return await do(query)
            except CorruptRow as row:
                await self._set_aside(row)
        raise StoreUnavailable("Too many rows of the database cannot be read.")

    async def _set_aside(self, row: CorruptRow) -> None:
        if await self._engine.mend(partial(set_aside, row, self._now_ms())):
            self._on_quarantine(f"{row.table}/{row.row_id}", row.reason)


def _claim_due(
    now_ms: int,
    lease: RunLease,
    claim: Callable[[Job], Claimed | None],
    most: int,
    connection: sqlite3.Connection,
) -> list[Claimed]:
    """Claim jobs that are due and not running, the earliest first."""
    found: list[Claimed] = []
    place = (-LATEST, 0)
    while len(found) < most:
        row = connection.execute(DUE, (now_ms, *place)).fetchone()
        if row is None:
            break
        place = row[:2]
        claimed = _claim_untaken(read_job(*row[2:]), now_ms, claim, connection)
        if claimed is not None:
            found.append(_record_claim(claimed, lease, connection))
    return found


def _claim_now(
    whose: tuple[str, str | None],
    lease: RunLease,
    claim: Callable[[Job], Claimed],
    connection: sqlite3.Connection,
) -> Claimed | None:
    """Claim one job, due or not, unless it is running."""
    job = job_table.find(*whose, connection)
    if job is None or connection.execute(IS_RUNNING, (job.job_id,)).fetchone() is not None:
        return None
    return _record_claim(claim(job), lease, connection)


def _claim_untaken(
    job: Job,
    now_ms: int,
    claim: Callable[[Job], Claimed | None],
    connection: sqlite3.Connection,
) -> Claimed | None:
    claimed = claim(job)
    while (
        claimed is not None and (taken_ms := _last_taken_ms(claimed.runs, connection)) is not None
    ):
        job = skip_taken(job, taken_ms)
        if job.next_run_ms is None or job.next_run_ms > now_ms:
            job_table.keep(job, connection)
            return None
        claimed = claim(job)
    return claimed


def _last_taken_ms(runs: tuple[Run, ...], connection: sqlite3.Connection) -> int | None:
    """Return the last due time of those given that has a row already."""
    times = [(run.job_id, run.due_ms) for run in runs if run.trigger == "timer"]
    taken = (due for job_id, due in times if connection.execute(IS_TAKEN, (job_id, due)).fetchone())
    return max(taken, default=None)


def _record_claim(claimed: Claimed, lease: RunLease, connection: sqlite3.Connection) -> Claimed:
    for run in sorted(claimed.runs, key=lambda run: (run.status == "running", run.due_ms)):
        kept = (run.job_id, run.due_ms, run.trigger == "manual", run.status)
        connection.execute(ADD, (*kept, *lease, encode_row(run), run.run_id, run.user_id))
    _tell(claimed.items, claimed.events, connection)
    job_table.keep(claimed.job, connection)
    return claimed


def _extend_lease(run_id: str, lease: RunLease, connection: sqlite3.Connection) -> bool:
    """Extend the lease of a run, if the holder has it."""
    values = (lease.until_ms, run_id, lease.holder)
    return connection.execute(EXTEND, values).rowcount > 0


def _finish_run(
    run: Run,
    change: Callable[[Job], Job | None],
    keep_runs: int,
    tell: TellEnd,
    connection: sqlite3.Connection,
) -> Job | None:
    """Record the end of a run, the change of its job, its owed result and its news."""
    row = connection.execute(JOB_OF, (run.run_id,)).fetchone()
    if row is None:
        return None
    job = read_job(*row)
    _end(run, connection)
    changed = change(job)
    if run.owed:
        _owe(changed or job, run, connection)
    _tell_news(tell(job, changed, run), connection)
    if changed is None:
        job_table.drop(job.job_id, connection)
    else:
        job_table.keep(changed, connection)
        connection.execute(PRUNE, {"job_id": job.job_id, "keep": keep_runs})
    return changed


def _give_back_run(
    run_id: str, change: Callable[[Job, Run], Job], connection: sqlite3.Connection
) -> Job | None:
    """Delete the row of a running run, and change its job."""
    row = connection.execute(JOB_OF, (run_id,)).fetchone()
    if row is None:
        return None
    run = read_run(*connection.execute(FIND, (run_id,)).fetchone())
    job = change(read_job(*row), run)
    connection.execute(REMOVE, (run_id,))
    job_table.keep(job, connection)
    return job


def _end_lapsed(
    before_ms: int,
    change: Callable[[Job, Run], tuple[Job, Run] | None],
    tell: TellEnd,
    connection: sqlite3.Connection,
) -> list[Run]:
    """End each running run whose lease ended before a time."""
    ended: list[Run] = []
    for row in connection.execute(LAPSED, (min(before_ms, LATEST),)).fetchall():
        before = read_job(*row[:3])
        changed = change(before, read_run(*row[3:]))
        if changed is None:
            continue
        job, run = changed
        _end(run, connection)
        _tell_news(tell(before, job, run), connection)
        job_table.keep(job, connection)
        ended.append(run)
    return ended


def _list_owed(connection: sqlite3.Connection) -> list[tuple[Job, Run]]:
    """Return runs whose result was not returned to its session yet, the oldest first."""
    return [read_debt(*row) for row in connection.execute(OWED).fetchall()]


def _settle_owed(run_id: str, item: OutboxItem | None, connection: sqlite3.Connection) -> bool:
    """Mark a run's result as returned; an item is added to the session's queue."""
    if connection.execute(PAID, (run_id,)).rowcount == 0:
        return False
    if item is not None:
        add_item(item, connection)
    row = connection.execute(FIND, (run_id,)).fetchone()
    if row is not None:
        _end(replace(read_run(*row), owed=False), connection)
    return True


def _tell_news(news: RunNews, connection: sqlite3.Connection) -> None:
    _tell(news.items, news.events, connection)


def _tell(
    items: Sequence[OutboxItem], events: Sequence[SessionEvent], connection: sqlite3.Connection
) -> None:
    for item in items:
        add_item(item, connection)
    for event in events:
        add_event(event, connection)


def _end(run: Run, connection: sqlite3.Connection) -> None:
    connection.execute(END, (run.status, encode_row(run), run.run_id))


def _owe(job: Job, run: Run, connection: sqlite3.Connection) -> None:
    whose = (job.job_id, job.user_id, job.session_id)
    connection.execute(OWE, (run.run_id, *whose, encode_row(job), encode_row(run)))
