"""Converts wall times of a time zone: offsets, changes of the clock, and the spans between them.

Moments are whole seconds since 1970: in UTC, or as a clock on the wall shows them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.errors import InvalidInput
from gateway.timestamps import FIRST_SECOND, LAST_SECOND

DAY = 86_400
# No zone ever changed its clock by more than a day.
LEAD = 2 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Files beside the zones that are not IANA names, or differ between machines.
_NOT_ZONES = ("posix/", "right/", "posixrules", "localtime", "Factory")
_LONGEST = 64


class Span(NamedTuple):
    """A span of wall time with one offset, from `first` up to, not including, `end`.

    The wall times from `lost` up to `first` were skipped just before.
    """

    lost: int
    first: int
    end: int
    offset: int

    @property
    def start(self) -> int:
        """When it starts, in UTC."""
        return self.first - self.offset


@lru_cache(maxsize=64)
def find_zone(name: str) -> ZoneInfo:
    """Return the zone of an IANA name, or raise `InvalidInput`."""
    if len(name) <= _LONGEST and not name.startswith(_NOT_ZONES):
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, LookupError):
            pass
    raise InvalidInput(
        f"schedule.tz: no time zone is called {name[:_LONGEST]!r}; use an IANA name, such as "
        f"Asia/Shanghai, America/New_York or UTC."
    )


def offset_at(second: int, zone: tzinfo) -> int:
    """Return how many seconds the wall clock is ahead of UTC at an instant."""
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds())


def spans(start: int, end: int, zone: tzinfo, once: bool) -> Iterator[Span]:
    """Split the time between two instants, and some time before, at each change of the clock.

    With `once` no wall time comes twice: times that the clock shows again are left out, and times
    that it skips are marked as lost. Else the spans are just what the clock shows.
    """
    done: int | None = None
    # The time before tells which wall times the clock has shown already.
    begin = max(start - LEAD if once else start, FIRST_SECOND)
    for since, till, offset in _pieces(begin, min(end, LAST_SECOND), zone):
        shown = since + offset
        if done is None or not once:
            done = shown
        yield Span(done, max(done, shown), till + offset, offset)
        done = max(done, till + offset)


def _pieces(start: int, end: int, zone: tzinfo) -> Iterator[tuple[int, int, int]]:
    # Each piece is up to twice as long as the previous one: the next time is mostly near, and ten
    # years are still few pieces.
    length = DAY
    while start < end:
        till = _until_change(start, min(start + length, end), zone)
        yield start, till, offset_at(start, zone)
        start, length = till, 2 * length


def _until_change(start: int, end: int, zone: tzinfo) -> int:
    """Return when the clock changes next; `end` if it does not change before."""
    offset = offset_at(start, zone)
    for since in range(start, end, DAY):
        till = min(since + DAY, end)
        # Two changes within a day that undo each other would not be seen; no zone has them.
        if offset_at(till, zone) != offset:
            return since + bisect_left(
                range(since, till), True, key=lambda second: offset_at(second, zone) != offset
            )
    return end


def instant_of(wall: int, zone: tzinfo) -> int:
    """Return when a wall clock shows a time; the first instant if it does so twice.

    A time that the clock skips is the instant of the change.
    """
    nearby = spans(wall - LEAD, wall + LEAD, zone, once=True)
    return next(max(wall, s.first) - s.offset for s in nearby if s.lost <= wall < s.end)
