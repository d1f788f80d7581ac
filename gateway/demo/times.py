"""Times as people say them, once (at nine, 下午6点半) or again and again (every Friday, 每10秒).

Also the time that a dialogue tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from gateway.demo.dialogue import TIME_TAG, DialogueMessage, split_texts
from gateway.demo.phrases import is_chinese

_ENGLISH_HOUR = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HAN_HOUR = "一|二|三|四|五|六|七|八|九|十|十一|十二"
HOURS = {"两": 2} | {
    word: hour
    for words in (_ENGLISH_HOUR, _HAN_HOUR)
    for hour, word in enumerate(words.split("|"), start=1)
}
NUMBERS = {word: hour for word, hour in HOURS.items() if hour <= 10} | {
    "a": 1,
    "an": 1,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "sixty": 60,
    "十五": 15,
    "二十": 20,
    "三十": 30,
    "六十": 60,
}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "秒": 1, "分": 60, "小时": 3600, "天": 86400}
NAMED = {"noon": (12, 0), "midnight": (0, 0), "中午": (12, 0), "午夜": (0, 0)}
AHEAD = {"today": 0, "tomorrow": 1, "今天": 0, "明天": 1, "后天": 2}
AFTERNOON = frozenset({"p", "下午", "傍晚", "晚上"})

# Longer words first, and never the end of one: half a number would be a wrong one.
NUMBER = "|".join(sorted(NUMBERS, key=len, reverse=True))
NOT_WITHIN = r"(?<![0-9一二两三四五六七八九十])"
_COUNT = rf"(?<![0-9一二两三四五六七八九十百])(?P<count>[0-9]{{1,6}}|{NUMBER})"
SPAN = rf"{_COUNT} ?(?P<unit>s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b"
HAN_SPAN = rf"{_COUNT}\s*个?(?P<unit>秒|分|小时|天)钟?\s*(?:之后|以后|后)?"
TIME = (
    rf"(?:(?P<hour>[0-9]{{1,2}}|{_ENGLISH_HOUR})(?::(?P<minute>[0-5][0-9]))?"
    r"(?: ?(?P<half>[ap])\.?m\b\.?)?(?: ?o['’]?clock)?|(?P<named>noon|midnight))(?!\w|:[0-9])"
)
# A number alone may count anything; a time is followed by what it is for, or by nothing.
AT_TIME = (
    rf"\b(?:(?P<day>today|tomorrow) )?at {TIME}(?: (?P<later>today|tomorrow)\b)?"
    r"(?=\s*(?:$|[.,;:!?]|(?:to|about|that|of|and|then|please|remind|wake|ping)\b))"
)
HAN_AT_TIME = (
    r"(?:(?P<day>今天|明天|后天)的?)?"
    r"(?:(?P<half>凌晨|早上|上午|中午|下午|傍晚|晚上)?"
    rf"{NOT_WITHIN}(?P<hour>[0-9]{{1,2}}|十[一二]|[一二两三四五六七八九十])"
    r"(?:[点时](?:(?P<thirty>半)|(?P<quarter>一刻)|(?P<han_minute>[0-9]{1,2})分?)?钟?整?"
    r"|[:：](?P<minute>[0-5][0-9]))|(?P<named>中午|午夜))"
)

TAG_NOW = re.compile(r"nowMs=`(\d{1,15})`")
RESULT_NOW = re.compile(r'"nowMs":\s*(\d{1,15})')
OFFSET = re.compile(r'\blocal(?:=`|":\s*")[^`"]* ([+-])(\d\d):(\d\d)[`"]')
LATEST_MS = 4_102_444_800_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time of day; so many days ahead, or the next time it is that time."""

    hour: int
    minute: int = 0
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class CurrentTime:
    """The time a dialogue tells, and the person's distance from UTC."""

    ms: int
    offset: timedelta = timedelta()

    @property
    def wall(self) -> datetime:
        """The person's own time, with their distance from UTC."""
        return (EPOCH + timedelta(milliseconds=self.ms)).astimezone(timezone(self.offset))


def read_time_of_day(match: re.Match[str]) -> TimeOfDay | None:
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


def read_seconds(span: re.Match[str]) -> int:
    """Read a length of time that was found."""
    count, unit = span["count"].lower(), span["unit"].lower()
    number = NUMBERS[count] if count in NUMBERS else int(count)
    return number * UNITS[unit if unit in UNITS else unit[0]]


