"""Cron times against a brute-force oracle that looks at the clock on the wall, minute by minute."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from gateway.jobs.schedule.model import Cron, next_due, next_times, times_between
from gateway.jobs.schedule.zones import instant_of, offset_at
from gateway.reminders.text import local

ZONES = ("America/New_York", "Europe/London", "Australia/Lord_Howe", "Asia/Shanghai")
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
# No zone of these changes its clock between two such minutes of UTC.
STEP = 30


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


START, END = ms(FIRST), ms(LAST)


def clock_between(tz: str, start: int, end: int) -> "array[int]":
    """What the wall clock shows, in minutes since 1970, at each minute of UTC."""
    zone, shown = ZoneInfo(tz), array("l")
    for minute in range(start // MINUTE, end // MINUTE, STEP):
        offset = datetime.fromtimestamp(minute * 60, zone).utcoffset()
        assert offset is not None
        first = minute + int(offset.total_seconds()) // 60
        shown.extend(range(first, first + STEP))
    return shown


def first_shown(clock: "array[int]") -> "array[int]":
    """At which of those minutes the wall clock first shows, or jumps over, each minute of its own."""
    first, shown = array("l"), clock[0] - 1
    for i, wall in enumerate(clock):
        if wall > shown:
            first.extend([i] * (wall - shown))
            shown = wall
    return first


def values(field: str, lowest: int, highest: int) -> set[int]:
    """Read a field of numbers, lists, ranges and steps."""
    found: set[int] = set()
    for part in field.split(","):
        term, _, step = part.partition("/")
        first, _, last = term.partition("-")
        start = lowest if first == "*" else int(first)
        end = highest if first == "*" else int(last or first)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


def fitting_day(day: str, month: str, weekday: str) -> Callable[[int], bool]:
    """Tell for a day since 1970 whether it fits the three fields."""
    days, months = values(day, 1, 31), values(month, 1, 12)
    weekdays = {one % 7 for one in values(weekday, 0, 7)}
    both = day.startswith("*") or weekday.startswith("*")

    @cache
    def fits(number: int) -> bool:
        that = date(1970, 1, 1) + timedelta(days=number)
        each = (that.day in days, that.isoweekday() % 7 in weekdays)
        return that.month in months and (all(each) if both else any(each))

    return fits


def times_on(expression: str, clock: "array[int]", first: "array[int]") -> list[int]:
    """All minutes that an expression means, by looking at each."""
    minute, hour, *calendar = expression.split()
    times = {h * 60 + m for h in values(hour, 0, 23) for m in values(minute, 0, 59)}
    fits = fitting_day(*calendar)
    if hour == "*":
        # Whatever the clock shows, counts.
        return [i for i, w in enumerate(clock) if w % 1440 in times and fits(w // 1440)]
    # Each minute of the wall counts once, at the first minute of UTC that shows or jumps it.
    shown = enumerate(first, clock[0])
    return sorted({i for w, i in shown if w % 1440 in times and fits(w // 1440)})


@cache
def two_years(tz: str) -> tuple["array[int]", "array[int]"]:
    clock = clock_between(tz, START, END)
    return clock, first_shown(clock)


@cache
def oracle(expression: str, tz: str) -> tuple[int, ...]:
    """All times of two years."""
    return tuple(START + i * MINUTE for i in times_on(expression, *two_years(tz)))


SPARSE = ("30 1 * * *", "15 1,2,3 * * *", "45 1 1-7 3,4,10,11 0")
DENSE = ("*/15 * * * *", "40 * * * *", "0-59/7 */2 * * 0,6")


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("expression", SPARSE)
def test_each_next_time_of_two_years(expression: str, tz: str) -> None:
    expected = oracle(expression, tz)
    times = next_times(Cron(expression, tz), START - 1, len(expected) + 1)
    assert times[:-1] == expected
    assert times[-1] >= END


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("expression", SPARSE + DENSE)
def test_how_many_times_there_are(expression: str, tz: str) -> None:
    expected = oracle(expression, tz)
    cron = Cron(expression, tz)
    assert times_between(cron, START, END - 1) == (len(expected), expected[-1], expected[-2])
    for since in range(START, END - 98 * DAY, 97 * DAY + 5 * HOUR):
        until = since + 97 * DAY
        part = expected[bisect_left(expected, since) : bisect_right(expected, until)]
        last, before = (*reversed(part), None)[:2] if part else (since, None)
        assert times_between(cron, since, until) == (len(part), last, before)


@cache
def changes(tz: str) -> list[int]:
    clock, _ = two_years(tz)
    pairs = enumerate(pairwise(clock), 1)
    return [START + i * MINUTE for i, (one, two) in pairs if two != one + 1]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("expression", DENSE)
def test_each_next_time_around_a_change(expression: str, tz: str) -> None:
    expected = oracle(expression, tz)
    for change in changes(tz) or [START + DAY]:
        since, until = change - 3 * HOUR, change + 3 * HOUR
        part = expected[bisect_right(expected, since) : bisect_right(expected, until)]
        assert next_times(Cron(expression, tz), since, len(part)) == part


def test_the_zones_change_their_clocks_as_often_as_they_should() -> None:
    assert [len(changes(tz)) for tz in ZONES] == [4, 4, 4, 0]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("hour", range(4))
@pytest.mark.parametrize("minute", [0, 15, 30, 59])
def test_a_daily_job_runs_once_on_each_local_day(hour: int, minute: int, tz: str) -> None:
    cron, zone = Cron(f"{minute} {hour} * * *", tz), ZoneInfo(tz)
    for change in changes(tz):
        times = next_times(cron, change - 3 * DAY, 6)
        days = [datetime.fromtimestamp(time // 1000, zone).date() for time in times]
        assert days == [days[0] + timedelta(days=i) for i in range(6)]


OTHER_ZONES = (
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/Nuuk",
    "America/Santiago",
    "Antarctica/Troll",
    "Asia/Beirut",
)


@pytest.mark.parametrize("tz", OTHER_ZONES)
def test_clocks_that_are_changed_at_other_times_and_by_other_lengths(tz: str) -> None:
    zone = ZoneInfo(tz)
    days = range(START, END, DAY)
    offsets = [datetime.fromtimestamp(day // 1000, zone).utcoffset() for day in days]
    changed = [day for day, (one, two) in zip(days, pairwise(offsets), strict=False) if one != two]
    # How often depends on the database of zones: governments change their minds.
    assert len(changed) >= 2
    for day in changed:
        clock = clock_between(tz, day - DAY, day + 2 * DAY)
        first = first_shown(clock)
        for expression in ("30 0 * * *", "15 1,2 * * *", "30 23 * * *", "10,50 * * * *"):
            times = [day - DAY + i * MINUTE for i in times_on(expression, clock, first)]
            found = next_times(Cron(expression, tz), day - 1, len(times))
            assert [time for time in times if time >= day] == [
                t for t in found if t < day + 2 * DAY
            ]


@pytest.mark.parametrize("expression", ["30 1 * * *", "30 2 * * *", "5 4 1,15 * 1", "0 12 L * *"])
@pytest.mark.parametrize("tz", ZONES)
def test_cronsim_says_the_same_of_fixed_times(expression: str, tz: str) -> None:
    simulated = CronSim(expression, datetime.fromtimestamp(START // 1000, ZoneInfo(tz)))
    expected = tuple(int(next(simulated).timestamp()) * 1000 for _ in range(120))
    assert next_times(Cron(expression, tz), START, 120) == expected


def walls(expression: str, tz: str, after: str, count: int) -> list[str]:
    """The next times after an instant of UTC, as the wall shows them."""
    times = next_times(Cron(expression, tz), ms(datetime.fromisoformat(after)), count)
    return [local(time, ZoneInfo(tz)).replace(".000", "") for time in times]


@pytest.mark.parametrize(
    "expression, tz, after, expected",
    [
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00Z",
            ["2026-03-08 03:00:00 -04:00", "2026-03-09 02:30:00 -04:00"],
        ),
        (
            "0,30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00Z",
            ["2026-03-08 03:00:00 -04:00", "2026-03-09 02:00:00 -04:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00Z",
            ["2026-11-01 01:30:00 -04:00", "2026-11-02 01:30:00 -05:00"],
        ),
        (
            "30 * * * *",
            "America/New_York",
            "2026-11-01T05:00Z",
            ["2026-11-01 01:30:00 -04:00", "2026-11-01 01:30:00 -05:00"],
        ),
        (
            "30 * * * *",
            "America/New_York",
            "2026-03-08T06:00Z",
            ["2026-03-08 01:30:00 -05:00", "2026-03-08 03:30:00 -04:00"],
        ),
        # Seconds, and a step that leaves one value, change nothing.
        (
            "30 30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00Z",
            ["2026-11-01 01:30:30 -04:00", "2026-11-02 01:30:30 -05:00"],
        ),
        (
            "*/60 */24 * * *",
            "America/Havana",
            "2026-03-07T12:00Z",
            ["2026-03-08 01:00:00 -04:00", "2026-03-09 00:00:00 -04:00"],
        ),
        # Half an hour.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T00:00Z",
            ["2026-10-04 02:30:00 +11:00", "2026-10-05 02:15:00 +11:00"],
        ),
        (
            "45 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T00:00Z",
            ["2026-04-05 01:45:00 +11:00", "2026-04-06 01:45:00 +10:30"],
        ),
        # The last hour of a day is jumped over: its time is at the end of that day.
        (
            "30 23 * * *",
            "America/Nuuk",
            "2026-03-28T12:00Z",
            ["2026-03-29 00:00:00 -01:00", "2026-03-29 23:30:00 -01:00"],
        ),
        # A day that never was has its time at the start of the next.
        (
            "0 9 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00Z",
            [
                "2011-12-29 09:00:00 -10:00",
                "2011-12-31 00:00:00 +14:00",
                "2011-12-31 09:00:00 +14:00",
            ],
        ),
        # Sixty seconds are one minute of the second pass, too.
        (
            "59 59 * * * *",
            "America/New_York",
            "2026-11-01T05:30Z",
            ["2026-11-01 01:59:59 -04:00", "2026-11-01 01:59:59 -05:00"],
        ),
    ],
)
def test_changes_of_the_clock(expression: str, tz: str, after: str, expected: list[str]) -> None:
    assert walls(expression, tz, after, len(expected)) == expected


def test_asked_in_the_second_pass_a_daily_job_is_due_the_next_day() -> None:
    cron = Cron("45 1 * * *", "America/New_York")
    second_half_past_one = ms(datetime(2026, 11, 1, 6, 30, tzinfo=UTC))
    assert next_due(cron, second_half_past_one) == ms(datetime(2026, 11, 2, 6, 45, tzinfo=UTC))
    assert times_between(cron, second_half_past_one, second_half_past_one + HOUR)[0] == 0


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 3 * * *", "0,30 2-3 * * *"])
def test_what_was_jumped_over_counts_once(expression: str) -> None:
    """Also where the jump ends at a time of its own."""
    jump = ms(datetime(2026, 3, 8, 7, tzinfo=UTC))
    cron = Cron(expression, "America/New_York")
    assert times_between(cron, jump, jump) == (1, jump, None)
    assert times_between(cron, jump - 1, jump + 1) == (1, jump, None)
    assert times_between(cron, jump + 1, jump + 2)[0] == 0


@pytest.mark.parametrize(
    "wall, utc",
    [
        (datetime(2026, 7, 1, 12), datetime(2026, 7, 1, 16)),
        (datetime(2026, 3, 8, 1, 59), datetime(2026, 3, 8, 6, 59)),
        (datetime(2026, 3, 8, 2, 30), datetime(2026, 3, 8, 7)),
        (datetime(2026, 3, 8, 3), datetime(2026, 3, 8, 7)),
        (datetime(2026, 11, 1, 1, 30), datetime(2026, 11, 1, 5, 30)),
        (datetime(2026, 11, 1, 2), datetime(2026, 11, 1, 7)),
    ],
    ids=str,
)
def test_a_time_on_the_wall_is_one_instant(wall: datetime, utc: datetime) -> None:
    zone = ZoneInfo("America/New_York")
    second = int(wall.replace(tzinfo=UTC).timestamp())
    assert instant_of(second, zone) == int(utc.replace(tzinfo=UTC).timestamp())
    assert offset_at(instant_of(second, zone), zone) in (-4 * 3600, -5 * 3600)
