"""Runs on PostgreSQL as they are listed: of a job, of an owner, or of everybody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gateway.jobs.model import Run, Status
from gateway.stores.job_content import read_run
from gateway.stores.job_rows import RunQuery
from gateway.stores.postgres.connection import Connection

FIND = "SELECT run_id, job_id, run, owner FROM @runs WHERE run_id = $1"
LIST = """SELECT run_id, job_id, run FROM @runs WHERE (owner, job_id) =
        (SELECT owner, job_id FROM @jobs WHERE job_id = $1)
    ORDER BY number DESC LIMIT $2"""
PAGE = """SELECT run_id, job_id, run, number FROM @runs WHERE {where}
    ORDER BY number DESC, run_id DESC LIMIT $1"""
CONDITIONS = {"owner": "owner = ${}", "job_id": "job_id = ${}", "before": "number < ${}"}
STATUSES = """SELECT j.job_id, ARRAY(SELECT r.status FROM @runs r
        WHERE r.owner = j.owner AND r.job_id = j.job_id ORDER BY r.number DESC LIMIT $2) AS statuses
    FROM @jobs j WHERE j.job_id = ANY ($1)"""


async def list_runs(job_id: str, limit: int, connection: Connection) -> list[Run]:
    """Return the runs of a job, the newest first."""
    return [read_run(*row) for row in await connection.ask(LIST, job_id, limit)]


async def list_page(query: RunQuery, connection: Connection) -> list[tuple[int, Run]]:
    """Return runs with their numbers, the newest first."""
    wanted = {"owner": query.owner, "job_id": query.job_id, "before": query.before}
    given = {name: value for name, value in wanted.items() if value is not None}
    where = [CONDITIONS[name].format(at) for at, name in enumerate(given, 2)]
    statement = PAGE.format(where=" AND ".join(where) or "TRUE")
    rows = await connection.ask(statement, query.limit, *given.values())
    return [(row["number"], read_run(row["run_id"], row["job_id"], row["run"])) for row in rows]


async def find_run(run_id: str, owner: str | None, connection: Connection) -> Run | None:
    """Return a run; with an owner, only if it is theirs."""
    row = await connection.ask_one(FIND, run_id)
    if row is None or owner not in (None, row["owner"]):
        return None
    return read_run(row["run_id"], row["job_id"], row["run"])


async def list_statuses(
    job_ids: Sequence[str], limit: int, connection: Connection
) -> dict[str, tuple[Status, ...]]:
    """Return the statuses of the newest runs of each job, the oldest of them first."""
    rows = await connection.ask(STATUSES, list(job_ids), limit)
    # A gateway writes no other status than those.
    return {
        row["job_id"]: cast(tuple[Status, ...], tuple(reversed(row["statuses"])))
        for row in rows
        if row["statuses"]
    }
