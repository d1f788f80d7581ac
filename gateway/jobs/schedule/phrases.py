"""Schedules in words, as people read them: `every 5 minutes`, `weekdays at 18:30`."""

from __future__ import annotations

import re

from gateway.errors import InvalidInput
from gateway.jobs.schedule.cron import explain_cron
from gateway.jobs.schedule.zones import find_zone
from gateway.reminders.text import local

WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
# The largest unit that divides is used. One day is 24 hours: "every day" would need a time.
UNITS = (
    (86_400_000, "day"),
    (3_600_000, "hour"),
    (60_000, "minute"),
    (1000, "second"),
    (1, "millisecond"),
)
_DAYS = {
    ("*", "*"): "daily",
    ("*", "1-5"): "weekdays",
    ("*", "0,6"): "weekends",
    ("L", "*"): "monthly on the last day",
}
_is_number = re.compile(r"[0-9]{1,2}").fullmatch
_are_numbers = re.compile(r"[0-9]{1,2}(?:,[0-9]{1,2})*").fullmatch
_are_days = re.compile(r"[0-6](?:,[0-6])*").fullmatch


def interval_in_words(ms: int) -> str:
    """Write a duration as a whole number of one unit; without the number if it is one."""
    number, name = find_unit(ms)
    return name if number == 1 else f"{number} {name}s"


def find_unit(ms: int) -> tuple[int, str]:
    """Return a duration as a number of the largest unit that divides it."""
    unit, name = next((u, n) for u, n in UNITS if ms % u == 0 and (ms > u or n != "day"))
    return ms // unit, name


def moment_in_words(ms: int, tz: str) -> str:
    """Write an instant in the local time of a zone; in UTC if the zone is not known."""
    try:
        name, zone = tz or "UTC", find_zone(tz or "UTC")
    except InvalidInput:
        name, zone = "UTC", find_zone("UTC")
    date, time = local(ms, zone).split(" ")[:2]
    shown = time[:5] if time.endswith(":00.000") else time[:8]
    return f"once on {date} at {shown} ({name})"


def dial_in_words(expression: str) -> str:
    """Describe a cron expression; one that cannot be read is shown as it is."""
    fields = expression.split()
    if len(fields) == 5 and (words := _plain(*fields)):
        return words
    try:
        return explain_cron(expression)
    except InvalidInput:
        return f"cron {expression}"


def _plain(minute: str, hour: str, day: str, month: str, weekday: str) -> str | None:
    if month != "*" or not _is_number(minute):
        return None
    if (hour, day, weekday) == ("*", "*", "*"):
        return f"hourly at :{minute:0>2}" if int(minute) else "hourly"
    days = _days(day, weekday)
    if days is None or not _are_numbers(hour):
        return None
    return f"{days} at {join_words([f'{one:0>2}:{minute:0>2}' for one in hour.split(',')])}"


def _days(day: str, weekday: str) -> str | None:
    if (known := _DAYS.get((day, weekday))) is not None:
        return known
    if weekday == "*" and _is_number(day):
        return f"monthly on day {int(day)}"
    if day == "*" and _are_days(weekday):
        return f"every {join_words([WEEKDAYS[int(one)] for one in weekday.split(',')])}"
    return None


def join_words(words: list[str]) -> str:
    """Join words with commas and `and`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
