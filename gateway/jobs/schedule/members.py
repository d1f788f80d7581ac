"""The meanings of a `schedule_text` in any language, as the members of `schedule`.

Each language has a module that finds them in a text: an interval, a delay, days with times of day,
or one day with a time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gateway.errors import InvalidInput
from gateway.timestamps import iso

Members = dict[str, object]
UNITS = {"second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
WEEK = 7 * UNITS["day"]
WEEKDAYS = frozenset(range(1, 6))
WEEKEND = frozenset({0, 6})
NO_TIME = 'say at what time, as in "daily at 9:00".'
NO_DAY = 'say on which day and at what time, as in "every Monday at 9:00".'
_ZONE = re.compile(
    r"[ ]*(?:[ ]?\((?P<bracketed>[^()]+)\)|[ ](?:in[ ])?(?P<bare>[A-Z]\w+/[\w/+-]+|UTC|GMT))\Z",
    re.VERBOSE,
)


class Days(NamedTuple):
    """Days, as cron's day of month and day of week."""

    day: str = "*"
    weekday: str = "*"


class DayTime(NamedTuple):
    """A time of day."""

    hour: int
    minute: int


class Now(NamedTuple):
    """The instant from which a delay counts, and the wall clock for the current day."""

    ms: int
    wall: datetime


def apply_rules(
    rules: Iterable[Callable[[str, Now], Members | None]], text: str, now: Now
) -> Members | None:
    """Return the result of the first rule that knows a text; None if none does."""
    return next((found for rule in rules if (found := rule(text, now)) is not None), None)


def require_all(times: Iterable[DayTime | None]) -> list[DayTime] | None:
    """Return the times of day; None if one of them is None."""
    found = list(times)
    return None if None in found else [time for time in found if time is not None]


def refuse_half(has_no_day: bool, days: Days | None) -> None:
    """Raise `InvalidInput` for a text without a day or without a time of day."""
    if has_no_day:
        raise InvalidInput(NO_DAY)
    if days is not None:
        raise InvalidInput(NO_TIME)


def tidy_text(text: str) -> tuple[str, str]:
    """Return the text in lower case with single spaces and plain signs, and the zone at its end."""
    words = " ".join(unicodedata.normalize("NFKC", text).split()).rstrip(" .!。")
    named = _ZONE.search(words)
    if named is None:
        return words.lower(), ""
    return words[: named.start()].lower(), named["bracketed"] or named["bare"]


def every(number: float, unit_ms: int) -> Members:
    """Return the members of an interval."""
    return {"kind": "every", "every_ms": _whole(number * unit_ms)}


def after(number: float, unit_ms: int, now: Now) -> Members:
    """Return the members of one time after a delay."""
    # The limit is far beyond what is allowed, and still a valid date.
    ms = min(_whole(number * unit_ms), 1000 * WEEK)
    return {"kind": "at", "at": iso(now.ms + ms)}


def _whole(ms: float) -> int:
    return round(min(ms, 1e15))


def recurring(days: Days, times: Sequence[DayTime]) -> Members:
    """Return the members of some times on some days."""
    minutes = {time.minute for time in times}
    if len(minutes) > 1:
        raise InvalidInput(
            "times with different minutes need one job each, or a schedule of kind cron."
        )
    hours = ",".join(str(hour) for hour in sorted({time.hour for time in times}))
    return {"kind": "cron", "cron": f"{minutes.pop()} {hours} {days.day} * {days.weekday}"}


def hourly(minute: int) -> Members:
    """Return the members of one time in each hour."""
    return {"kind": "cron", "cron": f"{minute} * * * *"}


def once(time: DayTime, now: Now, days_ahead: int | None = None) -> Members:
    """Return the members of one time, some days ahead; without a day, today or tomorrow."""
    at = now.wall.replace(hour=time.hour, minute=time.minute, second=0, microsecond=0)
    if days_ahead is None:
        days_ahead = 0 if at > now.wall else 1
    return {"kind": "at", "at": (at + timedelta(days=days_ahead)).isoformat()}


def on_date(year: int | None, month: int, day: int, time: DayTime, now: Now) -> Members:
    """Return the members of one time on a date; without a year, the next such date is meant."""
    clock = f"{month:02}-{day:02}T{time.hour:02}:{time.minute:02}"
    if year is None:
        # Without seconds, as the text: the current minute has begun already.
        is_over = clock <= now.wall.strftime("%m-%dT%H:%M")
        year = now.wall.year + is_over
    return {"kind": "at", "at": f"{year:04}-{clock}"}


def on_weekdays(numbers: frozenset[int]) -> Days:
    """Return some days of the week; Sunday is 0."""
    if len(numbers) == 7:
        return Days()
    if numbers == WEEKDAYS:
        return Days(weekday="1-5")
    return Days(weekday=",".join(map(str, sorted(numbers))))


def day_range(first: int, last: int) -> frozenset[int]:
    """Return the days of the week from one to another, also across Sunday."""
    return frozenset((first + step) % 7 for step in range((last - first) % 7 + 1))
