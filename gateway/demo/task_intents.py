"""What a person wants done again and again, read from their words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from gateway.demo.recurrence import RecurrenceGrammar, grammar_for
from gateway.demo.reminder_intents import EDGES, JOINING, LONGEST, set_reminders


@dataclass(frozen=True, slots=True)
class RecurringTask:
    """Something to be done: when, as a `schedule_text` says it, and what."""

    schedule: str
    message: str
    reminds: bool = False
    """Whether the message is what to be reminded of."""


@dataclass(frozen=True, slots=True)
class AddTasks:
    """Somebody wants something done again and again; the rest of their words is not about that."""

    tasks: tuple[RecurringTask, ...]
    rest: str = ""


@dataclass(frozen=True, slots=True)
class ListTasks:
    """Somebody wants to know what is done again and again."""


@dataclass(frozen=True, slots=True)
class RemoveTasks:
    """Somebody wants that to end: what has these words, or all of it."""

    words: tuple[str, ...] = ()
    every: bool = False


TaskIntent = AddTasks | ListTasks | RemoveTasks


def read_task_intent(prompt: str) -> TaskIntent | None:
    """Read "every 10 seconds tell me a joke" and its like."""
    return read_cached(prompt[:LONGEST])


@lru_cache(maxsize=128)
def read_cached(text: str) -> TaskIntent | None:
    """Read a text once for the many turns and questions that need it."""
    return next((errand for reader in READERS if (errand := reader(text))), None)


def add_tasks(text: str) -> AddTasks | None:
    """Read what is to be done again and again, line by line."""
    tasks: list[RecurringTask] = []
    rest: list[str] = []
    for line in text.split("\n"):
        form = grammar_for(line)
        for wish in wishes_in(line, form):
            if task := task_in(wish, form):
                tasks.append(task)
            else:
                rest.append(wish)
    return AddTasks(tuple(tasks), "\n".join(rest)) if tasks else None


def wishes_in(line: str, form: RecurrenceGrammar) -> Iterator[str]:
    """Cut a line into its wishes, each with one time; what says none goes with its neighbour."""
    for sentence in parts(line, form.end, form):
        wish, timed = "", False
        for piece in parts(sentence, form.join, form):
            says_when = bool(form.when.search(piece) or set_reminders(piece))
            if says_when and timed:
                yield wish
                wish, timed = "", False
            wish, timed = wish + piece, timed or says_when
        yield wish


def parts(text: str, cut: re.Pattern[str], form: RecurrenceGrammar) -> list[str]:
    """Cut a text before each of these signs that does not belong to a time."""
    whole = [when.span() for when in form.when.finditer(text)]
    at = (found.start() for found in cut.finditer(text))
    places = [place for place in at if not any(a < place < b for a, b in whole)]
    return [text[a:b] for a, b in pairwise((0, *places, len(text)))]


def task_in(wish: str, form: RecurrenceGrammar) -> RecurringTask | None:
    """Read when and what; none where nothing is wanted again and again."""
    when = form.when.search(wish)
    if when is None:
        return None
    around = (wish[: when.start()].strip(EDGES), wish[when.end() :].strip(EDGES))
    said = form.space.join(filter(None, around))
    message = form.please.sub("", form.courtesy.sub("", said)).strip(EDGES)
    if not message or form.no_wish.match(message) or set_reminders(message):
        return None
    if lead := form.reminds.match(message):
        task = JOINING.sub("", message[lead.end() :], count=1).strip(EDGES)
        return RecurringTask(form.schedule(when), task, reminds=True)
    return RecurringTask(form.schedule(when), message)


ENDS = re.compile(
    r"\b(?:cancel|clear|delete|remove|stop|end)\b(?P<rest>[^\n]*)"
    r"|(?:取消|删除|删掉|清除|清空|停止|停掉|别再|不要再)(?P<han_rest>[^\n]*)",
    re.IGNORECASE,
)
STOPS_FIRST = re.compile(r"\s*(?:please )?stop\b|\s*请?(?:停止|停掉|别再|不要再)", re.IGNORECASE)
OF_TASKS = re.compile(r"\b(?:scheduled )?(?:tasks?|jobs?)\b|任务", re.IGNORECASE)
EVERY = re.compile(r"\b(?:all|every|everything|tasks|jobs)\b|清空|所有|全部", re.IGNORECASE)
SMALL = re.compile(
    r"an?|about|again|all|and|anymore|doing|every|everything|for|giving|it|jobs?|me|my|now|of|please"
    r"|saying|scheduled|sending|tasks?|telling|that|the|this|these|those|to|with"
)
HAN_SMALL = re.compile(r"我|的|定时|任务|那个|这个|关于|一下|吧|了|给|讲|说|所有|全部|[\s。！，]")
LISTS = re.compile(
    r"\b(?:list|show)\b[^\n]{0,40}\b(?:tasks|jobs)\b|\b(?:what|which)\b[^\n]{0,40}"
    r"\b(?:tasks|jobs)\b[^\n]{0,40}\b(?:i|there|scheduled|set|running)\b"
    r"|(?:列出|查看|看看|看一下|显示|哪些|什么).{0,10}任务|任务.{0,6}(?:哪些|什么|列表)",
    re.IGNORECASE,
)


def remove_tasks(text: str) -> RemoveTasks | None:
    """Read that something is not to be done any more."""
    ends = ENDS.search(text)
    if ends is None or not (STOPS_FIRST.match(text) or OF_TASKS.search(text)):
        return None
    if ends["rest"] is None:
        words = HAN_SMALL.sub(" ", ends["han_rest"]).split()
    else:
        said = re.findall(r"[\w'’-]+", ends["rest"].lower())
        words = [word for word in said if not SMALL.fullmatch(word)]
    return RemoveTasks(tuple(words), every=not words and bool(EVERY.search(ends[0])))


def list_tasks(text: str) -> ListTasks | None:
    """Read that the tasks are to be told."""
    return ListTasks() if LISTS.search(text) else None


# A task may be about anything, even about tasks; so that form is read first.
READERS: tuple[Callable[[str], TaskIntent | None], ...] = (add_tasks, remove_tasks, list_tasks)
