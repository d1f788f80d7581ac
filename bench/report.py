"""Shows a run: tables as text and Markdown, everything as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from bench.figures import (
    METRICS,
    SHARES,
    Figure,
    Medians,
    Metric,
    Outcome,
    disturbance,
    outcomes,
    ratio,
)
from bench.load import DISTURBED
from bench.rounds import Measurement

Row = Sequence[str]
Renderer = Callable[[Sequence[Row]], str]

NOTHING = "–"
WORDS = {True: "met", False: "NOT MET", None: "not measured"}
UNEVEN = 0.15
SATURATED = 0.9


@dataclass(frozen=True, slots=True)
class Run:
    """Everything known about one run of the bench."""

    command: str
    when: str
    machine: dict[str, str]
    rounds: int
    scenarios: tuple[str, ...]
    targets: tuple[str, ...]
    notes: tuple[str, ...]
    measurements: tuple[Measurement, ...]

    @property
    def errors(self) -> list[str]:
        """Every failed request, told where it happened."""
        return [
            f"round {one.round}, {one.scenario} through {one.target}: "
            f"{one.sample.error_count} failed, such as: {'; '.join(one.sample.errors[:3])}"
            for one in self.measurements
            if one.sample.error_count
        ]


def comparison(run: Run, found: Medians) -> list[Row]:
    """Return the main table: a row a metric, a column a target, then ratios of the last one."""
    *others, subject = run.targets
    ratios = [f"{subject} ÷ {other}" for other in others]
    rows: list[Row] = [["", *run.targets, *ratios]]
    for metric in METRICS:
        if metric.scenario not in run.scenarios:
            continue
        cells = [cell(found.get((metric.scenario, t, metric.figure)), metric) for t in run.targets]
        compared = [quotient(found, metric, subject, other) for other in others]
        rows.append([metric.title, *cells, *compared])
    return rows


def cell(figure: Figure | None, metric: Metric) -> str:
    """Show one figure, and how uneven the rounds were where that is much."""
    if figure is None:
        return NOTHING
    doubt = f" ±{figure.unevenness:.0%}" if figure.unevenness >= UNEVEN else ""
    return f"{figure.value:,.{metric.digits}f}{doubt}"


def quotient(found: Medians, metric: Metric, subject: str, other: str) -> str:
    """Show a ratio where there is one to show."""
    value = ratio(found, metric, subject, other) if metric.compared else None
    return NOTHING if value is None else f"{value:.2f} ×"


def shares(run: Run, found: Medians) -> list[Row]:
    """Return the table of who was how busy, which tells where the limit was."""
    rows: list[Row] = [["share of a core", *(title for _, title in SHARES), "limit"]]
    for scenario in run.scenarios:
        for target in run.targets:
            values = {name: found.get((scenario, target, name)) for name, _ in SHARES}
            cells = [f"{figure.value:.0%}" if figure else NOTHING for figure in values.values()]
            rows.append([f"{scenario}, {target}", *cells, limit(values)])
    return rows


def limit(values: dict[str, Figure | None]) -> str:
    """Say which side was at its limit, if one was."""
    busy = {name: figure.value if figure else 0.0 for name, figure in values.items()}
    if busy["gateway_share"] >= SATURATED:
        return "gateway"
    if busy["upstream_share"] + busy["load_share"] >= SATURATED:
        return "load side"
    return NOTHING


def judged(run: Run, found: Medians) -> list[Outcome]:
    """Judge the goals this run is about: none unless Holdgate was measured."""
    if "holdgate" not in run.targets:
        return []
    return [o for o in outcomes(found) if o.goal.scenario in run.scenarios]


def remarks(run: Run, found: Medians) -> list[str]:
    """Return what a reader must know before trusting the numbers."""
    others = disturbance(found)
    noisy = f"Other processes took up to {others:.0%} of a core: measure again on a quiet machine."
    return [*run.notes, *([noisy] if others > DISTURBED else [])]


def goal_line(outcome: Outcome) -> str:
    """Say in one line whether a goal is met."""
    goal = outcome.goal
    wanted = f"{'≤' if goal.at_most else '≥'} {goal.limit:g} {goal.unit}"
    value = NOTHING if outcome.value is None else f"{outcome.value:.2f} {goal.unit}"
    return f"{goal.title}: {value} (goal {wanted}): {WORDS[outcome.met]}"


def as_text(rows: Sequence[Row]) -> str:
    """Align a table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "-" * (sum(widths) + 2 * len(widths) - 2))
    return "\n".join(lines)


def as_markdown(rows: Sequence[Row]) -> str:
    """Write a table in Markdown."""
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    rule = "|---|" + "---:|" * (len(rows[0]) - 1)
    return "\n".join((head, rule, *rest))


def text(run: Run, found: Medians) -> str:
    """Return the whole report for a terminal."""
    parts = [as_text(comparison(run, found)), as_text(shares(run, found))]
    parts.append("\n".join(goal_line(outcome) for outcome in judged(run, found)))
    parts.extend(remarks(run, found))
    return "\n\n".join(filter(None, parts))


def markdown(run: Run, found: Medians, picture: str | None = None) -> str:
    """Return the whole report as a page."""
    facts = [["", ""], *([name, value] for name, value in run.machine.items())]
    parts = [
        "# Latest measurements",
        f"Written by `{run.command}` on {run.when}; medians of {run.rounds} rounds. "
        "Read the ratios, not the absolute values. [How it is measured](../benchmarks.md).",
        *([f"![CPU time and requests side by side]({picture})"] if picture else []),
        as_markdown(comparison(run, found)),
        "## Goals",
        "\n".join(f"- {goal_line(outcome)}" for outcome in judged(run, found)),
        "## How busy each side was",
        as_markdown(shares(run, found)),
        "## Machine",
        as_markdown(facts),
        *remarks(run, found),
    ]
    return "\n\n".join(parts) + "\n"


def document(run: Run, found: Medians) -> bytes:
    """Return everything as JSON: facts, medians, goals, and every single measurement."""
    nested: dict[str, dict[str, dict[str, Figure]]] = {}
    for (scenario, target, name), figure in found.items():
        nested.setdefault(scenario, {}).setdefault(target, {})[name] = figure
    goals = [
        {"goal": o.goal.title, "value": o.value, "limit": o.goal.limit, "met": o.met}
        for o in judged(run, found)
    ]
    whole = {**msgspec.to_builtins(run), "figures": nested, "goals": goals}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)
