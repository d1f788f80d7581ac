"""Durations in buckets, as Prometheus counts them."""

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
