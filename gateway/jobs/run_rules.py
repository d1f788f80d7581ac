"""Changes of jobs over time: runs are claimed, runs end, a job is disabled after failures.

The idea: a job has `due_ms`, the first time of its schedule that has no row yet. A claim moves it
past now and makes the rows for all times it passed; nothing else moves it forward. The functions
are pure: they take a job and return the changed job, with the rows to store.

Invariants:
- Each time of an enabled job's schedule gets exactly one row: a run, or counted in one row `missed`
  with others that passed. The caller stores the job and its new rows in one transaction, and the
  store refuses a second row for the same job and time.
- Of the times that passed, only the last is run, and only within `misfire_grace_ms`.
- While a job runs it has a `run_id`, and nobody claims it again. A process that dies leaves the
  row `running`; when its lease ends, another process ends that run as `interrupted`.
- Only an error counts as a failure. A one-time job without a result is tried again a few times,
  each time as a new run; a recurring job waits longer after each failure in a row. A try that a
  spent budget refused is not one of these few: the next one comes when the budget begins again.
- A manual run changes neither the times of the schedule nor the count of retries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gateway.jobs.model import Job, JobRules, Run, Status, Trigger
from gateway.jobs.schedule.model import At, next_due, times_between
from gateway.timestamps import iso

JobClaim = tuple[Job, tuple[Run, ...]]
EndRule = Callable[[Job, Run, int, JobRules], Job | None]

BACK_OFF_MS = (30_000, 60_000, 300_000, 900_000, 3_600_000)
RETRY_MS = BACK_OFF_MS[:4]
DAY_MS = 86_400_000
LONGEST_REASON = 200
OVER = "The schedule has no further run time."
OVER_AND_MISSED = "The run time was missed, and the schedule has no further one."
GIVEN_UP = "It used all its tries ({tries}); set a new time with update."
TOO_LATE = "{error} Set a new time with update."
TOO_OFTEN = "It failed too often in a row ({failures}); enable it to try again."
UNKNOWN = "no reason is known."


def claim_due(job: Job, now_ms: int, rules: JobRules, new_id: Callable[[], str]) -> JobClaim:
    """Claim all times of a job that have come: the last one as a run if it is not too late.

    The job has to be stored even if there is no row: its `due_ms` was then not a time of its
    schedule, and is one now.
    """
    if job.enabled and job.retry_ms is not None:
        return _claim_retry(job, job.retry_ms, now_ms, rules, new_id)
    first_ms = job.due_ms
    if first_ms is None or not job.enabled:
        return replace(job, next_run_ms=None), ()
    count, last_ms, before_ms = times_between(job.schedule, first_ms, now_ms)
    # After now, or after `first_ms` if the clock was set back to before that.
    due_ms = next_due(job.schedule, max(now_ms, first_ms - 1), rules.cron_lookahead_days)
    job = replace(job, due_ms=due_ms, next_run_ms=due_ms)
    if count == 0:
        return _disable_if_over(job, now_ms, OVER), ()
    if now_ms - last_ms > rules.misfire_grace_ms:
        return _claim_missed(job, new_id(), count, last_ms, now_ms)
    claimed, rows = _claim_run(job, new_id(), "timer", last_ms, now_ms)
    if before_ms is None:
        return claimed, rows
    return claimed, (_make_missed_row(job, new_id(), count - 1, before_ms, now_ms), *rows)


def _claim_retry(
    job: Job, retry_ms: int, now_ms: int, rules: JobRules, new_id: Callable[[], str]
) -> JobClaim:
    """Claim the retry of a one-time job, or record it as missed."""
    if now_ms < retry_ms:
        return replace(job, next_run_ms=retry_ms), ()
    job = replace(job, retry_ms=None, next_run_ms=None)
    if now_ms - retry_ms > rules.misfire_grace_ms:
        return _claim_missed(job, new_id(), 1, retry_ms, now_ms)
    return _claim_run(job, new_id(), "timer", retry_ms, now_ms)


def claim_manual(job: Job, now_ms: int, new_id: Callable[[], str]) -> JobClaim:
    """Claim a manual run, now; the times of the job's schedule do not change."""
    return _claim_run(job, new_id(), "manual", now_ms, now_ms)


