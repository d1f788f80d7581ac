"""Instants as text: the one writer of ISO 8601, as RFC 3339 has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An instant as `iso` writes it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
HOUR_MS = 3_600_000
FRACTIONS = tuple(f".{millisecond:03d}" for millisecond in range(1000))
"""How the milliseconds of a second are written: to look them up is cheaper than to format them."""
# A day short of the calendar's ends, where every zone still has a date; what lies beyond is shown
# as that day, since a file may say anything.
FIRST_SECOND = -62_135_596_800 + _DAY
LAST_SECOND = 253_402_300_799 - _DAY


def iso(ms: int) -> str:
    """Write an instant in UTC, to the millisecond."""
    second, millisecond = divmod(ms, 1000)
    return f"{iso_second(second)}{FRACTIONS[millisecond]}Z"


def iso_local(ms: int, zone: tzinfo) -> str:
    """Write an instant on the wall clock of a zone, to the second, with its offset."""
    return moment(ms // 1000).astimezone(zone).isoformat(timespec="seconds")


# Many instants are written within one second; the calendar is asked once for it.
@lru_cache(maxsize=256)
def iso_second(second: int) -> str:
    """Write a second in UTC, without the zone's letter: a fraction may follow."""
    return moment(second).isoformat(timespec="seconds")[:19]


def moment(second: int) -> datetime:
    """Return a second in UTC; one beyond the calendar's ends is moved to its last day."""
    return _EPOCH + timedelta(seconds=min(max(second, FIRST_SECOND), LAST_SECOND))


def start_of_hour(ms: int) -> int:
    """Return when the hour of an instant began, in UTC."""
    return ms - ms % HOUR_MS
