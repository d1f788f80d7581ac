"""Many answers held open in one process: all are woken at once, and all end as they should.

The gateway and its upstream are processes of their own. What is asserted are facts; how long it
takes and how much memory, `python -m bench holds` judges on a quiet machine.
"""

from __future__ import annotations

import os

import pytest

from bench.holds import FULL_HOLDS, Drained, HoldsPlan, Woken, measure_holds
from bench.processes import choose_cores
from bench.scenarios import Length
from gateway.config.sections import LimitsSection

AT_ONCE = LimitsSection().due_followups
SHORT = HoldsPlan(300, quiet_s=0.2, newcomers=Length(warm_s=0.1, measure_s=0.3))


def measured(plan: HoldsPlan) -> tuple[Drained, Woken]:
    return measure_holds(plan, choose_cores(tuple(os.sched_getaffinity(0))))


def all_woken(woken: Woken, held: int) -> None:
    assert woken.errors == ()
    assert (woken.left, woken.ended, woken.follow_ups) == (held, held, held)
    assert 1 < woken.most_at_once <= AT_ONCE


def all_ended(drained: Drained, held: int) -> None:
    assert drained.errors == ()
    assert (drained.ended, drained.exit_status) == (held, 0)
    # Nothing is waited for: all are told, and the process leaves.
    assert drained.exit_s < 15


def kilobytes_each(drained: Drained, held: int) -> float:
    return (drained.held_bytes - drained.idle_bytes) / held / 1024


def test_hundreds_are_held_woken_at_once_and_ended() -> None:
    drained, woken = measured(SHORT)
    all_woken(woken, SHORT.held)
    all_ended(drained, SHORT.held)
    # With so few, what the process takes once weighs as well.
    assert kilobytes_each(drained, SHORT.held) < 60


@pytest.mark.long
def test_ten_thousand_are_held_woken_at_once_and_ended() -> None:
    drained, woken = measured(FULL_HOLDS)
    all_woken(woken, FULL_HOLDS.held)
    all_ended(drained, FULL_HOLDS.held)
    assert kilobytes_each(drained, FULL_HOLDS.held) <= 30
