"""What a person wants of the clock, and what time it is in the conversation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import msgspec

from gateway.demo.conversation import Message, is_time_tag

COUNT = r"(?P<count>[0-9]{1,6}|an?|one|two|five|ten)"
UNIT = r"(?P<unit>s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b"
HAN_AFTER = r"(?P<count>[0-9]{1,6}|一|两|五|十)\s*个?(?P<unit>秒|分|小时)钟?\s*(?:之后|以后|后)?"
WISHES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\bremind me (?:in|after) {COUNT} ?{UNIT}[\s,:]*(?:(?:to|about|that|of)\b)?(?P<task>.*)",
        rf"\bremind me (?:to|about|that|of)? ?(?P<task>.+?) (?:in|after) {COUNT} ?{UNIT}",
        rf"{HAN_AFTER}\s*提醒我(?P<task>.*)",
        rf"提醒我\s*{HAN_AFTER}\s*(?P<task>.*)",
    )
)
WORDS = {"a": 1, "an": 1, "one": 1, "two": 2, "five": 5, "ten": 10}
SIGNS = {"一": 1, "两": 2, "五": 5, "十": 10}
NUMBERS = WORDS | SIGNS
UNITS = {"s": 1, "m": 60, "h": 3600, "秒": 1, "分": 60, "小时": 3600}

ASKS_REMINDER = re.compile(r"\bremind me\b|提醒我", re.IGNORECASE)
ASKS_TIME = re.compile(r"\bwhat(?:'s| is)? (?:the )?time\b|几点|什么时间|什么时候了", re.IGNORECASE)
TAG_NOW = re.compile(r"nowMs=`(\d{1,15})`")
TAG_OFFSET = re.compile(r"local=`[^`]* ([+-])(\d\d):(\d\d)`")
RESULT_NOW = re.compile(r'"nowMs":\s*(\d{1,15})')
LATEST_MS = 4_102_444_800_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody wants to be reminded."""

    seconds: int
    task: str


@dataclass(frozen=True, slots=True)
class Now:
    """The time a conversation tells, and the person's distance from UTC."""

    ms: int
    offset: timedelta = timedelta()


def wish_of(text: str) -> Wish | None:
    """Read "remind me in 20 seconds to stretch" and its like."""
    match = next((m for pattern in WISHES if (m := pattern.search(text))), None)
    if match is None:
        return None
    count, unit = match["count"].lower(), match["unit"].lower()
    number = NUMBERS[count] if count in NUMBERS else int(count)
    seconds = number * UNITS[unit if unit in UNITS else unit[0]]
    return Wish(seconds, match["task"].strip().rstrip(".!?。！？"))


def told_time(messages: Sequence[Message]) -> Now | None:
    """Find the newest time tag, or the newest time a tool told."""
    for message in reversed(messages):
        for text in reversed(message.texts):
            now = time_in(message, text)
            if now is not None and now.ms < LATEST_MS:
                return now
    return None


def time_in(message: Message, text: str) -> Now | None:
    """Read the time out of one text, if it is one that tells it."""
    if message.role == "user" and is_time_tag(text) and (tag := TAG_NOW.search(text)):
        return Now(int(tag[1]), offset_in(text))
    if message.answers is not None and (result := RESULT_NOW.search(text)):
        return Now(int(result[1]))
    return None


def offset_in(tag: str) -> timedelta:
    """Read the distance from UTC out of a time tag."""
    match = TAG_OFFSET.search(tag)
    if match is None:
        return timedelta()
    distance = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return -distance if match[1] == "-" else distance


def schedule_arguments(wish: Wish, now: Now, task: str) -> str:
    """Write the arguments of a `clock` call that sets one reminder."""
    due = EPOCH + timedelta(milliseconds=now.ms, seconds=wish.seconds)
    stamp = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return clock_arguments(
        "schedule", {"dueAt": stamp, "task": task, "tool": "", "arguments": "{}"}
    )


def clock_arguments(action: str, *items: dict[str, str]) -> str:
    """Write the arguments of a `clock` call; its strict schema wants every key."""
    arguments = {"action": action, "items": items, "taskId": ""}
    return msgspec.json.encode(arguments).decode()


def clock_time(due_at: str, offset: timedelta) -> str:
    """Write an instant as the time of day at that distance from UTC."""
    try:
        due = datetime.fromisoformat(due_at)
        local = due.astimezone(timezone(offset))
    except (ValueError, OverflowError):
        return due_at
    return f"{local:%H:%M:%S}" if offset else f"{local:%H:%M:%S} UTC"
