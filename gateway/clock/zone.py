"""The time zone that local times are told in."""

from __future__ import annotations

import logging
import os
from datetime import UTC, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gateway.clock.posix_zone import name_posix_zone

log = logging.getLogger("holdgate.clock")
LOCAL_TIME = Path("/etc/localtime")
DIRECTORY = "zoneinfo/"
UNKNOWN = "the time zone TZ=%r is not known: local times are told in UTC; set clock.timezone"


class Zone(NamedTuple):
    """A time zone and its IANA name."""

    tz: tzinfo
    name: str


def zone_of(name: str) -> Zone:
    """Return the zone of this name; of an empty one the host's, and UTC where that is unknown."""
    if name and (zone := _find(name)):
        return zone
    said = os.environ.get("TZ", "").removeprefix(":")
    if not said:
        return _find(_link_target(LOCAL_TIME)) or Zone(UTC, "UTC")
    if zone := _find(said) or _find(name_posix_zone(said)) or _find(_link_target(Path(said))):
        return zone
    log.warning(UNKNOWN, said[:100])
    return Zone(UTC, "UTC")


def _find(name: str) -> Zone | None:
    try:
        return Zone(ZoneInfo(name), name) if name else None
    except (KeyError, ValueError, OSError):
        # An unknown zone is a KeyError, a path or a strange character a ValueError.
        return None


def _link_target(path: Path) -> str:
    """Return the zone whose file this is; nothing if that can not be told."""
    try:
        return str(path.resolve(strict=True)).partition(DIRECTORY)[2] if path.is_absolute() else ""
    except (OSError, ValueError):
        return ""
