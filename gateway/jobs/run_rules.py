"""What becomes of a job by the passing of time: its runs are claimed, and they end.

Each time of an enabled job's schedule ends in one row: as a run, or counted among those that were
missed. A one-time job that came to nothing is tried again a few times; each retry is a run of its
own. Whoever claims keeps the job and the new rows together, or neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gateway.jobs.lifecycle import disabled
from gateway.jobs.model import Job, Run, Status, Trigger
from gateway.jobs.notices import missed_notice
from gateway.jobs.rules import JobRules
from gateway.jobs.schedule.model import At, next_due, times_between

JobClaim = tuple[Job, tuple[Run, ...]]
After = Callable[[Job, Run, int, JobRules], Job | None]

BACK_OFF_MS = (30_000, 60_000, 300_000, 900_000, 3_600_000)
RETRY_MS = BACK_OFF_MS[:4]
DAY_MS = 86_400_000
OVER = "Its schedule has no further time."
OVER_AND_MISSED = "Its time was missed, and its schedule has no further one."
GIVEN_UP = "It was tried as often as it may, {tries}; give it another time by update."
TOO_OFTEN = "It failed as often in a row as it may, {failures}; enable it to try again."


def claim_due(job: Job, now_ms: int, rules: JobRules, new_id: Callable[[], str]) -> JobClaim:
    """Account for every time of a job that has come, the last of them by a run if it may be.

    The job is to be kept also when there is no row: its `due_ms` was then no time of its
    schedule, and is one now.
    """
    if job.enabled and job.retry_ms is not None:
        return _claim_retry(job, job.retry_ms, now_ms, rules, new_id)
    first_ms = job.due_ms
    if first_ms is None or not job.enabled:
        return replace(job, next_run_ms=None), ()
    count, last_ms, before_ms = times_between(job.schedule, first_ms, now_ms)
    job = _due_after(job, max(now_ms, first_ms - 1), rules)
    if count == 0:
        return _resting(job, now_ms, OVER), ()
    if now_ms - last_ms > rules.misfire_grace_ms:
        return _all_missed(job, _missed(job, new_id(), count, last_ms, now_ms), now_ms)
    run = _begun(job, new_id(), "timer", last_ms, now_ms)
    if before_ms is None:
        return _running(job, run), (run,)
    missed = _missed(job, new_id(), count - 1, before_ms, now_ms)
    return _running(job, run), (missed, run)


def _claim_retry(
    job: Job, retry_ms: int, now_ms: int, rules: JobRules, new_id: Callable[[], str]
) -> JobClaim:
    """Try a one-time job again, unless that was missed too."""
    if now_ms < retry_ms:
        return replace(job, next_run_ms=retry_ms), ()
    job = replace(job, retry_ms=None, next_run_ms=None)
    if now_ms - retry_ms > rules.misfire_grace_ms:
        return _all_missed(job, _missed(job, new_id(), 1, retry_ms, now_ms), now_ms)
    run = _begun(job, new_id(), "timer", retry_ms, now_ms)
    return _running(job, run), (run,)


def give_back(job: Job, run: Run) -> Job:
    """Take back the claim of a run that has not begun: its time is due again.

    Unless the job was disabled or given another schedule meanwhile.
    """
    job = replace(job, run_id="", running_ms=None)
    if not job.enabled or run.trigger == "manual":
        return job
    if isinstance(job.schedule, At) and job.due_ms is None and run.due_ms != job.schedule.at_ms:
        return replace(job, retry_ms=run.due_ms, next_run_ms=run.due_ms)
    if next_due(job.schedule, run.due_ms - 1) != run.due_ms:
        return job
    return replace(job, due_ms=run.due_ms, next_run_ms=run.due_ms)


def reckon_again(job: Job, now_ms: int, rules: JobRules) -> Job:
    """Reckon anew when a job is due, after the clock was set back.

    Its times may have been reckoned from a clock that was ahead. A time that has a row already does
    not get another one: the store sees to that.
    """
    if not job.enabled or job.next_run_ms is None:
        return job
    if now_ms < job.created_ms - DAY_MS:
        # A host without a clock of its own starts long ago; times since then would count as missed.
        return job
    if job.retry_ms is not None:
        retry_ms = min(job.retry_ms, now_ms + RETRY_MS[job.retries - 1])
        return replace(job, retry_ms=retry_ms, next_run_ms=retry_ms)
    if job.due_ms is None or isinstance(job.schedule, At):
        return job
    due_ms = next_due(job.schedule, now_ms, rules.cron_lookahead_days)
    due_ms = job.due_ms if due_ms is None else min(job.due_ms, due_ms)
    next_ms = min(job.next_run_ms, now_ms + _back_off_ms(job.consecutive_failures))
    return replace(job, due_ms=due_ms, next_run_ms=max(due_ms, next_ms))


def claim_manual(job: Job, now_ms: int, new_id: Callable[[], str]) -> JobClaim:
    """Begin a run that somebody asks for now; the times of the job's schedule stay as they are."""
    run = _begun(job, new_id(), "manual", now_ms, now_ms)
    return _running(job, run), (run,)