def _claim_run(job: Job, run_id: str, trigger: Trigger, due_ms: int, now_ms: int) -> JobClaim:
    run = Run(
        run_id=run_id,
        job_id=job.job_id,
        user_id=job.user_id,
        trigger=trigger,
        due_ms=due_ms,
        started_ms=now_ms,
    )
    return replace(job, run_id=run_id, running_ms=now_ms, run_due_ms=due_ms), (run,)


def _claim_missed(job: Job, run_id: str, count: int, last_ms: int, now_ms: int) -> JobClaim:
    row = _make_missed_row(job, run_id, count, last_ms, now_ms)
    noted = replace(job, last_status=row.status, last_error=row.error, last_missed=count)
    return _disable_if_over(noted, now_ms, OVER_AND_MISSED), (row,)


def _make_missed_row(job: Job, run_id: str, count: int, last_ms: int, now_ms: int) -> Run:
    return Run(
        run_id=run_id,
        job_id=job.job_id,
        user_id=job.user_id,
        status="missed",
        due_ms=last_ms,
        finished_ms=now_ms,
        error=write_missed_notice(count, last_ms),
        missed=count,
    )


def give_back_claim(job: Job, run: Run) -> Job:
    """Undo the claim of a run that has not started: its time is due again.

    If the job was disabled or got another schedule meanwhile, its due time stays as it is.
    """
    job = replace(job, run_id="", running_ms=None, run_due_ms=None)
    if not job.enabled or run.trigger == "manual":
        return job
    if isinstance(job.schedule, At) and job.due_ms is None and run.due_ms != job.schedule.at_ms:
        return replace(job, retry_ms=run.due_ms, next_run_ms=run.due_ms)
    if next_due(job.schedule, run.due_ms - 1) != run.due_ms:
        return job
    return replace(job, due_ms=run.due_ms, next_run_ms=run.due_ms)


def recompute_due(job: Job, now_ms: int, rules: JobRules) -> Job:
    """Compute anew when a job is due, after the clock was set back.

    Its times may have been computed from a clock that was ahead. The store makes sure that a time
    with a row does not get another one.
    """
    if not job.enabled or job.next_run_ms is None:
        return job
    if now_ms < job.created_ms - DAY_MS:
        # A host without a battery clock starts in the past; times since then would count as missed.
        return job
    if job.retry_ms is not None:
        retry_ms = min(job.retry_ms, now_ms + _find_retry_ms(job))
        return replace(job, retry_ms=retry_ms, next_run_ms=retry_ms)
    if job.due_ms is None or isinstance(job.schedule, At):
        return job
    due_ms = next_due(job.schedule, now_ms, rules.cron_lookahead_days)
    due_ms = job.due_ms if due_ms is None else min(job.due_ms, due_ms)
    next_ms = min(job.next_run_ms, now_ms + _back_off_ms(job.consecutive_failures))
    return replace(job, due_ms=due_ms, next_run_ms=max(due_ms, next_ms))


