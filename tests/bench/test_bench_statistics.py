"""The bench's own statistics."""

from __future__ import annotations

import pytest

from bench.statistics import percentile, unevenness


@pytest.mark.parametrize(
    "values, share, expected",
    [
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.5),
        ([1.0, 2.0, 3.0], 0, 1.0),
        ([1.0, 2.0, 3.0], 50, 2.0),
        ([1.0, 2.0, 3.0], 100, 3.0),
        ([0.0, 10.0], 95, 9.5),
    ],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == pytest.approx(expected)


@pytest.mark.parametrize(
    "values, expected",
    [([5.0], 0.0), ([0.0, 0.0], 0.0), ([4.0, 4.0, 4.0], 0.0), ([3.0, 1.0, 2.0], 0.25)],
)
def test_unevenness(values: list[float], expected: float) -> None:
    assert unevenness(values) == pytest.approx(expected)
