"""What many held connections came to: figures, the goals, and a page of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.figures import Goal, Outcome
from bench.holds import Drained, HoldsPlan, Woken
from bench.load import DISTURBED
from bench.report import Row, as_markdown, as_text, goal_line

MANY = 10_000
AT_ONCE = 64

GOALS = (
    Goal("memory of a held connection", "holds", "kb_each", 30, peer=None, unit="KB"),
    Goal("CPU for 10,000, with heartbeats", "holds", "cpu_percent", 5, peer=None, unit="%"),
    Goal("p99 of a new request beside them", "holds", "new_ratio", 3, peer=None, unit="× without"),
    Goal("all due at once: the last is let go", "holds", "left_s", 1, peer=None, unit="s"),
    Goal("follow-ups at once", "holds", "most_at_once", AT_ONCE, peer=None, unit="requests"),
    Goal("SIGTERM: the last has its end", "holds", "drained_s", 30, peer=None, unit="s"),
)


@dataclass(frozen=True, slots=True)
class HoldsRun:
    """Everything known about one run."""

    command: str
    when: str
    machine: dict[str, str]
    plan: HoldsPlan
    drained: Drained
    woken: Woken

    @property
    def errors(self) -> list[str]:
        """What must not be, whatever it took."""
        held, drained, woken = self.plan.held, self.drained, self.woken
        wrong = {
            "were let go when due": (woken.left, held),
            "were woken and ended": (woken.ended, held),
            "follow-ups were asked for": (woken.follow_ups, held),
            "were ended by SIGTERM": (drained.ended, held),
        }
        told = [f"{n:,} of {all_:,} {what}" for what, (n, all_) in wrong.items() if n != all_]
        if drained.exit_status:
            told.append(f"the gateway ended with {drained.exit_status}")
        return [*told, *drained.errors[:5], *woken.errors[:5]]


def figures(run: HoldsRun) -> dict[str, float]:
    """Work out all figures of a run."""
    drained, woken, held = run.drained, run.woken, run.plan.held
    quiet = drained.quiet
    before, during = drained.before.first_ms["p99"], drained.during.first_ms["p99"]
    return {
        "kb_each": (drained.held_bytes - drained.idle_bytes) / held / 1024,
        "cpu_percent": 100 * quiet.gateway_ns / 1e9 / quiet.seconds * MANY / held,
        "new_p99_ms": before,
        "new_p99_held_ms": during,
        "new_ratio": during / before,
        "opened_per_s": held / drained.opened_s,
        "left_s": woken.left_s,
        "woken_s": woken.ended_s,
        "most_at_once": woken.most_at_once,
        "drained_s": drained.ended_s,
        "exit_s": drained.exit_s,
    }


TITLES = (
    ("kb_each", "memory of a held connection, KB", 1),
    ("cpu_percent", "CPU for 10,000 held, % of a core", 1),
    ("new_p99_ms", "new request p99, nothing held, ms", 1),
    ("new_p99_held_ms", "new request p99, all held, ms", 1),
    ("opened_per_s", "held answers begun, per s", 0),
    ("left_s", "all due at once: the last is let go after, s", 2),
    ("woken_s", "all due at once: the last answer ends after, s", 1),
    ("most_at_once", "follow-ups the upstream saw at once", 0),
    ("drained_s", "SIGTERM: the last answer ends after, s", 2),
    ("exit_s", "SIGTERM: the process is gone after, s", 2),
)


def table(run: HoldsRun) -> list[Row]:
    """Return the figures as rows."""
    found = figures(run)
    rows: list[Row] = [[f"{run.plan.held:,} held", ""]]
    return [*rows, *([title, f"{found[name]:,.{digits}f}"] for name, title, digits in TITLES)]


def judged(run: HoldsRun) -> list[Outcome]:
    """Judge every goal."""
    found = figures(run)
    return [Outcome(goal, found[goal.figure]) for goal in GOALS]


def remarks(run: HoldsRun) -> Sequence[str]:
    """Return what a reader must know before trusting the numbers."""
    drained = run.drained
    samples = (drained.quiet, drained.before.counts, drained.during.counts)
    others = max(counts.others_share for counts in samples)
    if others <= DISTURBED:
        return ()
    return (
        f"Other processes took up to {others:.0%} of a core: measure again on a quiet machine.",
    )


def text(run: HoldsRun) -> str:
    """Return the whole report for a terminal."""
    goals = "\n".join(map(goal_line, judged(run)))
    return "\n\n".join((as_text(table(run)), goals, *remarks(run)))


def markdown(run: HoldsRun) -> str:
    """Return the whole report as a page."""
    facts = [["", ""], *([name, value] for name, value in run.machine.items())]
    parts = (
        "# Held connections",
        f"Written by `{run.command}` on {run.when}. [How it is measured](../benchmarks.md#holds).",
        as_markdown(table(run)),
        "## Goals",
        "\n".join(f"- {goal_line(outcome)}" for outcome in judged(run)),
        "## Machine",
        as_markdown(facts),
        *remarks(run),
    )
    return "\n\n".join(parts) + "\n"


def document(run: HoldsRun) -> bytes:
    """Return everything as JSON."""
    goals = [
        {"goal": o.goal.title, "value": o.value, "limit": o.goal.limit, "met": o.met}
        for o in judged(run)
    ]
    whole = {**msgspec.to_builtins(run), "figures": figures(run), "goals": goals}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)
