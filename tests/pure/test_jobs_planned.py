"""When jobs will run: the next times of one, and the counts of all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.jobs.model import Job
from gateway.jobs.planned_runs import RunSpans, count_planned_runs, plan_runs
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, next_due
from tests.pure.test_schedules_properties import ZONES

NOW = 1_793_000_000_000
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SPARSE = st.sampled_from(["0 9 * * *", "30 2 * * *", "0 */6 * * 1-5", "0 0 1 * *", "15 * * * *"])
SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(
    st.builds(Cron, SPARSE, ZONES),
    st.builds(Every, st.integers(10 * MINUTE, 3 * DAY), st.integers(NOW - DAY, NOW + DAY)),
    st.builds(At, st.integers(NOW + 1, NOW + 3 * DAY)),
)


@st.composite
def planned(draw: st.DrawFn) -> Job:
    schedule = draw(SCHEDULES)
    due_ms = next_due(schedule, NOW)
    late_ms = draw(st.sampled_from([0, 0, 5 * MINUTE, HOUR]))
    return Job(
        job_id="j",
        user_id="ann",
        session_id="s",
        name="n",
        schedule=schedule,
        message="m",
        enabled=draw(st.sampled_from([True, True, False])),
        due_ms=due_ms,
        next_run_ms=None if due_ms is None else due_ms + late_ms,
    )


@given(planned())
def test_the_next_runs_begin_with_the_one_that_is_claimed_next(job: Job) -> None:
    times = plan_runs(job)
    if not job.enabled:
        assert times == ()
        return
    assert times[0] == job.next_run_ms
    assert list(times) == sorted(set(times))
    assert len(times) == (1 if isinstance(job.schedule, At) else 5)
    assert all(next_due(job.schedule, time - 1) == time for time in times[1:])


@settings(deadline=None)
@given(
    st.lists(planned(), max_size=4),
    st.integers(-DAY, DAY),
    st.integers(7 * MINUTE, DAY),
    st.integers(1, 40),
)
def test_each_run_is_counted_in_its_span(
    jobs: list[Job], ahead_ms: int, length_ms: int, count: int
) -> None:
    spans = RunSpans(NOW + ahead_ms, length_ms, count)
    expected = [0] * count
    for job in jobs:
        for time in every_run(job, spans.start(count)):
            if time >= spans.from_ms:
                expected[spans.find(time)] += 1
    assert count_planned_runs(jobs, spans) == expected


def every_run(job: Job, end_ms: int) -> list[int]:
    """Return all runs of a job before a time, one by one."""
    at_ms = job.next_run_ms if job.enabled else None
    found = []
    while at_ms is not None and at_ms < end_ms:
        found.append(at_ms)
        at_ms = None if isinstance(job.schedule, At) else next_due(job.schedule, at_ms)
    return found


def test_jobs_alike_count_each() -> None:
    job = Job(
        job_id="j",
        user_id="o",
        session_id="s",
        name="n",
        schedule=Every(HOUR, NOW),
        message="m",
        next_run_ms=NOW,
    )
    alike = [job, replace(job, job_id="k"), replace(job, job_id="l", enabled=False)]
    assert count_planned_runs(alike, RunSpans(NOW, 2 * HOUR, 2)) == [4, 4]


def test_a_run_before_the_first_span_is_not_counted() -> None:
    schedule = Every(HOUR, NOW)
    job = Job(
        job_id="j",
        user_id="o",
        session_id="s",
        name="n",
        schedule=schedule,
        message="m",
        next_run_ms=NOW,
    )
    once = replace(job, schedule=At(NOW))
    later = replace(job, next_run_ms=NOW + DAY)
    spans = RunSpans(NOW + 1, HOUR, 2)
    assert count_planned_runs([job, once, later], spans) == [1, 1]
