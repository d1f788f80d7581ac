"""What becomes of a job by the passing of time: claims, missed times, ends of runs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import get_args

import pytest
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.jobs.lifecycle import enable_job
from gateway.jobs.model import Job, JobRules, Run, Status
from gateway.jobs.run_rules import (
    BACK_OFF_MS,
    END_RULES,
    GIVEN_UP,
    OVER,
    OVER_AND_MISSED,
    apply_end,
    apply_error,
    apply_no_result,
    apply_ok,
    claim_due,
    claim_manual,
    disable_job,
    find_wait_ms,
    finish_run,
    give_back_claim,
    recompute_due,
    write_failure_notice,
)
from gateway.jobs.schedule.model import At, Cron, Every, Schedule

NOW = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
GRACE = JobRules().misfire_grace_ms
RULES = JobRules()
FAILED: tuple[Status, ...] = ("error", "skipped", "interrupted")


def ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"r-{next(numbers)}"


def every(every_ms: int = MINUTE) -> Job:
    """A job whose first time is now."""
    return job(Every(every_ms, anchor_ms=NOW))


def once() -> Job:
    return job(At(NOW))


def job(schedule: Schedule) -> Job:
    return Job(
        job_id="j-1",
        user_id="me",
        session_id="s-1",
        name="mail",
        schedule=schedule,
        message="Look at the mail.",
        due_ms=NOW,
        next_run_ms=NOW,
    )


def claimed(job: Job, now_ms: int, rules: JobRules = RULES) -> tuple[Job, tuple[Run, ...]]:
    return claim_due(job, now_ms, rules, ids())


def running(job: Job, now_ms: int = NOW) -> tuple[Job, Run]:
    job, (*_, run) = claimed(job, now_ms)
    assert run.status == "running"
    return job, run


def ended(
    job: Job, status: Status = "ok", now_ms: int = NOW + 1, error: str | None = None
) -> Job | None:
    """The job after the run it just began."""
    run = Run(run_id=job.run_id, job_id="j-1", user_id="me", due_ms=NOW, started_ms=job.running_ms)
    return apply_end(job, finish_run(run, now_ms, status, error=error), now_ms, RULES)


def kept(job: Job | None) -> Job:
    assert job is not None
    return job


# Claims


def test_a_time_that_has_come_runs() -> None:
    job, runs = claimed(every(), NOW + 5)
    run = Run(run_id="r-1", job_id="j-1", user_id="me", due_ms=NOW, started_ms=NOW + 5)
    assert runs == (run,)
    assert (run.trigger, run.status) == ("timer", "running")
    assert job == replace(
        every(),
        due_ms=NOW + MINUTE,
        next_run_ms=NOW + MINUTE,
        run_id="r-1",
        running_ms=NOW + 5,
        run_due_ms=NOW,
    )


def test_of_several_times_the_last_runs_and_the_others_are_counted() -> None:
    job, (missed, run) = claimed(every(), NOW + 3 * MINUTE + 7)
    assert (run.status, run.due_ms, run.missed) == ("running", NOW + 3 * MINUTE, 0)
    assert missed == Run(
        run_id=missed.run_id,
        job_id="j-1",
        user_id="me",
        status="missed",
        due_ms=NOW + 2 * MINUTE,
        finished_ms=NOW + 3 * MINUTE + 7,
        error="3 runs were missed, the last at 2026-02-02T21:24:38.229Z.",
        missed=3,
    )
    assert job.due_ms == NOW + 4 * MINUTE
    assert job.run_id == run.run_id != missed.run_id
    assert job.last_status is None


def test_one_that_was_missed() -> None:
    _, (missed, run) = claimed(every(), NOW + MINUTE)
    assert (missed.missed, missed.due_ms, run.due_ms) == (1, NOW, NOW + MINUTE)
    assert missed.error == "1 run was missed at 2026-02-02T21:22:38.229Z."


def test_what_is_just_within_the_grace_runs() -> None:
    _, (run,) = claimed(every(10 * HOUR), NOW + GRACE)
    assert (run.status, run.due_ms) == ("running", NOW)


def test_what_is_too_late_is_missed() -> None:
    job, (missed,) = claimed(every(10 * HOUR), NOW + GRACE + 1)
    assert (missed.status, missed.missed, missed.due_ms) == ("missed", 1, NOW)
    assert job == replace(
        every(10 * HOUR),
        due_ms=NOW + 10 * HOUR,
        next_run_ms=NOW + 10 * HOUR,
        last_status="missed",
        last_error=missed.error,
        last_missed=1,
    )


def test_all_that_is_too_late_is_one_row() -> None:
    job, (missed,) = claimed(every(10 * HOUR), NOW + 32 * HOUR)
    assert (missed.missed, missed.due_ms) == (4, NOW + 30 * HOUR)
    assert (job.due_ms, job.run_id, job.last_missed) == (NOW + 40 * HOUR, "", 4)
    assert claim_manual(job, NOW + 33 * HOUR, ids())[0].last_missed == 4
    for status in END_RULES:
        assert kept(ended(job, status)).last_missed == 0


def test_a_year_of_seconds_is_counted_at_once() -> None:
    year = 365 * 24 * HOUR
    _, (missed, run) = claimed(every(SECOND), NOW + year)
    assert (missed.missed, run.due_ms) == (year // SECOND, NOW + year)


def test_a_time_that_comes_once_runs() -> None:
    job, (run,) = claimed(once(), NOW)
    assert (run.status, run.due_ms) == ("running", NOW)
    assert (job.enabled, job.due_ms, job.next_run_ms) == (True, None, None)


def test_a_time_that_comes_once_is_missed_with_a_reason() -> None:
    job, (missed,) = claimed(once(), NOW + GRACE + 1)
    assert (missed.status, missed.missed) == ("missed", 1)
    assert (job.enabled, job.next_run_ms, job.due_ms) == (False, None, None)
    assert job.disabled_reason == OVER_AND_MISSED
    assert (job.last_status, job.updated_ms) == ("missed", NOW + GRACE + 1)


def test_cron() -> None:
    nine = 1_770_022_800_000  # 2026-02-02T09:00:00Z
    cron = replace(job(Cron("0 9 * * *", "UTC")), due_ms=nine, next_run_ms=nine)
    after_two_days, (missed, run) = claimed(cron, nine + 48 * HOUR + 1)
    assert (missed.missed, missed.due_ms, run.due_ms) == (2, nine + 24 * HOUR, nine + 48 * HOUR)
    assert after_two_days.due_ms == nine + 72 * HOUR


def test_a_back_off_that_is_over_counts_what_came_meanwhile() -> None:
    waiting = replace(every(), next_run_ms=NOW + 5 * MINUTE, consecutive_failures=3)
    job, (missed, run) = claimed(waiting, NOW + 5 * MINUTE)
    assert (missed.missed, run.due_ms) == (5, NOW + 5 * MINUTE)
    assert job.consecutive_failures == 3


@pytest.mark.parametrize("due_ms", [NOW + 1, NOW + MINUTE - 1, NOW + MINUTE])
def test_nothing_is_due_between_two_times(due_ms: int) -> None:
    odd = replace(every(), due_ms=due_ms, next_run_ms=NOW)
    for now_ms in (NOW, NOW + MINUTE - 1):
        job, runs = claimed(odd, now_ms)
        assert (runs, job.due_ms, job.next_run_ms) == ((), NOW + MINUTE, NOW + MINUTE)


def test_what_is_accounted_for_ahead_stays_so() -> None:
    ahead = replace(every(), due_ms=NOW + 5 * MINUTE, next_run_ms=NOW)
    job, runs = claimed(ahead, NOW)
    assert (runs, job.due_ms) == ((), NOW + 5 * MINUTE)


def test_behind_the_only_time_there_is_none() -> None:
    job, runs = claimed(replace(once(), due_ms=NOW + 1), NOW + 2)
    assert runs == ()
    assert (job.enabled, job.due_ms, job.disabled_reason) == (False, None, OVER)


def test_a_disabled_job_is_not_due() -> None:
    off = disable_job(every(), NOW)
    assert claimed(off, NOW + HOUR) == (off, ())


def test_a_job_without_further_times_is_not_due() -> None:
    last, _ = running(once())
    assert claimed(last, NOW + HOUR) == (last, ())


# Runs by hand


def test_a_run_by_hand_does_not_shift_the_grid() -> None:
    before = replace(every(), due_ms=NOW + 5, next_run_ms=NOW + 9)
    job, (run,) = claim_manual(before, NOW + 1, ids())
    assert (run.trigger, run.status, run.due_ms) == ("manual", "running", NOW + 1)
    assert run.started_ms == NOW + 1
    assert job == replace(before, run_id="r-1", running_ms=NOW + 1, run_due_ms=NOW + 1)


def test_a_disabled_job_runs_by_hand_and_stays_disabled() -> None:
    off = disable_job(every(), NOW, "It failed.")
    job, _ = claim_manual(off, NOW, ids())
    assert replace(job, run_id="", running_ms=None, run_due_ms=None) == off
    for status in END_RULES:
        done = kept(ended(job, status))
        assert (done.enabled, done.next_run_ms, done.disabled_reason) == (False, None, "It failed.")
        assert (done.run_id, done.last_status) == ("", status)


def test_a_time_that_comes_once_is_not_used_up_by_hand() -> None:
    before = replace(job(At(NOW + HOUR)), due_ms=NOW + HOUR, next_run_ms=NOW + HOUR)
    before = replace(before, consecutive_failures=4)
    for status in END_RULES:
        begun, _ = claim_manual(before, NOW, ids())
        done = kept(ended(begun, status))
        assert (done.enabled, done.next_run_ms) == (True, NOW + HOUR)


def test_a_run_by_hand_counts_as_a_failure_and_as_none() -> None:
    begun, _ = claim_manual(replace(every(), consecutive_failures=1), NOW, ids())
    assert kept(ended(begun, "error")).consecutive_failures == 2
    assert kept(ended(begun, "ok")).consecutive_failures == 0


# Ends


def test_a_run_is_finished() -> None:
    _, run = running(every())
    assert finish_run(run, NOW + 7, "ok", "Done.") == replace(
        run, status="ok", result="Done.", finished_ms=NOW + 7, duration_ms=7
    )
    failed = finish_run(run, NOW - 7, "error", error="No.")
    assert (failed.error, failed.result, failed.duration_ms) == ("No.", "", 0)
    assert finish_run(replace(run, started_ms=None), NOW, "skipped").duration_ms is None


def test_every_end_is_known() -> None:
    assert {*END_RULES, "running", "missed"} == set(get_args(Status))


def test_each_end_by_its_name() -> None:
    job, run = running(every())
    named = {
        "ok": apply_ok,
        "error": apply_error,
        "skipped": apply_no_result,
        "interrupted": apply_no_result,
    }
    assert named == END_RULES
    for status, function in named.items():
        end = replace(run, status=status)
        assert function(job, end, NOW, RULES) == apply_end(job, end, NOW, RULES)


def test_after_a_good_run() -> None:
    job, _ = running(replace(every(), consecutive_failures=3, last_error="No."))
    assert ended(job) == replace(
        every(),
        due_ms=NOW + MINUTE,
        next_run_ms=NOW + MINUTE,
        last_run_ms=NOW,
        last_status="ok",
    )


def test_a_run_that_took_longer_than_the_interval() -> None:
    job, _ = running(every())
    later = NOW + 3 * MINUTE + 1
    job = kept(ended(job, now_ms=later))
    assert job.next_run_ms == NOW + MINUTE
    _, (missed, run) = claimed(job, later)
    assert (missed.missed, run.due_ms) == (2, NOW + 3 * MINUTE)


@pytest.mark.parametrize("failures", range(4))
def test_the_more_failures_the_longer_the_wait(failures: int) -> None:
    job, _ = running(replace(every(SECOND), consecutive_failures=failures))
    job = kept(ended(job, "error", NOW + 1, "No."))
    assert job.next_run_ms == NOW + 1 + (30, 60, 300, 900)[failures] * SECOND
    assert (job.due_ms, job.enabled) == (NOW + SECOND, True)
    assert (job.consecutive_failures, job.last_status) == (failures + 1, "error")
    assert (job.last_error, job.last_run_ms) == ("No.", NOW)


def test_the_longest_wait_is_an_hour() -> None:
    patient = JobRules(max_consecutive_failures=100)
    assert BACK_OFF_MS[-1] == HOUR
    for failures in (4, 5, 50):
        job, run = running(replace(every(), consecutive_failures=failures))
        assert apply_error(job, replace(run, status="error"), NOW, patient).next_run_ms == (
            NOW + HOUR
        )


def test_a_failure_does_not_bring_the_next_time_nearer() -> None:
    job, _ = running(every(HOUR))
    assert kept(ended(job, "error")).next_run_ms == NOW + HOUR


def test_after_too_many_failures_it_is_disabled() -> None:
    job, _ = running(replace(every(), consecutive_failures=4))
    job = kept(ended(job, "error", NOW + 1, "No."))
    assert (job.enabled, job.next_run_ms, job.due_ms) == (False, None, NOW + MINUTE)
    assert job.disabled_reason == "It failed too often in a row (5); enable it to try again."
    assert (job.consecutive_failures, job.last_error, job.updated_ms) == (5, "No.", NOW + 1)
    again = enable_job(job, NOW + 2, RULES)
    assert (again.enabled, again.consecutive_failures) == (True, 0)
    assert again.next_run_ms == NOW + MINUTE


@pytest.mark.parametrize("status", ["skipped", "interrupted"])
def test_what_is_no_failure(status: Status) -> None:
    job, _ = running(replace(every(), consecutive_failures=4))
    job = kept(ended(job, status, NOW + 1, "Busy."))
    assert (job.enabled, job.consecutive_failures) == (True, 4)
    assert job.next_run_ms == job.due_ms == NOW + MINUTE
    assert (job.last_status, job.last_error, job.last_run_ms) == (status, "Busy.", NOW)
    assert (job.run_id, job.running_ms) == ("", None)


def test_a_time_that_comes_once_is_over_when_it_went_well() -> None:
    job, _ = running(once())
    job = kept(ended(job, "ok"))
    assert (job.enabled, job.next_run_ms, job.disabled_reason) == (False, None, OVER)
    assert (job.last_status, job.updated_ms) == ("ok", NOW + 1)


# One-time jobs that came to nothing


def tried(job: Job, status: Status, now_ms: int, rules: JobRules = RULES) -> Job:
    """The job after its next try, which ends in an instant."""
    begun, (run,) = claimed(job, now_ms, rules)
    assert (run.trigger, run.status, run.due_ms) == ("timer", "running", job.next_run_ms)
    return kept(apply_end(begun, finish_run(run, now_ms, status, error="No."), now_ms, rules))


@pytest.mark.parametrize("status", FAILED)
def test_what_comes_once_is_tried_again_four_times(status: Status) -> None:
    job, now_ms, waits = once(), NOW, []
    for retries in range(1, 5):
        job = tried(job, status, now_ms)
        assert (job.enabled, job.due_ms, job.retries) == (True, None, retries)
        assert job.next_run_ms == job.retry_ms
        waits.append(kept_ms(job.retry_ms) - now_ms)
        now_ms = kept_ms(job.retry_ms)
    assert waits == [30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE]
    job = tried(job, status, now_ms)
    assert (job.enabled, job.next_run_ms, job.retry_ms) == (False, None, None)
    assert job.disabled_reason == GIVEN_UP.format(tries=5)


SPENT = "The budget is spent; it begins again at some time."


def refused(job: Job, now_ms: int, begins_ms: int, rules: JobRules = RULES) -> Job:
    """The job after a try that a spent budget refused."""
    begun, (run,) = claimed(job, now_ms, rules)
    over = finish_run(run, now_ms, "skipped", error=SPENT)
    return kept(apply_end(begun, over, now_ms, rules, begins_ms))


def test_what_comes_once_waits_for_a_budget_and_uses_up_no_try() -> None:
    again_ms = NOW + 50 * MINUTE
    job = refused(once(), NOW, again_ms)
    assert (job.enabled, job.retries, job.last_status) == (True, 0, "skipped")
    assert job.next_run_ms == job.retry_ms == again_ms
    # Nobody says that failures make it wait.
    assert find_wait_ms(job) is None
    assert kept(ended(claimed(job, again_ms)[0], "ok")).last_status == "ok"
    # It has all its tries left.
    waits: list[int] = []
    for _ in range(2):
        job = tried(job, "error", kept_ms(job.retry_ms), JobRules(misfire_grace_ms=HOUR * 9))
        waits.append(kept_ms(job.retry_ms))
    assert waits == [again_ms + 30 * SECOND, again_ms + 90 * SECOND]


def test_what_comes_once_does_not_wait_for_a_budget_that_begins_too_late() -> None:
    job = refused(once(), NOW, NOW + RULES.misfire_grace_ms + 1)
    assert (job.enabled, job.retry_ms, job.next_run_ms) == (False, None, None)
    assert job.disabled_reason == f"{SPENT} Set a new time with update."


def test_a_spent_budget_changes_no_other_time() -> None:
    begun, run = running(every())
    over = finish_run(run, NOW, "skipped", error=SPENT)
    spent = kept(apply_end(begun, over, NOW, RULES, NOW + HOUR))
    assert spent == kept(apply_end(begun, over, NOW, RULES))


def kept_ms(ms: int | None) -> int:
    assert ms is not None
    return ms


@pytest.mark.parametrize("status", FAILED)
def test_what_comes_once_is_tried_again_within_the_grace_only(status: Status) -> None:
    short = JobRules(misfire_grace_ms=90 * SECOND)
    job = tried(tried(once(), status, NOW, short), status, NOW + 30 * SECOND, short)
    assert job.retry_ms == NOW + 90 * SECOND
    job = tried(job, status, NOW + 90 * SECOND, short)
    assert (job.enabled, job.disabled_reason) == (False, GIVEN_UP.format(tries=3))


def test_a_retry_that_goes_well_is_the_end() -> None:
    job = tried(tried(once(), "error", NOW), "ok", NOW + 30 * SECOND)
    assert (job.enabled, job.disabled_reason, job.retries) == (False, OVER, 0)
    assert (job.consecutive_failures, job.last_error) == (0, "No.")


def test_a_retry_is_not_begun_early() -> None:
    job = tried(once(), "error", NOW)
    again, runs = claimed(replace(job, next_run_ms=NOW), NOW + SECOND)
    assert (again, runs) == (job, ())


def test_a_retry_that_was_missed_is_told_of() -> None:
    job, (row,) = claimed(tried(once(), "error", NOW), NOW + 30 * SECOND + GRACE + 1)
    assert (row.status, row.missed, row.due_ms) == ("missed", 1, NOW + 30 * SECOND)
    assert (job.enabled, job.disabled_reason) == (False, OVER_AND_MISSED)


@pytest.mark.parametrize("status", END_RULES)
def test_a_run_by_hand_between_two_tries(status: Status) -> None:
    waiting = tried(once(), "error", NOW)
    begun, _ = claim_manual(waiting, NOW + 1, ids())
    run = Run(run_id="r-1", job_id="j-1", user_id="me", due_ms=NOW + 1, trigger="manual")
    done = kept(apply_end(begun, finish_run(run, NOW + 2, status), NOW + 2, RULES))
    expected = (False, None) if status == "ok" else (True, NOW + 30 * SECOND)
    assert (done.enabled, done.next_run_ms) == expected


def test_who_is_disabled_is_not_tried_again() -> None:
    off = disable_job(tried(once(), "error", NOW), NOW + 1)
    assert (off.retry_ms, off.next_run_ms) == (None, None)
    with pytest.raises(InvalidInput, match="past"):
        enable_job(off, NOW + 2, RULES)


def test_who_is_enabled_already_keeps_its_retry() -> None:
    waiting = tried(once(), "error", NOW)
    assert enable_job(waiting, NOW + 1, RULES).next_run_ms == NOW + 30 * SECOND


# After the clock was set back


def test_times_reckoned_from_a_clock_that_was_ahead_are_reckoned_again() -> None:
    job, _ = claimed(every(SECOND), NOW + HOUR)
    job = kept(ended(job, now_ms=NOW + HOUR + 1))
    again = recompute_due(job, NOW + 10, RULES)
    assert again.due_ms == again.next_run_ms == NOW + SECOND


def test_a_back_off_that_a_clock_ahead_began_is_not_longer_than_it_should_be() -> None:
    job, _ = running(every(SECOND), NOW + HOUR)
    job = kept(ended(job, "error", NOW + HOUR))
    assert recompute_due(job, NOW, RULES).next_run_ms == NOW + 30 * SECOND


def test_a_retry_that_a_clock_ahead_planned() -> None:
    job = tried(once(), "error", NOW + HOUR // 2)
    assert recompute_due(job, NOW, RULES).next_run_ms == NOW + 30 * SECOND
    assert recompute_due(job, NOW + HOUR, RULES) == job


def test_a_host_that_starts_long_ago_reckons_no_times_since_then() -> None:
    made = replace(job(Cron("0 9 * * *", "UTC")), created_ms=NOW)
    daily, _ = claimed(made, NOW + 24 * HOUR)
    assert recompute_due(daily, 0, RULES) == daily
    assert recompute_due(daily, NOW - 23 * HOUR, RULES) != daily


def test_what_needs_no_reckoning() -> None:
    later = replace(job(At(NOW + HOUR)), due_ms=NOW + HOUR, next_run_ms=NOW + HOUR)
    for one in (every(), later, running(once())[0], disable_job(every(), NOW)):
        assert recompute_due(one, NOW - 1, RULES) == one
    odd = replace(every(), due_ms=None)
    assert recompute_due(odd, NOW - 1, RULES) == odd
    unknown = job(Cron("0 9 * * *", "No/Where"))
    assert recompute_due(unknown, NOW - 1, RULES) == unknown


# Given back


def test_a_run_that_has_not_begun_is_given_back() -> None:
    for one in (every(), once()):
        begun, run = running(one, NOW + 5)
        assert give_back_claim(begun, run) == one


def test_a_retry_that_has_not_begun_is_given_back() -> None:
    waiting = tried(once(), "skipped", NOW)
    begun, run = running(waiting, NOW + 30 * SECOND)
    assert give_back_claim(begun, run) == waiting


def test_what_was_changed_meanwhile_stands() -> None:
    begun, run = running(every())
    moved = replace(begun, schedule=At(NOW + HOUR), due_ms=NOW + HOUR, next_run_ms=NOW + HOUR)
    assert give_back_claim(moved, run).next_run_ms == NOW + HOUR
    assert give_back_claim(disable_job(begun, NOW), run).next_run_ms is None
    by_hand, (run,) = claim_manual(every(), NOW + 1, ids())
    assert give_back_claim(by_hand, run) == every()


# What the session is told


def test_what_failed_for_good_is_told_once() -> None:
    job = replace(once(), retries=4, retry_ms=NOW, due_ms=None)
    begun, run = running(job)
    ends: tuple[tuple[Status, str], ...] = (("error", "failed"), ("skipped", "was skipped"))
    for end, says in ends:
        over = finish_run(run, NOW, end, error="No\n luck.")
        told = write_failure_notice(begun, apply_end(begun, over, NOW, RULES), over)
        assert told == f"It was tried 5 times and is not tried again; the last try {says}: No luck."


def test_what_was_tried_once_only() -> None:
    begun, run = running(once())
    over, none = finish_run(run, NOW, "error", error=None), JobRules(misfire_grace_ms=0)
    told = write_failure_notice(begun, apply_end(begun, over, NOW, none), over)
    assert told == (
        "It was tried once and is not tried again; the last try failed: no reason is known."
    )


def test_what_is_disabled_by_failures_is_told() -> None:
    begun, run = running(replace(every(), consecutive_failures=4))
    over = finish_run(run, NOW, "error", error="No luck.")
    told = write_failure_notice(begun, apply_end(begun, over, NOW, RULES), over)
    assert told == "It failed 5 times in a row and is disabled now; the last error: No luck."


def test_what_is_disabled_by_its_first_failure_is_told() -> None:
    begun, run = running(every())
    over, rules = (
        finish_run(run, NOW, "error", error="No luck."),
        JobRules(max_consecutive_failures=1),
    )
    told = write_failure_notice(begun, apply_end(begun, over, NOW, rules), over)
    assert told == "It failed once and is disabled now; the last error: No luck."


@pytest.mark.parametrize("status", END_RULES)
def test_what_goes_on_or_rests_already_is_not_told(status: Status) -> None:
    begun, run = running(replace(every(), delete_after_run=True))
    over = finish_run(run, NOW, status)
    assert write_failure_notice(begun, apply_end(begun, over, NOW, RULES), over) is None
    off = disable_job(begun, NOW)
    assert write_failure_notice(off, apply_end(off, over, NOW, RULES), over) is None


@pytest.mark.parametrize("status", END_RULES)
@pytest.mark.parametrize("schedule", [At(NOW), Every(MINUTE, NOW)])
def test_it_is_deleted_after_a_good_run_only(status: Status, schedule: Schedule) -> None:
    begun, _ = running(replace(job(schedule), delete_after_run=True))
    assert (ended(begun, status) is None) == (status == "ok")


@pytest.mark.parametrize("status", END_RULES)
@pytest.mark.parametrize("schedule", [At(NOW), Every(MINUTE, NOW)])
def test_a_job_disabled_in_its_run_stays_so(status: Status, schedule: Schedule) -> None:
    begun, _ = running(replace(job(schedule), consecutive_failures=4))
    off = disable_job(begun, NOW)
    assert off.run_id == begun.run_id
    done = kept(ended(off, status))
    assert (done.enabled, done.next_run_ms, done.disabled_reason) == (False, None, None)


def test_a_time_given_in_the_run_stands() -> None:
    begun, _ = running(once())
    moved = replace(begun, schedule=At(NOW + HOUR), due_ms=NOW + HOUR, next_run_ms=NOW + HOUR)
    done = kept(ended(moved, "error"))
    assert (done.enabled, done.next_run_ms) == (True, NOW + HOUR)
