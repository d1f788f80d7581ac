"""What a time zone makes of wall times: offsets, changes of the clock, and stretches between them.

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
# No zone was ever further behind or ahead of itself than a day.
LEAD = 2 * DAY
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Files beside the zones that are none of IANA's, or not the same on every machine.
_NOT_ZONES = ("posix/", "right/", "posixrules", "localtime", "Factory")
_LONGEST = 64


class Span(NamedTuple):
    """A stretch of wall time with one offset, from `first` up to, not including, `end`.

    The wall times from `lost` up to `first` were jumped over just before.
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
    """Return by how many seconds the wall clock is ahead of UTC at an instant."""
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds())


def spans(start: int, end: int, zone: tzinfo, once: bool) -> Iterator[Span]:
    """Cut the time between two instants, and some time before, where the clock is changed.

    With `once` no wall time comes twice: what the clock shows again is left out, and what it jumps
    over is lost. Else the stretches are just what the clock shows.
    """
    done: int | None = None
    # Only from the time before is it known what the clock has shown already.
    begin = max(start - LEAD if once else start, FIRST_SECOND)
    for since, till, offset in _pieces(begin, min(end, LAST_SECOND), zone):
        shown = since + offset
        if done is None or not once:
            done = shown
        yield Span(done, max(done, shown), till + offset, offset)
        done = max(done, till + offset)


def _pieces(start: int, end: int, zone: tzinfo) -> Iterator[tuple[int, int, int]]:
    # Each is up to twice as long as the one before: the next time is mostly near, and ten years
    # are few pieces.
    length = DAY
    while start < end:
        till = _until_change(start, min(start + length, end), zone)
        yield start, till, offset_at(start, zone)
        start, length = till, 2 * length


def _until_change(start: int, end: int, zone: tzinfo) -> int:
    """Return when the clock is changed next, or the end if it is not before."""
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
    """Return when a wall clock shows a time: the first time, if it does so twice.

    A time that the clock jumps over is the moment of the jump.
    """
    nearby = spans(wall - LEAD, wall + LEAD, zone, once=True)
    return next(max(wall, s.first) - s.offset for s in nearby if s.lost <= wall < s.end)
