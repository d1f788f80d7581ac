"""Durations in buckets, as Prometheus counts them."""

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from gateway.histogram import Histogram

BOUNDS = (0.1, 1, 10)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5))))
def test_buckets_count_what_is_not_above_their_bound(seen: list[tuple[float, int]]) -> None:
    histogram = Histogram(BOUNDS)
    for seconds, times in seen:
        histogram.add(seconds, times)
    assert histogram.buckets() == [
        *(
            (str(bound), float(sum(times for seconds, times in seen if seconds <= bound)))
            for bound in BOUNDS
        ),
        ("+Inf", float(sum(times for _, times in seen))),
    ]
    assert abs(histogram.sum - sum(seconds * times for seconds, times in seen)) < 1e-6


@given(st.lists(st.floats(0, 20), min_size=1, max_size=20), st.floats(0, 1))
def test_a_quantile_lies_in_the_bucket_of_its_duration(seen: list[float], share: float) -> None:
    histogram = Histogram(BOUNDS)
    for seconds in seen:
        histogram.add(seconds)
    found = histogram.find_quantile(share)
    exact = sorted(seen)[max(0, ceil(share * len(seen)) - 1)]
    assert found is not None
    upper = next((bound for bound in BOUNDS if exact <= bound), BOUNDS[-1])
    lower = max((bound for bound in BOUNDS if bound < exact), default=0.0)
    assert min(lower, BOUNDS[-1]) <= found <= upper


def test_nothing_has_no_quantile() -> None:
    assert Histogram(BOUNDS).find_quantile(0.5) is None


@given(*[st.lists(st.floats(0, 100))] * 2)
def test_one_takes_over_what_another_counted(mine: list[float], theirs: list[float]) -> None:
    one, other, together = Histogram(BOUNDS), Histogram(BOUNDS), Histogram(BOUNDS)
    for histogram, seen in ((one, mine), (other, theirs), (together, [*mine, *theirs])):
        for seconds in seen:
            histogram.add(seconds)
    one.merge(other)
    assert one.buckets() == together.buckets()
    assert one.count == len(mine) + len(theirs)
