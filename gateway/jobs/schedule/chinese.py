"""Schedules in Chinese: 每5分钟, 每天上午9点, 工作日18:30, 每周一、三9点半, 10分钟后.

The idea: Chinese has no spaces to split at, so each kind of schedule is one pattern that must match
the whole text. Only for days with times every split is tried, and the first one is taken whose left
side is days and whose right side is times.

Invariants: a rule returns None for a text that it does not know, then the next rule is tried; the
first rule that knows the whole text decides. An incomplete schedule (每周, 每天) is refused after
all other rules, with what is missing.
"""

from __future__ import annotations

import re

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
    on_date,
    on_weekdays,
    once,
    recurring,
    refuse_half,
    require_all,
)

# 两 is the two of "two hours", 〇 the zero of a clock.
_DIGITS = {digit: i for i, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_WEEK_DIGITS = {digit: i for i, digit in enumerate("日一二三四五六")} | {"天": 0}
_UNITS = {
    "毫秒": 1,
    "秒": UNITS["second"],
    "秒钟": UNITS["second"],
    "分": UNITS["minute"],
    "分钟": UNITS["minute"],
    "小时": UNITS["hour"],
    "钟头": UNITS["hour"],
    "天": UNITS["day"],
    "日": UNITS["day"],
    "周": WEEK,
    "星期": WEEK,
    "礼拜": WEEK,
}
# Without a day, the next time of the clock is meant, today or tomorrow.
_AHEAD = {"": None, "今天": 0, "今日": 0, "明天": 1, "明日": 1, "后天": 2}
# They say that it recurs, but not on which day.
_WITHOUT_DAY = {"每周", "每星期", "每个星期", "每礼拜", "每月", "每个月"}
_MORNING = {"凌晨", "清晨", "早上", "早晨", "上午"}
_NIGHT = {"晚上", "夜里", "深夜"}
_AFTERNOON = {"中午", "下午", "傍晚"}

# 每晚, 今早, 明晚 are short for 每天晚上, 今天早上, 明天晚上.
_SHORT = re.compile(r"([每今明])([晚早])上?")
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,3})?|[零〇一二两三四五六七八九十]{1,3}"
_WHOLE = r"[0-9]{1,2}|[零〇一二两三四五六七八九十]{1,3}"
# The longest first, as a reader takes them: 分钟 before 分.
_UNIT = rf"(?P<unit>{'|'.join(sorted(_UNITS, key=len, reverse=True))})"
_is_interval = re.compile(rf"每隔?(?P<number>{_NUMBER}|半)?个?{_UNIT}(?:一次)?").fullmatch
_is_hourly = re.compile(rf"每个?(?:小时的?整点|整点|小时的?第?(?P<minute>{_WHOLE})分钟?)").fullmatch
_is_dated = re.compile(
    r"(?:一次,?)?([0-9]{4}-[0-9]{2}-[0-9]{2})([0-9]{2}:[0-9]{2}:[0-9]{2})"
).fullmatch
_is_date = re.compile(
    r"(?:一次,?)?(?:(?P<plain>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"|(?:(?P<year>[0-9]{4})年)?(?P<month>[0-9]{1,2})月(?P<day>[0-9]{1,2})[日号])"
).fullmatch
_is_delay = re.compile(rf"过?(?P<number>{_NUMBER}|半)个?{_UNIT}(?:之|以)?后").fullmatch

_PART = rf"(?P<part>{'|'.join(sorted(_MORNING | _NIGHT | _AFTERNOON))})"
_is_time = re.compile(
    rf"{_PART}?(?P<hour>{_WHOLE})(?:[点时](?:钟|整)?|:)"
    rf"(?:(?P<half>半)|(?P<quarter>[一三])刻|(?P<minute>{_WHOLE})分?)?"
).fullmatch
_NOON = {"中午": DayTime(12, 0), "正午": DayTime(12, 0), "午夜": DayTime(0, 0)}
_between = re.compile(r"[、,和及与]").split

_WEEK = r"(?:周|星期|礼拜)"
_FIXED_DAYS = (
    (re.compile(r"每天|每日|天天"), Days()),
    (re.compile(r"(?:每个?)?(?:工作日|平日)"), on_weekdays(WEEKDAYS)),
    (re.compile(r"(?:每个?)?周末"), on_weekdays(WEEKEND)),
    (re.compile(r"每个?月的?最后一天"), Days(day="L")),
)
_is_monthly = re.compile(rf"每个?月的?(?P<day>{_WHOLE})[号日]").fullmatch
_is_week_range = re.compile(
    rf"每?个?{_WEEK}(?P<first>[一二三四五六日天])[到至~-]{_WEEK}?(?P<last>[一二三四五六日天])"
).fullmatch
_is_week_list = re.compile(
    rf"每个?{_WEEK}(?P<digits>[一二三四五六日天](?:[、,和及与]?{_WEEK}?[一二三四五六日天])*)"
).fullmatch


