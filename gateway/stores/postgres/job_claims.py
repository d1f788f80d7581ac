"""Claims of due jobs on PostgreSQL: some jobs in one transaction.

Jobs that others claim at this moment are passed over. The rows of all claimed jobs and of their
runs are written by one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from asyncpg import Record

from gateway.jobs.model import Job, Run
from gateway.stores.documents import LATEST
from gateway.stores.job_content import encode_row, read_job, skip_taken
from gateway.stores.job_rows import Claimed
from gateway.stores.postgres.connection import Connection
from gateway.stores.postgres.job_table import keep
from gateway.stores.postgres.news import NewsWriter
from gateway.stores.postgres.statements import NUMBER_NOW

DUE = """SELECT job_id, owner, job, next_run_ms, number FROM @jobs
    WHERE run_id IS NULL AND next_run_ms <= $1 AND (next_run_ms, number, job_id) > ($2, $3, $4)
    ORDER BY next_run_ms, number, job_id LIMIT $5 FOR UPDATE SKIP LOCKED"""
LOCK_IDLE = """SELECT job_id, owner, job FROM @jobs
    WHERE job_id = $1 AND ($2::text IS NULL OR owner = $2) AND run_id IS NULL FOR UPDATE"""
TAKEN = """SELECT r.job_id, max(r.due_ms) AS due_ms FROM @runs r
    JOIN unnest($1::text[], $2::text[], $3::bigint[]) w (owner, job_id, due_ms)
    ON (r.owner, r.job_id, r.due_ms) = (w.owner, w.job_id, w.due_ms)
    WHERE NOT r.manual GROUP BY r.job_id"""
# The rows of one job have numbers one after another, the one that runs last; and no two jobs that
# are claimed together have the same numbers.
CLAIM = f"""WITH kept AS (
        UPDATE @jobs j SET session = w.session, agent = w.agent, dedupe_key = w.dedupe_key,
            next_run_ms = w.next_run_ms, job = w.job, run_id = w.run_id,
            rows = greatest(j.rows, {NUMBER_NOW} + 64 * w.n) + w.count
        FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[],
            $7::bytea[], $8::text[], $9::int[]) WITH ORDINALITY
            w (owner, job_id, session, agent, dedupe_key, next_run_ms, job, run_id, count, n)
        WHERE j.owner = w.owner AND j.job_id = w.job_id
        RETURNING j.owner, j.job_id, j.rows)
    INSERT INTO @runs (owner, job_id, number, run_id, due_ms, manual, status, run, holder)
    SELECT kept.owner, kept.job_id, kept.rows - r.behind, r.run_id, r.due_ms, r.manual, r.status,
        r.run, $17
    FROM unnest($10::text[], $11::int[], $12::text[], $13::bigint[], $14::bool[], $15::text[],
        $16::bytea[]) r (job_id, behind, run_id, due_ms, manual, status, run)
    JOIN kept ON kept.job_id = r.job_id"""

WAS_STORED = "SELECT 1 FROM @runs WHERE run_id = ANY ($1)"

Claim = Callable[[Job], Claimed | None]


class Claimer(NamedTuple):
    """Who claims, and how the news of missed runs are written."""

    holder: str
    news: NewsWriter


async def claim_due(
    now_ms: int, most: int, claim: Claim, claimer: Claimer, connection: Connection
) -> list[Claimed]:
    """Claim jobs that are due and not running, the earliest first."""
    found: list[Claimed] = []
    place: tuple[int, int, str] = (-LATEST, 0, "")
    has_more = True
    while has_more and len(found) < most:
        wanted = most - len(found)
        rows = await connection.ask(DUE, now_ms, *place, wanted)
        has_more = len(rows) == wanted
        if rows:
            place = (rows[-1]["next_run_ms"], rows[-1]["number"], rows[-1]["job_id"])
            found += await _claim_rows(rows, now_ms, claim, connection)
    await record_claims(found, claimer, connection)
    return found


async def claim_now(
    whose: tuple[str, str | None],
    claim: Callable[[Job], Claimed],
    claimer: Claimer,
    connection: Connection,
) -> Claimed | None:
    """Claim one job, due or not, unless it is running."""
    row = await connection.ask_one(LOCK_IDLE, *whose)
    if row is None:
        return None
    claimed = claim(read_job(*row))
    await record_claims([claimed], claimer, connection)
    return claimed


async def _claim_rows(
    rows: Sequence[Record], now_ms: int, claim: Claim, connection: Connection
) -> list[Claimed]:
    jobs = [read_job(row["job_id"], row["owner"], row["job"]) for row in rows]
    claims = [(job, claimed) for job in jobs if (claimed := claim(job)) is not None]
    taken = await _find_taken([run for _, one in claims for run in one.runs], connection)
    found: list[Claimed | None] = []
    for job, claimed in claims:
        taken_ms = taken.get(job.job_id)
        if taken_ms is None:
            found.append(claimed)
        else:
            found.append(await _claim_later(job, taken_ms, now_ms, claim, connection))
    return [claimed for claimed in found if claimed is not None]


async def _claim_later(
    job: Job, taken_ms: int, now_ms: int, claim: Claim, connection: Connection
) -> Claimed | None:
    """Claim a job at a time that has no row yet."""
    taken: int | None = taken_ms
    claimed: Claimed | None = None
    while taken is not None:
        job = skip_taken(job, taken)
        if job.next_run_ms is None or job.next_run_ms > now_ms:
            await keep(job, connection)
            return None
        claimed = claim(job)
        if claimed is None:
            return None
        taken = (await _find_taken(claimed.runs, connection)).get(job.job_id)
    return claimed


async def _find_taken(runs: Sequence[Run], connection: Connection) -> dict[str, int]:
    """Return the last due time of those given that has a row already, for each job that has one."""
    timed = [run for run in runs if run.trigger == "timer"]
    if not timed:
        return {}
    owners, ids = [run.user_id for run in timed], [run.job_id for run in timed]
    rows = await connection.ask(TAKEN, owners, ids, [run.due_ms for run in timed])
    return {row["job_id"]: row["due_ms"] for row in rows}


async def record_claims(
    claims: Sequence[Claimed], claimer: Claimer, connection: Connection
) -> None:
    """Write the claimed jobs, their runs, and the news of them."""
    if not claims:
        return
    jobs = [claimed.job for claimed in claims]
    runs = [
        (run, len(claimed.runs) - 1 - at)
        for claimed in claims
        for at, run in enumerate(sorted(claimed.runs, key=_rank))
    ]
    await connection.run(
        CLAIM,
        [job.user_id for job in jobs],
        [job.job_id for job in jobs],
        [job.session_id for job in jobs],
        [job.agent_id for job in jobs],
        [job.dedupe_key.encode() for job in jobs],
        [job.next_run_ms for job in jobs],
        [encode_row(job) for job in jobs],
        [_find_running(claimed) for claimed in claims],
        [len(claimed.runs) for claimed in claims],
        [run.job_id for run, _ in runs],
        [behind for _, behind in runs],
        [run.run_id for run, _ in runs],
        [run.due_ms for run, _ in runs],
        [run.trigger == "manual" for run, _ in runs],
        [run.status for run, _ in runs],
        [encode_row(run) for run, _ in runs],
        claimer.holder,
    )
    for claimed in claims:
        await claimer.news.write(claimed.items, claimed.events, connection)


async def were_stored(claims: Sequence[Claimed], connection: Connection) -> bool:
    """Return whether these claims were written, although nobody was told so."""
    run_ids = [run.run_id for claimed in claims for run in claimed.runs]
    return bool(run_ids) and await connection.ask_one(WAS_STORED, run_ids) is not None


def _rank(run: Run) -> tuple[bool, int]:
    return run.status == "running", run.due_ms


def _find_running(claimed: Claimed) -> str | None:
    """Return the id of the run that is to be executed, if there is one."""
    return next((run.run_id for run in claimed.runs if run.status == "running"), None)
