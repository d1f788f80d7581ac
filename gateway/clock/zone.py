"""The time zone that local times are told in."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

LOCAL_TIME = Path("/etc/localtime")
DIRECTORY = "zoneinfo/"


class Zone(NamedTuple):
    """A time zone and its IANA name."""

    tz: tzinfo
    name: str


def zone_of(name: str) -> Zone:
    """Return the zone of this name; of an empty one the host's, and UTC where that is unknown."""
    for candidate in (name, os.environ.get("TZ", "").lstrip(":"), _linked()):
        if candidate:
            try:
                return Zone(ZoneInfo(candidate), candidate)
            except (ValueError, OSError):
                continue
    return Zone(UTC, "UTC")


def _linked() -> str:
    try:
        return str(LOCAL_TIME.resolve(strict=True)).partition(DIRECTORY)[2]
    except OSError:
        return ""
