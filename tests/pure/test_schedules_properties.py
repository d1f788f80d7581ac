"""What holds of every schedule, whatever it says."""

from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import to_builtins

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.cron import read_dial
from gateway.jobs.schedule.model import (
    At,
    Cron,
    Every,
    Schedule,
    in_words,
    next_due,
    next_times,
    show_schedule,
    times_between,
)
from gateway.jobs.schedule.reader import read_schedule
from gateway.reminders.clock_calls import YEAR_MS

DAY = 86_400_000
START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp()) * 1000
# Changes by an hour and by half of one, by night and at midnight, forward from the last hour of a
# day, twice in a month, and none.
ZONES = st.sampled_from(
    [
        "UTC",
        "Asia/Shanghai",
        "Asia/Kathmandu",
        "America/New_York",
        "Europe/London",
        "Australia/Lord_Howe",
        "America/Havana",
        "Africa/Cairo",
        "America/Nuuk",
        "America/Santiago",
        "Africa/Casablanca",
        "Antarctica/Troll",
    ]
)
INSTANTS = st.integers(START, START + 3 * YEAR_MS)


def field(lowest: int, highest: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    number = st.integers(lowest, highest)
    ranges = st.tuples(number, number).map(sorted).map("{0[0]}-{0[1]}".format)
    steps = st.builds("{}/{}".format, st.one_of(st.just("*"), ranges), st.integers(1, highest))
    one = st.one_of(number.map(str), ranges, steps, *([st.sampled_from(names)] if names else []))
    return st.one_of(st.just("*"), st.lists(one, min_size=1, max_size=3).map(",".join))


TIMES = (field(0, 59), field(0, 23))
DAYS = (
    field(1, 31, ("L", "LW")),
    field(1, 12, ("JAN", "jul", "Dec")),
    field(0, 7, ("SUN", "mon", "5L", "MON#2", "TUE-SUN")),
)
EXPRESSIONS = st.one_of(
    st.tuples(*TIMES, *DAYS).map(" ".join),
    st.tuples(*TIMES, st.just("* * *")).map(" ".join),
    st.tuples(field(0, 59), *TIMES, *DAYS).map(" ".join),
)
CRONS = st.builds(Cron, EXPRESSIONS, ZONES)
GRIDS = st.builds(Every, st.integers(1000, YEAR_MS), INSTANTS)
SCHEDULES: st.SearchStrategy[Schedule] = st.one_of(
    CRONS, GRIDS, st.builds(At, INSTANTS, st.one_of(st.just(""), ZONES))
)


@given(SCHEDULES, INSTANTS)
def test_the_next_time_is_after(schedule: Schedule, after: int) -> None:
    due = next_due(schedule, after)
    if due is not None:
        assert due > after
        assert times_between(schedule, after + 1, due) == (1, due, None)
        assert next_due(schedule, due - 1) == due


@given(SCHEDULES, INSTANTS, st.integers(1, 40))
def test_times_are_counted_as_they_come(schedule: Schedule, after: int, most: int) -> None:
    times = next_times(schedule, after, most)
    assert list(times) == sorted(set(times))
    assume(times)
    before = times[-2] if len(times) > 1 else None
    assert times_between(schedule, after + 1, times[-1]) == (len(times), times[-1], before)
    assert times_between(schedule, times[0], times[-1]) == (len(times), times[-1], before)


@given(SCHEDULES, INSTANTS, st.integers(0, 400 * DAY), st.integers(0, 400 * DAY))
def test_counts_add_up(schedule: Schedule, first: int, one: int, two: int) -> None:
    middle, last = first + one, first + one + two
    parts = times_between(schedule, first, middle), times_between(schedule, middle + 1, last)
    whole = times_between(schedule, first, last)
    assert whole[0] == parts[0][0] + parts[1][0]
    if parts[1][0]:
        assert whole[1] == parts[1][1]


@given(CRONS, INSTANTS)
def test_every_time_fits_the_wall_or_is_a_jump(cron: Cron, after: int) -> None:
    due = next_due(cron, after)
    assume(due is not None)
    assert due is not None
    wall = partial(datetime.fromtimestamp, tz=ZoneInfo(cron.tz))
    shown, just_before = wall(due // 1000), wall(due // 1000 - 1)
    jumped = shown.utcoffset() != just_before.utcoffset()
    assert jumped or fits(cron.expression, shown.replace(tzinfo=None))


def fits(expression: str, wall: datetime) -> bool:
    """Tell by cronsim, which knows no zone here, whether a time on the wall fits."""
    dial = CronSim(expression.upper().replace("-SUN", "-7"), wall)
    times = (wall.second in dial.seconds, wall.minute in dial.minutes, wall.hour in dial.hours)
    return all(times) and wall.month in dial.months and dial.match_day(wall.date())


@given(SCHEDULES)
def test_what_is_shown_reads_as_the_same(schedule: Schedule) -> None:
    now_ms = schedule.at_ms - 1 if isinstance(schedule, At) else START + 3 * YEAR_MS
    assume(next_due(schedule, now_ms) is not None)
    assert read_schedule(to_builtins(show_schedule(schedule)), "", now_ms, JobRules()) == schedule


@given(SCHEDULES)
def test_every_schedule_can_be_said(schedule: Schedule) -> None:
    words = in_words(schedule)
    assert words
    assert "\n" not in words


@given(GRIDS, INSTANTS)
def test_a_grid_is_never_shifted(grid: Every, after: int) -> None:
    due = next_due(grid, after)
    assert due is not None
    assert (due - grid.anchor_ms) % grid.every_ms == 0
    assert due >= grid.anchor_ms
    assert due - after <= grid.every_ms or due == grid.anchor_ms


@given(EXPRESSIONS, INSTANTS, st.integers(1, 2 * 86_400))
def test_no_two_times_are_closer_than_the_gap(expression: str, after: int, seconds: int) -> None:
    """On a wall whose clock is never changed; and the gap is one that there is."""
    try:
        dial = read_dial(expression)
    except InvalidInput:
        return
    gap = dial.gap_below(seconds, after // DAY, 3660)
    times = next_times(Cron(expression, "UTC"), after, 30)
    gaps = [(later - earlier) // 1000 for earlier, later in pairwise(times)]
    assert min(gaps, default=seconds) >= (gap or seconds)
    if gap is not None:
        assert gap < seconds