def find_time(messages: Sequence[DialogueMessage]) -> CurrentTime | None:
    """Find the newest time tag, or the newest time a tool told."""
    for message in reversed(messages):
        for text in reversed(split_texts(message)):
            now = _read_now(message, text)
            if now is not None and now.ms < LATEST_MS:
                return now
    return None


def _read_now(message: DialogueMessage, text: str) -> CurrentTime | None:
    if message.role == "user" and text.startswith(TIME_TAG):
        found = TAG_NOW.search(text)
    else:
        found = RESULT_NOW.search(text) if message.answers is not None else None
    return CurrentTime(int(found[1]), _read_offset(text)) if found else None


def _read_offset(text: str) -> timedelta:
    """Read the distance from UTC out of a time tag or a result; none is a day or more."""
    match = OFFSET.search(text)
    if match is None:
        return timedelta()
    distance = timedelta(hours=int(match[2]) % 24, minutes=int(match[3]) % 60)
    return -distance if match[1] == "-" else distance


def instant(now: CurrentTime, when: int | TimeOfDay) -> str:
    """Write the instant so many seconds from now, or at a time of day, as the clock wants it."""
    if isinstance(when, int):
        due = now.wall + timedelta(seconds=when)
    else:
        due = now.wall.replace(hour=when.hour, minute=when.minute, second=0, microsecond=0)
        due += timedelta(days=int(due <= now.wall) if when.ahead is None else when.ahead)
    return due.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_time(due_at: str, now: CurrentTime | None) -> str:
    """Write an instant as the person's time of day, with the date unless it is today."""
    try:
        due = datetime.fromisoformat(due_at).astimezone(timezone(now.offset) if now else UTC)
    except (ValueError, OverflowError):
        return due_at
    is_today = now is not None and due.date() == now.wall.date()
    shown = f"{due:%H:%M:%S}" if is_today else f"{due:%Y-%m-%d %H:%M:%S}"
    return shown if due.utcoffset() else f"{shown} UTC"


# How English and Chinese say that something is to be done again and again.


@dataclass(frozen=True, slots=True)
class RecurrenceGrammar:
    """How one language says when, and what."""

    when: re.Pattern[str]
    schedule: Callable[[re.Match[str]], str]
    """Writes when in the words that a schedule takes."""
    end: re.Pattern[str]
    """What ends a sentence."""
    join: re.Pattern[str]
    """What may stand between one clause and the next."""
    courtesy: re.Pattern[str]
    """How a request begins politely."""
    please: re.Pattern[str]
    """How it ends so."""
    statement: re.Pattern[str]
    """How a sentence begins that only tells something."""
    reminds: re.Pattern[str]
    space: str


def drop_group_names(pattern: str) -> str:
    """Return a pattern without names, so that it can stand in another twice."""
    return re.sub(r"\?P<\w+>", "?:", pattern)


NINE = "9:00"
PARTS = {"morning": "9:00", "afternoon": "15:00", "evening": "18:00", "night": "21:00"}
AT = drop_group_names(TIME)
DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
AND = r"(?:, ?(?:and )?| and )"
DAYS = (
    rf"daily|(?:on )?weekdays|(?:on )?weekends|(?:every|each) (?:{DAY}s?(?:{AND}{DAY}s?)*"
    rf"|weekday|weekend|day|(?P<part>{'|'.join(PARTS)}))|(?:on )?{DAY}s(?:{AND}{DAY}s)*"
    rf"|weekly on {DAY}s?|monthly on the (?:[0-9]{{1,2}}(?:st|nd|rd|th)|last day)"
)
UNIT = r"(?:s|secs?|seconds?|mins?|minutes?|h|hours?|days|weeks)"
EVERY = (
    rf"(?:every|each) (?:(?:[0-9]{{1,6}}|half an?|half|{NUMBER}) ?{UNIT}|second|minute|hour)"
    r"|hourly|weekly|monthly|(?:every|each) (?:week|month)"
)
MORE = r"(?:(?:, ?| and |, and )[0-9]{1,2}(?::[0-9]{2}|(?::[0-9]{2})? ?[ap]m)\b)*"
FOUND_TIME = re.compile(TIME, re.IGNORECASE)


