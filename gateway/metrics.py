"""What the gateway counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from gateway.driver import Report

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FIRST_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
WHOLE_BUCKETS = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """Counters of one gateway; nothing is global."""

    def __init__(self, live: Callable[[], int], connections: Callable[[str], int]) -> None:
        self._registry = CollectorRegistry()
        self._connections = connections
        gauge = Gauge("holdgate_exchanges_live", "Exchanges under way.", registry=self._registry)
        gauge.set_function(live)
        self._ended = Counter(
            "holdgate_exchanges_total",
            "Exchanges that ended, by final state and who answered.",
            ("state", "upstream", "status"),
            registry=self._registry,
        )
        self._first = Histogram(
            "holdgate_first_frame_seconds",
            "From the request to the upstream's first frame.",
            ("upstream",),
            buckets=FIRST_BUCKETS,
            registry=self._registry,
        )
        self._whole = Histogram(
            "holdgate_exchange_seconds",
            "From the request to the end of the answer.",
            ("upstream",),
            buckets=WHOLE_BUCKETS,
            registry=self._registry,
        )
        self._turns = Counter(
            "holdgate_turns_total", "Upstream turns.", ("upstream",), registry=self._registry
        )
        self._tokens = Counter(
            "holdgate_tokens_total",
            "Tokens as upstreams reported them.",
            ("upstream", "direction"),
            registry=self._registry,
        )
        self._busy = Gauge(
            "holdgate_upstream_connections_busy",
            "Connections to an upstream in use.",
            ("upstream",),
            registry=self._registry,
        )

    def watch(self, upstream: str) -> None:
        """Show how many connections to this upstream are in use."""
        self._busy.labels(upstream).set_function(lambda: self._connections(upstream))

    def count(self, report: Report) -> None:
        """Count an exchange that ended."""
        upstream = report.upstream
        self._ended.labels(report.state, upstream, report.status).inc()
        self._turns.labels(upstream).inc(report.turns)
        self._whole.labels(upstream).observe(report.seconds)
        if report.first_seconds is not None:
            self._first.labels(upstream).observe(report.first_seconds)
        if report.usage is not None:
            self._tokens.labels(upstream, "input").inc(report.usage.input)
            self._tokens.labels(upstream, "output").inc(report.usage.output)

    def render(self) -> bytes:
        """Write all of it in Prometheus' text format."""
        return generate_latest(self._registry)
