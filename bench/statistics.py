"""The few statistics the bench needs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

__all__ = ["median", "percentile", "unevenness"]


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which that share (0 to 100) of ordered values lies, interpolated."""
    place = (len(ordered) - 1) * share / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def unevenness(values: Sequence[float]) -> float:
    """Return half the distance between quartiles, as a share of the median."""
    ordered, middle = sorted(values), median(values)
    if not middle:
        return 0.0
    return (percentile(ordered, 75) - percentile(ordered, 25)) / 2 / abs(middle)
