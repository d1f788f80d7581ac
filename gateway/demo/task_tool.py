"""What the demo model does with `schedule_task`: which calls it makes, and how it tells of them.

All of it works on the conversation, so it is the same in every dialect.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.demo.calls import actions_of, decode_json
from gateway.demo.dialogue import Dialogue, DialogueResult, ModelReply
from gateway.demo.moments import CurrentTime, clock_time, find_time
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.task_intents import (
    AddTasks,
    ListTasks,
    RecurringTask,
    RemoveTasks,
    TaskIntent,
    read_task_intent,
)

SCHEDULE_TASK = "schedule_task"
LONGEST_NAME = 60
SHOWN_OF_OUTCOME = 300


class ListedTask(msgspec.Struct, frozen=True):
    """One task in an answer of the tool."""

    job_id: str
    name: str
    enabled: bool = True
    next_run_at: str | None = None


class TaskToolResult(msgspec.Struct, frozen=True):
    """What the tool answered, whatever it was asked to do."""

    ok: bool = True
    action: str = ""
    error: str = ""
    job: ListedTask | None = None
    jobs: tuple[ListedTask, ...] | None = None
    removed: str = ""


class TaskToolCall(msgspec.Struct, frozen=True):
    """What the tool was told about a task."""

    schedule_text: str = ""
    name: str = ""


ANSWER = msgspec.json.Decoder(TaskToolResult)
WANTED = msgspec.json.Decoder(TaskToolCall)


def task_intent(dialogue: Dialogue) -> TaskIntent | None:
    """Read what the person wants done again and again.

    Where there is no tool for it, what sounds like ending or listing it means reminders.
    """
    errand = read_task_intent(dialogue.prompt)
    return errand if SCHEDULE_TASK in dialogue.tools or isinstance(errand, AddTasks) else None


def task_calls(dialogue: Dialogue) -> tuple[str, ...]:
    """Write what the tool is told next, call by call; nothing when all is said."""
    if SCHEDULE_TASK not in dialogue.tools:
        return ()
    errand, done = task_intent(dialogue), actions_of(dialogue.calls, SCHEDULE_TASK)
    match errand:
        case AddTasks(tasks=tasks) if not done:
            phrases = phrases_for(dialogue.prompt)
            return tuple(addition(task, phrases) for task in tasks)
        case RemoveTasks() if done == {"list"}:
            return tuple(removal(job) for job in choose_tasks(errand, find_tasks(dialogue)))
        case ListTasks() | RemoveTasks() if not done:
            return (arguments_of("list"),)
    return ()


def addition(task: RecurringTask, phrases: Phrases) -> str:
    """Write the call that adds a task."""
    message = phrases.remind.format(task=task.message or phrases.task)
    message = message if task.reminds else task.message
    name = (task.message or phrases.task)[:LONGEST_NAME]
    return arguments_of("add", name=name, schedule_text=task.schedule, message=message)


def removal(job: ListedTask) -> str:
    """Write the call that removes a task."""
    return arguments_of("remove", job_id=job.job_id)


def arguments_of(action: str, **members: str) -> str:
    """Write the arguments of a call."""
    return msgspec.json.encode({"action": action, **members}).decode()


def find_tasks(dialogue: Dialogue) -> tuple[ListedTask, ...]:
    """Return the tasks that the tool has listed since the prompt."""
    results = (result for result in dialogue.learned if result.tool == SCHEDULE_TASK)
    answers = (decode_json(ANSWER, result.text) for result in results)
    return next((answer.jobs for answer in answers if answer and answer.jobs), ())


def fitting(errand: RemoveTasks, jobs: Iterable[ListedTask]) -> tuple[ListedTask, ...]:
    """Return the tasks that have all the words of an errand, one or many of a thing."""
    stems = [word.removesuffix("s") for word in errand.words]
    return tuple(job for job in jobs if all(stem in job.name.lower() for stem in stems))


def choose_tasks(errand: RemoveTasks, jobs: Iterable[ListedTask]) -> tuple[ListedTask, ...]:
    """Return the tasks to remove: all that were meant, or the one that fits."""
    found = fitting(errand, jobs)
    return found if errand.every or len(found) == 1 else ()


def outcome_news(dialogue: Dialogue) -> str:
    """Say what tasks came to, if any result was brought."""
    phrases = phrases_for(dialogue.prompt or "".join(text for _, text in dialogue.outcomes))
    return "\n\n".join(
        phrases.outcome.format(name=name, text=shorten(text)) for name, text in dialogue.outcomes
    )


def shorten(text: str) -> str:
    """Return how a text begins."""
    return text if len(text) <= SHOWN_OF_OUTCOME else text[:SHOWN_OF_OUTCOME] + "…"


def regret_tasks(dialogue: Dialogue) -> ModelReply | None:
    """Say that without the tool nothing can be done again and again."""
    if SCHEDULE_TASK in dialogue.tools or not isinstance(task_intent(dialogue), AddTasks):
        return None
    return ModelReply(phrases_for(dialogue.prompt).no_tool)


def task_sentence(dialogue: Dialogue, phrases: Phrases, result: DialogueResult) -> str | None:
    """Put what the tool answered into words, where it is of a known kind."""
    now = find_time(dialogue.messages)
    match decode_json(ANSWER, result.text):
        case TaskToolResult(ok=False, error=error) if error:
            return phrases.refused.format(error=error)
        case TaskToolResult(action="add", job=ListedTask() as job):
            return promise(
                phrases, job, decode_json(WANTED, result.arguments) or TaskToolCall(), now
            )
        case TaskToolResult(jobs=tuple(jobs)):
            errand = task_intent(dialogue)
            if isinstance(errand, RemoveTasks):
                return question(phrases, jobs, now, errand)
            return listing(phrases, jobs, now)
        case TaskToolResult(removed=job_id) if job_id:
            known = {job.job_id: job.name for job in find_tasks(dialogue)}
            return phrases.cancelled.format(task=known.get(job_id, job_id))
    return None


def promise(
    phrases: Phrases, job: ListedTask, wanted: TaskToolCall, now: CurrentTime | None
) -> str:
    """Say what will be done, and when for the first time."""
    said = phrases.planned.format(schedule=wanted.schedule_text, task=job.name)
    if job.next_run_at is None:
        return said
    return phrases.space.join((said, phrases.first.format(time=clock_time(job.next_run_at, now))))


def listing(phrases: Phrases, jobs: Iterable[ListedTask], now: CurrentTime | None) -> str:
    """Tell the tasks there are."""
    shown = "; ".join(
        phrases.job.format(task=job.name, time=clock_time(job.next_run_at, now))
        if job.next_run_at
        else phrases.resting.format(task=job.name)
        for job in jobs
    )
    return phrases.jobs.format(items=shown) if shown else phrases.no_jobs


def question(
    phrases: Phrases, jobs: tuple[ListedTask, ...], now: CurrentTime | None, errand: RemoveTasks
) -> str:
    """Say why none of the tasks was removed: none fits, or several do."""
    if not jobs:
        return phrases.no_jobs
    none_fits = phrases.no_job_fits.format(words=" ".join(errand.words))
    why = phrases.which if fitting(errand, jobs) else none_fits
    return phrases.space.join((why, listing(phrases, jobs, now)))