def read_chinese(words: str, now: Now) -> Members | None:
    """Read a normalized text; return None if it is not understood."""
    text = _SHORT.sub(r"\1天\2上", words.replace(" ", ""))
    return apply_rules(_RULES, text, now)


def _read_interval(text: str, now: Now) -> Members | None:
    found = _is_interval(text)
    if found is None:
        return None
    unit, said = _UNITS[found["unit"]], found["number"]
    # 每天 alone names days, not an interval: it needs a time of day, and another rule says so.
    if said is None and unit >= UNITS["day"]:
        return None
    number = 1 if said is None else _number(said)
    return None if number is None else every(number, unit)


def _read_hourly(text: str, now: Now) -> Members | None:
    found = _is_hourly(text)
    minute = _number(found["minute"] or "0") if found else None
    return None if minute is None or minute > 59 else hourly(int(minute))


def _read_delay(text: str, now: Now) -> Members | None:
    found = _is_delay(text)
    number = _number(found["number"]) if found else None
    if found is None or number is None:
        return None
    return after(number, _UNITS[found["unit"]], now)


def _number(said: str) -> float | None:
    if said == "半":
        return 0.5
    if said[0] in "0123456789":
        return float(said)
    if "十" not in said:
        return _DIGITS.get(said)
    # 十, 十五, 二十, 二十五
    tens, _, ones = said.partition("十")
    if tens not in ("", *"二三四五六七八九") or ones not in ("", *"一二三四五六七八九"):
        return None
    return _DIGITS.get(tens, 1) * 10 + _DIGITS.get(ones, 0)


def _read_dated(text: str, now: Now) -> Members | None:
    found = _is_dated(text)
    return found and {"kind": "at", "at": f"{found[1]}T{found[2]}"}


def _read_days(text: str, now: Now) -> Members | None:
    # From the left, so that a time is as long as it can be: 十一点, not 一点 after 十.
    for cut in range(len(text)):
        said, times = text[:cut].rstrip("的在,"), _times(text[cut:])
        if times and (days := _days(said)) is not None:
            return recurring(days, times)
        if times and len(times) == 1 and said in _AHEAD:
            return once(times[0], now, _AHEAD[said])
        if times and len(times) == 1 and (date := _is_date(said)):
            return on_date(*_split_date(date), times[0], now)
    return None


def _split_date(found: re.Match[str]) -> tuple[int | None, int, int]:
    """Return the year, if it is named, the month and the day."""
    if found["plain"]:
        year, month, day = found["plain"].split("-")
        return int(year), int(month), int(day)
    return int(found["year"]) if found["year"] else None, int(found["month"]), int(found["day"])


def _times(said: str) -> list[DayTime] | None:
    return require_all(_time(part) for part in _between(said))


def _time(said: str) -> DayTime | None:
    if said in _NOON:
        return _NOON[said]
    found = _is_time(said)
    hour = _number(found["hour"]) if found else None
    minute = _minute(found) if found else None
    if found is None or hour is None or minute is None:
        return None
    return _time_in(found["part"], int(hour), minute)


def _minute(found: re.Match[str]) -> int | None:
    if found["half"]:
        return 30
    if found["quarter"]:
        return 15 if found["quarter"] == "一" else 45
    minute = _number(found["minute"] or "0")
    return None if minute is None else int(minute)


def _time_in(part: str | None, hour: int, minute: int) -> DayTime | None:
    """Return the time of day for an hour in a part of the day, such as 下午 or 晚上."""
    if hour > 23 or minute > 59 or (part in _MORNING and hour > 12):
        return None
    # Twelve in the night is midnight: the day begins with it.
    if (part == "凌晨" or part in _NIGHT) and hour == 12:
        return DayTime(0, minute)
    # 中午 may be before twelve, and the night goes on after it.
    first = {"中午": 1, "下午": 1, "傍晚": 1}.get(part or "", 5 if part in _NIGHT else 12)
    last = 10 if part == "中午" else 11
    return DayTime(hour + 12 if first <= hour <= last else hour, minute)


def _days(said: str) -> Days | None:
    for pattern, days in _FIXED_DAYS:
        if pattern.fullmatch(said):
            return days
    if monthly := _is_monthly(said):
        day = _number(monthly["day"])
        return None if day is None else Days(day=str(int(day)))
    if found := _is_week_range(said):
        return on_weekdays(day_range(_WEEK_DIGITS[found["first"]], _WEEK_DIGITS[found["last"]]))
    if found := _is_week_list(said):
        return on_weekdays(frozenset(_WEEK_DIGITS[c] for c in found["digits"] if c in _WEEK_DIGITS))
    return None


def _refuse_half(text: str, now: Now) -> None:
    refuse_half(text in _WITHOUT_DAY, _days(text))


_RULES = (_read_interval, _read_hourly, _read_delay, _read_dated, _read_days, _refuse_half)
