"""The command line.

`run` measures one target, `compare` all side by side, `dialects` what each dialect costs and its
translation, `holds` many held connections.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench import holds_report, lanes_report, report
from bench.figures import medians
from bench.holds import FULL_HOLDS, QUICK_HOLDS, measure_holds
from bench.holds_report import HoldsRun
from bench.lanes import staged_lanes
from bench.machine import facts
from bench.picture import draw
from bench.processes import Cores, ProcessFailed, choose_cores, on_core
from bench.progress import Progress
from bench.rounds import Measurement, Plan, Say, Stage, measure_undisturbed, staged, steps
from bench.scenarios import FULL, LANES, QUICK, SCENARIOS, USUAL
from bench.targets import PEERS, REPLAY, TARGETS

Staged = Callable[[Plan, Cores, Say], AbstractContextManager[Stage]]

MAX_TIMES = 50
WHEN = "%Y-%m-%d %H:%M UTC"
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


class Told(NamedTuple):
    """What a measurement has to tell: for a terminal, as JSON, as a page."""

    text: str
    document: bytes
    page: str
    errors: Sequence[str]
    kept: Mapping[str, bytes]
    """The files that the documentation shows."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure as the words say, print the report, and return the exit status."""
    options = parser().parse_args(words)
    # The end by SIGTERM takes the same way out as Ctrl-C: through everything that cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cores = choose_cores(tuple(os.sched_getaffinity(0)))
    try:
        with on_core(cores.load):
            told = TELLERS[options.command](options, cores)
    except ProcessFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    return publish(told, options)


def parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    top = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="measure one target")
    one.add_argument("target", choices=tuple(TARGETS))
    one.set_defaults(write=False, before=None)
    all_ = commands.add_parser("compare", help="measure direct, peers and Holdgate side by side")
    all_.add_argument("--peers", type=peer_names, default=PEERS, help="such as nginx; or none")
    all_.add_argument("--write", action="store_true", help="write the results into docs/benchmarks")
    all_.add_argument(
        "--before", type=source_tree, metavar="TREE", help="another source tree, beside this one"
    )
    for command in (one, all_):
        add_options(command)
        add_upstream(command)
    add_lanes(commands.add_parser("dialects", help="measure each dialect, and its translation"))
    add_holds(commands.add_parser("holds", help="hold many connections, wake and end them all"))
    return top


def add_lanes(command: argparse.ArgumentParser) -> None:
    """Add what the measurement of dialects understands."""
    add_options(command)
    command.add_argument("--write", action="store_true", help="write the results into docs")
    command.set_defaults(scenarios=LANES, upstream=REPLAY, before=None)


def add_holds(command: argparse.ArgumentParser) -> None:
    """Add what the measurement of held connections understands."""
    command.add_argument("--held", type=some, metavar="N", help="how many; usually 10000")
    command.add_argument("--quick", action="store_true", help="1000 for a moment")
    command.add_argument("--store", default="", metavar="URL", help="such as memory:")
    command.add_argument(
        "--write", action="store_true", help="write the results into docs/benchmarks"
    )
    add_files(command)


def add_files(command: argparse.ArgumentParser) -> None:
    """Add where results may be written."""
    command.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    command.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as a page")


def add_options(command: argparse.ArgumentParser) -> None:
    """Add what every command understands that goes through rounds."""
    command.add_argument("--quick", action="store_true", help="one short round")
    command.add_argument("--rounds", type=times, help=f"how often, up to {MAX_TIMES}; usually 5")
    command.add_argument(
        "--attempts", type=times, default=1, help="tries for a load that other processes disturb"
    )
    command.add_argument("--scenarios", type=scenario_names, default=USUAL)
    add_files(command)


def add_upstream(command: argparse.ArgumentParser) -> None:
    """Add who may answer instead."""
    command.add_argument(
        "--upstream", type=shlex.split, default=REPLAY, metavar="COMMAND", help="another upstream"
    )


def source_tree(word: str) -> Path:
    """Read where another source tree of Holdgate is."""
    tree = Path(word).resolve()
    if not (tree / "gateway" / "__main__.py").is_file():
        raise argparse.ArgumentTypeError(f"{word} has no gateway/__main__.py")
    return tree


def some(word: str) -> int:
    """Read a number of one or more."""
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def times(word: str) -> int:
    """Read how often to do something."""
    number = int(word)
    if not 1 <= number <= MAX_TIMES:
        raise argparse.ArgumentTypeError(f"between 1 and {MAX_TIMES}")
    return number


def scenario_names(word: str) -> tuple[str, ...]:
    """Read names of scenarios with commas between them."""
    return known(word, tuple(SCENARIOS))


def peer_names(word: str) -> tuple[str, ...]:
    """Read names of peers with commas between them; `none` for no peer."""
    return () if word == "none" else known(word, PEERS)


def known(word: str, names: Sequence[str]) -> tuple[str, ...]:
    """Split at commas, and refuse what is not among the names."""
    asked = tuple(word.split(","))
    if strange := set(asked) - set(names):
        raise argparse.ArgumentTypeError(f"{', '.join(strange)}: not one of {', '.join(names)}")
    return asked


def plan_of(options: argparse.Namespace) -> Plan:
    """Turn the options into what is to be done."""
    return Plan(
        targets=targets_of(options),
        scenarios=[SCENARIOS[name] for name in options.scenarios],
        rounds=options.rounds or (1 if options.quick else 5),
        length=QUICK if options.quick else FULL,
        attempts=options.attempts,
        upstream=options.upstream,
        before=options.before,
    )


