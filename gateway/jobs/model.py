"""Jobs and their runs: what is kept of them, and what can be asked for.

What becomes of a job is told by its neighbours: `reader` reads what is asked for, `lifecycle` makes
and changes jobs, `run_rules` says when they run, `view` shows them.
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
    """What the operator says about jobs and their schedules."""

    timezone: str = "UTC"
    """The zone of a schedule that names none."""
    min_interval_ms: int = 1000
    """The shortest time between two runs."""
    misfire_grace_ms: int = 3_600_000
    max_consecutive_failures: int = 5
    cron_lookahead_days: int = 3660
    """How far to look for the next time of an expression."""
    jobs_per_owner: int = 100


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is sent when it is time."""

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
    """The schedule's first time that is not accounted for: not run, not missed.

    None when the schedule has no further time. A disabled job keeps it, so that no time comes
    twice when it is enabled again.
    """
    next_run_ms: int | None = None
    """When to look at it: `due_ms`, `retry_ms`, or later after failures; None when disabled."""
    retry_ms: int | None = None
    """When a one-time job whose try came to nothing is tried again."""
    retries: int = 0
    """How often a one-time job was, or is about to be, tried again."""
    run_id: str = ""
    """The run that is under way."""
    running_ms: int | None = None
    last_run_ms: int | None = None
    last_status: Status | None = None
    last_error: str | None = None
    consecutive_failures: int = 0
    disabled_reason: str | None = None
    """Why the gateway disabled it; None when a person did."""
    created_ms: int = 0
    updated_ms: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One time a job was due, and what came of it."""

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
    """Of a row that stands for times that were missed: how many."""
    owed: bool = False
    """Whether its result still has to be brought into the session it came from."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is asked for."""

    schedule: Schedule
    message: str
    name: str
    session_mode: SessionMode = "main"
    enabled: bool = True
    delete_after_run: bool = False
    dedupe_key: str = ""
    model: str = ""
    job_id: str = ""
    """An id that was asked for; ids are made by us, so it can only be refused."""
    session_id: str = ""
    """Where it is asked to belong; whoever is bound to a session takes no notice of it."""
    agent_id: str = ""


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different about a job; None or nothing: what stays as it is."""

    job_id: str
    schedule: Mapping[str, object]
    """As it was written: what it leaves out is taken from the job's own."""
    schedule_text: str = ""
    message: str | None = None
    name: str | None = None
    """Empty: the one a job has that is given none."""
    session_mode: SessionMode | None = None
    enabled: bool | None = None
    delete_after_run: bool | None = None
    dedupe_key: str | None = None
    model: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
