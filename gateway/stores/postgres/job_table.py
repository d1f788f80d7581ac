"""Jobs on PostgreSQL; each function is part of a transaction.

Locks are taken in the order jobs, runs, heads, the rest. The row of an owner counts their jobs: who
adds one updates it, so that two at once never make one too many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.errors import TooMany
from gateway.jobs.model import Job
from gateway.stores.documents import Conflict
from gateway.stores.job_content import CorruptRow, encode_row, read_job
from gateway.stores.postgres.connection import Connection, Refused
from gateway.stores.postgres.statements import NUMBER_NOW

R = TypeVar("R")

COLUMNS = "job_id, owner, job"
FIND = f"SELECT {COLUMNS} FROM @jobs WHERE job_id = $1 AND ($2::text IS NULL OR owner = $2)"
LOCK = f"{FIND} FOR UPDATE"
LIST = f"""SELECT {COLUMNS} FROM @jobs WHERE ($1::text IS NULL OR owner = $1)
    AND ($2::text IS NULL OR session = $2) AND ($3::text IS NULL OR agent = $3)
    ORDER BY number, owner, job_id"""
LIST_OF_OWNER = f"""SELECT {COLUMNS} FROM @jobs WHERE owner = $1
    AND ($2::text IS NULL OR session = $2) AND ($3::text IS NULL OR agent = $3)
    ORDER BY number, job_id"""
LOCK_SAME = f"""SELECT {COLUMNS} FROM @jobs
    WHERE owner = $1 AND dedupe_key = $2 AND dedupe_key <> '' FOR UPDATE"""
HAS_OTHER = """SELECT 1 FROM @jobs
    WHERE owner = $1 AND dedupe_key = $2 AND dedupe_key <> '' AND job_id <> $3"""
COUNT_UP = """INSERT INTO @owners AS o (owner, jobs) SELECT $1, 1 WHERE $2::bigint > 0
    ON CONFLICT (owner) DO UPDATE SET jobs = o.jobs + 1 WHERE o.jobs < $2 RETURNING jobs"""
COUNT_DOWN = "UPDATE @owners SET jobs = greatest(jobs - $2, 0) WHERE owner = $1"
ADD = f"""INSERT INTO @jobs (owner, job_id, session, agent, dedupe_key, next_run_ms, job, number)
    VALUES ($1, $2, $3, $4, $5, $6, $7, {NUMBER_NOW}) ON CONFLICT DO NOTHING"""
KEEP = """UPDATE @jobs SET session = $3, agent = $4, dedupe_key = $5, next_run_ms = $6, job = $7
    WHERE owner = $1 AND job_id = $2"""
REMOVE = "DELETE FROM @jobs WHERE owner = $1 AND job_id = $2"
REMOVE_RUNS = "DELETE FROM @runs WHERE owner = $1 AND job_id = $2"
REMOVE_DEBTS = "DELETE FROM @owed WHERE owner = $1 AND job_id = $2"
LOCK_SESSION = """SELECT job_id FROM @jobs WHERE owner = $1 AND session = $2
    ORDER BY job_id FOR UPDATE"""
FORGET = (
    "DELETE FROM @runs WHERE owner = $1 AND job_id = ANY ($2)",
    "DELETE FROM @jobs WHERE owner = $1 AND job_id = ANY ($2)",
    "DELETE FROM @owed WHERE owner = $1 AND job_id = ANY ($2)",
)
FORGET_DEBTS = "DELETE FROM @owed WHERE owner = $1 AND session = $2"
NEXT = """SELECT next_run_ms FROM @jobs WHERE run_id IS NULL AND next_run_ms IS NOT NULL
    ORDER BY next_run_ms, number LIMIT 1"""
SET_ASIDE = {
    "jobs": """WITH gone AS (DELETE FROM @jobs WHERE job_id = $1 RETURNING owner, job_id, job),
        lost AS (DELETE FROM @runs USING gone
            WHERE runs.owner = gone.owner AND runs.job_id = gone.job_id RETURNING runs.*),
        kept AS (INSERT INTO @corrupt_rows (kind, id, at_ms, reason, content)
            SELECT 'runs', run_id, $2, 'Its job cannot be read.', run FROM lost),
        counted AS (UPDATE @owners o SET jobs = greatest(o.jobs - 1, 0)
            FROM gone WHERE o.owner = gone.owner)
        INSERT INTO @corrupt_rows (kind, id, at_ms, reason, content)
            SELECT 'jobs', job_id, $2, $3, job FROM gone RETURNING 1""",
    "runs": """WITH gone AS (DELETE FROM @runs WHERE run_id = $1
            RETURNING owner, job_id, run_id, run),
        idle AS (UPDATE @jobs j SET run_id = NULL FROM gone
            WHERE j.owner = gone.owner AND j.job_id = gone.job_id AND j.run_id = gone.run_id)
        INSERT INTO @corrupt_rows (kind, id, at_ms, reason, content)
            SELECT 'runs', run_id, $2, $3, run FROM gone RETURNING 1""",
    "owed": """WITH gone AS (DELETE FROM @owed WHERE run_id = $1 RETURNING owner, run_id, job, run)
        INSERT INTO @corrupt_rows (kind, id, at_ms, reason, content)
            SELECT 'owed', run_id, $2, $3, job || run FROM gone RETURNING 1""",
}
UNIQUE_VIOLATION = "23505"
DUPLICATE_KEY = "Another job has this dedupe_key already."
ATTEMPTS = 16


async def add(
    job: Job, again: Callable[[Job], Job], most: int, connection: Connection
) -> tuple[Job, bool] | None:
    """Add a job, or change its owner's job with the same `dedupe_key`.

    Return None if somebody else adds one with this key now; then it has to be done again.
    """
    key = job.dedupe_key.encode()
    row = await connection.ask_one(LOCK_SAME, job.user_id, key) if key else None
    if row is not None:
        kept = again(read_job(*row))
        await keep(kept, connection)
        return kept, True
    if await connection.ask_one(FIND, job.job_id, None) is not None:
        raise Conflict("There is already a job with this id.")
    if await connection.ask_one(COUNT_UP, job.user_id, most) is None:
        raise TooMany(f"There are {most} jobs already, which is the limit; remove one first.")
    if await connection.run(ADD, *_values(job)):
        return job, False
    # Another one was added meanwhile, with this id or this key.
    await connection.run(COUNT_DOWN, job.user_id, 1)
    return None


async def change(
    job_id: str,
    owner: str | None,
    change: Callable[[Job], tuple[Job | None, R]],
    connection: Connection,
) -> R | None:
    """Change a job by a function, or delete it with its runs."""
    row = await connection.ask_one(LOCK, job_id, owner)
    if row is None:
        return None
    job = read_job(*row)
    changed, answer = change(job)
    if changed is None:
        await drop(job, connection)
        await connection.run(REMOVE_DEBTS, job.user_id, job.job_id)
    elif changed != job:
        await keep(changed, connection)
    return answer


async def keep(job: Job, connection: Connection) -> None:
    """Replace a stored job."""
    values = _values(job)
    if job.dedupe_key:
        key = (job.user_id, job.dedupe_key.encode())
        if await connection.ask_one(HAS_OTHER, *key, job.job_id) is not None:
            raise Conflict(DUPLICATE_KEY)
    try:
        await connection.run(KEEP, *values)
    except Refused as error:
        if getattr(error.__cause__, "sqlstate", None) == UNIQUE_VIOLATION:
            raise Conflict(DUPLICATE_KEY) from error
        raise


async def drop(job: Job, connection: Connection) -> None:
    """Delete a job and its runs; what it owes stays owed."""
    await connection.run(REMOVE_RUNS, job.user_id, job.job_id)
    if await connection.run(REMOVE, job.user_id, job.job_id):
        await connection.run(COUNT_DOWN, job.user_id, 1)


async def forget(owner: str, session: str, connection: Connection) -> int:
    """Delete the jobs of a session; return how many."""
    rows = await connection.ask(LOCK_SESSION, owner, session)
    job_ids = [row["job_id"] for row in rows]
    if job_ids:
        for statement in FORGET:
            await connection.run(statement, owner, job_ids)
        await connection.run(COUNT_DOWN, owner, len(job_ids))
    await connection.run(FORGET_DEBTS, owner, session)
    return len(job_ids)


async def set_aside(row: CorruptRow, at_ms: int, connection: Connection) -> bool:
    """Move a corrupt row to its own table; return whether it was still there."""
    statement = SET_ASIDE[row.table]
    return await connection.ask_one(statement, row.row_id, at_ms, row.reason) is not None


def find_listing(
    owner: str | None, session: str | None, agent: str | None
) -> tuple[str, Sequence[str | None]]:
    """Return the statement that lists jobs, and its values."""
    return (LIST if owner is None else LIST_OF_OWNER), (owner, session, agent)


def _values(job: Job) -> tuple[str | bytes | int | None, ...]:
    whose = (job.user_id, job.job_id, job.session_id, job.agent_id)
    return (*whose, job.dedupe_key.encode(), job.next_run_ms, encode_row(job))
