"""Rings of metrics: what was counted is in them, once, as long as they reach."""

from __future__ import annotations

from collections import Counter
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.metrics_history import (
    LATEST_STEPS,
    MINUTES_IN_DAY,
    STEPS_IN_HOUR,
    STEPS_IN_MINUTE,
    MetricsHistory,
    Sample,
    StepCounts,
    StepGauges,
    UpstreamCounts,
)
from gateway.exchange.exchange_totals import FIRST_BUCKETS
from gateway.histogram import Histogram

BEGUN = 1_770_000_000_000
STEPS = st.lists(
    st.builds(
        StepCounts,
        exchanges=st.integers(0, 9),
        failed=st.integers(0, 9),
        bytes=st.integers(0, 10**6),
        turns=st.integers(0, 9),
        reported_turns=st.integers(0, 9),
        tokens_in=st.integers(0, 99),
        tokens_out=st.integers(0, 99),
        holds=st.builds(Counter, st.lists(st.sampled_from(["due", "limit"]), max_size=3)),
        calls=st.builds(Counter, st.lists(st.sampled_from(["clock", "other"]), max_size=3)),
    ),
    max_size=40,
)


def fill(steps: list[StepCounts], seconds: float = 10.0) -> MetricsHistory:
    history = MetricsHistory(BEGUN)
    for number, counts in enumerate(steps, 1):
        gauges = StepGauges({"holding": number}, loop_lag_ms=number % 7, rss=number)
        history.add(Sample(BEGUN + number * 10_000, seconds, counts, gauges))
    return history


@given(STEPS, st.sampled_from([10.0, 10.5, 60.0]))
def test_sums_over_the_ring_are_what_was_counted(steps: list[StepCounts], seconds: float) -> None:
    history = fill(steps, seconds)
    hour = history.report("hour").series
    assert sum(hour.turns) == sum(step.turns for step in steps)
    assert sum(hour.reported_turns) == sum(step.reported_turns for step in steps)
    assert sum(hour.tokens_in) == sum(step.tokens_in for step in steps)
    assert sum(hour.tokens_out) == sum(step.tokens_out for step in steps)
    for rates, counts in (
        (hour.exchanges, [step.exchanges for step in steps]),
        (hour.failed, [step.failed for step in steps]),
        (hour.bytes, [step.bytes for step in steps]),
    ):
        assert isclose(sum(rates) * seconds, sum(counts), abs_tol=0.0005 * seconds * len(steps))
    holds = {name: sum(series) for name, series in hour.holds.items()}
    assert holds == dict(sum((step.holds for step in steps), Counter()))
    assert history.count_tool_calls()[0] == sum((step.calls for step in steps), Counter())


@given(STEPS)
def test_the_day_has_what_its_hours_had(steps: list[StepCounts]) -> None:
    history = fill(steps)
    whole = len(steps) - len(steps) % STEPS_IN_MINUTE
    day = history.report("day")
    assert day.times == history.report("hour").times[STEPS_IN_MINUTE - 1 :: STEPS_IN_MINUTE]
    assert sum(day.series.turns) == sum(step.turns for step in steps[:whole])
    assert sum(day.series.tokens_out) == sum(step.tokens_out for step in steps[:whole])
    holds = {name: sum(series) for name, series in day.series.holds.items()}
    assert holds == dict(sum((step.holds for step in steps[:whole]), Counter()))


def test_rings_forget_what_is_older() -> None:
    steps = MINUTES_IN_DAY * STEPS_IN_MINUTE + 60
    history = fill([StepCounts(exchanges=1, turns=1) for _ in range(steps)])
    hour, day = history.report("hour"), history.report("day")
    assert (hour.step_ms, len(hour.times)) == (10_000, STEPS_IN_HOUR)
    assert (day.step_ms, len(day.times)) == (60_000, MINUTES_IN_DAY)
    assert hour.times[-1] == day.times[-1] == BEGUN + steps * 10_000
    assert hour.since == day.since == BEGUN
    assert set(hour.series.exchanges) == set(day.series.exchanges) == {0.1}
    assert sum(day.series.turns) == MINUTES_IN_DAY * STEPS_IN_MINUTE


def test_what_is_measured_is_that_of_the_end_and_the_worst_lag() -> None:
    day = fill([StepCounts() for _ in range(STEPS_IN_MINUTE * 2)]).report("day").series
    assert day.live["holding"] == [6, 12]
    assert day.live["opening"] == [0, 0]
    assert day.rss == [6, 12]
    assert day.loop_lag_ms == [6, 5]


def test_first_frames_as_quantiles() -> None:
    first = Histogram(FIRST_BUCKETS)
    first.add(0.2, 95)
    first.add(20, 5)
    series = fill([StepCounts(), StepCounts(first=first)]).report("hour").series
    assert series.first_p50[0] is series.first_p95[0] is None
    assert series.first_p50[1] is not None
    assert 100 <= series.first_p50[1] <= 250
    assert series.first_p95[1] == 250


def test_upstreams_of_the_last_five_minutes() -> None:
    asked = [
        StepCounts(upstreams={"a": UpstreamCounts(turns=3, refused=1)}) for _ in range(LATEST_STEPS)
    ]
    old = [StepCounts(upstreams={"a": UpstreamCounts(turns=99), "b": UpstreamCounts(turns=1)})]
    history = fill([*old, *asked])
    found = history.sum_up_upstreams()
    assert list(found) == ["a"]
    assert (found["a"].turns, found["a"].failed_share) == (3 * LATEST_STEPS, 0.25)
    assert sum(bool(sample.counts.upstreams) for sample in history.hour) == LATEST_STEPS


@pytest.mark.parametrize(
    ("counts", "share"),
    [
        (UpstreamCounts(), 0),
        (UpstreamCounts(turns=4), 0),
        (UpstreamCounts(turns=4, broken=1), 0.25),
        (UpstreamCounts(refused=2), 1),
        (UpstreamCounts(turns=2, refused=2, broken=1), 0.75),
    ],
)
def test_the_share_of_failures(counts: UpstreamCounts, share: float) -> None:
    assert counts.failed_share == share
