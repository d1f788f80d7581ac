"""The run: every scenario against every target in turn, round after round."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.load import DISTURBED, DRAIN_S, Job, Sample, Watch
from bench.processes import Child, Cores, ProcessFailed, running
from bench.scenarios import FULL, Length, Scenario, request
from bench.targets import REPLAY, TARGETS, NotInstalled, Place, Target, before, upstream
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
    before: Path | None = None
    """Another source tree of Holdgate, to be measured beside this one."""


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
        place, scripted = stack.enter_context(scene(plan, cores))
        known = TARGETS if plan.before is None else {**TARGETS, "before": before(plan.before)}
        openers = [known[name](place, scripted.address) for name in plan.targets]
        opened = [stack.enter_context(available(opener, say)) for opener in openers]
        yield Stage(place, scripted, [target for target in opened if target is not None])


@contextmanager
def scene(plan: Plan, cores: Cores) -> Iterator[tuple[Place, Target]]:
    """Start the upstream, in a directory that goes with it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        place = Place(Path(directory), cores)
        with upstream(place, plan.upstream) as scripted:
            yield place, scripted


@contextmanager
def available(opener: AbstractContextManager[Target], say: Say) -> Iterator[Target | None]:
    """Open a target, or say that it cannot be had here."""
    with ExitStack() as stack:
        target = None
        try:
            target = stack.enter_context(opener)
        except NotInstalled as reason:
            say(f"{reason}: measured without it.")
        yield target


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
            request=request(scenario, length, target.speech),
            frames=scenario.tokens_for(length) if streams else 0,
            leave_after=scenario.leave_after,
            think_s=scenario.think_s,
            last=target.speech.client.last,
        ),
        warm_s=length.warm_s,
        measure_s=length.measure_s,
        spread_s=scenario.spread_s(length),
        watch=Watch(target.pids, stage.upstream.pids, stage.place.cores.used),
    )
