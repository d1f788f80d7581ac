"""Jobs and runs as the content of a row, and what becomes of a row that is neither."""

from __future__ import annotations

import sqlite3
from typing import Any, TypeVar

import msgspec

from gateway.jobs.model import Job, Run

S = TypeVar("S", bound=msgspec.Struct)

READERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Job, Run)
}
UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)

KEEP = "INSERT INTO corrupt_rows (kind, id, at_ms, reason, content) SELECT ?, ?, ?, ?, "
KEEPS = {
    "jobs": f"{KEEP} job FROM jobs WHERE job_id = ?",
    "runs": f"{KEEP} run FROM runs WHERE run_id = ?",
    "owed": f"{KEEP} job || run FROM owed WHERE run_id = ?",
}
DROPS = {
    "jobs": "DELETE FROM jobs WHERE job_id = ?",
    "runs": "DELETE FROM runs WHERE run_id = ?",
    "owed": "DELETE FROM owed WHERE run_id = ?",
}
RUNS_OF = "SELECT run_id FROM runs WHERE job_id = ?"
IDLE = """UPDATE jobs SET running = 0 WHERE running AND NOT EXISTS
    (SELECT 1 FROM runs WHERE runs.job_id = jobs.job_id AND status = 'running')"""


class Spoiled(Exception):
    """A row of a table that cannot be read; whoever finds one sets it aside and looks again."""

    def __init__(self, table: str, row_id: str) -> None:
        super().__init__(table, row_id)
        self.table = table
        self.row_id = row_id
        self.reason = f"It is not what is kept in {table}."


def written(value: Job | Run) -> bytes:
    """Write a job or a run as JSON, which people can read in the database too."""
    return msgspec.json.encode(value)


def read_job(job_id: str, owner: str, content: bytes) -> Job:
    """Read a job from its row, or raise `Spoiled`."""
    job = _read(Job, content)
    if job is None or (job.job_id, job.user_id) != (job_id, owner):
        raise Spoiled("jobs", job_id)
    return job


def read_run(run_id: str, job_id: str, content: bytes) -> Run:
    """Read a run from its row, or raise `Spoiled`."""
    run = _read(Run, content)
    if run is None or (run.run_id, run.job_id) != (run_id, job_id):
        raise Spoiled("runs", run_id)
    return run


def read_debt(run_id: str, job_content: bytes, run_content: bytes) -> tuple[Job, Run]:
    """Read a run that is owed, and its job, from its row, or raise `Spoiled`."""
    job, run = _read(Job, job_content), _read(Run, run_content)
    if job is None or run is None or run.run_id != run_id:
        raise Spoiled("owed", run_id)
    return job, run


def _read(kind: type[S], content: bytes) -> S | None:
    try:
        value: S = READERS[kind].decode(content)
    except UNREADABLE:
        return None
    return value


def set_aside(spoiled: Spoiled, at_ms: int, connection: sqlite3.Connection) -> bool:
    """Move a row to where only people find it; tell whether it was still there."""
    moved = _move(spoiled.table, spoiled.row_id, at_ms, spoiled.reason, connection)
    if spoiled.table == "jobs":
        for (run_id,) in connection.execute(RUNS_OF, (spoiled.row_id,)).fetchall():
            _move("runs", run_id, at_ms, "Its job cannot be read.", connection)
    connection.execute(IDLE)
    return moved


def _move(table: str, row_id: str, at_ms: int, reason: str, connection: sqlite3.Connection) -> bool:
    connection.execute(KEEPS[table], (table, row_id, at_ms, reason, row_id))
    return connection.execute(DROPS[table], (row_id,)).rowcount > 0
