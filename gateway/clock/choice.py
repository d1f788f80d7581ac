"""Which of several answers to believe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEP_MS = 1000
"""A larger correction needs two servers; two agree that differ by no more than this."""


@dataclass(frozen=True, slots=True)
class OffsetSample:
    """What one server says that has to be added to the host's time, and how far away it is."""

    server: str
    offset_ms: int
    rtt_ms: float


def choose(answers: Sequence[OffsetSample], offset_ms: int) -> OffsetSample | None:
    """Return the nearest server's answer that is believed while this offset is in force."""
    believed = (answer for answer in answers if _is_believed(answer, answers, offset_ms))
    return min(believed, key=lambda answer: answer.rtt_ms, default=None)


def _is_believed(answer: OffsetSample, answers: Sequence[OffsetSample], offset_ms: int) -> bool:
    if len(answers) == 1 or _is_near(answer.offset_ms, offset_ms):
        return True
    return any(
        other.server != answer.server and _is_near(answer.offset_ms, other.offset_ms)
        for other in answers
    )


def _is_near(one_ms: int, other_ms: int) -> bool:
    return abs(one_ms - other_ms) <= STEP_MS
