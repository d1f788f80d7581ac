"""Changes of jobs by people and models: made, changed, enabled, disabled.

The functions are pure; the caller stores what they return. A job is due at the times of its
schedule that come while it is enabled; `due_ms` passes each of them once, and goes back only with a
new schedule.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec.structs import asdict, replace

from gateway.errors import InvalidInput
from gateway.jobs.model import Draft, Job, JobRules, Patch
from gateway.jobs.reader import default_name
from gateway.jobs.run_rules import disable_job
from gateway.jobs.schedule.model import At, Every, Schedule, next_due, show_schedule
from gateway.jobs.schedule.reader import read_schedule
from gateway.timestamps import iso

T = TypeVar("T")

# The members of a schedule of each kind.
_PARTS = {
    "at": {"kind", "tz", "at"},
    "every": {"kind", "tz", "every_ms", "at"},
    "cron": {"kind", "tz", "cron"},
}


def make_job(
    draft: Draft, job_id: str, owner: str, session: str, agent: str, now_ms: int, rules: JobRules
) -> Job:
    """Make a job; raise `InvalidInput` if it would never be due."""
    due_ms = find_first_due(draft.schedule, now_ms, rules)
    return Job(
        job_id=job_id,
        user_id=owner,
        session_id=session,
        agent_id=agent,
        name=draft.name,
        enabled=draft.enabled,
        delete_after_run=draft.delete_after_run,
        session_mode=draft.session_mode,
        schedule=draft.schedule,
        message=draft.message,
        model=draft.model,
        dedupe_key=draft.dedupe_key,
        due_ms=due_ms,
        next_run_ms=due_ms if draft.enabled else None,
        created_ms=now_ms,
        updated_ms=now_ms,
    )


def renew_job(job: Job, wanted: Job, now_ms: int, rules: JobRules) -> Job:
    """Change a job to the wanted job with the same `dedupe_key`; it keeps its id and history."""
    schedule = _keep_grid(job.schedule, wanted.schedule, wanted.created_ms)
    changed = replace(
        _reschedule_job(job, schedule, now_ms, rules),
        session_id=wanted.session_id,
        agent_id=wanted.agent_id,
        name=wanted.name,
        delete_after_run=wanted.delete_after_run,
        session_mode=wanted.session_mode,
        message=wanted.message,
        model=wanted.model,
        updated_ms=now_ms,
    )
    return enable_job(changed, now_ms, rules) if wanted.enabled else disable_job(changed, now_ms)


def patch_job(job: Job, patch: Patch, now_ms: int, rules: JobRules) -> Job:
    """Apply a patch to a job, or raise `InvalidInput`.

    A job whose schedule had ended, such as a one-time job that has run, starts again with a new
    schedule, unless the patch disables it.
    """
    _refuse_move(job, patch)
    schedule = _read_new_schedule(job, patch, now_ms, rules)
    changed = _apply_members(_reschedule_job(job, schedule, now_ms, rules), patch, now_ms)
    if patch.enabled is None:
        return changed
    return enable_job(changed, now_ms, rules) if patch.enabled else disable_job(changed, now_ms)


def enable_job(job: Job, now_ms: int, rules: JobRules) -> Job:
    """Enable a job and reset its failures; raise `InvalidInput` if it would never be due.

    A job that is already enabled keeps its due time, so that no due run is lost.
    """
    due_ms = job.due_ms
    if not job.enabled:
        at = job.schedule
        # If the clock was set back, times that were run or missed do not come again.
        accounted_ms = at.at_ms if isinstance(at, At) else 0
        accounted_ms = accounted_ms if due_ms is None else due_ms - 1
        due_ms = find_first_due(at, max(now_ms, accounted_ms), rules)
    return replace(
        job,
        enabled=True,
        due_ms=due_ms,
        next_run_ms=due_ms if job.retry_ms is None else job.retry_ms,
        consecutive_failures=0,
        disabled_reason=None,
        updated_ms=now_ms,
    )


def find_first_due(schedule: Schedule, after_ms: int, rules: JobRules) -> int:
    """Return the first time after an instant; raise `InvalidInput` if there is none."""
    due_ms = next_due(schedule, after_ms, rules.cron_lookahead_days)
    if due_ms is None and isinstance(schedule, At):
        raise InvalidInput(
            f"schedule.at is in the past, {iso(schedule.at_ms)}; set a later time with update."
        )
    if due_ms is None:
        raise InvalidInput("schedule has no further run time; set another schedule.")
    return due_ms


def _reschedule_job(job: Job, schedule: Schedule, now_ms: int, rules: JobRules) -> Job:
    if schedule == job.schedule:
        return job
    due_ms = find_first_due(schedule, now_ms, rules)
    moved = replace(job, schedule=schedule, due_ms=due_ms, retry_ms=None, retries=0)
    if job.enabled:
        return replace(moved, next_run_ms=due_ms)
    return enable_job(moved, now_ms, rules) if job.due_ms is None else moved


def _read_new_schedule(job: Job, patch: Patch, now_ms: int, rules: JobRules) -> Schedule:
    shown = asdict(show_schedule(job.schedule))
    given = {name: value for name, value in patch.schedule.items() if value not in (None, "")}
    if not patch.schedule_text or given.keys() - {"tz"}:
        given = _complete_members(given, shown)
    if given == shown:
        return job.schedule
    # If no zone is named, the job keeps its own.
    rules = replace(rules, timezone=str(shown["tz"] or rules.timezone))
    read = read_schedule(given, patch.schedule_text, now_ms, rules)
    return _keep_grid(job.schedule, read, now_ms)


def _complete_members(given: dict[str, object], shown: dict[str, object]) -> dict[str, object]:
    """Complete the given members from the current schedule, if the kind stays the same."""
    kind = str(shown["kind"])
    is_same_kind = given.get("kind", kind) == kind and given.keys() <= _PARTS[kind]
    return {**shown, **given} if is_same_kind else given


def _keep_grid(old: Schedule, new: Schedule, asked_ms: int) -> Schedule:
    """Keep the current start of an interval if the same interval is given without a start."""
    is_same = (
        isinstance(old, Every)
        and isinstance(new, Every)
        and new == Every(old.every_ms, anchor_ms=asked_ms)
    )
    return old if is_same else new


def _refuse_move(job: Job, patch: Patch) -> None:
    for name, wanted, current in (
        ("session_id", patch.session_id, job.session_id),
        ("agent_id", patch.agent_id, job.agent_id),
    ):
        if wanted not in (None, current):
            raise InvalidInput(f"{name} of a job cannot be changed; add a new job instead.")


def _apply_members(job: Job, patch: Patch, now_ms: int) -> Job:
    message = _choose(patch.message, job.message)
    return replace(
        job,
        message=message,
        name=_choose(patch.name, job.name) or default_name(message),
        session_mode=_choose(patch.session_mode, job.session_mode),
        delete_after_run=_choose(patch.delete_after_run, job.delete_after_run),
        dedupe_key=_choose(patch.dedupe_key, job.dedupe_key),
        model=_choose(patch.model, job.model),
        updated_ms=now_ms,
    )


def _choose(new: T | None, old: T) -> T:
    return old if new is None else new
