"""Cron expressions: the times of day they name, and the days on which they name them.

cronsim parses the expression and decides about days. The times within a day are computed here, by
arithmetic: an expression can have 86,400 of them, and most callers ask how many there are between
two moments. Moments are wall times, as seconds since 1970 on a clock that never changes; zones.py
converts them to UTC.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from itertools import pairwise

from cronsim import CronSim, CronSimError

from gateway.errors import InvalidInput

DAY = 86_400
LONGEST = 256
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L for the last day and LW for the last weekday",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7, or SUN to SAT, 5L for the last Friday and MON#2 for the second Monday",
}
_FIRST_DAY = date(1970, 1, 1).toordinal()
_ANY_TIME = datetime(2000, 1, 1)
# cronsim accepts 7 as Sunday, but not SUN as the end of a range.
_to_sunday = re.compile(r"-SUN\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dial:
    """The times of an expression: each second of each minute of each hour, on some days."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    calendar: CronSim

    @property
    def is_hourly(self) -> bool:
        """Whether the expression has times in every hour of the day."""
        return len(self.hours) == 24

    def has_day(self, day: int) -> bool:
        """Whether there are times on a day, counted from 1970."""
        that = date.fromordinal(_FIRST_DAY + day)
        return that.month in self.calendar.months and self.calendar.match_day(that)

    def count(self, start: int, end: int) -> int:
        """Count the times from a moment up to, and not including, another."""
        return sum(len(ranks) for _, ranks in self._days(start, end))

    def first(self, start: int, end: int) -> int | None:
        """Return the first time from a moment up to another, if there is one."""
        found = (midnight + self._nth(ranks[0]) for midnight, ranks in self._days(start, end))
        return next(found, None)

    def last_two(self, start: int, end: int) -> list[int]:
        """Return the last two times from a moment up to another, or as many as there are."""
        found: list[int] = []
        for midnight, ranks in self._days(start, end, step=-1):
            found = [midnight + self._nth(rank) for rank in ranks[-2:]] + found
            if len(found) > 1:
                break
        return found[-2:]

    def gap_below(self, seconds: int, today: int, days: int) -> int | None:
        """Return the smallest gap between two times if it is below `seconds`; check `days` days."""
        first, last = self._nth(0), self._nth(self._rank(DAY) - 1)
        gaps = list(self._gaps_in_a_day())
        # Two days in a row matter only if the gap over midnight is too short.
        if DAY + first - last < seconds and (apart := self._gap_of_days(today, days)):
            gaps.append(apart * DAY + first - last)
        smallest = min(gaps, default=seconds)
        return smallest if smallest < seconds else None

    def _days(self, start: int, end: int, step: int = 1) -> Iterator[tuple[int, range]]:
        """Yield the days that have times between two moments, each with the ranks of its times."""
        for day in range(start // DAY, -(-end // DAY))[::step]:
            midnight = day * DAY
            ranks = range(
                self._rank(max(start - midnight, 0)), self._rank(min(end - midnight, DAY))
            )
            if ranks and self.has_day(day):
                yield midnight, ranks

    def _rank(self, second: int) -> int:
        """Return how many of a day's times are before a second of the day."""
        if second == 0:
            return 0
        hour, rest = divmod(second, 3600)
        minute, second = divmod(rest, 60)
        rank, here = _place(self.hours, hour)
        for values, value in ((self.minutes, minute), (self.seconds, second)):
            before, is_there = _place(values, value)
            # If the hour or minute has no times, nothing within it comes before.
            rank = rank * len(values) + (before if here else 0)
            here = here and is_there
        return rank

    def _nth(self, rank: int) -> int:
        rank, second = divmod(rank, len(self.seconds))
        hour, minute = divmod(rank, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]

    def _gaps_in_a_day(self) -> Iterator[int]:
        first = last = 0
        for values, unit in ((self.seconds, 1), (self.minutes, 60), (self.hours, 3600)):
            for earlier, later in pairwise(values):
                yield (later - earlier) * unit + first - last
            first, last = values[0] * unit + first, values[-1] * unit + last

    def _gap_of_days(self, today: int, days: int) -> int | None:
        smallest: int | None = None
        for before, day in pairwise(filter(self.has_day, range(today, today + days))):
            smallest = min(day - before, smallest or days)
            if smallest == 1:
                break
        return smallest


def _place(values: tuple[int, ...], value: int) -> tuple[int, bool]:
    place = bisect_left(values, value)
    return place, place < len(values) and values[place] == value


def tidy(expression: str) -> str:
    """Return an expression with single spaces; a nickname such as `@daily` is written out."""
    text = " ".join(expression.split())
    return NICKNAMES.get(text.lower(), text)


@lru_cache(maxsize=512)
def read_dial(expression: str) -> Dial:
    """Read five fields, or six with leading seconds, or raise `InvalidInput`."""
    if len(expression) > LONGEST:
        raise InvalidInput(f"schedule.cron has more than {LONGEST} characters; make it shorter.")
    fields = _to_sunday.sub("-7", expression).split()
    if len(fields) not in (5, 6):
        raise InvalidInput(
            f"schedule.cron must have 5 fields (minute, hour, day of month, month, day of week), "
            f'as in "30 9 * * MON-FRI"; it has {len(fields)}.'
        )
    calendar = _parse_fields(fields)
    seconds, minutes, hours = calendar.seconds, calendar.minutes, calendar.hours
    return Dial(tuple(sorted(seconds)), tuple(sorted(minutes)), tuple(sorted(hours)), calendar)


def _parse_fields(fields: list[str]) -> CronSim:
    with suppress(CronSimError):
        return CronSim(" ".join(fields), _ANY_TIME)
    # Which field is wrong is found by reading each alone, not in the text of the error.
    for at, name in enumerate(list(FIELDS)[-len(fields) :]):
        alone = ["*"] * len(fields)
        alone[at] = fields[at]
        if not _is_read(alone):
            raise InvalidInput(
                f"schedule.cron: {fields[at]!r} is not a valid {name}; use {FIELDS[name]}, "
                f"with lists (1,3), ranges (1-5), steps (*/5) and *."
            )
    raise InvalidInput(f"schedule.cron is never due: no month in it has a day {fields[-3]}.")


def _is_read(fields: list[str]) -> bool:
    try:
        CronSim(" ".join(fields), _ANY_TIME)
    except CronSimError:
        return False
    return True


def explain_cron(expression: str) -> str:
    """Describe a valid expression in words."""
    words = read_dial(expression).calendar.explain()
    return words[:1].lower() + words[1:]
