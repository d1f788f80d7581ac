"""What the rows of jobs hold: JSON that people can read; the other columns are for queries.

A row whose content does not match its columns raises `CorruptRow`, which undoes the transaction;
the caller sets that row aside and tries again.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.jobs.run_rules import OVER
from gateway.jobs.schedule.model import next_due

S = TypeVar("S", bound=msgspec.Struct)

READERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (Job, Run)
}
UNREADABLE = (msgspec.MsgspecError, TypeError, ValueError, RecursionError)
# If more rows than this are corrupt, the whole database is damaged.
MOST_CORRUPT = 1000


class CorruptRow(Exception):
    """A row that cannot be read; the caller sets it aside and tries again."""

    def __init__(self, table: str, row_id: str) -> None:
        super().__init__(table, row_id)
        self.table = table
        self.row_id = row_id
        self.reason = f"It is not a valid row of {table}."


def encode_row(value: Job | Run) -> bytes:
    """Encode a job or a run as JSON."""
    return msgspec.json.encode(value)


def read_job(job_id: str, owner: str, content: bytes) -> Job:
    """Read a job from its row, or raise `CorruptRow`."""
    job = _read(Job, content)
    if job is None or (job.job_id, job.user_id) != (job_id, owner):
        raise CorruptRow("jobs", job_id)
    return job


def read_run(run_id: str, job_id: str, content: bytes) -> Run:
    """Read a run from its row, or raise `CorruptRow`."""
    run = _read(Run, content)
    if run is None or (run.run_id, run.job_id) != (run_id, job_id):
        raise CorruptRow("runs", run_id)
    return run


def read_debt(run_id: str, job_content: bytes, run_content: bytes) -> tuple[Job, Run]:
    """Read an owed run and its job from its row, or raise `CorruptRow`."""
    job, run = _read(Job, job_content), _read(Run, run_content)
    if job is None or run is None or run.run_id != run_id:
        raise CorruptRow("owed", run_id)
    return job, run


def _read(kind: type[S], content: bytes) -> S | None:
    try:
        value: S = READERS[kind].decode(content)
    except UNREADABLE:
        return None
    return value


def skip_taken(job: Job, taken_ms: int) -> Job:
    """Return a job whose next time is after one that has a row already."""
    if job.retry_ms is not None:
        # A clock that was set back may plan two retries for one instant.
        return replace(job, retry_ms=taken_ms + 1, next_run_ms=taken_ms + 1)
    after_ms = taken_ms if job.due_ms is None else max(taken_ms, job.due_ms)
    due_ms = next_due(job.schedule, after_ms)
    job = replace(job, due_ms=due_ms, next_run_ms=due_ms)
    if due_ms is not None:
        return job
    return replace(job, enabled=False, disabled_reason=OVER)
