"""The whole way with tiny numbers: for its shape only, no time is asserted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench.__main__ import main, parser
from bench.figures import medians
from bench.load import Sample
from bench.processes import Address, choose_cores, family
from bench.report import Run
from bench.rounds import Plan, measure, staged, steps
from bench.scenarios import SCENARIOS, Length, Scenario
from bench.targets import Place, Target, before

ROOT = Path(__file__).resolve().parents[2]
TINY = Length(warm_s=0.1, measure_s=0.2)
UNITS = {"json": "requests", "pace": "events", "burst": "events", "leave": "left"}


def tiny_plan() -> Plan:
    return Plan(("direct",), [tiny(SCENARIOS[name]) for name in UNITS], rounds=1, length=TINY)


def tiny(scenario: Scenario) -> Scenario:
    return replace(scenario, users=2, delay_ms=min(scenario.delay_ms, 5))


def test_every_scenario_against_the_upstream_itself() -> None:
    plan = tiny_plan()
    samples: dict[str, Sample] = {}
    with staged(plan, choose_cores(tuple(os.sched_getaffinity(0))), print) as stage:
        for _, scenario, target in steps(plan, stage.targets):
            samples[scenario.name] = measure(stage, target, scenario, plan.length)
    assert {name: sample.errors for name, sample in samples.items()} == dict.fromkeys(UNITS, ())
    assert all(getattr(samples[name].counts, unit) > 0 for name, unit in UNITS.items())
    assert all(sample.counts.upstream_ns > 0 for sample in samples.values())


def test_targets_take_turns() -> None:
    plan = replace(tiny_plan(), rounds=2, scenarios=[SCENARIOS["json"]])
    targets = [Target(name, Address("127.0.0.1", 1), None) for name in ("direct", "other")]
    order = [(number, target.name) for number, _, target in steps(plan, targets)]
    assert order == [(1, "direct"), (1, "other"), (2, "direct"), (2, "other")]


def test_a_run_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.__main__.QUICK", TINY)
    files = ["--json", str(tmp_path / "run.json"), "--markdown", str(tmp_path / "run.md")]
    assert main(["run", "direct", "--quick", "--scenarios", "json", *files]) == 0
    assert "JSON requests/s" in capsys.readouterr().out
    run = msgspec.json.decode((tmp_path / "run.json").read_bytes(), type=Run)
    assert run.command == "python -m bench run direct --scenarios json --rounds 1 --quick"
    assert medians(run.measurements)["json", "direct", "rate"].value > 0
    assert str(tmp_path) not in (tmp_path / "run.md").read_text()


@pytest.mark.parametrize("sent, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_nothing_is_left_running_when_it_is_stopped(sent: signal.Signals, status: int) -> None:
    words = (sys.executable, "-m", "bench", "run", "direct", "--scenarios", "json")
    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL) as bench:
        deadline = time.monotonic() + 10
        while len(started := family(bench.pid)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        bench.send_signal(sent)
        assert bench.wait(10) == status
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "elsewhere"],
        ["run", "direct", "--scenarios", "json,nonsense"],
        ["run", "direct", "--rounds", "0"],
        ["compare", "--peers", "nobody"],
        ["compare", "--before", "tests"],
    ],
)
def test_what_is_not_known_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(words)


def test_the_other_tree_is_the_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the one that the bench is started in, which Python would find first."""
    monkeypatch.chdir(ROOT)
    other = tmp_path / "other" / "gateway"
    other.mkdir(parents=True)
    other.joinpath("__init__.py").touch()
    says = "print('listening on http://127.0.0.1:7', flush=True); signal.pause()"
    other.joinpath("__main__.py").write_text(f"import signal; {says}")
    place = Place(tmp_path, choose_cores(tuple(os.sched_getaffinity(0))))
    with before(other.parent)(place, Address("127.0.0.1", 1)) as target:
        assert target.address == Address("127.0.0.1", 7)


def test_two_source_trees_are_measured_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.__main__.QUICK", TINY)
    other = tmp_path / "other"
    other.mkdir()
    (other / "gateway").symlink_to(ROOT / "gateway")
    trees = ["--before", str(other), "--peers", "none", "--json", str(tmp_path / "run.json")]
    assert main(["compare", "--quick", "--scenarios", "json", *trees]) == 0
    assert "holdgate ÷ before" in capsys.readouterr().out
    run = msgspec.json.decode((tmp_path / "run.json").read_bytes(), type=Run)
    assert run.targets == ("direct", "before", "holdgate")
    assert "--before TREE" in run.command
    assert str(tmp_path) not in run.command


def test_an_upstream_that_does_not_start_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "direct", "--upstream", f"{sys.executable} -c 'raise OSError(7)'"]) == 1
    assert "upstream ended with 1" in capsys.readouterr().err
