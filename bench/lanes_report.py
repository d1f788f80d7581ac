"""Shows what the lanes cost: beside nginx where bytes pass, beside passing where they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.dialects import DIALECTS, Dialect
from bench.figures import GOALS, Figure, Medians, Metric, figures
from bench.lanes import PAIRS, by_nginx, passed, translated
from bench.report import (
    NOTHING,
    WORDS,
    Row,
    Run,
    as_markdown,
    as_text,
    cell,
    remarks,
    shares,
)
from bench.scenarios import SCENARIOS
from bench.statistics import median, unevenness

NGINX, PASSTHROUGH = "nginx", "passthrough"
PASSING_LIMITS = {goal.scenario: goal.limit for goal in GOALS if goal.figure == "cpu_us"}
# What a busy core answers and what an answer costs are two ways to say one thing.
PASSING_LIMITS |= {g.scenario: round(1 / g.limit, 2) for g in GOALS if g.figure == "per_core"}
TRANSLATION_LIMITS = dict.fromkeys(PASSING_LIMITS, 3.0)
UNITS = {"requests": "answer", "events": "event", "left": "stream left"}


@dataclass(frozen=True, slots=True)
class Judged:
    """What one lane costs, beside what it is compared with."""

    lane: str
    cost: Figure | None
    to_nginx: float | None = None
    to_passing: float | None = None
    limit: float | None = None
    base: str = ""
    """What the limit is a multiple of."""

    @property
    def value(self) -> float | None:
        """The ratio that the limit is about."""
        return self.to_nginx if self.base == NGINX else self.to_passing

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none, or nothing was measured."""
        if self.value is None or self.limit is None:
            return None
        return self.value <= self.limit


class Costs:
    """One figure of each lane of one scenario, round by round: what it costs in CPU time."""

    def __init__(self, run: Run, scenario: str, figure: str = "cpu_us") -> None:
        self._rounds: dict[str, dict[int, float]] = {}
        for one in run.measurements:
            if one.scenario == scenario:
                cost = figures(one.sample, SCENARIOS[scenario].unit).get(figure)
                if cost is not None:
                    self._rounds.setdefault(one.target, {})[one.round] = cost

    def figure(self, lane: str) -> Figure | None:
        """Return the median of one lane over rounds."""
        costs = list(self._rounds.get(lane, {}).values())
        return Figure(median(costs), unevenness(costs)) if costs else None

    def ratio(self, lane: str, other: str) -> float | None:
        """Return the median over rounds of one lane's cost divided by another's in the same."""
        ours, theirs = self._rounds.get(lane, {}), self._rounds.get(other, {})
        # In a very short round a process may not have been seen to use any CPU time.
        found = [ours[number] / theirs[number] for number in ours if theirs.get(number)]
        return median(found) if found else None


def judged(run: Run, scenario: str) -> list[Judged]:
    """Judge every lane of one scenario."""
    costs = Costs(run, scenario)
    nginx = [Judged(lane, costs.figure(lane)) for lane in map(by_nginx, DIALECTS)]
    passing, translating = PASSING_LIMITS.get(scenario), TRANSLATION_LIMITS.get(scenario)
    return [
        *nginx,
        *(judged_passing(costs, client, passing) for client in DIALECTS),
        *(judged_translation(costs, *pair, translating) for pair in PAIRS),
    ]


def judged_passing(costs: Costs, client: Dialect, limit: float | None) -> Judged:
    """Judge a dialect that is passed on as it is."""
    lane = passed(client)
    to_nginx = costs.ratio(lane, by_nginx(client))
    return Judged(lane, costs.figure(lane), to_nginx, limit=limit, base=NGINX)


def judged_translation(
    costs: Costs, client: Dialect, upstream: Dialect, limit: float | None
) -> Judged:
    """Judge a dialect that is translated for a client of another."""
    lane = translated(client, upstream)
    to_nginx, to_passing = (costs.ratio(lane, name(client)) for name in (by_nginx, passed))
    return Judged(lane, costs.figure(lane), to_nginx, to_passing, limit, PASSTHROUGH)


