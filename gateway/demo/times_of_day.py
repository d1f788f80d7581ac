"""Times of day, as people say them: at nine, at 18:30, 下午6点半."""

from __future__ import annotations

import re
from dataclasses import dataclass

HOURS = {
    word: hour
    for hour, words in enumerate(
        (
            "one 一",
            "two 两 二",
            "three 三",
            "four 四",
            "five 五",
            "six 六",
            "seven 七",
            "eight 八",
            "nine 九",
            "ten 十",
            "eleven 十一",
            "twelve 十二",
        ),
        start=1,
    )
    for word in words.split()
}
NAMED = {"noon": (12, 0), "midnight": (0, 0), "中午": (12, 0), "午夜": (0, 0)}
AHEAD = {"today": 0, "tomorrow": 1, "今天": 0, "明天": 1, "后天": 2}
AFTERNOON = frozenset({"p", "下午", "傍晚", "晚上"})

_WORDS = "|".join(word for word in HOURS if word.isascii())
_HAN = "|".join(sorted((word for word in HOURS if not word.isascii()), key=len, reverse=True))
TIME = (
    rf"(?:(?P<hour>[0-9]{{1,2}}|{_WORDS})(?::(?P<minute>[0-5][0-9]))?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?(?: ?o['’]?clock)?|(?P<named>noon|midnight))(?!\w|:[0-9])"
)
# A number alone may count anything; a time is followed by what it is for, or by nothing.
AT_TIME = (
    rf"\b(?:(?P<day>today|tomorrow) )?at {TIME}(?: (?P<later>today|tomorrow)\b)?"
    r"(?=\s*(?:$|[.,;:!?]|(?:to|about|that|of|and|then|please|remind|wake|ping)\b))"
)
# Half a number would be a wrong one.
NOT_WITHIN = r"(?<![0-9一二两三四五六七八九十])"
HAN_AT_TIME = (
    r"(?:(?P<day>今天|明天|后天)的?)?"
    r"(?:(?P<half>凌晨|早上|上午|中午|下午|傍晚|晚上)?"
    rf"{NOT_WITHIN}(?P<hour>[0-9]{{1,2}}|{_HAN})"
    r"(?:[点时](?:(?P<thirty>半)|(?P<quarter>一刻)|(?P<han_minute>[0-9]{1,2})分?)?钟?整?"
    r"|[:：](?P<minute>[0-5][0-9]))|(?P<named>中午|午夜))"
)


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time of day; so many days ahead, or the next time it is that time."""

    hour: int
    minute: int = 0
    ahead: int | None = None


def time_of_day(match: re.Match[str]) -> TimeOfDay | None:
    """Read a time of day that was found; none if there is no such hour."""
    said = match.groupdict()
    ahead = AHEAD.get(said.get("day") or said.get("later") or "")
    if said["named"]:
        return TimeOfDay(*NAMED[said["named"]], ahead)
    word = said["hour"].lower()
    hour = HOURS[word] if word in HOURS else int(word)
    half = (said["half"] or "").lower()
    if half in AFTERNOON and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    minute = 30 if said.get("thirty") else 15 if said.get("quarter") else 0
    minute = int(said["minute"] or said.get("han_minute") or minute)
    return TimeOfDay(hour, minute, ahead) if hour < 24 and minute < 60 else None
