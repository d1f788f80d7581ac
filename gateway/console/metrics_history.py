"""What the gateway did over the last hour and day, in memory: rings of samples.

A sample is one step of time: what was counted in it, and what was measured at its end. The ring of
an hour has steps of 10 s; six of them together are one step of 60 s in the ring of a day. Nothing
here looks at a clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.exchange.exchange_totals import FIRST_BUCKETS
from gateway.exchange.machine import State
from gateway.histogram import Histogram

STEP_MS = 10_000
STEPS_IN_HOUR = 360
STEPS_IN_MINUTE = 6
MINUTES_IN_DAY = 1440
# Of how many steps the latest figures of upstreams are: five minutes.
LATEST_STEPS = 30
LIVE_STATES = (State.OPENING, State.RELAYING, State.TOOLING, State.HOLDING, State.CLOSING)
Window = Literal["hour", "day"]


def _make_histogram() -> Histogram:
    return Histogram(FIRST_BUCKETS)


@dataclass(slots=True)
class UpstreamCounts:
    """What was asked of one upstream."""

    turns: int = 0
    refused: int = 0
    """Tries that gave no first frame."""
    broken: int = 0
    """Answers that had begun and failed."""
    first: Histogram = field(default_factory=_make_histogram)

    def add(self, other: UpstreamCounts) -> None:
        """Count what another one counted, too."""
        self.turns += other.turns
        self.refused += other.refused
        self.broken += other.broken
        self.first.merge(other.first)

    @property
    def failed_share(self) -> float:
        """The share of tries that failed."""
        tries = self.turns + self.refused
        return (self.refused + self.broken) / tries if tries else 0.0


@dataclass(slots=True)
class StepCounts:
    """What was counted in one step."""

    exchanges: int = 0
    failed: int = 0
    bytes: int = 0
    turns: int = 0
    reported_turns: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    first: Histogram = field(default_factory=_make_histogram)
    holds: Counter[str] = field(default_factory=Counter)
    """By outcome."""
    calls: Counter[str] = field(default_factory=Counter)
    """Of tools, by name."""
    errors: Counter[str] = field(default_factory=Counter)
    upstreams: dict[str, UpstreamCounts] = field(default_factory=dict)

    def find_upstream(self, upstream: str) -> UpstreamCounts:
        """Return the counts of an upstream, new ones if there are none."""
        return self.upstreams.setdefault(upstream, UpstreamCounts())

    def add(self, other: StepCounts) -> None:
        """Count what another step counted, too, but for upstreams."""
        self.exchanges += other.exchanges
        self.failed += other.failed
        self.bytes += other.bytes
        self.turns += other.turns
        self.reported_turns += other.reported_turns
        self.tokens_in += other.tokens_in
        self.tokens_out += other.tokens_out
        self.first.merge(other.first)
        self.holds.update(other.holds)
        self.calls.update(other.calls)
        self.errors.update(other.errors)


class StepGauges(msgspec.Struct, frozen=True):
    """What was measured at the end of a step."""

    live: Mapping[str, int] = {}
    """Exchanges under way, by state."""
    loop_lag_ms: float = 0.0
    """The most by which the event loop was late."""
    rss: int | None = None
    descriptors: int | None = None


NOTHING_MEASURED = StepGauges()


@dataclass(frozen=True, slots=True)
class Sample:
    """One step: when it ended, how long it was, what was counted and measured."""

    at_ms: int
    seconds: float
    counts: StepCounts
    gauges: StepGauges = NOTHING_MEASURED


def join_samples(samples: Sequence[Sample]) -> Sample:
    """Make one sample of several that follow each other."""
    counts, last = StepCounts(), samples[-1]
    for sample in samples:
        counts.add(sample.counts)
    lag = max(sample.gauges.loop_lag_ms for sample in samples)
    gauges = msgspec.structs.replace(last.gauges, loop_lag_ms=lag)
    return Sample(last.at_ms, sum(sample.seconds for sample in samples), counts, gauges)


class MetricSeries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers over time, one for each step."""

    exchanges: Annotated[list[float], Meta(description="That ended, per second.")]
    failed: Annotated[list[float], Meta(description="Of these, those that failed, per second.")]
    live: Annotated[dict[str, list[int]], Meta(description="Under way, by state.")]
    first_p50: Annotated[
        list[float | None],
        Meta(description="Milliseconds to the first frame, of half of the exchanges at most."),
    ]
    first_p95: list[float | None]
    bytes: Annotated[list[float], Meta(description="From upstreams, per second.")]
    holds: Annotated[dict[str, list[int]], Meta(description="That ended, by outcome.")]
    tokens_in: list[int]
    tokens_out: list[int]
    turns: list[int]
    reported_turns: Annotated[list[int], Meta(description="Turns that reported tokens.")]
    loop_lag_ms: Annotated[list[float], Meta(description="The most, per step.")]
    rss: Annotated[list[int | None], Meta(description="Bytes of memory.")]


class MetricsReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the gateway did over time; all times are UTC milliseconds."""

    window: Window
    step_ms: int
    since: Annotated[int, Meta(description="When the process began to count.")]
    times: Annotated[list[int], Meta(description="The end of each step.")]
    series: MetricSeries


class MetricsHistory:
    """The rings of an hour and of a day."""

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.hour: deque[Sample] = deque(maxlen=STEPS_IN_HOUR)
        self.day: deque[Sample] = deque(maxlen=MINUTES_IN_DAY)
        self._minute: list[Sample] = []

    def add(self, sample: Sample) -> None:
        """Add the next step."""
        self.hour.append(sample)
        self._minute.append(sample)
        if len(self._minute) == STEPS_IN_MINUTE:
            self.day.append(join_samples(self._minute))
            self._minute.clear()
        if len(self.hour) > LATEST_STEPS:
            # Only the latest figures of upstreams are shown, and there may be many upstreams.
            self.hour[-LATEST_STEPS - 1].counts.upstreams.clear()

    def sum_up_upstreams(self) -> dict[str, UpstreamCounts]:
        """Return what was asked of each upstream in the last five minutes."""
        found: dict[str, UpstreamCounts] = {}
        for sample in list(self.hour)[-LATEST_STEPS:]:
            for upstream, counts in sample.counts.upstreams.items():
                found.setdefault(upstream, UpstreamCounts()).add(counts)
        return found

    def count_tool_calls(self) -> tuple[Counter[str], Counter[str]]:
        """Return the calls of tools in the last hour, and those that failed, by name."""
        calls, errors = Counter[str](), Counter[str]()
        for sample in self.hour:
            calls.update(sample.counts.calls)
            errors.update(sample.counts.errors)
        return calls, errors

    @property
    def latest(self) -> StepGauges:
        """What was measured last."""
        return self.hour[-1].gauges if self.hour else NOTHING_MEASURED

    def report(self, window: Window) -> MetricsReport:
        """Return one of the rings as series."""
        samples = list(self.hour if window == "hour" else self.day)
        return MetricsReport(
            window=window,
            step_ms=STEP_MS if window == "hour" else STEP_MS * STEPS_IN_MINUTE,
            since=self.since_ms,
            times=[sample.at_ms for sample in samples],
            series=_make_series(samples),
        )


def _make_series(samples: Sequence[Sample]) -> MetricSeries:
    counts = [sample.counts for sample in samples]
    gauges = [sample.gauges for sample in samples]
    outcomes = sorted({outcome for one in counts for outcome in one.holds})
    return MetricSeries(
        exchanges=_divide(samples, lambda one: one.exchanges),
        failed=_divide(samples, lambda one: one.failed),
        live={state: [one.live.get(state, 0) for one in gauges] for state in LIVE_STATES},
        first_p50=_list_quantiles(counts, 0.5),
        first_p95=_list_quantiles(counts, 0.95),
        bytes=_divide(samples, lambda one: one.bytes),
        holds={outcome: [one.holds[outcome] for one in counts] for outcome in outcomes},
        tokens_in=[one.tokens_in for one in counts],
        tokens_out=[one.tokens_out for one in counts],
        turns=[one.turns for one in counts],
        reported_turns=[one.reported_turns for one in counts],
        loop_lag_ms=[round(one.loop_lag_ms, 1) for one in gauges],
        rss=[one.rss for one in gauges],
    )


def _divide(samples: Iterable[Sample], count: Callable[[StepCounts], int]) -> list[float]:
    """Return a count of each step per second."""
    return [
        round(count(sample.counts) / sample.seconds, 3) if sample.seconds else 0.0
        for sample in samples
    ]


def _list_quantiles(counts: Iterable[StepCounts], share: float) -> list[float | None]:
    return [show_quantile(one.first, share) for one in counts]


def show_quantile(first: Histogram, share: float) -> float | None:
    """Return a quantile in milliseconds, as it is shown."""
    found = first.find_quantile(share)
    return None if found is None else round(found * 1000, 1)