def finish_run(
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


def apply_end(
    job: Job, run: Run, now_ms: int, rules: JobRules, begins_ms: int | None = None
) -> Job | None:
    """Return the job after the end of its run; None: delete it.

    `begins_ms` is when the budget begins again that refused the run.
    """
    if begins_ms is not None:
        return apply_spent_budget(job, run, now_ms, rules, begins_ms)
    return END_RULES[run.status](job, run, now_ms, rules)


def apply_ok(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job | None:
    """Reset the failures and wait for the next time; None if the job is deleted after a run."""
    if job.delete_after_run:
        return None
    job = _note_end(job, run)
    return _wait_for_next(replace(job, consecutive_failures=0, retries=0, retry_ms=None), now_ms)


def apply_error(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Wait longer after each failure in a row, and disable the job after too many."""
    failures = job.consecutive_failures + 1
    job = apply_no_result(replace(job, consecutive_failures=failures), run, now_ms, rules)
    if isinstance(job.schedule, At) or job.next_run_ms is None:
        return job
    if failures >= rules.max_consecutive_failures:
        return disable_job(job, now_ms, TOO_OFTEN.format(failures=failures))
    return replace(job, next_run_ms=max(job.next_run_ms, now_ms + _back_off_ms(failures)))


def apply_no_result(job: Job, run: Run, now_ms: int, rules: JobRules) -> Job:
    """Wait for the next time, or plan a retry of a one-time job.

    A busy session or a stopped gateway does not count as a failure of the job.
    """
    job, at = _note_end(job, run), job.schedule
    if not isinstance(at, At) or not _is_try(job, run):
        return _wait_for_next(job, now_ms)
    if job.retries < len(RETRY_MS):
        retry_ms = now_ms + RETRY_MS[job.retries]
        if retry_ms - at.at_ms <= rules.misfire_grace_ms:
            retries = job.retries + 1
            return replace(job, retries=retries, retry_ms=retry_ms, next_run_ms=retry_ms)
    return disable_job(job, now_ms, GIVEN_UP.format(tries=job.retries + 1))


def apply_spent_budget(job: Job, run: Run, now_ms: int, rules: JobRules, begins_ms: int) -> Job:
    """Wait for the next time, or have a one-time job wait for the budget if that is soon enough.

    No try is used up: until then every one would be refused.
    """
    job, at = _note_end(job, run), job.schedule
    if not isinstance(at, At) or not _is_try(job, run):
        return _wait_for_next(job, now_ms)
    if begins_ms - at.at_ms <= rules.misfire_grace_ms:
        return replace(job, retry_ms=begins_ms, next_run_ms=begins_ms)
    return disable_job(job, now_ms, TOO_LATE.format(error=run.error))


def _is_try(job: Job, run: Run) -> bool:
    """Whether a run was a try of a one-time job: not by hand, and no new time was set since."""
    return run.trigger == "timer" and job.enabled and job.due_ms is None


END_RULES: Mapping[Status, EndRule] = {
    "ok": apply_ok,
    "error": apply_error,
    "skipped": apply_no_result,
    "interrupted": apply_no_result,
}


def disable_job(job: Job, now_ms: int, reason: str | None = None) -> Job:
    """Disable a job; one that is already disabled keeps its reason."""
    if not job.enabled:
        return job
    return replace(
        job,
        enabled=False,
        next_run_ms=None,
        retry_ms=None,
        disabled_reason=reason,
        updated_ms=now_ms,
    )


def _note_end(job: Job, run: Run) -> Job:
    return replace(
        job,
        run_id="",
        running_ms=None,
        run_due_ms=None,
        last_run_ms=run.started_ms,
        last_status=run.status,
        last_error=run.error,
        last_missed=0,
    )


def _wait_for_next(job: Job, now_ms: int) -> Job:
    """Set when a job runs next; one that was disabled meanwhile stays disabled."""
    if not job.enabled:
        return job
    if job.retry_ms is not None:
        return replace(job, next_run_ms=job.retry_ms)
    return _disable_if_over(replace(job, next_run_ms=job.due_ms), now_ms, OVER)


def _disable_if_over(job: Job, now_ms: int, reason: str) -> Job:
    return disable_job(job, now_ms, reason) if job.due_ms is None else job


def _back_off_ms(failures: int) -> int:
    return BACK_OFF_MS[min(failures, len(BACK_OFF_MS)) - 1] if failures else 0


def _find_retry_ms(job: Job) -> int:
    """Return how long a one-time job waits after a try; one that waits for a budget had none."""
    return RETRY_MS[max(job.retries, 1) - 1]


def find_wait_ms(job: Job) -> int | None:
    """Return how long failures make a job wait for its next run; None if they do not."""
    if not job.enabled or job.next_run_ms is None:
        return None
    if job.retry_ms is not None:
        return _find_retry_ms(job) if job.retries else None
    if job.consecutive_failures and job.due_ms is not None and job.next_run_ms > job.due_ms:
        return _back_off_ms(job.consecutive_failures)
    return None


def write_failure_notice(before: Job, after: Job | None, run: Run) -> str | None:
    """Return the notice that this run's end disabled the job, with the reason; None if not."""
    if after is None or run.status == "ok" or after.enabled or not before.enabled:
        return None
    reason = " ".join((run.error or UNKNOWN).split())[:LONGEST_REASON]
    if isinstance(after.schedule, At):
        tries = after.retries + 1
        times = "once" if tries == 1 else f"{tries} times"
        end = "failed" if run.status == "error" else f"was {run.status}"
        return f"It was tried {times} and is not tried again; the last try {end}: {reason}"
    failures = after.consecutive_failures
    times = "once" if failures == 1 else f"{failures} times in a row"
    return f"It failed {times} and is disabled now; the last error: {reason}"


def write_missed_notice(count: int, last_ms: int) -> str:
    """Return the notice of how many runs of a job were missed, and when the last was."""
    if count == 1:
        return f"1 run was missed at {iso(last_ms)}."
    return f"{count} runs were missed, the last at {iso(last_ms)}."
