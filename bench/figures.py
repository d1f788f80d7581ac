"""What the samples mean: figures per target, medians over rounds, ratios, and the goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.load import Sample
from bench.rounds import Measurement
from bench.scenarios import SCENARIOS
from bench.statistics import median, unevenness

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Figure:
    """A median over rounds, and how uneven the rounds were."""

    value: float
    unevenness: float


Key = tuple[str, str, str]
Medians = Mapping[Key, Figure]


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table: which figure of which scenario, and how it is compared."""

    scenario: str
    figure: str
    title: str
    digits: int = 1
    compared: bool = True


METRICS = (
    Metric("json", "rate", "JSON requests/s, as it went", 0),
    Metric("json", "per_core", "JSON requests/s of one busy core", 0),
    Metric("json", "cpu_us", "CPU µs per JSON request"),
    Metric("pace", "cpu_us", "CPU µs per event, token pace"),
    Metric("pace", "gap_p99_ms", "event gap p99, ms"),
    Metric("pace", "events_per_read", "events per read of the client", 2, compared=False),
    Metric("burst", "cpu_us", "CPU µs per event, burst", 2),
    Metric("first", "first_p50_ms", "time to first event p50, ms", 2),
    Metric("first", "first_p95_ms", "time to first event p95, ms", 2),
    Metric("first", "added_p50_ms", "added time to first event p50, ms", 2, compared=False),
    Metric("first", "added_p95_ms", "added time to first event p95, ms", 2, compared=False),
    Metric("leave", "cpu_us", "CPU µs per stream left midway", 0),
)
SHARES = (
    ("gateway_share", "gateway"),
    ("upstream_share", "upstream"),
    ("load_share", "load generator"),
    ("others_share", "others"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What Holdgate is to reach: a ratio to a peer, or a plain value where no peer is named."""

    title: str
    scenario: str
    figure: str
    limit: float
    at_most: bool = True
    peer: str | None = "nginx"
    unit: str = "× nginx"

    def met_by(self, value: float) -> bool:
        """Whether this value is good enough."""
        return value <= self.limit if self.at_most else value >= self.limit


GOALS = (
    Goal("CPU per streamed event at token pace", "pace", "cpu_us", 2.5),
    Goal("CPU per streamed event, burst", "burst", "cpu_us", 1.5),
    Goal("JSON requests/s, as it went", "json", "rate", 0.15, at_most=False),
    Goal("JSON requests/s of one busy core", "json", "per_core", 0.15, at_most=False),
    Goal("added time to first event p50", "first", "added_p50_ms", 1.0, peer=None, unit="ms"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one goal came out; without a value it could not be measured."""

    goal: Goal
    value: float | None

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.goal.met_by(self.value)


def figures(sample: Sample, unit: str) -> Figures:
    """Work out all figures of one sample; those that need a gateway are left out without one."""
    counts = sample.counts
    amounts = {"requests": counts.requests, "events": counts.events, "left": counts.left}
    seconds, amount = counts.seconds, amounts[unit]
    found = {
        "rate": amount / seconds,
        "upstream_share": counts.upstream_ns / 1e9 / seconds,
        "load_share": counts.load_ns / 1e9 / seconds,
        "others_share": counts.others_share,
    }
    if counts.reads:
        found["events_per_read"] = counts.events / counts.reads
    if counts.gateway_ns and amount:
        found["gateway_share"] = counts.gateway_ns / 1e9 / seconds
        found["cpu_us"] = counts.gateway_ns / 1e3 / amount
        found["per_core"] = amount * 1e9 / counts.gateway_ns
    found |= {f"first_{share}_ms": value for share, value in sample.first_ms.items()}
    found |= {f"gap_{share}_ms": value for share, value in sample.gap_ms.items()}
    return found


def medians(measurements: Iterable[Measurement]) -> dict[Key, Figure]:
    """Take the median over rounds of every figure of every scenario and target."""
    values: dict[Key, list[float]] = {}
    for one in measurements:
        for name, value in figures(one.sample, SCENARIOS[one.scenario].unit).items():
            values.setdefault((one.scenario, one.target, name), []).append(value)
    found = {key: Figure(median(all_), unevenness(all_)) for key, all_ in values.items()}
    return found | added_times(found)


def added_times(found: Medians) -> dict[Key, Figure]:
    """Subtract the direct time to the first event from the time through each target."""
    added: dict[Key, Figure] = {}
    for (scenario, target, name), through in found.items():
        bare = found.get((scenario, "direct", name))
        if name.startswith("first_") and target != "direct" and bare:
            key = (scenario, target, name.replace("first_", "added_"))
            added[key] = Figure(through.value - bare.value, 0.0)
    return added


def disturbance(found: Medians) -> float:
    """Return the largest share of a core that processes outside the bench took from a load."""
    return max((f.value for (*_, name), f in found.items() if name == "others_share"), default=0.0)


def ratio(found: Medians, metric: Metric | Goal, target: str, other: str) -> float | None:
    """Return a figure of one target divided by that of another, where both exist."""
    ours = found.get((metric.scenario, target, metric.figure))
    theirs = found.get((metric.scenario, other, metric.figure))
    if not ours or not theirs or theirs.value <= 0:
        return None
    return ours.value / theirs.value


def outcomes(found: Medians, goals: Sequence[Goal] = GOALS) -> list[Outcome]:
    """Judge every goal."""
    return [Outcome(goal, reached(found, goal)) for goal in goals]


def reached(found: Medians, goal: Goal) -> float | None:
    """Return what Holdgate reached of one goal, if it was measured."""
    if goal.peer:
        return ratio(found, goal, "holdgate", goal.peer)
    figure = found.get((goal.scenario, "holdgate", goal.figure))
    return figure.value if figure else None
