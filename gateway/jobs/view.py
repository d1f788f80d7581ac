"""Jobs and runs as they are shown: completely over HTTP, shortly to a model.

The types for HTTP are also the source of the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.jobs.listing import JobState, find_state
from gateway.jobs.model import Job, Run, SessionMode, Status, Trigger
from gateway.jobs.planned_runs import MOST_TIMES, plan_runs
from gateway.jobs.run_rules import find_wait_ms
from gateway.jobs.schedule.describe import ScheduleWords, describe_schedule
from gateway.jobs.schedule.model import Schedule, ScheduleView, next_times, show_schedule
from gateway.jobs.schedule.zones import find_zone, offset_at
from gateway.timestamps import Timestamp, iso, iso_local

LONGEST_SUMMARY = 200
LAST_RUNS = 12


class JobPayload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a job sends when it is time."""

    message: str


class JobSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked for in a job."""

    job_id: str
    user_id: Annotated[str, Meta(description="The owner.")]
    session_id: str
    agent_id: Annotated[str, Meta(description="Empty for a relay session.")]
    model: Annotated[
        str | None,
        Meta(description="The one that is asked; null: the agent's, or the last request's."),
    ]
    name: str
    enabled: bool
    delete_after_run: bool
    session: SessionMode
    schedule: ScheduleView
    payload: JobPayload
    dedupe_key: str | None


class JobView(JobSettings, frozen=True, kw_only=True):
    """A job as it is shown: what was asked for, and what became of it."""

    next_run_at: Timestamp | None
    running_at: Timestamp | None
    run_due_at: Annotated[
        Timestamp | None, Meta(description="When the run that is going on was due.")
    ]
    last_run_at: Timestamp | None
    last_status: Status | None
    last_error: str | None
    consecutive_failures: int
    disabled_reason: Annotated[str | None, Meta(description="Why the gateway disabled it.")]
    created_at: Timestamp
    updated_at: Timestamp
    state: Annotated[JobState, Meta(description="The first that fits: running, off, failing, on.")]
    words: Annotated[ScheduleWords, Meta(description="The schedule, without its zone.")]
    next_times: Annotated[
        tuple[Timestamp, ...], Meta(max_length=MOST_TIMES, description="The next runs.")
    ]
    last_runs: Annotated[
        tuple[Status, ...],
        Meta(max_length=LAST_RUNS, description="How the last runs ended, the newest last."),
    ]
    retry_at: Annotated[
        Timestamp | None, Meta(description="When it runs again, if failures make it wait.")
    ]
    waits_ms: Annotated[int | None, Meta(description="How long it waits then.")]


class RunView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as it is shown."""

    run_id: str
    job_id: str
    trigger: Trigger
    status: Status
    summary: Annotated[
        str,
        Meta(max_length=LONGEST_SUMMARY, description="How the result or the error begins."),
    ]
    result: Annotated[str, Meta(description="Left out if not asked for.")] | UnsetType = UNSET
    error: str | None
    duration_ms: int | None
    due_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    missed: Annotated[
        int,
        Meta(description="How many times a row that is `missed` stands for; else 0."),
    ]
    late_ms: Annotated[
        int | None, Meta(description="How long after `due_at` it began; null if it did not.")
    ]
    exchange_id: Annotated[
        str | None, Meta(description="The exchange in which a model was asked; null if none was.")
    ]


class PreviewTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A time of a schedule."""

    at: Timestamp
    local: Annotated[Timestamp, Meta(description="The same on the wall clock of its zone.")]
    clock_change: Annotated[
        bool, Meta(description="Whether the clock was changed since the time before, or since now.")
    ]


class SchedulePreview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a schedule means: as `add` takes it, in words, and its next times."""

    schedule: ScheduleView
    words: ScheduleWords
    tz: Annotated[str, Meta(description="The zone of the local times.")]
    times: Annotated[list[PreviewTime], Meta(max_length=MOST_TIMES)]


class JobCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many jobs there are, in all and of each sort, and when the next one runs."""

    total: int
    enabled: int
    running: int
    next_run_at: Timestamp | None


class SchedulerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the scheduler is."""

    enabled: bool
    state: Literal["running", "draining", "off"]
    runs: Annotated[int, Meta(description="Under way.")] | UnsetType = UNSET
    max_concurrent_runs: int | UnsetType = UNSET


def show_job(job: Job, last_runs: tuple[Status, ...] = ()) -> JobView:
    """Return what is shown of a job over HTTP, with how its last runs ended."""
    waits_ms = find_wait_ms(job)
    return JobView(
        job_id=job.job_id,
        user_id=job.user_id,
        session_id=job.session_id,
        agent_id=job.agent_id,
        model=job.model or None,
        name=job.name,
        enabled=job.enabled,
        delete_after_run=job.delete_after_run,
        session=job.session_mode,
        schedule=show_schedule(job.schedule),
        payload=JobPayload(job.message),
        dedupe_key=job.dedupe_key or None,
        next_run_at=_instant(job.next_run_ms),
        running_at=_instant(job.running_ms),
        run_due_at=_instant(job.run_due_ms),
        last_run_at=_instant(job.last_run_ms),
        last_status=job.last_status,
        last_error=job.last_error,
        consecutive_failures=job.consecutive_failures,
        disabled_reason=job.disabled_reason,
        created_at=iso(job.created_ms),
        updated_at=iso(job.updated_ms),
        state=find_state(job),
        words=describe_schedule(job.schedule),
        next_times=tuple(map(iso, plan_runs(job))),
        last_runs=last_runs,
        retry_at=None if waits_ms is None else _instant(job.next_run_ms),
        waits_ms=waits_ms,
    )


def show_run(run: Run, with_result: bool = True) -> RunView:
    """Return what is shown of a run over HTTP."""
    # Its row is written when it is over; until then its exchange has its id, as soon as it begins.
    exchange_id = run.run_id if run.status == "running" else run.exchange_id
    return RunView(
        run_id=run.run_id,
        job_id=run.job_id,
        trigger=run.trigger,
        status=run.status,
        summary=(run.result or run.error or "")[:LONGEST_SUMMARY],
        result=run.result if with_result else UNSET,
        error=run.error,
        duration_ms=run.duration_ms,
        due_at=iso(run.due_ms),
        started_at=_instant(run.started_ms),
        finished_at=_instant(run.finished_ms),
        missed=run.missed,
        # A clock that was set back makes no run early.
        late_ms=None if run.started_ms is None else max(0, run.started_ms - run.due_ms),
        exchange_id=exchange_id or None,
    )


def show_preview(schedule: Schedule, tz: str, now_ms: int) -> SchedulePreview:
    """Return what a schedule means from now on, with its times in a zone."""
    zone, times = find_zone(tz), next_times(schedule, now_ms, MOST_TIMES)
    offsets = [offset_at(at_ms // 1000, zone) for at_ms in (now_ms, *times)]
    shown = [
        PreviewTime(iso(at_ms), iso_local(at_ms, zone), before != after)
        for at_ms, (before, after) in zip(times, pairwise(offsets), strict=True)
    ]
    return SchedulePreview(show_schedule(schedule), describe_schedule(schedule), tz, shown)


def summarize_job(job: Job) -> dict[str, object]:
    """Return what a model is shown of a job."""
    schedule = msgspec.structs.asdict(show_schedule(job.schedule))
    return {
        "job_id": job.job_id,
        "name": job.name,
        "enabled": job.enabled,
        "schedule": {name: value for name, value in schedule.items() if value is not None},
        "next_run_at": _instant(job.next_run_ms),
        "last_run_at": _instant(job.last_run_ms),
        "last_status": job.last_status,
    }


def count_jobs(jobs: Iterable[Job]) -> JobCounts:
    """Count jobs, in all and of each sort, and find when the next one runs."""
    known = tuple(jobs)
    ahead = [job.next_run_ms for job in known if job.next_run_ms is not None]
    return JobCounts(
        total=len(known),
        enabled=sum(job.enabled for job in known),
        running=sum(bool(job.run_id) for job in known),
        next_run_at=_instant(min(ahead, default=None)),
    )


def _instant(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
