"""What each dialect costs and its translation: lanes, loads, the report; no time is asserted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench.__main__ import main, parser, plan_of, repeatable
from bench.dialects import CHAT, DIALECTS, MESSAGES, RESPONSES, Dialect, Speech
from bench.figures import medians
from bench.frames import FrameCounter
from bench.lanes import PAIRS, by_nginx, lanes, passed, translated
from bench.lanes_report import (
    PASSING_LIMITS,
    TRANSLATION_LIMITS,
    document,
    goal_lines,
    judged,
    markdown,
    table,
    text,
)
from bench.load import Counts, Sample
from bench.processes import Address
from bench.report import Run
from bench.rounds import Measurement, available
from bench.scenarios import BODY_BYTES, LANES, QUICK, SCENARIOS, Length, Scenario, request
from bench.targets import NotInstalled, Target
from bench.upstream import Tapes

ROOT = Path(__file__).resolve().parents[2]
TINY = Length(warm_s=0.05, measure_s=0.1)
HOLDGATE = [passed(dialect) for dialect in DIALECTS] + [translated(*pair) for pair in PAIRS]
NGINX = [by_nginx(dialect) for dialect in DIALECTS]
SPEECHES = [Speech(client, upstream, upstream.name) for client, upstream in PAIRS]
SPEECHES += [Speech(dialect, dialect, dialect.name) for dialect in DIALECTS]


def tiny(scenario: Scenario) -> Scenario:
    return replace(scenario, users=2, tokens=40)


def answer(dialect: Dialect, scenario: Scenario) -> bytes:
    """Return what the scripted upstream streams in a dialect."""
    asked = request(scenario, QUICK, Speech(dialect, dialect, dialect.name))
    beats = Tapes().answer(dialect.path, asked.partition(b"\r\n\r\n")[2])
    return b"".join(beat for beat in beats if isinstance(beat, bytes))


@pytest.mark.parametrize("speech", SPEECHES, ids=lambda s: translated(s.client, s.upstream))
def test_every_dialect_asks_with_a_body_of_the_same_size(speech: Speech) -> None:
    asked = request(SCENARIOS["burst"], QUICK, speech)
    head, _, body = asked.partition(b"\r\n\r\n")
    assert head.startswith(f"POST {speech.client.path} HTTP/1.1".encode())
    assert len(body) == BODY_BYTES
    assert msgspec.json.decode(body)["model"] == speech.upstream.name


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_a_write_holds_about_one_event_in_every_dialect(dialect: Dialect) -> None:
    burst = replace(SCENARIOS["burst"], tokens=1000)
    size = int(burst.script(QUICK, dialect).rpartition("split=")[2])
    stream = answer(dialect, burst)
    assert 0.9 < stream.count(b"\n\n") * size / len(stream) < 1.2


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: d.name)
def test_the_end_of_each_dialect_is_known_however_it_is_cut(dialect: Dialect) -> None:
    stream = answer(dialect, replace(SCENARIOS["burst"], tokens=3))
    for split in range(len(stream) + 1):
        counter = FrameCounter(dialect.last)
        counter.feed(stream[:split])
        assert counter.done == (split == len(stream))
        counter.feed(stream[split:])
        assert (counter.frames, counter.done) == (stream.count(b"\n\n"), True)


def test_every_lane_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.__main__.QUICK", TINY)
    monkeypatch.setattr("bench.__main__.RESULTS", tmp_path)
    monkeypatch.setitem(SCENARIOS, "burst", tiny(SCENARIOS["burst"]))
    assert main(["dialects", "--quick", "--scenarios", "burst", "--write"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{lane} " in shown for lane in HOLDGATE)
    run = msgspec.json.decode((tmp_path / "dialects.json").read_bytes(), type=Run)
    assert set(HOLDGATE) <= set(run.targets)
    # In so short a time a busy machine may not get to every one of them.
    seen = [one for one in run.measurements if one.sample.counts.events]
    assert len(seen) > len(run.measurements) / 2
    assert all(one.sample.counts.gateway_ns for one in seen)
    assert str(tmp_path) not in (tmp_path / "dialects.md").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dialects.json", "dialects.md"]


def test_without_nginx_the_rest_is_measured() -> None:
    @contextmanager
    def missing() -> Iterator[Target]:
        raise NotInstalled("nginx is not installed")
        yield

    said: list[str] = []
    gateway = Target("holdgate", Address("127.0.0.1", 1), None)
    with available(missing(), said.append) as peer:
        assert sorted(lane.name for lane in lanes(peer, gateway)) == sorted(HOLDGATE)
    assert said == ["nginx is not installed: measured without it."]


def sample(cpu_us: float) -> Sample:
    """Make a sample in which an event, or a whole answer, took so long."""
    amounts = dict.fromkeys(("requests", "events", "reads"), 1000)
    counts = Counts(seconds=1.0, **amounts, gateway_ns=int(cpu_us * 1_000_000))
    return Sample(replace(counts, cores_ns=counts.gateway_ns), {}, {})


def run_of(costs: Mapping[str, tuple[float, ...]]) -> Run:
    """Make a run in which a lane cost so much, round by round."""
    return Run(
        command="python -m bench dialects",
        when="2030-01-01 00:00 UTC",
        machine={"kernel": "Linux"},
        rounds=3,
        scenarios=LANES,
        targets=tuple(costs),
        notes=("A note.",),
        measurements=tuple(
            Measurement(number, scenario, lane, sample(cost))
            for scenario in LANES
            for lane, rounds in costs.items()
            for number, cost in enumerate(rounds)
        ),
    )


@pytest.fixture
def run() -> Run:
    costs = dict.fromkeys(NGINX, (10.0, 10.0, 10.0))
    costs |= {passed(dialect): (20.0, 20.0, 20.0) for dialect in DIALECTS}
    costs |= {translated(*pair): (40.0, 40.0, 40.0) for pair in PAIRS}
    return run_of(costs | {translated(CHAT, RESPONSES): (80.0, 80.0, 80.0)})


def test_what_passes_is_compared_with_nginx_and_what_is_translated_with_what_passes(
    run: Run,
) -> None:
    found = {one.lane: one for one in judged(run, "pace")}
    assert list(found) == NGINX + HOLDGATE
    assert (found[passed(MESSAGES)].value, found[passed(MESSAGES)].met) == (2.0, True)
    pair = found[translated(CHAT, MESSAGES)]
    assert (pair.to_nginx, pair.value, pair.met) == (4.0, 2.0, True)
    assert found[translated(CHAT, RESPONSES)].met is False
    assert found[by_nginx(CHAT)].met is None


def test_ratios_are_of_one_round_and_then_the_median() -> None:
    run = run_of({by_nginx(CHAT): (10.0, 20.0, 40.0), passed(CHAT): (20.0, 40.0, 40.0)})
    found = {one.lane: one for one in judged(run, "pace")}
    assert found[passed(CHAT)].to_nginx == 2.0


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    run = run_of({passed(CHAT): (20.0,)})
    rows = {row[0]: row[1:] for row in table(run, "burst")}
    assert rows[passed(CHAT)] == ["20.00", "–", "–", "≤ 1.5 × nginx: not measured"]
    assert rows[translated(CHAT, MESSAGES)][-1] == "≤ 3 × passthrough: not measured"
    assert goal_lines(run) == []


def test_a_scenario_without_goals_is_only_shown(run: Run) -> None:
    flood = replace(
        run,
        scenarios=("flood",),
        measurements=tuple(replace(one, scenario="flood") for one in run.measurements),
    )
    rows = {row[0]: row[1:] for row in table(flood, "flood")}
    assert rows[translated(CHAT, RESPONSES)] == ["80.00", "8.00 ×", "4.00 ×", "–"]
    assert goal_lines(flood) == []


def test_the_dearest_lane_stands_for_its_goal(run: Run) -> None:
    assert goal_lines(run) == [
        "passthrough, whole answers a second as it went: at least 1.00 × nginx (chat; "
        "goal ≥ 0.15 × nginx): met",
        "passthrough, whole answers: at most 2.00 × nginx (chat; goal ≤ 6.67 × nginx): met",
        "translation, whole answers: at most 4.00 × passthrough (chat from responses; "
        "goal ≤ 3 × passthrough): NOT MET",
        "passthrough, token pace: at most 2.00 × nginx (chat; goal ≤ 2.5 × nginx): met",
        "translation, token pace: at most 4.00 × passthrough (chat from responses; "
        "goal ≤ 3 × passthrough): NOT MET",
        "passthrough, burst: at most 2.00 × nginx (chat; goal ≤ 1.5 × nginx): NOT MET",
        "translation, burst: at most 4.00 × passthrough (chat from responses; "
        "goal ≤ 3 × passthrough): NOT MET",
    ]


def test_the_report_has_every_lane_and_goal(run: Run) -> None:
    found = medians(run.measurements)
    shown, page = text(run, found), markdown(run, found)
    for lane in NGINX + HOLDGATE:
        assert f"\n{lane} " in shown
        assert f"\n| {lane} |" in page
    assert all(line in shown and line in page for line in goal_lines(run))
    assert shown.endswith("A note.")
    assert "`python -m bench dialects`" in page
    assert "| kernel | Linux |" in page


def test_the_json_has_everything(run: Run) -> None:
    whole = msgspec.json.decode(document(run))
    lanes = {one["lane"]: one for one in whole["lanes"]["pace"]}
    assert lanes[translated(CHAT, RESPONSES)]["met"] is False
    assert len(whole["measurements"]) == len(run.measurements)


def test_the_command_says_how_to_measure_again() -> None:
    options = parser().parse_args(["dialects", "--rounds", "2", "--attempts", "3", "--write"])
    assert plan_of(options).rounds == 2
    assert repeatable(options) == (
        "python -m bench dialects --scenarios json,pace,burst --rounds 2 --attempts 3"
    )


def test_the_documentation_names_the_goals() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    for limit in PASSING_LIMITS.values():
        assert f"≤ {limit:g} × nginx" in page
    for limit in TRANSLATION_LIMITS.values():
        assert f"≤ {limit:g} × passthrough" in page
    assert "python -m bench dialects" in page
