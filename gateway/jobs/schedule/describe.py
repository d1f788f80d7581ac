"""Schedules in a few words of English and Chinese: `weekdays at 08:30`, `工作日 08:30`.

The words name no zone, except for one time that has none of its own: who shows them shows the zone
beside them. A cron expression is described by the times and days it has, not by how it is written;
one that cannot be said in a few words is shown as it is. Words that `schedule_text` understands, in
the zone of the schedule, mean the schedule that they describe.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec
from cronsim import CronSim

from gateway.errors import InvalidInput
from gateway.jobs.schedule.cron import read_dial
from gateway.jobs.schedule.members import WEEKDAYS, WEEKEND
from gateway.jobs.schedule.model import At, Every, Schedule
from gateway.jobs.schedule.phrases import WEEKDAYS as DAY_NAMES
from gateway.jobs.schedule.phrases import find_unit, interval_in_words, join_words
from gateway.jobs.schedule.zones import find_zone
from gateway.reminders.text import local

MOST_TIMES = 4
MOST_DAYS = 3
DAY_MINUTES = 24 * 60
LAST_DAY = CronSim.LAST
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
_CHINESE_DAYS = "日一二三四五六"
_CHINESE_UNITS = {
    "day": "天",
    "hour": "小时",
    "minute": "分钟",
    "second": "秒",
    "millisecond": "毫秒",
}


class ScheduleWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a job is due, in words."""

    en: str
    zh: str


class _Steps(NamedTuple):
    """Times of a day that are equally far apart, in minutes."""

    first: int
    last: int
    step: int

    @property
    def is_all_day(self) -> bool:
        """Whether the next day goes on with the same step."""
        return self.last + self.step == self.first + DAY_MINUTES


DAILY = ScheduleWords("daily", "每天")


# The same few schedules are described again whenever jobs are listed.
@lru_cache(maxsize=4096)
def describe_schedule(schedule: Schedule) -> ScheduleWords:
    """Describe a schedule in both languages."""
    match schedule:
        case At(at_ms, tz):
            shown = _moment(at_ms, tz)
            return ScheduleWords(f"once, {shown}", f"一次，{shown}")
        case Every(every_ms):
            return ScheduleWords(
                f"every {interval_in_words(every_ms)}", f"每{_chinese_interval(every_ms)}"
            )
        case _:
            return _describe_cron(schedule.expression)


def _moment(ms: int, tz: str) -> str:
    try:
        zone, name = find_zone(tz or "UTC"), "" if tz else " UTC"
    except InvalidInput:
        zone, name = find_zone("UTC"), " UTC"
    date, time = local(ms, zone).split(" ")[:2]
    return f"{date} {time[:8].removesuffix(':00')}{name}"


def _chinese_interval(ms: int) -> str:
    number, unit = find_unit(ms)
    return _CHINESE_UNITS[unit] if number == 1 else f" {number} {_CHINESE_UNITS[unit]}"


def _describe_cron(expression: str) -> ScheduleWords:
    as_written = ScheduleWords(expression, expression)
    try:
        dial = read_dial(expression)
    except InvalidInput:
        return as_written
    days = _describe_days(dial.calendar)
    if days is None or dial.seconds != (0,):
        return as_written
    times = [hour * 60 + minute for hour in dial.hours for minute in dial.minutes]
    return _describe_times(days, times) or as_written


def _describe_times(days: ScheduleWords, times: Sequence[int]) -> ScheduleWords | None:
    if len(times) <= MOST_TIMES:
        shown = [_clock(time) for time in times]
        return ScheduleWords(f"{days.en} at {join_words(shown)}", f"{days.zh} {'、'.join(shown)}")
    steps = _find_steps(times)
    if steps is None:
        return None
    if days == DAILY and steps.is_all_day:
        return _describe_all_day(steps)
    first, last, ms = _clock(steps.first), _clock(steps.last), steps.step * 60_000
    return ScheduleWords(
        f"{days.en}, every {interval_in_words(ms)} from {first} to {last}",
        f"{days.zh} {first} 到 {last}，每{_chinese_interval(ms)}",
    )


def _describe_all_day(steps: _Steps) -> ScheduleWords:
    first, ms = steps.first, steps.step * 60_000
    if steps.step == 60 and first == 0:
        return ScheduleWords("hourly", "每小时整点")
    if steps.step == 60:
        return ScheduleWords(f"hourly at :{first:02}", f"每小时第 {first} 分钟")
    # Without its begin it would be an interval that counts from the job's creation.
    is_short = steps.step < 60
    begin, chinese = (
        (f":{first:02}", f"{first:02} 分") if is_short else (_clock(first), f"{_clock(first)} ")
    )
    return ScheduleWords(
        f"every {interval_in_words(ms)}, from {begin}", f"每{_chinese_interval(ms)}，从 {chinese}起"
    )


def _find_steps(times: Sequence[int]) -> _Steps | None:
    gaps = {later - earlier for earlier, later in pairwise(times)}
    return _Steps(times[0], times[-1], gaps.pop()) if len(gaps) == 1 else None


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _describe_days(calendar: CronSim) -> ScheduleWords | None:
    """Describe the days of an expression; None if a few words cannot say them."""
    days = {day for day in calendar.days if isinstance(day, int)}
    # 0 and 7 are Sunday; a tuple is one such day of a month.
    weekdays = frozenset(day % 7 for day in calendar.weekdays if isinstance(day, int))
    any_day, any_weekday = len(days) == 31 and LAST_DAY not in days, len(weekdays) == 7
    if any(isinstance(day, tuple) for day in calendar.weekdays) and not any_weekday:
        return None
    if not calendar.day_and:
        # A day that fits one of the two fields counts.
        any_day = any_weekday = any_day or any_weekday
        if not any_day:
            return None
    if len(calendar.months) != 12:
        return _describe_date(calendar.months, days) if any_weekday else None
    if any_day:
        return _describe_weekdays(weekdays) if not any_weekday else DAILY
    return _describe_days_of_month(days) if any_weekday else None


def _describe_weekdays(numbers: frozenset[int]) -> ScheduleWords:
    if numbers == WEEKDAYS:
        return ScheduleWords("weekdays", "工作日")
    if numbers == WEEKEND:
        return ScheduleWords("weekends", "周末")
    # A week begins on Monday for most of those who read this.
    found = sorted(numbers, key=lambda number: (number - 1) % 7)
    return ScheduleWords(
        f"every {join_words([DAY_NAMES[number] for number in found])}",
        f"每周{'、'.join(_CHINESE_DAYS[number] for number in found)}",
    )


def _describe_days_of_month(days: set[int]) -> ScheduleWords | None:
    if days == {LAST_DAY}:
        return ScheduleWords("on the last day of each month", "每月最后一天")
    if len(days) > MOST_DAYS or min(days) < 1:
        return None
    found = sorted(days)
    return ScheduleWords(
        f"on the {join_words([_ordinal(day) for day in found])} of each month",
        f"每月 {'、'.join(map(str, found))} 日",
    )


def _describe_date(months: set[int], days: set[int]) -> ScheduleWords | None:
    if len(months) != 1 or len(days) != 1 or min(days) < 1:
        return None
    (month,), (day,) = months, days
    return ScheduleWords(f"yearly on {day} {MONTHS[month - 1]}", f"每年 {month} 月 {day} 日")


def _ordinal(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day not in (11, 12, 13) else "th"
    return f"{day}{ending}"
