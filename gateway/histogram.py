"""How durations are spread over buckets, counted without a lock."""

from __future__ import annotations

from bisect import bisect_left


class Histogram:
    """Durations, counted by the upper bound of their bucket."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        """All durations together."""

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, as often as it was seen."""
        self._counts[bisect_left(self._bounds, seconds)] += times
        self.sum += seconds * times

    def merge(self, other: Histogram) -> None:
        """Count what another one with the same bounds has counted."""
        self._counts = [one + more for one, more in zip(self._counts, other._counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        """How many durations were counted."""
        return sum(self._counts)

    def find_quantile(self, share: float) -> float | None:
        """Return about how long the shortest `share` of durations took; None if there are none.

        Within a bucket they count as evenly spread, and beyond the last bound as long as that.
        """
        rank, total, lower = share * self.count, 0, 0.0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            if count and total + count >= rank:
                return lower + (bound - lower) * (rank - total) / count
            total, lower = total + count, bound
        return lower if self.count else None

    def buckets(self) -> list[tuple[str, float]]:
        """Return the counts as Prometheus wants them: cumulative, by upper bound."""
        total, found = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            found.append((str(bound), float(total)))
        return found
