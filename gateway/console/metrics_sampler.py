"""Feeds the metrics history: what is counted anyway is looked at every ten seconds.

Exchanges and turns are added up by `ExchangeTotals`, holds by `Holds`. Only what nobody else counts
is heard here, and only when it happens: tools that returned, and routes that failed. With nobody
watching, this is one task that wakes every second to see how late it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.console.metrics_history import (
    STEP_MS,
    MetricsHistory,
    Sample,
    StepCounts,
    StepGauges,
)
from gateway.console.process_figures import count_descriptors, read_rss
from gateway.exchange.events import RouteFailed
from gateway.exchange.exchange_totals import ExchangeTotals, Totals, TotalsTable
from gateway.exchange.machine import State
from gateway.exchange.observer import Happening, ToolReturned, Wants
from gateway.exchange.runner import ExchangeRunner
from gateway.reminders.holds import Holds

PROBE_SECONDS = 1.0
PROBES = STEP_MS // 1000
# Below this status an answer had begun when it failed.
FIRST_ERROR_STATUS = 400


class MetricsSampler:
    """Counts until the next step, takes a sample, and adds it to the history."""

    wants: Wants = frozenset({RouteFailed, ToolReturned})

    def __init__(
        self,
        totals: ExchangeTotals,
        holds: Holds,
        live: Collection[ExchangeRunner],
        clock: Clock,
        steady: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self.history = MetricsHistory(clock.now_ms())
        self._totals = totals
        self._holds = holds
        self._live = live
        self._clock = clock
        self._steady = steady
        self._sleep = sleep
        self._counts = StepCounts()
        self._outcomes = Counter(holds.counts.outcomes)
        self._live_bytes = 0
        self._lag_ms = 0.0
        self._sampled_at = steady()
        totals.add_taker(self._take)

    def observe(self, at: float, happening: Happening) -> None:
        """Count a tool that returned, or a route that failed."""
        if isinstance(happening, ToolReturned):
            self._counts.calls[happening.call.name] += 1
            if happening.error:
                self._counts.errors[happening.call.name] += 1
        elif isinstance(happening, RouteFailed):
            route, error = happening.route, happening.error
            # Another error is the request's own fault.
            if route is not None and error.may_fail_over:
                self._counts.find_upstream(route.upstream).refused += 1

    async def run(self) -> NoReturn:
        """Take a sample every ten seconds, and see every second how late the loop is."""
        while True:
            for _ in range(PROBES):
                begun = self._steady()
                await self._sleep(PROBE_SECONDS)
                late = self._steady() - begun - PROBE_SECONDS
                self._lag_ms = max(self._lag_ms, late * 1000)
            self.take_sample()

    def take_sample(self) -> None:
        """End the step."""
        self._totals.hand_over()
        self._count_live_bytes()
        self._count_holds()
        live = Counter[str](runner.exchange.state for runner in self._live)
        gauges = StepGauges(live, self._lag_ms, read_rss(), count_descriptors())
        now = self._steady()
        seconds, self._sampled_at = now - self._sampled_at, now
        counts, self._counts = self._counts, StepCounts()
        self._lag_ms = 0.0
        self.history.add(Sample(self._clock.now_ms(), seconds, counts, gauges))

    def _count_live_bytes(self) -> None:
        """Count what is under way as well: an answer may take an hour."""
        live_bytes = sum(runner.bytes for runner in self._live)
        self._counts.bytes += live_bytes - self._live_bytes
        self._live_bytes = live_bytes

    def _count_holds(self) -> None:
        outcomes = Counter(self._holds.counts.outcomes)
        self._counts.holds.update(outcomes - self._outcomes)
        self._outcomes = outcomes

    def _take(self, hour_ms: int, table: TotalsTable) -> None:
        for (_, _, route), totals in table.items():
            self._add_totals(route.upstream, totals)

    def _add_totals(self, upstream: str, totals: Totals) -> None:
        counts, there = self._counts, self._counts.find_upstream(upstream)
        for (state, status), number in totals.ended.items():
            counts.exchanges += number
            if state is State.FAILED:
                counts.failed += number
                if status < FIRST_ERROR_STATUS:
                    there.broken += number
        counts.bytes += totals.bytes
        counts.turns += totals.turns
        counts.reported_turns += totals.reported
        counts.tokens_in += totals.input
        counts.tokens_out += totals.output
        counts.first.merge(totals.first_frame)
        there.turns += totals.turns
        there.first.merge(totals.first_frame)
