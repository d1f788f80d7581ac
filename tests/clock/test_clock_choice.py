"""Which answer is believed: examples, and rules that hold for any answers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock.sntp import STEP_MS, OffsetSample, choose

Said = tuple[str, int, float]

CASES: dict[str, tuple[int, list[Said], str | None]] = {
    "nobody": (0, [], None),
    "one alone, small": (0, [("a", 12, 5)], "a"),
    "one alone, large": (0, [("a", 300_000, 5)], "a"),
    "the nearest": (0, [("a", 12, 50), ("b", 15, 5), ("c", 9, 20)], "b"),
    "exactly a second": (0, [("a", 1000, 5), ("b", -1, 9)], "a"),
    "more than a second, alone": (0, [("a", 1001, 5), ("b", 0, 9)], "b"),
    "more than a second, together": (0, [("a", 5000, 9), ("b", 5400, 5)], "b"),
    "together to the second": (0, [("a", 5000, 5), ("b", 6000, 9)], "a"),
    "not together": (0, [("a", 5000, 5), ("b", 6001, 9)], None),
    "a liar is nearest": (0, [("a", 300_000, 1), ("b", 3, 20), ("c", 5, 30)], "b"),
    "a liar between two": (0, [("a", 5000, 9), ("b", 300_000, 1), ("c", 5003, 8)], "c"),
    "three, all apart": (0, [("a", 5000, 1), ("b", 7000, 2), ("c", 9000, 3)], None),
    "no step from what is in force": (5000, [("a", 5900, 5), ("b", 60_000, 9)], "a"),
    "back to nothing is a step": (5000, [("a", 0, 5), ("b", 3000, 9)], None),
    "both back to nothing": (5000, [("a", 0, 5), ("b", 10, 9)], "a"),
    "a server is no witness for itself": (0, [("a", 5000, 5), ("a", 5000, 6)], None),
}


@pytest.mark.parametrize("in_force, said, expected", CASES.values(), ids=CASES)
def test_choice(in_force: int, said: list[Said], expected: str | None) -> None:
    chosen = choose([OffsetSample(*one) for one in said], in_force)
    assert (chosen and chosen.server) == expected


offsets = st.integers(-600_000, 600_000) | st.integers(-3000, 3000)
crowds = st.lists(
    st.builds(OffsetSample, st.sampled_from("abcdef"), offsets, st.floats(0, 800)),
    unique_by=(lambda answer: answer.server, lambda answer: answer.rtt_ms),
    max_size=6,
)


def is_bold(answer: OffsetSample, in_force: int) -> bool:
    return abs(answer.offset_ms - in_force) > STEP_MS


def companions(answer: OffsetSample, answers: list[OffsetSample]) -> int:
    return sum(abs(answer.offset_ms - other.offset_ms) <= STEP_MS for other in answers) - 1


@given(crowds, offsets)
def test_nothing_nearer_was_fit_to_be_chosen(answers: list[OffsetSample], in_force: int) -> None:
    chosen = choose(answers, in_force)
    passed = [a for a in answers if chosen is None or a.rtt_ms < chosen.rtt_ms]
    if len(answers) == 1:
        assert chosen == answers[0]
    elif chosen is not None:
        assert not is_bold(chosen, in_force) or companions(chosen, answers)
    assert all(is_bold(a, in_force) and not companions(a, answers) for a in passed)


@given(crowds, offsets, st.randoms(use_true_random=False))
def test_who_answers_first_does_not_matter(
    answers: list[OffsetSample], in_force: int, chance: Random
) -> None:
    shuffled = chance.sample(answers, len(answers))
    assert choose(shuffled, in_force) == choose(answers, in_force)


@given(crowds.filter(bool), offsets, st.integers(1001, 600_000))
def test_one_liar_among_honest_servers_never_moves_the_clock(
    honest: list[OffsetSample], in_force: int, lie: int
) -> None:
    near = [OffsetSample(a.server, in_force + a.offset_ms % 400, a.rtt_ms) for a in honest]
    chosen = choose([*near, OffsetSample("liar", in_force + 1000 + lie, 0.0)], in_force)
    assert chosen is not None
    assert chosen.server != "liar"
