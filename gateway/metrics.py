"""What the gateway counts, for Prometheus.

Requests only add to plain numbers; they become metrics when somebody asks. Prometheus' own counters
take a lock for each addition, which was a tenth of what a small request cost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from gateway.exchange.observer import ExchangeEnded, Happening, Wants
from gateway.outbox.queue import DeliveryCounts
from gateway.reminders.holds import Holds
from gateway.reminders.records import ReminderCounts
from gateway.wire.http_client.upstream import Upstream

Samples = Iterable[tuple[Sequence[object], float]]
"""The values of labels, and a number for each combination of them."""

AT_ONCE = 256
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FIRST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
WHOLE_BUCKETS = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Spread:
    """How durations are spread over buckets."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        """All durations together."""

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return the counts as Prometheus wants them: cumulative, by upper bound."""
        total, found = 0, []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            found.append((str(bound), float(total)))
        return found


class Metrics(Collector):
    """Numbers of one gateway; nothing is global."""

    def __init__(self, live: Sized) -> None:
        self._live = live
        self.upstreams: Mapping[str, Upstream] = {}
        self._ended: Counter[tuple[str, str, int]] = Counter()
        self._turns: Counter[str] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._first = defaultdict[str, Spread](lambda: Spread(FIRST_BUCKETS))
        self._whole = defaultdict[str, Spread](lambda: Spread(WHOLE_BUCKETS))
        self.quarantined = 0
        self.connections_refused: Callable[[], int] = lambda: 0
        self.log_lines_dropped: Callable[[], int] = lambda: 0
        self.reminders = ReminderCounts()
        self.holds: Holds | None = None
        self.runs: Mapping[str, int] = {}
        self.deliveries = DeliveryCounts()
        self.config_reloads: Mapping[str, int] = {}
        self._waiting: list[ExchangeEnded] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    wants: Wants = frozenset({ExchangeEnded})

    def observe(self, at: float, happening: Happening) -> None:
        """Count an exchange that ended, with many others a moment later."""
        if isinstance(happening, ExchangeEnded):
            self._waiting.append(happening)
            if len(self._waiting) >= AT_ONCE:
                self._work_off()

    def _work_off(self) -> None:
        waiting, self._waiting = self._waiting, []
        for report in waiting:
            self._count(report)

    def _count(self, report: ExchangeEnded) -> None:
        upstream = report.route.upstream
        self._ended[(report.state, upstream, report.status)] += 1
        self._turns[upstream] += report.turns
        self._whole[upstream].add(report.seconds)
        if report.first_seconds is not None:
            self._first[upstream].add(report.first_seconds)
        if report.usage is not None:
            self._tokens[(upstream, "input")] += report.usage.input
            self._tokens[(upstream, "output")] += report.usage.output

    def render(self) -> bytes:
        """Write all of it in Prometheus' text format."""
        self._work_off()
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Give all numbers, for the registry."""
        yield GaugeMetricFamily("holdgate_exchanges_live", "Exchanges under way.", len(self._live))
        labels: tuple[str, ...] = ("state", "upstream", "status")
        yield _counter("exchanges", "Exchanges that ended.", labels, self._ended.items())
        yield _count_by("turns", "Upstream turns.", "upstream", self._turns)
        labels = ("upstream", "direction")
        yield _counter("tokens", "Tokens, as reported.", labels, self._tokens.items())
        yield _histogram("first_frame", "From the request to the first frame.", self._first)
        yield _histogram("exchange", "From the request to the end of the answer.", self._whole)
        family, says = "holdgate_upstream_connections_busy", "Connections to an upstream in use."
        busy = (((name,), upstream.busy) for name, upstream in self.upstreams.items())
        yield _fill(GaugeMetricFamily(family, says, labels=("upstream",)), busy)
        says = "Reminders, by what became of them."
        yield _count_by("reminders", says, "event", asdict(self.reminders))
        if self.holds is not None:
            yield from _holds(self.holds)
        yield _count_by("runs", "Runs of jobs that ended.", "status", self.runs)
        says = "Results for clients, by what became of them."
        yield _count_by("deliveries", says, "event", asdict(self.deliveries))
        says = "How often the configuration was read again, by what came of it."
        yield _count_by("config_reloads", says, "result", self.config_reloads)
        says = "Log lines that were not written, since nobody read them."
        yield CounterMetricFamily("holdgate_log_lines_dropped", says, self.log_lines_dropped())
        says = "Client connections refused for their number."
        yield CounterMetricFamily("holdgate_connections_refused", says, self.connections_refused())
        yield CounterMetricFamily(
            "holdgate_quarantined", "Documents that could not be read.", self.quarantined
        )


def _holds(holds: Holds) -> Iterator[Metric]:
    counts = holds.counts
    yield GaugeMetricFamily("holdgate_holds_active", "Answers held open.", len(holds))
    yield CounterMetricFamily("holdgate_holds_started", "Holds begun.", counts.started)
    yield CounterMetricFamily("holdgate_hold_seconds", "Time held.", counts.seconds)
    yield _count_by("holds_ended", "Holds that ended.", "outcome", counts.outcomes)


def _counter(name: str, says: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return _fill(CounterMetricFamily(f"holdgate_{name}", says, labels=labels), samples)


def _count_by(name: str, says: str, label: str, counts: Mapping[str, float]) -> Metric:
    return _counter(name, says, (label,), (((value,), count) for value, count in counts.items()))


def _fill(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric([str(label) for label in labels], value)
    return family


def _histogram(name: str, says: str, spreads: Mapping[str, Spread]) -> Metric:
    family = HistogramMetricFamily(f"holdgate_{name}_seconds", says, labels=("upstream",))
    for upstream, spread in spreads.items():
        family.add_metric((upstream,), spread.buckets(), spread.sum)
    return family
