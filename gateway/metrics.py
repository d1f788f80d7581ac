"""What the gateway counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.driver import Report

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FIRST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
ENDED = (
    "holdgate_exchanges_total",
    "Exchanges that ended, by final state, who answered, and status.",
    ("state", "upstream", "status"),
)
FIRST = (
    "holdgate_first_frame_seconds",
    "From the request to the upstream's first frame.",
    ("upstream",),
)
WHOLE = (
    "holdgate_exchange_seconds",
    "From the request to the end of the answer.",
    ("upstream",),
)
TURNS = ("holdgate_turns_total", "Upstream turns.", ("upstream",))
TOKENS = (
    "holdgate_tokens_total",
    "Tokens as upstreams reported them.",
    ("upstream", "direction"),
)
BUSY = (
    "holdgate_upstream_connections_busy",
    "Connections to an upstream in use.",
    ("upstream",),
)
WHOLE_BUCKETS = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class _Counters:
    turns: Counter
    whole: Histogram
    first: Histogram
    input: Counter
    output: Counter


class Metrics:
    """Counters of one gateway; nothing is global."""

    def __init__(self, live: Callable[[], int], connections: Callable[[str], int]) -> None:
        self._registry = CollectorRegistry()
        self._connections = connections
        self._by_upstream: dict[str, _Counters] = {}
        self._by_end: dict[tuple[str | int, ...], Counter] = {}
        registry = self._registry
        Gauge("holdgate_exchanges_live", "Exchanges under way.", registry=registry).set_function(
            live
        )
        self._ended = Counter(*ENDED, registry=registry)
        self._first = Histogram(*FIRST, buckets=FIRST_BUCKETS, registry=registry)
        self._whole = Histogram(*WHOLE, buckets=WHOLE_BUCKETS, registry=registry)
        self._turns = Counter(*TURNS, registry=registry)
        self._tokens = Counter(*TOKENS, registry=registry)
        self._busy = Gauge(*BUSY, registry=registry)

    def watch(self, upstream: str) -> None:
        """Show how many connections to this upstream are in use."""
        self._busy.labels(upstream).set_function(lambda: self._connections(upstream))

    def count(self, report: Report) -> None:
        """Count an exchange that ended."""
        upstream = report.upstream
        counters = self._of(upstream)
        counters.turns.inc(report.turns)
        counters.whole.observe(report.seconds)
        if report.first_seconds is not None:
            counters.first.observe(report.first_seconds)
        if report.usage is not None:
            counters.input.inc(report.usage.input)
            counters.output.inc(report.usage.output)
        self._ended_as(upstream, report.state, report.status).inc()

    def render(self) -> bytes:
        """Write all of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def _of(self, upstream: str) -> _Counters:
        # Looking labels up costs more than counting.
        found = self._by_upstream.get(upstream)
        if found is None:
            found = self._by_upstream[upstream] = _Counters(
                turns=self._turns.labels(upstream),
                whole=self._whole.labels(upstream),
                first=self._first.labels(upstream),
                input=self._tokens.labels(upstream, "input"),
                output=self._tokens.labels(upstream, "output"),
            )
        return found

    def _ended_as(self, *labels: str | int) -> Counter:
        found = self._by_end.get(labels)
        if found is None:
            upstream, state, status = labels
            found = self._by_end[labels] = self._ended.labels(state, upstream, status)
        return found