def targets_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return who is measured."""
    if options.command == "run":
        return (options.target,)
    if options.command != "compare":
        return ()
    return ("direct", *options.peers, *(["before"] if options.before else []), "holdgate")


def repeatable(options: argparse.Namespace) -> str:
    """Return the command that measures the same again, whatever it writes where."""
    words = ["python", "-m", "bench", options.command]
    words += [options.target] if options.command == "run" else []
    words += ["--peers", listed(options.peers)] if options.command == "compare" else []
    # Which tree that was is not for others to know: a name of this machine.
    words += ["--before", "TREE"] if options.before else []
    words += ["--scenarios", listed(options.scenarios), "--rounds", str(plan_of(options).rounds)]
    words += ["--quick"] if options.quick else []
    words += ["--attempts", str(options.attempts)] if options.attempts > 1 else []
    words += ["--upstream", shlex.join(options.upstream)] if options.upstream != REPLAY else []
    return shlex.join(words)


def listed(names: Sequence[str]) -> str:
    """Join names as the options take them."""
    return ",".join(names) or "none"


def perform(plan: Plan, opened: Staged, cores: Cores, command: str) -> report.Run:
    """Do the whole plan and return all that was seen."""
    notes = ["There is one core only: load and gateway share it."] if cores.shared else []
    with opened(plan, cores, notes.append) as stage:
        measurements = measure_all(plan, stage)
        targets = tuple(target.name for target in stage.targets)
        started = [target.child.command.name for target in stage.targets if target.child]
    return report.Run(
        command=command,
        when=datetime.now(UTC).strftime(WHEN),
        machine=facts(cores, started),
        rounds=plan.rounds,
        scenarios=tuple(scenario.name for scenario in plan.scenarios),
        targets=targets,
        notes=tuple(notes),
        measurements=measurements,
    )


def hold(options: argparse.Namespace, cores: Cores) -> HoldsRun:
    """Hold many connections as the options say, and return all that was seen."""
    held = options.held or (1000 if options.quick else 10_000)
    plan = replace(QUICK_HOLDS if options.quick else FULL_HOLDS, held=held, store=options.store)
    words = ["python", "-m", "bench", "holds", "--held", str(held)]
    words += ["--quick"] if options.quick else []
    words += ["--store", options.store] if options.store else []
    drained, woken = measure_holds(plan, cores)
    when = datetime.now(UTC).strftime(WHEN)
    return HoldsRun(shlex.join(words), when, facts(cores, ()), plan, drained, woken)


def tell_holds(options: argparse.Namespace, cores: Cores) -> Told:
    """Hold many connections, and tell what they came to."""
    run = hold(options, cores)
    document, page = holds_report.document(run), holds_report.markdown(run)
    kept = {"holds.json": document, "holds.md": page.encode()}
    return Told(holds_report.text(run), document, page, run.errors, kept)


def tell_lanes(options: argparse.Namespace, cores: Cores) -> Told:
    """Measure every dialect and its translation, and tell what they cost."""
    run = perform(plan_of(options), staged_lanes, cores, repeatable(options))
    found = medians(run.measurements)
    document, page = lanes_report.document(run), lanes_report.markdown(run, found)
    kept = {"dialects.json": document, "dialects.md": page.encode()}
    return Told(lanes_report.text(run, found), document, page, run.errors, kept)


def tell_targets(options: argparse.Namespace, cores: Cores) -> Told:
    """Measure one target or several, and tell how they compare."""
    run = perform(plan_of(options), staged, cores, repeatable(options))
    found = medians(run.measurements)
    document, page = report.document(run, found), report.markdown(run, found)
    kept = {
        "latest.json": document,
        "latest.md": report.markdown(run, found, "latest.svg").encode(),
        "latest.svg": draw(found, run.targets).encode(),
    }
    return Told(report.text(run, found), document, page, run.errors, kept)


TELLERS: dict[str, Callable[[argparse.Namespace, Cores], Told]] = {
    "run": tell_targets,
    "compare": tell_targets,
    "dialects": tell_lanes,
    "holds": tell_holds,
}


def publish(told: Told, options: argparse.Namespace) -> int:
    """Print the report, write what was asked for, and fail when any request did."""
    print(told.text)
    if options.json:
        options.json.write_bytes(told.document)
    if options.markdown:
        options.markdown.write_text(told.page)
    if told.errors:
        return tell_failure(told.errors)
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        for name, content in told.kept.items():
            (RESULTS / name).write_bytes(content)
    return 0


def tell_failure(errors: Sequence[str]) -> int:
    """Say what failed, and return the exit status for it."""
    print("\nFAILED, the numbers above are worthless:", *errors, sep="\n", file=sys.stderr)
    return 1


def measure_all(plan: Plan, stage: Stage) -> tuple[Measurement, ...]:
    """Take every step of the plan, with a bar that shows how far it is."""
    todo = list(steps(plan, stage.targets))
    progress = Progress(len(todo))
    done: list[Measurement] = []
    try:
        for number, scenario, target in todo:
            progress.start(f"round {number}: {scenario.title}, {target.name}")
            sample = measure_undisturbed(stage, target, scenario, plan)
            done.append(Measurement(number, scenario.name, target.name, sample))
    finally:
        progress.close()
    return tuple(done)


if __name__ == "__main__":
    sys.exit(main())
