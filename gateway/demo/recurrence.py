"""How English and Chinese say that something is to be done again and again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway.demo.times import HAN_AT_TIME, NOT_WITHIN, NUMBER, TIME, read_time_of_day
from gateway.demo.tokens import is_chinese


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
