"""What the gateway counts, for Prometheus.

Plain numbers are counted where things happen; they become metrics when somebody asks. Prometheus'
own counters take a lock for each addition, which was a tenth of what a small request cost.
"""

from __future__ import annotations

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

from gateway.exchange.request_counts import Labels, RequestCounts
from gateway.histogram import Histogram
from gateway.outbox.queue import DeliveryCounts
from gateway.reminders.holds import Holds
from gateway.reminders.records import ReminderCounts
from gateway.version import __version__
from gateway.wire.http_client.upstream import Upstream

Samples = Iterable[tuple[Sequence[object], float]]
"""The values of labels, and a number for each combination of them."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ROUTE = ("model", "upstream", "upstream_model")


class Metrics(Collector):
    """Numbers of one gateway; nothing is global."""

    def __init__(self, live: Sized, requests: RequestCounts) -> None:
        self._live = live
        self.requests = requests
        self.upstreams: Mapping[str, Upstream] = {}
        self.quarantined = 0
        self.connections_refused: Callable[[], int] = lambda: 0
        self.log_lines_dropped: Callable[[], int] = lambda: 0
        self.reminders = ReminderCounts()
        self.holds: Holds | None = None
        self.runs: Mapping[str, int] = {}
        self.deliveries = DeliveryCounts()
        self.config_reloads: Mapping[str, int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self) -> bytes:
        """Write all of it in Prometheus' text format."""
        self.requests.catch_up()
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Give all numbers, for the registry."""
        says = "The version that runs, as a label; the value is always 1."
        build = GaugeMetricFamily("holdgate_build_info", says, labels=("version",))
        yield _fill(build, [((__version__,), 1)])
        yield GaugeMetricFamily("holdgate_exchanges_live", "Exchanges under way.", len(self._live))
        yield from _requests(self.requests)
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


def _requests(counts: RequestCounts) -> Iterator[Metric]:
    owner = ("owner",) if counts.by_owner else ()
    owned = (*ROUTE, *owner)
    ended = (*owned, "state", "status")
    exchanges = (((*of, state, status), n) for (of, state, status), n in counts.ended.items())
    yield _counter("exchanges", "Exchanges that ended.", ended, exchanges)
    says = "Turns that an upstream began to answer."
    yield _counter("turns", says, owned, counts.turns.items())
    yield from _tokens(counts, owned)
    says = "From the request to the first frame of the answer."
    yield _histogram("first_frame", says, ROUTE, counts.first_frame)
    says = "Between two reads of a stream; all gaps of a turn count as equally long."
    yield _histogram("frame_gap", says, ROUTE, counts.frame_gap)
    says = "From the request to the end of the answer, holds included."
    yield _histogram("exchange", says, ROUTE, counts.exchange)
    says = "Requests that were refused and did not become exchanges."
    yield _counter("requests_refused", says, ("code", *owner), counts.refused.items())
    says = "Requests that ask no model and were answered."
    yield _counter("requests_answered", says, ("method", "status"), counts.answered.items())


def _tokens(counts: RequestCounts, labels: Labels) -> Iterator[Metric]:
    # What is a part of the input or output is apart, so that a sum over all labels makes sense.
    says, directed = "Tokens, as upstreams report them.", (*labels, "direction")
    tokens = CounterMetricFamily("holdgate_tokens", says, labels=directed)
    says = "Input tokens that were read from an upstream's cache; they are part of the input."
    cached = CounterMetricFamily("holdgate_cached_tokens", says, labels=labels)
    says = "Output tokens that the model thought; they are part of the output."
    reasoning = CounterMetricFamily("holdgate_reasoning_tokens", says, labels=labels)
    for of, usage in counts.tokens.items():
        tokens.add_metric([*of, "input"], usage.input)
        tokens.add_metric([*of, "output"], usage.output)
        cached.add_metric(of, usage.cached)
        reasoning.add_metric(of, usage.reasoning)
    yield from (tokens, cached, reasoning)


def _holds(holds: Holds) -> Iterator[Metric]:
    counts = holds.counts
    yield GaugeMetricFamily("holdgate_holds_active", "Answers held open.", len(holds))
    yield CounterMetricFamily("holdgate_holds_started", "Holds begun.", counts.started)
    yield _histogram("hold", "How long answers were held.", (), {(): counts.seconds})
    yield _count_by("holds_ended", "Holds that ended.", "outcome", counts.outcomes)


def _counter(name: str, says: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    return _fill(CounterMetricFamily(f"holdgate_{name}", says, labels=labels), samples)


def _count_by(name: str, says: str, label: str, counts: Mapping[str, float]) -> Metric:
    return _counter(name, says, (label,), (((value,), count) for value, count in counts.items()))


def _fill(family: CounterMetricFamily | GaugeMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples:
        family.add_metric([str(label) for label in labels], value)
    return family


def _histogram(
    name: str, says: str, labels: Labels, histograms: Mapping[Labels, Histogram]
) -> Metric:
    family = HistogramMetricFamily(f"holdgate_{name}_seconds", says, labels=labels)
    for of, histogram in histograms.items():
        family.add_metric(of, histogram.buckets(), histogram.sum)
    return family
