"""The run: every scenario against every target in turn, round after round."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.load import DISTURBED, DRAIN_S, Job, Sample, Watch
from bench.processes import Child, Cores, ProcessFailed, running
from bench.scenarios import FULL, Length, Scenario, request
from bench.targets import REPLAY, TARGETS, NotInstalled, Place, Target, upstream
from bench.users import Order

SPARE_S = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, how often, and for how long."""

    targets: Sequence[str]
    scenarios: Sequence[Scenario]
    rounds: int
    length: Length = FULL
    attempts: int = 1
    upstream: Sequence[str] = REPLAY


@dataclass(frozen=True, slots=True)
class Measurement:
    """One load on one target."""

    round: int
    scenario: str
    target: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that runs while measuring."""

    place: Place
    upstream: Target
    targets: Sequence[Target]


@contextmanager
def staged(plan: Plan, cores: Cores, say: Say) -> Iterator[Stage]:
    """Start the upstream and all targets that can be had here, and stop them afterwards."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        place = Place(Path(directory), cores)
        scripted = stack.enter_context(upstream(place, plan.upstream))
        targets = []
        for name in plan.targets:
            try:
                targets.append(stack.enter_context(TARGETS[name](place, scripted.address)))
            except NotInstalled as reason:
                say(f"{reason}: measured without it.")
        yield Stage(place, scripted, targets)


def steps(plan: Plan, targets: Sequence[Target]) -> Iterator[tuple[int, Scenario, Target]]:
    """Interleave the targets, so that noise of the machine hits all alike."""
    for round_ in range(1, plan.rounds + 1):
        for scenario in plan.scenarios:
            for target in targets:
                yield round_, scenario, target


def measure_undisturbed(stage: Stage, target: Target, scenario: Scenario, plan: Plan) -> Sample:
    """Measure again while other processes disturb, as often as the plan allows."""
    return calmest(measure(stage, target, scenario, plan.length) for _ in range(plan.attempts))


def calmest(samples: Iterable[Sample]) -> Sample:
    """Take the first sample that is undisturbed or shows a failure, else the least disturbed."""
    seen: list[Sample] = []
    for sample in samples:
        if sample.error_count or sample.counts.others_share <= DISTURBED:
            return sample
        seen.append(sample)
    return min(seen, key=lambda sample: sample.counts.others_share)


def measure(stage: Stage, target: Target, scenario: Scenario, length: Length) -> Sample:
    """Put one load on one target, from a process of its own."""
    directory = stage.place.directory
    job_file, sample_file = directory / "job.json", directory / "sample.json"
    job_file.write_bytes(msgspec.json.encode(job_for(stage, target, scenario, length)))
    words = (sys.executable, "-m", "bench.load", str(job_file), str(sample_file))
    with running(stage.place.command("load", words, stage.place.cores.load)) as load:
        wait_for_end(load, length.total_s + DRAIN_S + SPARE_S)
    for child in (target.child, stage.upstream.child):
        if child:
            child.check()
    return msgspec.json.decode(sample_file.read_bytes(), type=Sample)


def wait_for_end(load: Child, limit_s: float) -> None:
    """Wait until the load is done, and raise when it failed or takes too long."""
    try:
        code = load.process.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise ProcessFailed(f"The load is not done after {limit_s:.0f} s.") from None
    if code:
        load.check()


def job_for(stage: Stage, target: Target, scenario: Scenario, length: Length) -> Job:
    """Write down one load in full."""
    streams = scenario.user != "json"
    return Job(
        user=scenario.user,
        users=scenario.users,
        order=Order(
            host=target.address.host,
            port=target.address.port,
            request=request(scenario, length),
            frames=scenario.tokens_for(length) if streams else 0,
            leave_after=scenario.leave_after,
            think_s=scenario.think_s,
        ),
        warm_s=length.warm_s,
        measure_s=length.measure_s,
        spread_s=scenario.spread_s(length),
        watch=Watch(target.pids, stage.upstream.pids, stage.place.cores.used),
    )