def english_schedule(when: re.Match[str]) -> str:
    """Write when, with a time of day where none was said."""
    if not when["days"]:
        return when[0].lower()
    part = (when["part"] or "").lower()
    said = when["before"] or when["after"] or PARTS.get(part, NINE)
    days = "daily" if part else when["days"].lower()
    return f"{days} at {digits(said, part)}{when['more'] or ''}"


def digits(said: str, part: str) -> str:
    """Write a time of day in digits; in the evening eight is 20:00."""
    found = FOUND_TIME.match(said)
    at = read_time_of_day(found) if found else None
    if at is None:
        return said
    later = part in PARTS and part != "morning" and at.hour < 12
    return f"{at.hour + 12 if later else at.hour}:{at.minute:02}"


ENGLISH = RecurrenceGrammar(
    when=re.compile(
        rf"\b(?:(?:at (?P<before>{AT}),? )?(?P<days>{DAYS})"
        rf"(?:,? at (?P<after>{AT})(?P<more>{MORE}))?|{EVERY})(?!\w)",
        re.IGNORECASE,
    ),
    schedule=english_schedule,
    end=re.compile(r"[.!?](?=\s|$)"),
    join=re.compile(r",?\s(?:and|then)\s|[,;]\s", re.IGNORECASE),
    courtesy=re.compile(
        r"\A(?:(?:please|and|then|also|(?:can|could|will|would) you"
        r"|i(?: want|['’]d like| would like)(?: you)?(?: to)?)\b[\s,]*)+",
        re.IGNORECASE,
    ),
    please=re.compile(r"[\s,]+please\Z", re.IGNORECASE),
    statement=re.compile(
        r"(?:i|we|you|he|she|it|they|there|this|that|these|those|the|my|our|your|his|her|their"
        r"|its|if|what|why|who|when|where|which|how|is|are|was|were|do|does|did)\b",
        re.IGNORECASE,
    ),
    reminds=re.compile(r"(?:remind|ping|wake) me\b", re.IGNORECASE),
    space=" ",
)

HAN_NUMBER = r"(?:[0-9]{1,6}|[一二两三四五六七八九十]{1,3}|半)"
# Right after the days, a number begins: 每周五九点.
HAN_AT = drop_group_names(HAN_AT_TIME).replace(NOT_WITHIN, "")
HAN_WEEK = r"(?:周|星期|礼拜)"
HAN_DAYS = (
    rf"每天|每日|每?个?工作日|每?个?周末|每个?{HAN_WEEK}[一二三四五六日天]"
    rf"(?:[、和]{HAN_WEEK}?[一二三四五六日天])*|每个?月的?(?:{HAN_NUMBER}[号日]|最后一天)"
    r"|每(?P<part>[早晚])上?"
)
HAN_EVERY = rf"每隔?{HAN_NUMBER}个?(?:秒钟?|分钟?|小时|天)|每个?(?:秒钟?|分钟|小时)"
HAN_PARTS = {"早": "早上9点", "晚": "晚上9点"}


def chinese_schedule(when: re.Match[str]) -> str:
    """Write when, with a time of day where none was said."""
    if not when["days"]:
        return when[0]
    part = when["part"] or ""
    time = when["after"] or HAN_PARTS.get(part, "9点")
    if not part:
        return when["days"] + time
    # 每晚8点 is in the evening, whether or not that is said again.
    return "每天" + (time if time[0] in "早晚上下中" else HAN_PARTS[part][:2] + time)


CHINESE = RecurrenceGrammar(
    when=re.compile(rf"(?:(?P<days>{HAN_DAYS})的?在?(?P<after>{HAN_AT})?|{HAN_EVERY})"),
    schedule=chinese_schedule,
    end=re.compile(r"[。！？!?]"),
    join=re.compile(r"[，,；;\s]|然后|并且"),
    courtesy=re.compile(
        r"\A(?:请|麻烦|然后|并且?|帮我|能不能|你能|可以|我想要?|我要|[你都就，,；;\s])+"
    ),
    please=re.compile(r"[吗吧]\Z"),
    statement=re.compile(r"[我他她它]|为什么|什么|怎么|谁|哪"),
    reminds=re.compile(r"(?:提醒|叫)我"),
    space="",
)


def grammar_for(text: str) -> RecurrenceGrammar:
    """Choose the language that a text is read in."""
    return CHINESE if is_chinese(text) else ENGLISH