def finished(
    run: Run, now_ms: int, status: Status, result: str = "", error: str | None = None
) -> Run:
    """Note how a run ended."""
    return replace(
        run,
        status=status,
        finished_ms=now_ms,
        # The clock may have been set back meanwhile.
        duration_ms=None if run.started_ms is None else max(0, now_ms - run.started_ms),
        result=result,
        error=error,
    )


def after(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job | None:
    """Return what the end of its run makes of a job; None: it is to be deleted."""
    return AFTER[run.status](job, run, now_ms, rules)


def after_ok(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job | None:
    """Forget the failures, and wait for the next time; or be gone, if it was to run just once."""
    if job.delete_after_run:
        return None
    done = replace(_noted(job, run), consecutive_failures=0, retries=0, retry_ms=None)
    return _next(done, now_ms)


def after_error(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Wait the longer the more often a job failed, and give up in the end."""
    failures = job.consecutive_failures + 1
    job = replace(_noted(job, run), consecutive_failures=failures)
    if isinstance(job.schedule, At):
        return _retry(job, job.schedule.at_ms, run, now_ms, rules)
    job = _next(job, now_ms)
    if job.next_run_ms is None:
        return job
    if failures >= rules.max_consecutive_failures:
        return disabled(job, now_ms, TOO_OFTEN.format(failures=failures))
    return replace(job, next_run_ms=max(job.next_run_ms, now_ms + _back_off_ms(failures)))


def after_skipped(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Wait for the next time: that its session was busy is no failure of a job."""
    return _after_nothing(job, run, now_ms, rules)


def after_interrupted(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Wait for the next time: that the gateway was stopped is no failure of a job."""
    return _after_nothing(job, run, now_ms, rules)


AFTER: Mapping[Status, After] = {
    "ok": after_ok,
    "error": after_error,
    "skipped": after_skipped,
    "interrupted": after_interrupted,
}


def _back_off_ms(failures: int) -> int:
    return BACK_OFF_MS[min(failures, len(BACK_OFF_MS)) - 1] if failures else 0


def _due_after(job: Job, after_ms: int, rules: JobRules) -> Job:
    due_ms = next_due(job.schedule, after_ms, rules.cron_lookahead_days)
    return replace(job, due_ms=due_ms, next_run_ms=due_ms)


def _after_nothing(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    job = _noted(job, run)
    if isinstance(job.schedule, At):
        return _retry(job, job.schedule.at_ms, run, now_ms, rules)
    return _next(job, now_ms)


def _retry(job: Job, at_ms: int, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Have a one-time job tried again, or give it up; what is run by hand counts for neither."""
    if run.trigger == "manual" or not job.enabled or job.due_ms is not None:
        return _next(job, now_ms)
    if job.retries < len(RETRY_MS):
        retry_ms = now_ms + RETRY_MS[job.retries]
        if retry_ms - at_ms <= rules.misfire_grace_ms:
            retries = job.retries + 1
            return replace(job, retries=retries, retry_ms=retry_ms, next_run_ms=retry_ms)
    return disabled(job, now_ms, GIVEN_UP.format(tries=job.retries + 1))


def _next(job: Job, now_ms: int) -> Job:
    """Look at a job again when it is due; one that was disabled meanwhile stays so."""
    if not job.enabled:
        return job
    if job.retry_ms is not None:
        return replace(job, next_run_ms=job.retry_ms)
    return _resting(replace(job, next_run_ms=job.due_ms), now_ms, OVER)


def _resting(job: Job, now_ms: int, reason: str) -> Job:
    return disabled(job, now_ms, reason) if job.due_ms is None else job


def _begun(job: Job, run_id: str, trigger: Trigger, due_ms: int, now_ms: int) -> Run:
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        user_id=job.user_id,
        trigger=trigger,
        due_ms=due_ms,
        started_ms=now_ms,
    )


def _running(job: Job, run: Run) -> Job:
    return replace(job, run_id=run.run_id, running_ms=run.started_ms)


def _noted(job: Job, run: Run) -> Job:
    return replace(
        job,
        run_id="",
        running_ms=None,
        last_run_ms=run.started_ms,
        last_status=run.status,
        last_error=run.error,
    )


def _missed(job: Job, run_id: str, count: int, last_ms: int, now_ms: int) -> Run:
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        user_id=job.user_id,
        status="missed",
        due_ms=last_ms,
        finished_ms=now_ms,
        error=missed_notice(count, last_ms),
        missed=count,
    )


def _all_missed(job: Job, row: Run, now_ms: int) -> JobClaim:
    noted = replace(job, last_status=row.status, last_error=row.error)
    return _resting(noted, now_ms, OVER_AND_MISSED), (row,)
