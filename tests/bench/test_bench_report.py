"""Figures, goals and the ways a run is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench.figures import GOALS, Figure, Goal, figures, medians, outcomes
from bench.load import Counts, Sample
from bench.picture import draw
from bench.progress import bar
from bench.report import Run, as_markdown, as_text, comparison, document, goal_line, markdown, text
from bench.rounds import Measurement, calmest
from bench.scenarios import SCENARIOS

BUSY = Counts(
    seconds=2.0,
    requests=100,
    events=1000,
    reads=500,
    gateway_ns=50_000_000,
    upstream_ns=200_000_000,
    load_ns=100_000_000,
    cores_ns=450_000_000,
)
TIMES = {"p50": 1.0, "p95": 2.0, "p99": 3.0}


def sample(cpu: float = 1.0, later_ms: float = 0.0, errors: tuple[str, ...] = ()) -> Sample:
    counts = replace(BUSY, gateway_ns=int(BUSY.gateway_ns * cpu))
    first = {share: value + later_ms for share, value in TIMES.items()}
    return Sample(counts, first, TIMES, len(errors), errors)


def run_of(*measurements: Measurement, targets: tuple[str, ...] = ()) -> Run:
    return Run(
        command="python -m bench compare",
        when="2030-01-01 00:00 UTC",
        machine={"kernel": "Linux"},
        rounds=2,
        scenarios=("json", "pace", "burst", "first"),
        targets=targets or ("direct", "nginx", "holdgate"),
        notes=("A note.",),
        measurements=measurements,
    )


@pytest.fixture
def run() -> Run:
    cost = {"direct": (0.0, 0.0), "nginx": (1.0, 0.25), "holdgate": (2.0, 0.5)}
    return run_of(
        *(
            Measurement(number, scenario, target, sample(cpu, later))
            for number in (1, 2)
            for scenario in ("json", "pace", "burst", "first")
            for target, (cpu, later) in cost.items()
        )
    )


def test_figures_of_a_gateway() -> None:
    found = figures(sample(), "events")
    assert found["rate"] == 500
    assert found["cpu_us"] == 50
    assert found["per_core"] == 20_000
    assert found["events_per_read"] == 2
    assert found["gateway_share"] == pytest.approx(0.025)
    assert found["others_share"] == pytest.approx(0.05)
    assert (found["first_p50_ms"], found["gap_p99_ms"]) == (1.0, 3.0)


def test_without_a_gateway_there_is_no_cost() -> None:
    assert not {"cpu_us", "per_core", "gateway_share"} & set(figures(sample(0.0), "requests"))


def test_the_median_is_over_rounds() -> None:
    rounds = [Measurement(n, "pace", "nginx", sample(cpu)) for n, cpu in enumerate((1, 9, 2))]
    assert medians(rounds)["pace", "nginx", "cpu_us"].value == 100


def test_added_time_is_through_minus_direct(run: Run) -> None:
    assert medians(run.measurements)["first", "holdgate", "added_p50_ms"].value == 0.5


@pytest.mark.parametrize(
    "at_most, value, met",
    [(True, 1.0, True), (True, 1.01, False), (False, 1.0, True), (False, 0.99, False)],
)
def test_goal(at_most: bool, value: float, met: bool) -> None:
    assert Goal("a goal", "json", "rate", 1.0, at_most).met_by(value) is met


def test_outcomes_are_ratios_to_nginx(run: Run) -> None:
    judged = {o.goal.title: (o.value, o.met) for o in outcomes(medians(run.measurements))}
    assert list(judged.values()) == [
        (2.0, True),
        (2.0, False),
        (1.0, True),
        (0.5, True),
        (0.5, True),
    ]


def test_a_goal_that_was_not_measured_is_not_met_either() -> None:
    outcome = outcomes({("pace", "nginx", "cpu_us"): Figure(1.0, 0.0)})[0]
    assert (outcome.value, outcome.met) == (None, None)
    assert goal_line(outcome).endswith("(goal ≤ 2.5 × nginx): not measured")


def test_the_table_has_values_and_ratios(run: Run) -> None:
    head, *rows = comparison(run, medians(run.measurements))
    assert head[1:] == ["direct", "nginx", "holdgate", "holdgate ÷ direct", "holdgate ÷ nginx"]
    cost = next(row for row in rows if row[0] == "CPU µs per event, token pace")
    assert cost[1:] == ["–", "50.0", "100.0", "–", "2.00 ×"]


def test_uneven_rounds_are_said() -> None:
    rounds = [Measurement(n, "pace", "nginx", sample(cpu)) for n, cpu in enumerate((1, 2, 3))]
    rows = comparison(run_of(targets=("nginx",)), medians(rounds))
    assert ["CPU µs per event, token pace", "100.0 ±25%"] in rows


def test_tables_are_aligned() -> None:
    rows = [["", "b"], ["long name", "1"]]
    assert as_text(rows) == "           b\n------------\nlong name  1"
    assert as_markdown(rows) == "|  | b |\n|---|---:|\n| long name | 1 |"


def test_the_text_tells_every_goal_and_note(run: Run) -> None:
    shown = text(run, medians(run.measurements))
    assert all(goal.title in shown for goal in GOALS)
    assert "2.00 × nginx (goal ≤ 1.5 × nginx): NOT MET" in shown
    assert shown.endswith("A note.")


def test_a_disturbed_run_says_so() -> None:
    quiet = sample()
    noisy = replace(quiet, counts=replace(BUSY, cores_ns=BUSY.cores_ns + 400_000_000))
    for one, said in ((quiet, False), (noisy, True)):
        run = run_of(Measurement(1, "pace", "nginx", one))
        assert ("took up to 25% of a core" in text(run, medians(run.measurements))) is said


@pytest.mark.parametrize(
    "others, failed_at, kept",
    [
        ((0.0,), None, 0),
        ((0.5, 0.05, 0.0), None, 1),
        ((0.5, 0.2, 0.3), None, 1),
        ((0.5,) * 3, 1, 1),
    ],
)
def test_the_calmest_is_kept_but_never_instead_of_a_failure(
    others: tuple[float, ...], failed_at: int | None, kept: int
) -> None:
    samples = [
        replace(sample(), counts=replace(BUSY, cores_ns=350_000_000 + int(share * 2e9)))
        for share in others
    ]
    if failed_at is not None:
        samples[failed_at] = replace(samples[failed_at], error_count=1)
    assert calmest(iter(samples)) is samples[kept]


def test_goals_are_about_holdgate_only(run: Run) -> None:
    alone = replace(run, targets=("direct",))
    assert "goal" not in text(alone, medians(run.measurements))


def test_the_page_shows_picture_and_machine(run: Run) -> None:
    page = markdown(run, medians(run.measurements), "latest.svg")
    assert "](latest.svg)" in page
    assert "| kernel | Linux |" in page


def test_the_json_has_everything(run: Run) -> None:
    whole = msgspec.json.decode(document(run, medians(run.measurements)))
    assert whole["machine"] == {"kernel": "Linux"}
    assert whole["figures"]["pace"]["holdgate"]["cpu_us"]["value"] == 100
    assert len(whole["measurements"]) == len(run.measurements)
    assert [goal["met"] for goal in whole["goals"]] == [True, False, True, True, True]


def test_errors_say_where(run: Run) -> None:
    failed = run_of(Measurement(2, "pace", "nginx", sample(errors=("it broke",))))
    assert run.errors == []
    assert failed.errors == ["round 2, pace through nginx: 1 failed, such as: it broke"]


def test_the_picture_is_well_formed_and_has_a_bar_each(run: Run) -> None:
    picture = ElementTree.fromstring(draw(medians(run.measurements), run.targets))
    bars = picture.findall("{http://www.w3.org/2000/svg}rect")
    assert [bar.get("class") for bar in bars] == ["bar", "subject"] * 3


@pytest.mark.parametrize(
    "done, left, expected",
    [
        (0, None, "[" + "." * 30 + "] 0/3"),
        (1, 12.4, "[" + "#" * 10 + "." * 20 + "] 1/3, 12 s left"),
        (3, 0.0, "[" + "#" * 30 + "] 3/3, 0 s left"),
    ],
)
def test_bar(done: int, left: float | None, expected: str) -> None:
    assert bar(done, 3, left) == expected


def test_the_documentation_names_every_scenario_and_goal() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md").read_text()
    assert all(f"| `{name}` |" in page for name in SCENARIOS)
    for goal in GOALS:
        wanted = f"{'≤' if goal.at_most else '≥'} {goal.limit:g} {goal.unit}"
        assert any(goal.title in line and wanted in line for line in page.split("\n"))