def table(run: Run, scenario: str) -> list[Row]:
    """Return the table of one scenario: a row a lane."""
    shown = Metric(scenario, "cpu_us", "", 2)
    title, unit = SCENARIOS[scenario].title, UNITS[SCENARIOS[scenario].unit]
    rows: list[Row] = [[title, f"CPU µs per {unit}", "÷ nginx", "÷ passthrough", "goal"]]
    for one in judged(run, scenario):
        ratios = (times(one.to_nginx), times(one.to_passing))
        rows.append([one.lane, cell(one.cost, shown), *ratios, goal(one)])
    return rows


def times(ratio: float | None) -> str:
    """Show a ratio where there is one."""
    return NOTHING if ratio is None else f"{ratio:.2f} ×"


def goal(one: Judged) -> str:
    """Say what a lane is to reach, and whether it does."""
    if one.limit is None:
        return NOTHING
    return f"≤ {one.limit:g} × {one.base}: {WORDS[one.met]}"


def goal_lines(run: Run) -> list[str]:
    """Say in one line for each kind of goal what the dearest lane reached."""
    lines = []
    for scenario in run.scenarios:
        lines += rate_lines(run, scenario)
        everything = [one for one in judged(run, scenario) if one.met is not None]
        for base in (NGINX, PASSTHROUGH):
            held = [one for one in everything if one.base == base]
            if held:
                lines.append(goal_line(scenario, base, held))
    return lines


def goal_line(scenario: str, base: str, held: Sequence[Judged]) -> str:
    """Say what the dearest of some lanes reached."""
    worst = max(held, key=lambda one: one.value or 0.0)
    what = "passthrough" if base == NGINX else "translation"
    return (
        f"{what}, {SCENARIOS[scenario].title}: at most {worst.value:.2f} × {base} ({worst.lane}; "
        f"goal ≤ {worst.limit:g} × {base}): {WORDS[worst.met]}"
    )


def rate_lines(run: Run, scenario: str) -> list[str]:
    """Say how many answers a second the slowest dialect gave as it is, beside nginx."""
    rates = Costs(run, scenario, "rate")
    ratios = {d.name: rates.ratio(passed(d), by_nginx(d)) for d in DIALECTS}
    told = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    asked = [g for g in GOALS if g.scenario == scenario and g.figure == "rate"]
    if not told:
        return []
    name, least = min(told.items(), key=lambda one: one[1])
    return [
        f"passthrough, {SCENARIOS[scenario].title} a second as it went: at least {least:.2f} × "
        f"nginx ({name}; goal ≥ {goal.limit:g} × nginx): {WORDS[goal.met_by(least)]}"
        for goal in asked
    ]


def text(run: Run, found: Medians) -> str:
    """Return the whole report for a terminal."""
    parts = [as_text(table(run, scenario)) for scenario in run.scenarios]
    parts.append("\n".join(goal_lines(run)))
    parts.extend(remarks(run, found))
    return "\n\n".join(filter(None, parts))


def markdown(run: Run, found: Medians) -> str:
    """Return the whole report as a page."""
    facts = [["", ""], *([name, value] for name, value in run.machine.items())]
    parts = [
        "# Dialects",
        f"Written by `{run.command}` on {run.when}; medians of {run.rounds} rounds, also of the "
        "ratios. Read these, not the absolute values. [How it is measured](../benchmarks.md).",
        "`chat` is a client of Chat Completions whose upstream speaks it too, `chat from messages` "
        "one whose upstream speaks Messages. What is translated is compared with what passes as "
        "it is to a client of the same dialect.",
        *(as_markdown(table(run, scenario)) for scenario in run.scenarios),
        "## Goals",
        "\n".join(f"- {line}" for line in goal_lines(run)),
        "## How busy each side was",
        as_markdown(shares(run, found)),
        "## Machine",
        as_markdown(facts),
        *remarks(run, found),
    ]
    return "\n\n".join(parts) + "\n"


def document(run: Run) -> bytes:
    """Return everything as JSON: facts, what was judged, and every single measurement."""
    lanes = {
        scenario: [{**msgspec.to_builtins(one), "met": one.met} for one in judged(run, scenario)]
        for scenario in run.scenarios
    }
    whole = {**msgspec.to_builtins(run), "lanes": lanes}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)
