"""Jobs and runs as others see them: over HTTP whole, to a model in few words."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import shown_schedule
from gateway.reminders.text import iso

LONGEST_SUMMARY = 200


def shown_job(job: Job) -> dict[str, object]:
    """Return what is shown of a job over HTTP."""
    return {
        "job_id": job.job_id,
        "user_id": job.user_id,
        "session_id": job.session_id,
        "agent_id": job.agent_id,
        "model": job.model or None,
        "name": job.name,
        "enabled": job.enabled,
        "delete_after_run": job.delete_after_run,
        "session": job.session,
        "schedule": shown_schedule(job.schedule),
        "payload": {"message": job.message},
        "dedupe_key": job.dedupe_key or None,
        "next_run_at": _instant(job.next_run_ms),
        "running_at": _instant(job.running_ms),
        "last_run_at": _instant(job.last_run_ms),
        "last_status": job.last_status,
        "last_error": job.last_error,
        "consecutive_failures": job.consecutive_failures,
        "disabled_reason": job.disabled_reason,
        "created_at": iso(job.created_ms),
        "updated_at": iso(job.updated_ms),
    }


def shown_run(run: Run) -> dict[str, object]:
    """Return what is shown of a run over HTTP."""
    return {
        "run_id": run.run_id,
        "job_id": run.job_id,
        "trigger": run.trigger,
        "status": run.status,
        "summary": (run.result or run.error or "")[:LONGEST_SUMMARY],
        "result": run.result,
        "error": run.error,
        "duration_ms": run.duration_ms,
        "due_at": iso(run.due_ms),
        "started_at": _instant(run.started_ms),
        "finished_at": _instant(run.finished_ms),
        "missed": run.missed,
    }


def compact(job: Job) -> dict[str, object]:
    """Return what a model is shown of a job."""
    schedule = shown_schedule(job.schedule)
    return {
        "job_id": job.job_id,
        "name": job.name,
        "enabled": job.enabled,
        "schedule": {name: value for name, value in schedule.items() if value is not None},
        "next_run_at": _instant(job.next_run_ms),
        "last_run_at": _instant(job.last_run_ms),
        "last_status": job.last_status,
    }


def counted(jobs: Iterable[Job]) -> dict[str, object]:
    """Return how many jobs there are, in all and of each sort, and when the next one runs."""
    known = tuple(jobs)
    ahead = [job.next_run_ms for job in known if job.next_run_ms is not None]
    return {
        "total": len(known),
        "enabled": sum(job.enabled for job in known),
        "running": sum(bool(job.run_id) for job in known),
        "next_run_at": _instant(min(ahead, default=None)),
    }


def _instant(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
