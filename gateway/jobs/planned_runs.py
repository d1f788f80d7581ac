"""When jobs will run, as far as it is known now: the next times of one, and how many of all.

A job runs next when its row says so, which may be later than its schedule has it, after failures;
from then on it runs at the times of its schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from gateway.jobs.model import Job
from gateway.jobs.schedule.model import At, Schedule, next_times, times_between

MOST_TIMES = 5


class RunSpans(msgspec.Struct, frozen=True):
    """Spans of time of equal length, one after the other."""

    from_ms: int
    length_ms: int
    count: int

    def find(self, at_ms: int) -> int:
        """Return the number of the span that a time is in; it may be none of these."""
        return (at_ms - self.from_ms) // self.length_ms

    def start(self, number: int) -> int:
        """Return when a span begins."""
        return self.from_ms + number * self.length_ms


def plan_runs(job: Job, count: int = MOST_TIMES) -> tuple[int, ...]:
    """Return the next times at which a job will run; none if it is disabled."""
    if not job.enabled or job.next_run_ms is None:
        return ()
    return (job.next_run_ms, *_find_later(job.schedule, job.next_run_ms, count - 1))


# Cron expressions are slow, and all jobs are shown again each time they are listed.
@lru_cache(maxsize=8192)
def _find_later(schedule: Schedule, after_ms: int, count: int) -> tuple[int, ...]:
    return () if isinstance(schedule, At) else next_times(schedule, after_ms, count)


def count_planned_runs(jobs: Iterable[Job], spans: RunSpans) -> list[int]:
    """Count the runs of all jobs in each span."""
    counts = [0] * spans.count
    # Many jobs run at the same times, and are counted once.
    plans = Counter(
        (job.schedule, job.next_run_ms)
        for job in jobs
        if job.enabled and job.next_run_ms is not None
    )
    for (schedule, next_ms), jobs_alike in plans.items():
        for number, times in _count_runs(schedule, next_ms, spans):
            counts[number] += times * jobs_alike
    return counts


def _count_runs(schedule: Schedule, next_ms: int, spans: RunSpans) -> Iterator[tuple[int, int]]:
    """Yield the numbers of spans with runs of a job, and how many each has."""
    next_span = spans.find(next_ms)
    if next_span >= spans.count:
        return
    if next_span >= 0:
        yield next_span, 1
    if not isinstance(schedule, At):
        begin_ms = max(next_ms + 1, spans.from_ms)
        yield from _count_times(schedule, begin_ms, spans, spans.find(begin_ms), spans.count)


def _count_times(
    schedule: Schedule, begin_ms: int, spans: RunSpans, first: int, end: int
) -> Iterator[tuple[int, int]]:
    """Yield what a schedule has in the spans from `first` up to, and not including, `end`."""
    since_ms, until_ms = max(begin_ms, spans.start(first)), spans.start(end) - 1
    times = times_between(schedule, since_ms, until_ms)[0]
    if times and end - first == 1:
        yield first, times
    elif times:
        # By halves: most schedules have few times, and long spans without any cost one look.
        middle = (first + end) // 2
        yield from _count_times(schedule, begin_ms, spans, first, middle)
        yield from _count_times(schedule, begin_ms, spans, middle, end)
