"""The ends of runs on PostgreSQL; each function is part of a transaction.

The job is locked first, then the run. Only the instance that holds a run can end it; whose lease
has lapsed is buried in the transaction that ends its runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.job_content import encode_row, read_debt, read_job, read_run
from gateway.stores.job_rows import TellEnd
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.instances import BURY
from gateway.stores.postgres.job_table import drop, keep
from gateway.stores.postgres.news import NewsWriter, add_item
from gateway.stores.postgres.statements import is_free

LOCK_RUN = """SELECT j.job_id, j.owner, j.job, r.holder, r.number, r.run FROM @jobs j
    JOIN @runs r ON r.owner = j.owner AND r.job_id = j.job_id
    WHERE j.owner = $1 AND j.job_id = $2 AND r.run_id = $3 AND r.status = 'running'
    FOR UPDATE OF j, r"""
FIND_RUN = "SELECT owner, job_id FROM @runs WHERE run_id = $1"
IS_ENDED = "SELECT 1 FROM @runs WHERE owner = $1 AND run_id = $2 AND run = $3"
IS_GONE = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM @jobs WHERE owner = $1 AND job_id = $2)"
OWE = """INSERT INTO @owed (owner, run_id, job_id, session, number, job, run)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (owner, run_id) DO UPDATE SET job = excluded.job, run = excluded.run"""
# One statement for the end of a run, its job that goes on, and the rows that are too many.
END = """WITH ended AS (
        UPDATE @runs SET status = $4, run = $5
        WHERE owner = $1 AND job_id = $2 AND run_id = $3 RETURNING 1),
    pruned AS (
        DELETE FROM @runs r WHERE owner = $1 AND job_id = $2 AND status <> 'running'
            AND number <= (SELECT number FROM @runs WHERE owner = $1 AND job_id = $2
                ORDER BY number DESC LIMIT 1 OFFSET $11)
            AND NOT EXISTS (SELECT 1 FROM @owed o WHERE o.owner = $1 AND o.run_id = r.run_id))
    UPDATE @jobs SET run_id = NULL, session = $6, agent = $7, dedupe_key = $8, next_run_ms = $9,
        job = $10
    WHERE owner = $1 AND job_id = $2"""
REMOVE = "DELETE FROM @runs WHERE owner = $1 AND job_id = $2 AND run_id = $3"
IDLE = "UPDATE @jobs SET run_id = NULL WHERE owner = $1 AND job_id = $2"
SET_RUN = "UPDATE @runs SET run = $3 WHERE owner = $1 AND run_id = $2"
# Runs of the buried, and of those that have no row any more.
ABANDONED = f"""SELECT r.owner, r.job_id, r.run_id FROM @runs r
    WHERE r.status = 'running' AND {is_free("r.holder")} ORDER BY r.owner, r.job_id LIMIT 1000"""
LOCK_DEBT = """SELECT run_id, job_id, job, run FROM @owed WHERE run_id = $1
    AND ($2::text IS NULL OR holder IS NULL OR holder = $2) FOR UPDATE"""
PAY = "DELETE FROM @owed WHERE owner = $1 AND run_id = $2"
OWED = "SELECT run_id, job, run FROM @owed ORDER BY number, owner, run_id"
# The oldest result of each session, unless another instance that lives returns it.
TAKE_OWED = f"""UPDATE @owed o SET holder = $1 FROM (
        SELECT c.owner, c.run_id FROM @owed c
        WHERE (c.holder IS NULL OR c.holder = $1 OR {is_free("c.holder")})
            AND NOT EXISTS (SELECT 1 FROM @owed e WHERE e.owner = c.owner
                AND e.session = c.session AND e.number < c.number)
        ORDER BY c.owner, c.run_id LIMIT 100 FOR UPDATE SKIP LOCKED) taken
    WHERE o.owner = taken.owner AND o.run_id = taken.run_id
    RETURNING o.run_id, o.job, o.run, o.number"""


class RunEnd(NamedTuple):
    """How a run is to be ended, and what is told of it."""

    run: Run
    change: Callable[[Job], Job | None]
    keep_runs: int
    tell: TellEnd


class WrittenEnd(NamedTuple):
    """What was written at the end of a run."""

    run: Run
    job: Job
    """As it was before."""
    changed: Job | None


async def finish(
    end: RunEnd, holder: str, news: NewsWriter, connection: Connection
) -> WrittenEnd | str | None:
    """Record the end of a run; return None if it does not run, or the instance that holds it."""
    run = end.run
    row = await connection.ask_one(LOCK_RUN, run.user_id, run.job_id, run.run_id)
    if row is None:
        return None
    if row["holder"] != holder:
        return str(row["holder"])
    job = read_job(row["job_id"], row["owner"], row["job"])
    changed = end.change(job)
    told = end.tell(job, changed, run)
    if run.owed:
        await _owe(changed or job, run, row["number"], connection)
    if changed is None:
        await drop(job, connection)
    else:
        await _end(run, changed, end.keep_runs, connection)
    await news.write(told.items, told.events, connection)
    return WrittenEnd(run, job, changed)


async def was_finished(ended: WrittenEnd, connection: Connection) -> bool:
    """Return whether an end was written, although nobody was told so."""
    run = ended.run
    if ended.changed is None:
        return await connection.ask_one(IS_GONE, run.user_id, run.job_id) is not None
    values = (run.user_id, run.run_id, encode_row(run))
    return await connection.ask_one(IS_ENDED, *values) is not None


async def give_back(
    run_id: str, holder: str, change: Callable[[Job, Run], Job], connection: Connection
) -> Job | None:
    """Delete the row of a running run, and change its job."""
    found = await connection.ask_one(FIND_RUN, run_id)
    row = None if found is None else await connection.ask_one(LOCK_RUN, *found, run_id)
    if row is None or row["holder"] != holder:
        return None
    run = read_run(run_id, row["job_id"], row["run"])
    job = change(read_job(row["job_id"], row["owner"], row["job"]), run)
    await connection.run(REMOVE, row["owner"], row["job_id"], run_id)
    await connection.run(IDLE, row["owner"], row["job_id"])
    await keep(job, connection)
    return job


async def end_abandoned(
    may_bury: bool,
    change: Callable[[Job, Run], tuple[Job, Run] | None],
    tell: TellEnd,
    news: NewsWriter,
    connection: Connection,
) -> list[Run]:
    """Bury instances whose lease lapsed, and end the runs of all that are buried."""
    if may_bury:
        await connection.ask(BURY)
    ended: list[Run] = []
    for found in await connection.ask(ABANDONED):
        row = await connection.ask_one(LOCK_RUN, *found)
        if row is None:
            continue
        before = read_job(row["job_id"], row["owner"], row["job"])
        changed = change(before, read_run(found["run_id"], row["job_id"], row["run"]))
        if changed is None:
            continue
        job, run = changed
        # It deletes no rows: there are at most as many as at the end of the run before.
        await _end(run, job, LIMITLESS, connection)
        told = tell(before, job, run)
        await news.write(told.items, told.events, connection)
        ended.append(run)
    return ended


LIMITLESS = 2**31


async def _end(run: Run, job: Job, keep_runs: int, connection: Connection) -> None:
    await connection.run(
        END,
        *(run.user_id, run.job_id, run.run_id, run.status, encode_row(run)),
        *(job.session_id, job.agent_id, job.dedupe_key.encode(), job.next_run_ms, encode_row(job)),
        keep_runs,
    )


async def _owe(job: Job, run: Run, number: int, connection: Connection) -> None:
    whose = (run.user_id, run.run_id, job.job_id, job.session_id, number)
    await connection.run(OWE, *whose, encode_row(job), encode_row(run))


# Owed results.


async def take_owed(holder: str, connection: Connection) -> list[tuple[Job, Run]]:
    """Take the oldest result that is owed to each session, unless another instance has it."""
    rows = await connection.ask(TAKE_OWED, holder)
    ordered = sorted(rows, key=lambda row: (row["number"], row["run_id"]))
    return [read_debt(row["run_id"], row["job"], row["run"]) for row in ordered]


async def list_owed(connection: Connection) -> list[tuple[Job, Run]]:
    """Return runs whose result was not returned to its session yet, the oldest first."""
    return [read_debt(*row) for row in await connection.ask(OWED)]


async def settle_owed(
    run_id: str, item: OutboxItem | None, holder: str | None, connection: Connection
) -> bool:
    """Mark a run's result as returned; return False if it was not owed, or another returns it."""
    row = await connection.ask_one(LOCK_DEBT, run_id, holder)
    if row is None:
        return False
    _, run = read_debt(row["run_id"], row["job"], row["run"])
    await connection.run(SET_RUN, run.user_id, run_id, encode_row(replace(run, owed=False)))
    if item is not None:
        await add_item(item, connection)
    return await connection.run(PAY, run.user_id, run_id) > 0
