"""Time zones as POSIX writes them (`CST-8`, `EST5EDT,M3.2.0,M11.1.0`), found by their IANA names.

The rest of the gateway, its jobs and its clients know zones by IANA name. Every zone's file ends
with the POSIX form of its present rules, so the zone with the same rules is looked for there.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

# Of the zones with the same rules the one most people mean; without one, the first by name.
USUAL = (
    "UTC",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "Europe/London",
    "Europe/Berlin",
    "Europe/Athens",
    "Europe/Moscow",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Sydney",
)
HOUR = 3600
MIDDLE_OF_NIGHT = 2 * HOUR

_OFFSET = r"([+-]?\d{1,3}(?::\d{1,2}){0,2})"
_ABBREVIATION = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_POSIX = re.compile(
    rf"{_ABBREVIATION}{_OFFSET}(?:{_ABBREVIATION}{_OFFSET}?,([^,/]+)(?:/{_OFFSET})?,([^,/]+)(?:/{_OFFSET})?)?"
)


class PosixRules(NamedTuple):
    """When it is how late: offsets in seconds west of UTC, and when each of two begins."""

    standard: int
    summer: int | None = None
    begins: tuple[str, int] | None = None
    ends: tuple[str, int] | None = None


def name_posix_zone(text: str) -> str:
    """Return the IANA name of a zone with these rules; nothing if there is none."""
    rules = read_posix_zone(text)
    if rules is None:
        return ""
    if rules.summer is None and rules.standard % HOUR == 0:
        # Its sign is that of POSIX.
        hours = rules.standard // HOUR
        return f"Etc/GMT{hours:+d}" if hours else "UTC"
    same = sorted(name for name, footer in _footers() if read_posix_zone(footer) == rules)
    return next((name for name in (*USUAL, *same) if name in same), "")


def read_posix_zone(text: str) -> PosixRules | None:
    """Read a POSIX zone; its abbreviations say nothing. None if it is not one, or has no rules."""
    parts = _POSIX.fullmatch(text)
    if parts is None:
        return None
    standard, summer, begin, begin_at, end, end_at = parts.groups()
    offset = _seconds(standard)
    if begin is None:
        return PosixRules(offset)
    summer_offset = offset - HOUR if summer is None else _seconds(summer)
    return PosixRules(offset, summer_offset, (begin, _moment(begin_at)), (end, _moment(end_at)))


def _moment(text: str | None) -> int:
    return MIDDLE_OF_NIGHT if text is None else _seconds(text)


def _seconds(text: str) -> int:
    hours, minutes, seconds = (*map(int, text.lstrip("+-").split(":")), 0, 0)[:3]
    size = hours * HOUR + minutes * 60 + seconds
    return -size if text.startswith("-") else size


def _footers() -> Iterator[tuple[str, str]]:
    """List all zones with what their files say about the future."""
    places = _places()
    for name in zoneinfo.available_timezones():
        found = next((file for place in places if (file := place.joinpath(name)).is_file()), None)
        if found is not None:
            yield name, found.read_bytes().rstrip(b"\n").rpartition(b"\n")[2].decode("latin-1")


def _places() -> list[Traversable]:
    places: list[Traversable] = [Path(path) for path in zoneinfo.TZPATH]
    # The package is only there where the system may have no zones of its own.
    with suppress(ModuleNotFoundError):
        places.append(resources.files("tzdata").joinpath("zoneinfo"))
    return places
