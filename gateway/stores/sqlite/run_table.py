"""Runs in a database: each function is a part of one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import next_due
from gateway.stores.documents import LATEST
from gateway.stores.rows import Claimed, Notice, OutboxItem
from gateway.stores.sqlite import item_table, job_table
from gateway.stores.sqlite.row_forms import read_debt, read_job, read_run, written

DUE = """SELECT next_run_ms, number, job_id, owner, job FROM jobs
    WHERE running = 0 AND next_run_ms <= ? AND (next_run_ms, number) > (?, ?)
    ORDER BY next_run_ms, number LIMIT 1"""
IS_TAKEN = "SELECT 1 FROM runs WHERE job_id = ? AND due_ms = ? AND manual = 0"
IS_RUNNING = "SELECT 1 FROM runs WHERE job_id = ? AND status = 'running'"
ADD = """INSERT INTO runs (job_id, due_ms, manual, status, holder, lease_ms, run, run_id)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
EXTEND = """UPDATE runs SET lease_ms = ?
    WHERE run_id = ? AND holder = ? AND status = 'running'"""
JOB_OF = """SELECT jobs.job_id, owner, job FROM runs JOIN jobs ON jobs.job_id = runs.job_id
    WHERE run_id = ? AND status = 'running'"""
END = "UPDATE runs SET status = ?, run = ? WHERE run_id = ?"
LAPSED = """SELECT jobs.job_id, owner, job, run_id, runs.job_id, run
    FROM runs JOIN jobs ON jobs.job_id = runs.job_id
    WHERE status = 'running' AND lease_ms < ? ORDER BY lease_ms, runs.number"""
FIND = "SELECT run_id, job_id, run FROM runs WHERE run_id = ?"
LIST = "SELECT run_id, job_id, run FROM runs WHERE job_id = ? ORDER BY number DESC LIMIT ?"
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
    """Who executes a run, and until when that is believed without being told again."""

    holder: str
    until_ms: int


def claim(
    now_ms: int,
    lease: RunLease,
    claim: Callable[[Job], Claimed | None],
    connection: sqlite3.Connection,
) -> Claimed | None:
    """Claim the earliest job that is due and not running."""
    place = (-LATEST, 0)
    while (row := connection.execute(DUE, (now_ms, *place)).fetchone()) is not None:
        place = row[:2]
        claimed = _claimed(read_job(*row[2:]), now_ms, claim, connection)
        if claimed is not None:
            return _recorded(claimed, lease, connection)
    return None


def claim_now(
    whose: tuple[str, str | None],
    lease: RunLease,
    claim: Callable[[Job], Claimed],
    connection: sqlite3.Connection,
) -> Claimed | None:
    """Claim one job, due or not, unless it is running."""
    job = job_table.find(*whose, connection)
    if job is None or connection.execute(IS_RUNNING, (job.job_id,)).fetchone() is not None:
        return None
    return _recorded(claim(job), lease, connection)


def _claimed(
    job: Job,
    now_ms: int,
    claim: Callable[[Job], Claimed | None],
    connection: sqlite3.Connection,
) -> Claimed | None:
    claimed = claim(job)
    while claimed is not None and (taken_ms := _taken(claimed.runs, connection)) is not None:
        job = _behind(job, taken_ms)
        if job.next_run_ms is None or job.next_run_ms > now_ms:
            job_table.keep(job, connection)
            return None
        claimed = claim(job)
    return claimed


def _taken(runs: tuple[Run, ...], connection: sqlite3.Connection) -> int | None:
    """Return the last due time of those given that has a row already."""
    times = [(run.job_id, run.due_ms) for run in runs if run.trigger == "timer"]
    taken = (due for job_id, due in times if connection.execute(IS_TAKEN, (job_id, due)).fetchone())
    return max(taken, default=None)


def _behind(job: Job, taken_ms: int) -> Job:
    if job.retry_ms is not None:
        # A clock that was set back may plan two retries for one instant.
        return replace(job, retry_ms=taken_ms + 1, next_run_ms=taken_ms + 1)
    after_ms = taken_ms if job.due_ms is None else max(taken_ms, job.due_ms)
    due_ms = next_due(job.schedule, after_ms)
    job = replace(job, due_ms=due_ms, next_run_ms=due_ms)
    if due_ms is not None:
        return job
    return replace(job, enabled=False, disabled_reason="All its times have been run already.")


