"""What a person wants of the clock, read from their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.demo.times_of_day import AT_TIME, HAN_AT_TIME, TimeOfDay, time_of_day

LONGEST = 2000
"""How much of a prompt is read; what is wished for stands at its beginning."""


@dataclass(frozen=True, slots=True)
class Reminder:
    """Something to be reminded of, so many seconds from now or at a time of day."""

    when: int | TimeOfDay
    task: str


@dataclass(frozen=True, slots=True)
class SetReminders:
    """Somebody wants to be reminded."""

    reminders: tuple[Reminder, ...]


@dataclass(frozen=True, slots=True)
class RemindSometime:
    """Somebody wants to be reminded, but does not say when."""


@dataclass(frozen=True, slots=True)
class ListReminders:
    """Somebody wants to know their reminders."""


@dataclass(frozen=True, slots=True)
class CancelReminder:
    """Somebody wants one reminder cancelled; the words tell which."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClearAllReminders:
    """Somebody wants all their reminders cancelled."""


@dataclass(frozen=True, slots=True)
class TellTime:
    """Somebody wants to know the time."""


ReminderIntent = (
    SetReminders | RemindSometime | ListReminders | CancelReminder | ClearAllReminders | TellTime
)


def read_reminder_intent(prompt: str) -> ReminderIntent | None:
    """Read "remind me in 20 seconds to drink tea" and its like."""
    text = prompt[:LONGEST]
    return next((wish for reader in READERS if (wish := reader(text))), None)


NUMBERS = {
    word: number
    for number, words in {
        1: "a an one 一",
        2: "two 两 二",
        3: "three 三",
        4: "four 四",
        5: "five 五",
        6: "six 六",
        7: "seven 七",
        8: "eight 八",
        9: "nine 九",
        10: "ten 十",
        15: "fifteen 十五",
        20: "twenty 二十",
        30: "thirty 三十",
        60: "sixty 六十",
    }.items()
    for word in words.split()
}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "秒": 1, "分": 60, "小时": 3600, "天": 86400}

# Longer words first, and never the end of one: half a number would be a wrong one.
NUMBER = "|".join(sorted(NUMBERS, key=len, reverse=True))
COUNT = rf"(?<![0-9一二两三四五六七八九十百])(?P<count>[0-9]{{1,6}}|{NUMBER})"
SPAN = rf"{COUNT} ?(?P<unit>s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b"
TIME = rf"(?:\b(?:in|after) {SPAN}|{AT_TIME})"
LEAD = r"\b(?:(?:remind|wake|ping) me|set (?:me )?an? (?:reminder|timer|alarm))\b"
AND = r"(?:[\s,;]*\b(?:and|then)(?: then| again)?|[,;]) "
HAN_SPAN = rf"{COUNT}\s*个?(?P<unit>秒|分|小时|天)钟?\s*(?:之后|以后|后)?"
HAN_TIME = rf"(?:{HAN_SPAN}|{HAN_AT_TIME})\s*"
HAN_LEAD = r"(?:请|再|要)?(?:提醒我|叫我)"

# How a first reminder begins, and how another may follow it on the same line.
FORMS = tuple(
    (re.compile(first, re.IGNORECASE), re.compile(further, re.IGNORECASE))
    for first, further in (
        (rf"{LEAD} (?:(?:in|after|for) {SPAN}|{AT_TIME})", rf"{AND}{TIME}"),
        (rf"{TIME},? (?:please )?{LEAD}", rf"{AND}{TIME}(?:,? (?:please )?{LEAD})?"),
        (rf"{HAN_TIME}{HAN_LEAD}", rf"{HAN_TIME}{HAN_LEAD}"),
        (rf"{HAN_LEAD}\s*{HAN_TIME}", rf"{HAN_LEAD}\s*{HAN_TIME}"),
    )
)
TASK_FIRST = re.compile(rf"{LEAD} (?P<task>.+?) {TIME}", re.IGNORECASE)
JOINING = re.compile(r"[\s,:]*(?:(?:to|about|that|of|for)\b)?", re.IGNORECASE)
EDGES = " \t.,:;!?。，：；！？、"


def set_reminders(text: str) -> SetReminders | None:
    """Read one reminder, or several on one line."""
    for first, further in FORMS:
        if start := first.search(text):
            line = text[: start.end()] + text[start.end() :].partition("\n")[0]
            return reminders_in(line, [start, *further.finditer(line, start.end())])
    match = TASK_FIRST.search(text)
    return set_known((reminder(match, match["task"]),)) if match else None


