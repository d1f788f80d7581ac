"""What a person wants, read from their words: reminders, the time, and tasks done again and again.

Two readers look at a prompt. `read_task_intent` finds what is wanted again and again ("every 10
seconds tell me a joke"); `read_reminder_intent` what is wanted of the clock ("remind me at nine").
A reminder or a task may be about anything, even about reminders or tasks, so setting one is
looked for before removing and listing them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from gateway.demo.times import (
    AT_TIME,
    HAN_AT_TIME,
    HAN_SPAN,
    SPAN,
    RecurrenceGrammar,
    TimeOfDay,
    grammar_for,
    read_seconds,
    read_time_of_day,
)

LONGEST = 2000
"""How much of a prompt is read; what is wanted stands at its beginning."""


@dataclass(frozen=True, slots=True)
class WantedReminder:
    """Something to be reminded of, so many seconds from now or at a time of day."""

    when: int | TimeOfDay
    task: str


@dataclass(frozen=True, slots=True)
class ReminderIntent:
    """What somebody wants of the clock, as its action, and what that is about."""

    action: Literal["schedule", "ask_when", "list", "cancel", "clear", "get"]
    reminders: tuple[WantedReminder, ...] = ()
    """What is to be scheduled; when nobody said when, the action is `ask_when`."""
    words: tuple[str, ...] = ()
    """Which one is to be cancelled."""


@dataclass(frozen=True, slots=True)
class RecurringTask:
    """Something to be done: when, as a `schedule_text` says it, and what."""

    schedule: str
    message: str
    reminds: bool = False
    """Whether the message is what to be reminded of."""


@dataclass(frozen=True, slots=True)
class TaskIntent:
    """What somebody wants of `schedule_task`, as its action, and what that is about."""

    action: Literal["add", "list", "remove"]
    tasks: tuple[RecurringTask, ...] = ()
    rest: str = ""
    """What else was said, which is not about tasks."""
    words: tuple[str, ...] = ()
    """What is to be removed: the task that has these words, or every one."""
    every: bool = False


# Reminders and the time.

TIME = rf"(?:\b(?:in|after) {SPAN}|{AT_TIME})"
LEAD = r"\b(?:(?:remind|wake|ping) me|set (?:me )?an? (?:reminder|timer|alarm))\b"
AND = r"(?:[\s,;]*\b(?:and|then)(?: then| again)?|[,;]) "
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

REMOVES = re.compile(r"\b(?:cancel|clear|delete|remove|forget)\b(?P<rest>.*)", re.IGNORECASE)
CANCELS_FIRST = re.compile(r"\s*(?:please )?cancel\b|\s*取消", re.IGNORECASE)
OF_REMINDERS = re.compile(r"\breminders?\b|提醒", re.IGNORECASE)
EVERY = frozenset({"all", "every", "everything"})
SMALL = re.compile(r"an?|about|for|it|me|my|of|one|please|reminders?|that|the|this|to")
HAN_REMOVES = re.compile(r"(?:取消|删除|删掉|清除|清空)(?P<rest>.*)")
HAN_EVERY = re.compile(r"清空|所有|全部")
HAN_SMALL = re.compile(r"我|的|提醒|那个|这个|关于|一下|吧|了|[\s。！]")
WORD = re.compile(r"[\w'’-]+")

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
MENTIONS: tuple[tuple[re.Pattern[str], ReminderIntent], ...] = (
    (LISTS, ReminderIntent("list")),
    (REMINDS, ReminderIntent("ask_when")),
    (ASKS_TIME, ReminderIntent("get")),
)


def read_reminder_intent(prompt: str) -> ReminderIntent | None:
    """Read "remind me in 20 seconds to drink tea" and its like."""
    text = prompt[:LONGEST]
    mentioned = (intent for pattern, intent in MENTIONS if pattern.search(text))
    return set_reminders(text) or remove_reminders(text) or next(mentioned, None)


def set_reminders(text: str) -> ReminderIntent | None:
    """Read one reminder, or several on one line; what stands after each time is its task."""
    for first, further in FORMS:
        if start := first.search(text):
            line = text[: start.end()] + text[start.end() :].partition("\n")[0]
            times = [start, *further.finditer(line, start.end())]
            ends = [*(time.start() for time in times[1:]), len(line)]
            found = [(time, line[time.end() : end]) for time, end in zip(times, ends, strict=True)]
            break
    else:
        match = TASK_FIRST.search(text)
        found = [(match, match["task"])] if match else []
    reminders = [reminder for time, task in found if (reminder := make_reminder(time, task))]
    return ReminderIntent("schedule", tuple(reminders)) if reminders else None


def make_reminder(time: re.Match[str], task: str) -> WantedReminder | None:
    """Make a reminder of a time that was found, and of the words for its task."""
    when = read_seconds(time) if time["count"] else read_time_of_day(time)
    said = JOINING.sub("", task, count=1).strip(EDGES)
    return None if when is None else WantedReminder(when, said)


def remove_reminders(text: str) -> ReminderIntent | None:
    """Read that one reminder is to go, or all of them."""
    if not OF_REMINDERS.search(text) and not CANCELS_FIRST.match(text):
        return None
    if match := HAN_REMOVES.search(text):
        named = HAN_SMALL.sub("", match["rest"]).split()
        every = bool(HAN_EVERY.search(text))
    elif match := REMOVES.search(text):
        words = WORD.findall(match["rest"].lower())
        named = [word for word in words if not SMALL.fullmatch(word)]
        every = not EVERY.isdisjoint(words) or ("reminders" in words and not named)
    else:
        return None
    return ReminderIntent("clear") if every else ReminderIntent("cancel", words=tuple(named))


# Tasks that are done again and again.

ENDS_TASK = re.compile(
    r"\b(?:cancel|clear|delete|remove|stop|end)\b(?P<rest>[^\n]*)"
    r"|(?:取消|删除|删掉|清除|清空|停止|停掉|别再|不要再)(?P<han_rest>[^\n]*)",
    re.IGNORECASE,
)
STOPS_FIRST = re.compile(r"\s*(?:please )?stop\b|\s*请?(?:停止|停掉|别再|不要再)", re.IGNORECASE)
OF_TASKS = re.compile(r"\b(?:scheduled )?(?:tasks?|jobs?)\b|任务", re.IGNORECASE)
EVERY_TASK = re.compile(r"\b(?:all|every|everything|tasks|jobs)\b|清空|所有|全部", re.IGNORECASE)
SMALL_FOR_TASKS = re.compile(
    r"an?|about|again|all|and|anymore|doing|every|everything|for|giving|it|jobs?|me|my|now|of|please"
    r"|saying|scheduled|sending|tasks?|telling|that|the|this|these|those|to|with"
)
HAN_SMALL_FOR_TASKS = re.compile(
    r"我|的|定时|任务|那个|这个|关于|一下|吧|了|给|讲|说|所有|全部|[\s。！，]"
)
LISTS_TASKS = re.compile(
    r"\b(?:list|show)\b[^\n]{0,40}\b(?:tasks|jobs)\b|\b(?:what|which)\b[^\n]{0,40}"
    r"\b(?:tasks|jobs)\b[^\n]{0,40}\b(?:i|there|scheduled|set|running)\b"
    r"|(?:列出|查看|看看|看一下|显示|哪些|什么).{0,10}任务|任务.{0,6}(?:哪些|什么|列表)",
    re.IGNORECASE,
)


def read_task_intent(prompt: str) -> TaskIntent | None:
    """Read "every 10 seconds tell me a joke" and its like."""
    return _read_tasks(prompt[:LONGEST])


@lru_cache(maxsize=128)
def _read_tasks(text: str) -> TaskIntent | None:
    # Once for the many turns that a prompt is looked at in.
    listing = TaskIntent("list") if LISTS_TASKS.search(text) else None
    return add_tasks(text) or remove_tasks(text) or listing


def add_tasks(text: str) -> TaskIntent | None:
    """Read what is to be done again and again, line by line."""
    tasks: list[RecurringTask] = []
    rest: list[str] = []
    for line in text.split("\n"):
        grammar = grammar_for(line)
        for clause in split_clauses(line, grammar):
            if task := read_task(clause, grammar):
                tasks.append(task)
            else:
                rest.append(clause)
    return TaskIntent("add", tuple(tasks), "\n".join(rest)) if tasks else None


def split_clauses(line: str, grammar: RecurrenceGrammar) -> Iterator[str]:
    """Cut a line into clauses with one time each; what says none goes with its neighbour."""
    for sentence in cut_before(line, grammar.end, grammar):
        clause, timed = "", False
        for piece in cut_before(sentence, grammar.join, grammar):
            says_when = bool(grammar.when.search(piece) or set_reminders(piece))
            if says_when and timed:
                yield clause
                clause, timed = "", False
            clause, timed = clause + piece, timed or says_when
        yield clause


def cut_before(text: str, sign: re.Pattern[str], grammar: RecurrenceGrammar) -> list[str]:
    """Cut a text before each of these signs that does not belong to a time."""
    whole = [when.span() for when in grammar.when.finditer(text)]
    at = (found.start() for found in sign.finditer(text))
    places = [place for place in at if not any(a < place < b for a, b in whole)]
    return [text[a:b] for a, b in pairwise((0, *places, len(text)))]


def read_task(clause: str, grammar: RecurrenceGrammar) -> RecurringTask | None:
    """Read when and what; none where nothing is wanted again and again."""
    when = grammar.when.search(clause)
    if when is None:
        return None
    around = (clause[: when.start()].strip(EDGES), clause[when.end() :].strip(EDGES))
    said = grammar.space.join(filter(None, around))
    message = grammar.please.sub("", grammar.courtesy.sub("", said)).strip(EDGES)
    if not message or grammar.statement.match(message) or set_reminders(message):
        return None
    if lead := grammar.reminds.match(message):
        task = JOINING.sub("", message[lead.end() :], count=1).strip(EDGES)
        return RecurringTask(grammar.schedule(when), task, reminds=True)
    return RecurringTask(grammar.schedule(when), message)


def remove_tasks(text: str) -> TaskIntent | None:
    """Read that something is not to be done any more."""
    ends = ENDS_TASK.search(text)
    if ends is None or not (STOPS_FIRST.match(text) or OF_TASKS.search(text)):
        return None
    if ends["rest"] is None:
        words = HAN_SMALL_FOR_TASKS.sub(" ", ends["han_rest"]).split()
    else:
        said = WORD.findall(ends["rest"].lower())
        words = [word for word in said if not SMALL_FOR_TASKS.fullmatch(word)]
    every = not words and bool(EVERY_TASK.search(ends[0]))
    return TaskIntent("remove", words=tuple(words), every=every)