def _recorded(claimed: Claimed, lease: RunLease, connection: sqlite3.Connection) -> Claimed:
    for run in sorted(claimed.runs, key=lambda run: (run.status == "running", run.due_ms)):
        kept = (run.job_id, run.due_ms, run.trigger == "manual", run.status)
        connection.execute(ADD, (*kept, *lease, written(run), run.run_id))
    for item in claimed.items:
        item_table.add(item, connection)
    job_table.keep(claimed.job, connection)
    return claimed


def extend(run_id: str, lease: RunLease, connection: sqlite3.Connection) -> bool:
    """Lengthen the lease of a run that is the holder's."""
    values = (lease.until_ms, run_id, lease.holder)
    return connection.execute(EXTEND, values).rowcount > 0


def finish(
    run: Run,
    change: Callable[[Job], Job | None],
    item: OutboxItem | None,
    keep_runs: int,
    notice: Notice,
    connection: sqlite3.Connection,
) -> Job | None:
    """Record how a run ended, what that makes of its job, what it owes and what it delivers."""
    row = connection.execute(JOB_OF, (run.run_id,)).fetchone()
    if row is None:
        return None
    job = read_job(*row)
    _end(run, connection)
    changed = change(job)
    if run.owed:
        _owe(changed or job, run, connection)
    for told in (item, notice(job, changed, run)):
        if told is not None:
            item_table.add(told, connection)
    if changed is None:
        job_table.drop(job.job_id, connection)
    else:
        job_table.keep(changed, connection)
        connection.execute(PRUNE, {"job_id": job.job_id, "keep": keep_runs})
    return changed


def give_back(
    run_id: str, change: Callable[[Job, Run], Job], connection: sqlite3.Connection
) -> Job | None:
    """Delete the row of a running run, and keep what that makes of its job."""
    row = connection.execute(JOB_OF, (run_id,)).fetchone()
    if row is None:
        return None
    run = read_run(*connection.execute(FIND, (run_id,)).fetchone())
    job = change(read_job(*row), run)
    connection.execute(REMOVE, (run_id,))
    job_table.keep(job, connection)
    return job


def lapsed(
    before_ms: int,
    change: Callable[[Job, Run], tuple[Job, Run] | None],
    notice: Notice,
    connection: sqlite3.Connection,
) -> list[Run]:
    """Record what became of each running run whose lease ended before a time."""
    ended: list[Run] = []
    for row in connection.execute(LAPSED, (min(before_ms, LATEST),)).fetchall():
        before = read_job(*row[:3])
        changed = change(before, read_run(*row[3:]))
        if changed is None:
            continue
        job, run = changed
        _end(run, connection)
        told = notice(before, job, run)
        if told is not None:
            item_table.add(told, connection)
        job_table.keep(job, connection)
        ended.append(run)
    return ended


def listing(job_id: str, limit: int, connection: sqlite3.Connection) -> list[Run]:
    """Return the runs of a job, the newest first."""
    return [read_run(*row) for row in connection.execute(LIST, (job_id, limit)).fetchall()]


def owed(connection: sqlite3.Connection) -> list[tuple[Job, Run]]:
    """Return runs whose result is not yet in the session it came from, the oldest first."""
    return [read_debt(*row) for row in connection.execute(OWED).fetchall()]


def paid(run_id: str, item: OutboxItem | None, connection: sqlite3.Connection) -> bool:
    """Take it that a run's result is in the session it came from, or put it into its queue."""
    if connection.execute(PAID, (run_id,)).rowcount == 0:
        return False
    if item is not None:
        item_table.add(item, connection)
    row = connection.execute(FIND, (run_id,)).fetchone()
    if row is not None:
        _end(replace(read_run(*row), owed=False), connection)
    return True


def _end(run: Run, connection: sqlite3.Connection) -> None:
    connection.execute(END, (run.status, written(run), run.run_id))


def _owe(job: Job, run: Run, connection: sqlite3.Connection) -> None:
    whose = (job.job_id, job.user_id, job.session_id)
    connection.execute(OWE, (run.run_id, *whose, written(job), written(run)))
