"""The time a conversation tells, and instants as the model says them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from gateway.demo.dialogue import DialogueMessage, is_time_tag, split_texts
from gateway.demo.times_of_day import TimeOfDay

TAG_NOW = re.compile(r"nowMs=`(\d{1,15})`")
RESULT_NOW = re.compile(r'"nowMs":\s*(\d{1,15})')
OFFSET = re.compile(r'\blocal(?:=`|":\s*")[^`"]* ([+-])(\d\d):(\d\d)[`"]')
LATEST_MS = 4_102_444_800_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CurrentTime:
    """The time a conversation tells, and the person's distance from UTC."""

    ms: int
    offset: timedelta = timedelta()


def find_time(messages: Sequence[DialogueMessage]) -> CurrentTime | None:
    """Find the newest time tag, or the newest time a tool told."""
    for message in reversed(messages):
        for text in reversed(split_texts(message)):
            now = time_in(message, text)
            if now is not None and now.ms < LATEST_MS:
                return now
    return None


def time_in(message: DialogueMessage, text: str) -> CurrentTime | None:
    """Read the time out of one text, if it is one that tells it."""
    if message.role == "user" and is_time_tag(text) and (tag := TAG_NOW.search(text)):
        return CurrentTime(int(tag[1]), offset_in(text))
    if message.answers is not None and (result := RESULT_NOW.search(text)):
        return CurrentTime(int(result[1]), offset_in(text))
    return None


def offset_in(text: str) -> timedelta:
    """Read the distance from UTC out of a time tag or a result; none is a day or more."""
    match = OFFSET.search(text)
    if match is None:
        return timedelta()
    distance = timedelta(hours=int(match[2]) % 24, minutes=int(match[3]) % 60)
    return -distance if match[1] == "-" else distance


def instant(now: CurrentTime, when: int | TimeOfDay) -> str:
    """Write the instant so many seconds from now, or at a time of day, as the clock wants it."""
    wait = next_time(now, when) if isinstance(when, TimeOfDay) else timedelta(seconds=when)
    due = EPOCH + timedelta(milliseconds=now.ms) + wait
    return due.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def next_time(now: CurrentTime, at: TimeOfDay) -> timedelta:
    """Return how long it is until a time of day of the person's."""
    wall = EPOCH + timedelta(milliseconds=now.ms) + now.offset
    meant = wall.replace(hour=at.hour, minute=at.minute, second=0, microsecond=0)
    ahead = int(meant <= wall) if at.ahead is None else at.ahead
    return meant + timedelta(days=ahead) - wall


def clock_time(due_at: str, now: CurrentTime | None) -> str:
    """Write an instant as the person's time of day, with the date unless it is today."""
    zone = timezone(now.offset) if now else UTC
    try:
        due = datetime.fromisoformat(due_at).astimezone(zone)
    except (ValueError, OverflowError):
        return due_at
    today = now is not None and (EPOCH + timedelta(milliseconds=now.ms)).astimezone(zone).date()
    shown = f"{due:%H:%M:%S}" if due.date() == today else f"{due:%Y-%m-%d %H:%M:%S}"
    return shown if due.utcoffset() else f"{shown} UTC"
