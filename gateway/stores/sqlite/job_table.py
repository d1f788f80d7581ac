"""Jobs in a database; each function is part of a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from gateway.errors import TooMany
from gateway.jobs.model import Job
from gateway.stores.documents import Conflict
from gateway.stores.job_content import CorruptRow, encode_row, read_job

R = TypeVar("R")

QUARANTINE = "INSERT INTO corrupt_rows (kind, id, at_ms, reason, content) SELECT ?, ?, ?, ?, "
QUARANTINES = {
    "jobs": f"{QUARANTINE} job FROM jobs WHERE job_id = ?",
    "runs": f"{QUARANTINE} run FROM runs WHERE run_id = ?",
    "owed": f"{QUARANTINE} job || run FROM owed WHERE run_id = ?",
}
DROPS = {
    "jobs": "DELETE FROM jobs WHERE job_id = ?",
    "runs": "DELETE FROM runs WHERE run_id = ?",
    "owed": "DELETE FROM owed WHERE run_id = ?",
}
RUNS_OF = "SELECT run_id FROM runs WHERE job_id = ?"
IDLE = """UPDATE jobs SET running = 0 WHERE running AND NOT EXISTS
    (SELECT 1 FROM runs WHERE runs.job_id = jobs.job_id AND status = 'running')"""

FIND = "SELECT job_id, owner, job FROM jobs WHERE job_id = ?"
FIND_SAME = "SELECT job_id, owner, job FROM jobs WHERE owner = ? AND dedupe_key = ?"
LIST = "SELECT job_id, owner, job FROM jobs"
COUNT = "SELECT count(*) FROM jobs WHERE owner = ?"
ADD = """INSERT INTO jobs (owner, session, agent, dedupe_key, next_run_ms, job, job_id)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
KEEP = """UPDATE jobs SET owner = ?, session = ?, agent = ?, dedupe_key = ?, next_run_ms = ?,
    job = ?, running = EXISTS
        (SELECT 1 FROM runs WHERE runs.job_id = jobs.job_id AND status = 'running')
    WHERE job_id = ?"""
REMOVE = "DELETE FROM jobs WHERE job_id = ?"
REMOVE_RUNS = "DELETE FROM runs WHERE job_id = ?"
REMOVE_DEBTS = "DELETE FROM owed WHERE job_id = ?"
OF_SESSION = "SELECT job_id FROM jobs WHERE owner = ? AND session = ?"
REMOVE_SESSION_DEBTS = "DELETE FROM owed WHERE owner = ? AND session = ?"
NEXT = """SELECT next_run_ms FROM jobs WHERE running = 0 AND next_run_ms IS NOT NULL
    ORDER BY next_run_ms LIMIT 1"""


def set_aside(row: CorruptRow, at_ms: int, connection: sqlite3.Connection) -> bool:
    """Move a corrupt row to its own table; return whether it was still there."""
    moved = _move(row.table, row.row_id, at_ms, row.reason, connection)
    if row.table == "jobs":
        for (run_id,) in connection.execute(RUNS_OF, (row.row_id,)).fetchall():
            _move("runs", run_id, at_ms, "Its job cannot be read.", connection)
    connection.execute(IDLE)
    return moved


def _move(table: str, row_id: str, at_ms: int, reason: str, connection: sqlite3.Connection) -> bool:
    connection.execute(QUARANTINES[table], (table, row_id, at_ms, reason, row_id))
    return connection.execute(DROPS[table], (row_id,)).rowcount > 0


def find(job_id: str, owner: str | None, connection: sqlite3.Connection) -> Job | None:
    """Return a job; with an owner, only if it is theirs."""
    row = connection.execute(FIND, (job_id,)).fetchone()
    return None if row is None or owner not in (None, row[1]) else read_job(*row)


def listing(
    owner: str | None, session: str | None, agent: str | None, connection: sqlite3.Connection
) -> list[Job]:
    """Return the jobs of an owner, session and agent, if given, the oldest first."""
    wanted = {"owner": owner, "session": session, "agent": agent}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = " AND ".join(f"{name} = :{name}" for name in given) or "TRUE"
    # All at once: a cursor that stops at a bad row would keep its read transaction open.
    rows = connection.execute(f"{LIST} WHERE {where} ORDER BY number", given).fetchall()
    return [read_job(*row) for row in rows]


def add(
    job: Job, again: Callable[[Job], Job], most: int, connection: sqlite3.Connection
) -> tuple[Job, bool]:
    """Add a job, or change its owner's job with the same `dedupe_key`."""
    known = _same(job, connection)
    if known is not None:
        kept = again(known)
        keep(kept, connection)
        return kept, True
    if connection.execute(FIND, (job.job_id,)).fetchone() is not None:
        raise Conflict("There is already a job with this id.")
    if connection.execute(COUNT, (job.user_id,)).fetchone()[0] >= most:
        raise TooMany(f"There are {most} jobs already, which is the limit; remove one first.")
    connection.execute(ADD, _row(job))
    return job, False


def change(
    job_id: str,
    owner: str | None,
    change: Callable[[Job], tuple[Job | None, R]],
    connection: sqlite3.Connection,
) -> R | None:
    """Change a job by a function, or delete it."""
    job = find(job_id, owner, connection)
    if job is None:
        return None
    changed, answer = change(job)
    if changed is None:
        _remove(job_id, connection)
    elif changed != job:
        keep(changed, connection)
    return answer


def keep(job: Job, connection: sqlite3.Connection) -> None:
    """Replace a stored job; the column `running` is set by its runs."""
    same = _same(job, connection)
    if same is not None and same.job_id != job.job_id:
        raise Conflict("Another job has this dedupe_key already.")
    connection.execute(KEEP, _row(job))


def drop(job_id: str, connection: sqlite3.Connection) -> None:
    """Delete a job and its runs; what it owes stays owed."""
    connection.execute(REMOVE_RUNS, (job_id,))
    connection.execute(REMOVE, (job_id,))


def next_run_ms(connection: sqlite3.Connection) -> int | None:
    """Return the earliest `next_run_ms` of all jobs that are not running."""
    row = connection.execute(NEXT).fetchone()
    return None if row is None else int(row[0])


def forget(owner: str, session: str, connection: sqlite3.Connection) -> int:
    """Delete the jobs of a session; return how many."""
    of_session = (owner, session)
    jobs = connection.execute(OF_SESSION, of_session).fetchall()
    for (job_id,) in jobs:
        _remove(job_id, connection)
    connection.execute(REMOVE_SESSION_DEBTS, of_session)
    return len(jobs)


def _remove(job_id: str, connection: sqlite3.Connection) -> None:
    drop(job_id, connection)
    connection.execute(REMOVE_DEBTS, (job_id,))


def _same(job: Job, connection: sqlite3.Connection) -> Job | None:
    if not job.dedupe_key:
        return None
    row = connection.execute(FIND_SAME, (job.user_id, job.dedupe_key)).fetchone()
    return None if row is None else read_job(*row)


def _row(job: Job) -> tuple[str | bytes | int | None, ...]:
    whose = (job.user_id, job.session_id, job.agent_id)
    return (*whose, job.dedupe_key, job.next_run_ms, encode_row(job), job.job_id)
