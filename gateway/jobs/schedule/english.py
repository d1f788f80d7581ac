"""Schedules in English: `every 5 minutes`, `weekdays at 18:30`, `tomorrow at noon`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gateway.jobs.schedule.members import (
    UNITS,
    WEEK,
    WEEKDAYS,
    WEEKEND,
    Days,
    DayTime,
    Members,
    Now,
    after,
    apply_rules,
    day_range,
    every,
    hourly,
    on_weekdays,
    once,
    recurring,
    refuse_half,
    require_all,
)

_NAMES = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_DAY_NAMES = {form: i for i, name in enumerate(_NAMES) for form in (name, name[:3])} | {
    "tues": 2,
    "weds": 3,
    "thur": 4,
    "thurs": 4,
}
_PLURALS = {f"{name}s": i for i, name in enumerate(_NAMES)}
_COUNTED = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS: dict[str, float] = {word: i for i, word in enumerate(_COUNTED.split(), start=1)} | {
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    **dict.fromkeys(("a", "an"), 1),
    **dict.fromkeys(("half", "half a", "half an"), 0.5),
}
_UNITS = {form: ms for name, ms in UNITS.items() for form in (name, f"{name}s", name[0])} | {
    "ms": 1,
    "millisecond": 1,
    "milliseconds": 1,
    "sec": UNITS["second"],
    "secs": UNITS["second"],
    "min": UNITS["minute"],
    "mins": UNITS["minute"],
    "hr": UNITS["hour"],
    "hrs": UNITS["hour"],
    "week": WEEK,
    "weeks": WEEK,
    "w": WEEK,
}
# Without a day, the next time of the clock is meant, today or tomorrow.
_AHEAD = {"": None, "once": None, "today": 0, "tomorrow": 1, "the day after tomorrow": 2}
_WITHOUT_DAY = {"weekly", "every week", "each week", "monthly", "every month", "each month"}


def _one_of(words: Iterable[str]) -> str:
    # Longer words first, so that a shorter word does not match the beginning of a longer one.
    return "|".join(sorted(words, key=len, reverse=True))


_LENGTH = rf"(?P<number>[0-9]{{1,9}}(?:\.[0-9]{{1,3}})?|(?:{_one_of(_NUMBERS)})\b)"
_UNIT = rf"(?P<unit>{_one_of(_UNITS)})"
_is_interval = re.compile(rf"(?:every|each) (?:{_LENGTH} ?)?{_UNIT}").fullmatch
# Only in short: "15 minutes" may as well mean "in 15 minutes".
_SHORT_UNITS = ("ms", "s", "m", "h", "d", "w")
_is_short_interval = re.compile(
    rf"(?:[0-9]{{1,9}}(?:\.[0-9]{{1,3}})?(?:{_one_of(_SHORT_UNITS)}) ?)+"
).fullmatch
_each_length = re.compile(rf"([0-9.]+)({_one_of(_SHORT_UNITS)})").findall
_is_delay = re.compile(
    rf"(?P<in>in |after )?{_LENGTH} ?{_UNIT}(?P<later> from now| later)?"
).fullmatch
_is_hourly = re.compile(
    r"(?:hourly|(?:every|each) hour)"
    r"(?: on the hour| at (?:minute )?:?(?P<minute>[0-5]?[0-9]))?"
).fullmatch
_DATE = r"(?:once,? )?(?:on )?([0-9]{4}-[0-9]{2}-[0-9]{2})"
_is_date = re.compile(_DATE).fullmatch
_is_dated = re.compile(rf"{_DATE}(?: at)? ([0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}})").fullmatch

_TIME = r"(?:[0-9]{1,2}(?::[0-9]{2})?(?: ?(?:[ap]\.?m\.?))?(?: o'?clock)?|noon|midnight)"
_LISTED = r"(?:, ?(?:and )?| and | ?& ?)"
_are_times = re.compile(rf"(?:at )?{_TIME}(?:{_LISTED}{_TIME})*").fullmatch
_each_time = re.compile(
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{2}))?(?: ?(?P<half>[ap])\.?m)?|noon|midnight"
).finditer

_MONTHLY = r"(?:monthly|(?:every|each) month) on (?:the )?"
_OF_MONTH = r"of (?:every|each|the) month"
_FIXED_DAYS = (
    (re.compile(r"daily|(?:every|each) ?day|once a day"), Days()),
    (
        re.compile(r"(?:(?:on|every|each) )?(?:week|work|working |business )days?"),
        on_weekdays(WEEKDAYS),
    ),
    (re.compile(r"(?:(?:on|at|every|each) )?(?:the )?weekends?"), on_weekdays(WEEKEND)),
    (re.compile(rf"{_MONTHLY}last day|on the last day {_OF_MONTH}"), Days(day="L")),
)
_ORDINAL = r"[0-9]{1,2})(?:st|nd|rd|th)?"
_is_monthly = re.compile(
    rf"{_MONTHLY}(?:day )?(?P<on>{_ORDINAL}|on the (?P<of>{_ORDINAL} {_OF_MONTH}"
).fullmatch
_is_weekly = re.compile(
    r"(?P<every>(?:every|each) (?:week on )?|weekly on )?(?:on )?(?P<names>.+)"
).fullmatch
_between_names = re.compile(r", ?(?:and )?| and | ?& ?|/").split
_between_ends = re.compile(r" ?- ?| to | through | thru ").split


def read_english(words: str, now: Now) -> Members | None:
    """Read a normalized text; return None if it is not understood."""
    return apply_rules(_RULES, words, now)


def _read_hourly(words: str, now: Now) -> Members | None:
    found = _is_hourly(words)
    # "Every hour" alone counts from now on, as "every 5 minutes" does.
    if found is None or words in ("every hour", "each hour"):
        return None
    return hourly(int(found["minute"] or 0))


def _read_interval(words: str, now: Now) -> Members | None:
    found = _is_interval(words)
    if found is None:
        return None
    unit = _UNITS[found["unit"]]
    if found["number"] is None and unit >= UNITS["day"]:
        return None
    return every(_number(found["number"] or "one"), unit)


def _read_short_interval(words: str, now: Now) -> Members | None:
    if not _is_short_interval(words):
        return None
    return every(sum(float(number) * _UNITS[unit] for number, unit in _each_length(words)), 1)


def _read_delay(words: str, now: Now) -> Members | None:
    found = _is_delay(words)
    if found is None or not (found["in"] or found["later"]):
        return None
    return after(_number(found["number"]), _UNITS[found["unit"]], now)


def _number(word: str) -> float:
    return _NUMBERS[word] if word in _NUMBERS else float(word)


def _read_dated(words: str, now: Now) -> Members | None:
    found = _is_dated(words)
    return found and {"kind": "at", "at": f"{found[1]}T{found[2]}"}


def _read_days(words: str, now: Now) -> Members | None:
    for days_said, times_said in _cuts(words):
        times = _times(times_said)
        if times and (found := _combine(days_said, times, now)) is not None:
            return found
    return None


def _combine(said: str, times: list[DayTime], now: Now) -> Members | None:
    if (days := _days(said)) is not None:
        return recurring(days, times)
    if len(times) > 1:
        return None
    if said in _AHEAD:
        return once(times[0], now, _AHEAD[said])
    if date := _is_date(said):
        return {"kind": "at", "at": f"{date[1]}T{times[0].hour:02}:{times[0].minute:02}"}
    return None


def _cuts(words: str) -> Iterator[tuple[str, str]]:
    """Split a text at each space into days and times, in either order."""
    if words.startswith("at "):
        yield "", words
    tokens = words.split(" ")
    for cut in range(1, len(tokens)):
        left, right = " ".join(tokens[:cut]).rstrip(","), " ".join(tokens[cut:])
        yield left, right
        yield right, left


def _times(said: str) -> list[DayTime] | None:
    if not _are_times(said):
        return None
    return require_all(_time(found) for found in _each_time(said))


def _time(found: re.Match[str]) -> DayTime | None:
    if found["hour"] is None:
        return DayTime(12 if found[0] == "noon" else 0, 0)
    hour, minute, half = int(found["hour"]), int(found["minute"] or 0), found["half"]
    if minute > 59 or (half and not 1 <= hour <= 12) or hour > 23:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return DayTime(hour, minute)


def _days(said: str) -> Days | None:
    for pattern, days in _FIXED_DAYS:
        if pattern.fullmatch(said):
            return days
    if monthly := _is_monthly(said):
        return Days(day=str(int(monthly["on"] or monthly["of"])))
    return _weekly(said)


def _weekly(said: str) -> Days | None:
    found = _is_weekly(said)
    if found is None:
        return None
    known = _DAY_NAMES | _PLURALS if found["every"] else _PLURALS
    numbers: frozenset[int] = frozenset()
    for part in _between_names(found["names"]):
        named = _read_day_names(part, known)
        if named is None:
            return None
        numbers |= named
    return on_weekdays(numbers)


def _read_day_names(part: str, known: dict[str, int]) -> frozenset[int] | None:
    ends = _between_ends(part)
    if len(ends) == 2 and all(end in _DAY_NAMES for end in ends):
        return day_range(_DAY_NAMES[ends[0]], _DAY_NAMES[ends[1]])
    return frozenset({known[part]}) if part in known else None


def _refuse_half(words: str, now: Now) -> None:
    refuse_half(words in _WITHOUT_DAY, _days(words))


_RULES = (
    _read_hourly,
    _read_interval,
    _read_short_interval,
    _read_delay,
    _read_dated,
    _read_days,
    _refuse_half,
)