def reminders_in(line: str, times: list[re.Match[str]]) -> SetReminders | None:
    """Make reminders of the times found on a line; what stands after each is its task."""
    ends = [*(time.start() for time in times[1:]), len(line)]
    return set_known(
        [reminder(time, line[time.end() : end]) for time, end in zip(times, ends, strict=True)]
    )


def set_known(reminders: Sequence[Reminder | None]) -> SetReminders | None:
    """Wish for those reminders whose time there is, if there are any."""
    known = tuple(one for one in reminders if one)
    return SetReminders(known) if known else None


def reminder(time: re.Match[str], task: str) -> Reminder | None:
    """Make a reminder of a time that was found, and of the words for its task."""
    when = seconds_in(time) if time["count"] else time_of_day(time)
    return None if when is None else Reminder(when, JOINING.sub("", task, count=1).strip(EDGES))


def seconds_in(span: re.Match[str]) -> int:
    """Read a length of time."""
    count, unit = span["count"].lower(), span["unit"].lower()
    number = NUMBERS[count] if count in NUMBERS else int(count)
    return number * UNITS[unit if unit in UNITS else unit[0]]


REMOVES = re.compile(r"\b(?:cancel|clear|delete|remove|forget)\b(?P<rest>.*)", re.IGNORECASE)
CANCELS_FIRST = re.compile(r"\s*(?:please )?cancel\b|\s*取消", re.IGNORECASE)
OF_REMINDERS = re.compile(r"\breminders?\b|提醒", re.IGNORECASE)
EVERY = frozenset({"all", "every", "everything"})
SMALL = re.compile(r"an?|about|for|it|me|my|of|one|please|reminders?|that|the|this|to")
HAN_REMOVES = re.compile(r"(?:取消|删除|删掉|清除|清空)(?P<rest>.*)")
HAN_EVERY = re.compile(r"清空|所有|全部")
HAN_SMALL = re.compile(r"我|的|提醒|那个|这个|关于|一下|吧|了|[\s。！]")


def remove_reminders(text: str) -> CancelReminder | ClearAllReminders | None:
    """Read that one reminder is to go, or all of them."""
    if not OF_REMINDERS.search(text) and not CANCELS_FIRST.match(text):
        return None
    if match := HAN_REMOVES.search(text):
        about = HAN_SMALL.sub("", match["rest"])
        return (
            ClearAllReminders() if HAN_EVERY.search(text) else CancelReminder(tuple(about.split()))
        )
    if match := REMOVES.search(text):
        words = re.findall(r"[\w'’-]+", match["rest"].lower())
        named = tuple(word for word in words if not SMALL.fullmatch(word))
        every = not EVERY.isdisjoint(words) or ("reminders" in words and not named)
        return ClearAllReminders() if every else CancelReminder(named)
    return None


LISTS = re.compile(
    r"\b(?:list|show|tell|what|which|have)\b[^\n]*\breminders\b"
    r"|(?:列出|查看|看看|看一下|显示|哪些|什么).{0,10}提醒|提醒.{0,6}(?:哪些|什么|列表)",
    re.IGNORECASE,
)
REMINDS = re.compile(r"\bremind me\b|\bset (?:me )?an? reminder\b|提醒我", re.IGNORECASE)
ASKS_TIME = re.compile(
    r"\bwhat time (?:is it|it is)\b|\bwhat day is it\b|\btell me the time\b"
    r"|\bwhat(?:['’]s| is) the (?:current |exact )?(?:time|date)(?: (?:right )?now| today)?"
    r"\s*(?:[?.!,]|$)|几点|什么时间|什么时候了|几号|星期几",
    re.IGNORECASE | re.MULTILINE,
)


def list_reminders(text: str) -> ListReminders | None:
    """Read that the reminders are to be told."""
    return ListReminders() if LISTS.search(text) else None


def remind_sometime(text: str) -> RemindSometime | None:
    """Read that somebody wants to be reminded, though not when."""
    return RemindSometime() if REMINDS.search(text) else None


def tell_time(text: str) -> TellTime | None:
    """Read that somebody wants to know the time."""
    return TellTime() if ASKS_TIME.search(text) else None


# A reminder may be about anything, even about reminders; so that form is read first.
READERS: tuple[Callable[[str], ReminderIntent | None], ...] = (
    set_reminders,
    remove_reminders,
    list_reminders,
    remind_sometime,
    tell_time,
)
