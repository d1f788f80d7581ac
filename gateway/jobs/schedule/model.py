"""When a job is due: once, at a steady interval, or as a cron expression says.

All instants are UTC milliseconds. A cron expression means the wall clock of its zone. If it has
times in every hour, it follows the clock as it runs: an hour that comes twice has its times twice.
Any other expression has each time once a day, also when the clock is changed: a time that comes
twice counts the first time, and a time that is skipped is due at the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.errors import InvalidInput
from gateway.jobs.schedule.cron import DAY, Dial, read_dial
from gateway.jobs.schedule.phrases import dial_in_words, interval_in_words, moment_in_words
from gateway.jobs.schedule.zones import Span, find_zone, spans
from gateway.timestamps import Timestamp, iso

Kind = Literal["at", "every", "cron"]
LOOKAHEAD_DAYS = 3660


class At(msgspec.Struct, frozen=True, tag_field="kind", tag="at"):
    """Once."""

    at_ms: int
    tz: str = ""


class Every(msgspec.Struct, frozen=True, tag_field="kind", tag="every"):
    """At a fixed interval, which does not shift with the real times of runs."""

    every_ms: int
    anchor_ms: int
    """Where the interval starts to count; the first time is after the job's creation."""


class Cron(msgspec.Struct, frozen=True, tag_field="kind", tag="cron"):
    """Whenever the wall clock of a zone matches a cron expression."""

    expression: str
    tz: str


Schedule = At | Every | Cron


def next_due(schedule: Schedule, after_ms: int, lookahead_days: int = LOOKAHEAD_DAYS) -> int | None:
    """Return the first time after an instant; None: never again, or not within the lookahead.

    An expression or zone that this version cannot read, stored by another version, is never due.
    """
    match schedule:
        case At(at_ms):
            return at_ms if at_ms > after_ms else None
        case Every(every_ms, anchor_ms):
            steps = (after_ms - anchor_ms) // every_ms + 1
            return anchor_ms + max(steps, 0) * every_ms
        case _:
            return _next_on_dial(schedule, after_ms, lookahead_days)


def next_times(
    schedule: Schedule, after_ms: int, count: int, lookahead_days: int = LOOKAHEAD_DAYS
) -> tuple[int, ...]:
    """Return the next times after an instant, at most `count`."""
    times: list[int] = []
    while len(times) < count:
        due = next_due(schedule, times[-1] if times else after_ms, lookahead_days)
        if due is None:
            break
        times.append(due)
    return tuple(times)


def times_between(schedule: Schedule, first_ms: int, until_ms: int) -> tuple[int, int, int | None]:
    """Count the times from an instant to another, both included.

    Return their number, the last of them (`first_ms` if there is none), and the last but one. For a
    cron expression only the last ten years count.
    """
    match schedule:
        case At(at_ms):
            count, last_two = int(first_ms <= at_ms <= until_ms), [at_ms]
        case Every():
            count, last_two = _points_between(schedule, first_ms, until_ms)
        case _:
            count, last_two = _times_on_dial(schedule, first_ms, until_ms)
    if count == 0:
        return 0, first_ms, None
    return count, last_two[-1], last_two[-2] if count > 1 else None


def _points_between(grid: Every, first_ms: int, until_ms: int) -> tuple[int, list[int]]:
    lowest = max(-((grid.anchor_ms - first_ms) // grid.every_ms), 0)
    highest = (until_ms - grid.anchor_ms) // grid.every_ms
    last = grid.anchor_ms + highest * grid.every_ms
    return max(highest - lowest + 1, 0), [last - grid.every_ms, last]


def _next_on_dial(cron: Cron, after_ms: int, lookahead_days: int) -> int | None:
    start = after_ms // 1000 + 1
    for dial, span in _spans(cron, start, start + lookahead_days * DAY):
        # Times that the clock skipped are due at its change.
        if span.start >= start and dial.count(span.lost, span.first):
            return span.start * 1000
        wall = dial.first(max(span.first, start + span.offset), span.end)
        if wall is not None:
            return (wall - span.offset) * 1000
    return None


def _times_on_dial(cron: Cron, first_ms: int, until_ms: int) -> tuple[int, list[int]]:
    end = until_ms // 1000 + 1
    start = max(-(-first_ms // 1000), end - LOOKAHEAD_DAYS * DAY)
    count, last_two = 0, list[int]()
    for dial, span in _spans(cron, start, end):
        if span.start >= start and _is_made_up(dial, span):
            count += 1
            last_two.append(span.start * 1000)
        since = max(span.first, start + span.offset)
        count += dial.count(since, span.end)
        last_two += [(wall - span.offset) * 1000 for wall in dial.last_two(since, span.end)]
    return count, last_two[-2:]


def _is_made_up(dial: Dial, span: Span) -> bool:
    """Whether a span starts with a time for skipped ones, and not with a time of its own."""
    is_own = dial.count(span.first, span.first + 1) > 0
    return not is_own and dial.count(span.lost, span.first) > 0


def _spans(cron: Cron, start: int, end: int) -> Iterator[tuple[Dial, Span]]:
    try:
        dial, zone = read_dial(cron.expression), find_zone(cron.tz)
    except InvalidInput:
        return
    for span in spans(start, end, zone, once=not dial.is_hourly):
        yield dial, span


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a job is due, as clients see it and may send it back."""

    kind: Kind
    at: Annotated[
        Timestamp | None,
        Meta(description="The time of `at`; where the grid of `every` begins."),
    ]
    every_ms: int | None
    cron: str | None
    tz: Annotated[str | None, Meta(description="An IANA name.")]


def show_schedule(schedule: Schedule) -> ScheduleView:
    """Return what is shown of a schedule."""
    shown = partial(ScheduleView, at=None, every_ms=None, cron=None, tz=None)
    match schedule:
        case At(at_ms, tz):
            return shown(kind="at", at=iso(at_ms), tz=tz or None)
        case Every(every_ms, anchor_ms):
            return shown(kind="every", at=iso(anchor_ms), every_ms=every_ms)
        case _:
            return shown(kind="cron", cron=schedule.expression, tz=schedule.tz)


def in_words(schedule: Schedule) -> str:
    """Describe a schedule for people; most descriptions are valid as `schedule_text`."""
    match schedule:
        case At(at_ms, tz):
            return moment_in_words(at_ms, tz)
        case Every(every_ms):
            return f"every {interval_in_words(every_ms)}"
        case _:
            return f"{dial_in_words(schedule.expression)} ({schedule.tz})"
