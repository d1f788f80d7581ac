"""Runs as they are listed: of a job, of an owner, or of everybody; each function is one read."""

from __future__ import annotations

import sqlite3
from typing import cast

import msgspec
from msgspec.structs import asdict

from gateway.jobs.model import Run, Status
from gateway.stores.job_content import read_run
from gateway.stores.job_rows import RunQuery

FIND = "SELECT run_id, job_id, run FROM runs WHERE run_id = ?"
LIST = "SELECT run_id, job_id, run FROM runs WHERE job_id = ? ORDER BY number DESC LIMIT ?"
PAGE = """SELECT number, run_id, job_id, run FROM runs WHERE {where}
    ORDER BY number DESC LIMIT :limit"""
CONDITIONS = {"owner": "owner = :owner", "job_id": "job_id = :job_id", "before": "number < :before"}
# One statement for all jobs of a list; the index of a job's runs has them in order.
STATUSES = """SELECT value, (SELECT group_concat(status) FROM
        (SELECT status FROM runs WHERE job_id = value ORDER BY number DESC LIMIT ?))
    FROM json_each(?)"""


def list_runs(job_id: str, limit: int, connection: sqlite3.Connection) -> list[Run]:
    """Return the runs of a job, the newest first."""
    return [read_run(*row) for row in connection.execute(LIST, (job_id, limit)).fetchall()]


def list_page(query: RunQuery, connection: sqlite3.Connection) -> list[tuple[int, Run]]:
    """Return runs with their numbers, the newest first."""
    given = {name: value for name, value in asdict(query).items() if value is not None}
    where = " AND ".join(CONDITIONS[name] for name in CONDITIONS if name in given) or "TRUE"
    rows = connection.execute(PAGE.format(where=where), given).fetchall()
    return [(number, read_run(*row)) for number, *row in rows]


def find_run(run_id: str, owner: str | None, connection: sqlite3.Connection) -> Run | None:
    """Return a run; with an owner, only if it is theirs."""
    row = connection.execute(FIND, (run_id,)).fetchone()
    run = None if row is None else read_run(*row)
    return None if run is None or owner not in (None, run.user_id) else run


def list_statuses(
    job_ids: tuple[str, ...], limit: int, connection: sqlite3.Connection
) -> dict[str, tuple[Status, ...]]:
    """Return the statuses of the newest runs of each job, the oldest of them first."""
    rows = connection.execute(STATUSES, (limit, msgspec.json.encode(job_ids).decode())).fetchall()
    # A gateway writes no other status than those.
    return {
        job_id: cast(tuple[Status, ...], tuple(joined.split(",")[::-1]))
        for job_id, joined in rows
        if joined
    }
