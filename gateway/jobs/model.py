"""Jobs and their runs as they are stored, and requests for new and changed jobs.

The modules beside this one work on them: `reader` reads requests, `lifecycle` makes and changes
jobs, `run_rules` decides when they run and what a run's end means, `view` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from gateway.jobs.schedule.model import Schedule

Trigger = Literal["timer", "manual"]
Status = Literal["running", "ok", "error", "skipped", "interrupted", "missed"]
SessionMode = Literal["main", "isolated"]


class JobRules(msgspec.Struct, frozen=True, gc=False):
    """The operator's settings for jobs and their schedules."""

    timezone: str = "UTC"
    """The zone of a schedule that names none."""
    min_interval_ms: int = 1000
    """The shortest time between two runs."""
    misfire_grace_ms: int = 3_600_000
    max_consecutive_failures: int = 5
    cron_lookahead_days: int = 3660
    """How far to look ahead for the next time of a cron expression."""
    jobs_per_owner: int = 100


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is sent at the times of a schedule."""

    job_id: str
    user_id: str
    """The owner."""
    session_id: str
    agent_id: str = ""
    """Empty: the session is a relay session, whose conversation the client keeps."""
    name: str
    enabled: bool = True
    delete_after_run: bool = False
    session_mode: SessionMode = msgspec.field(default="main", name="session")
    """Where it runs: in the conversation of its session, or in a fresh one."""
    schedule: Schedule
    message: str
    model: str = ""
    """For relay sessions; empty: the one of the session's last request, or the first there is."""
    dedupe_key: str = ""
    due_ms: int | None = None
    """The schedule's first time that was neither run nor missed.

    None if the schedule has no further time. A disabled job keeps it, so that no time comes twice
    when it is enabled again.
    """
    next_run_ms: int | None = None
    """When it is claimed next: `due_ms`, `retry_ms`, or later after failures; None if disabled."""
    retry_ms: int | None = None
    """When a one-time job is tried again after a try without result."""
    retries: int = 0
    """How many retries a one-time job has had, including the next one if it is planned."""
    run_id: str = ""
    """The run that is running now; empty if none is."""
    running_ms: int | None = None
    run_due_ms: int | None = None
    """When the run that is running now was due."""
    last_run_ms: int | None = None
    last_status: Status | None = None
    last_error: str | None = None
    last_missed: int = 0
    """How many run times its last row stands for, if that is `missed`; else 0."""
    consecutive_failures: int = 0
    disabled_reason: str | None = None
    """Why the gateway disabled it; None if a person did."""
    created_ms: int = 0
    updated_ms: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a job, or one row for run times that were missed."""

    run_id: str
    job_id: str
    user_id: str
    trigger: Trigger = "timer"
    status: Status = "running"
    due_ms: int
    started_ms: int | None = None
    finished_ms: int | None = None
    duration_ms: int | None = None
    result: str = ""
    error: str | None = None
    missed: int = 0
    """How many run times a row `missed` stands for."""
    exchange_id: str = ""
    """The exchange in which a model was asked; empty if none was, or the run is not over."""
    owed: bool = False
    """Whether its result still has to be returned to the job's session."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request for a new job."""

    schedule: Schedule
    message: str
    name: str
    session_mode: SessionMode = "main"
    enabled: bool = True
    delete_after_run: bool = False
    dedupe_key: str = ""
    model: str = ""
    job_id: str = ""
    """An id in the request; the gateway makes ids, so it can only be refused."""
    session_id: str = ""
    """The session in the request; a caller that is bound to a session ignores it."""
    agent_id: str = ""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request to change a job; None or empty: no change."""

    job_id: str
    schedule: Mapping[str, object]
    """As it was written; members that are left out are taken from the job's schedule."""
    schedule_text: str = ""
    message: str | None = None
    name: str | None = None
    """Empty: the default name."""
    session_mode: SessionMode | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    dedupe_key: str | None = None
    model: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    if_updated_ms: int | None = None
    """When the job must have been changed last, so that no other change is lost."""
