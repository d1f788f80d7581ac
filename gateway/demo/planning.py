"""What the demo model does with `schedule_task`: which calls it makes, and how it tells of them.

All of it works on the conversation, so it is the same in every dialect.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.demo.calls import actions_of, decoded
from gateway.demo.conversation import Conversation, Reply, Result
from gateway.demo.errands import AddTasks, Errand, ListTasks, RemoveTasks, Task, errand_of
from gateway.demo.moments import Now, clock_time, told_time
from gateway.demo.phrases import Tongue, tongue_for

SCHEDULE_TASK = "schedule_task"
LONGEST_NAME = 60
SHOWN_OF_OUTCOME = 300


class Job(msgspec.Struct, frozen=True):
    """One task in an answer of the tool."""

    job_id: str
    name: str
    enabled: bool = True
    next_run_at: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What the tool answered, whatever it was asked to do."""

    ok: bool = True
    action: str = ""
    error: str = ""
    job: Job | None = None
    jobs: tuple[Job, ...] | None = None
    removed: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """What the tool was told about a task."""

    schedule_text: str = ""
    name: str = ""


ANSWER = msgspec.json.Decoder(Answer)
WANTED = msgspec.json.Decoder(Wanted)


def errand_in(talk: Conversation) -> Errand | None:
    """Read what the person wants done again and again.

    Where there is no tool for it, what sounds like ending or listing it means reminders.
    """
    errand = errand_of(talk.prompt)
    return errand if SCHEDULE_TASK in talk.tools or isinstance(errand, AddTasks) else None


def task_calls(talk: Conversation) -> tuple[str, ...]:
    """Write what the tool is told next, call by call; nothing when all is said."""
    if SCHEDULE_TASK not in talk.tools:
        return ()
    errand, done = errand_in(talk), actions_of(talk.calls, SCHEDULE_TASK)
    match errand:
        case AddTasks(tasks=tasks) if not done:
            tongue = tongue_for(talk.prompt)
            return tuple(addition(task, tongue) for task in tasks)
        case RemoveTasks() if done == {"list"}:
            return tuple(removal(job) for job in meant(errand, listed_in(talk)))
        case ListTasks() | RemoveTasks() if not done:
            return (arguments_of("list"),)
    return ()


def addition(task: Task, tongue: Tongue) -> str:
    """Write the call that adds a task."""
    message = tongue.remind.format(task=task.message or tongue.task)
    message = message if task.reminds else task.message
    name = (task.message or tongue.task)[:LONGEST_NAME]
    return arguments_of("add", name=name, schedule_text=task.schedule, message=message)


def removal(job: Job) -> str:
    """Write the call that removes a task."""
    return arguments_of("remove", job_id=job.job_id)


def arguments_of(action: str, **members: str) -> str:
    """Write the arguments of a call."""
    return msgspec.json.encode({"action": action, **members}).decode()


def listed_in(talk: Conversation) -> tuple[Job, ...]:
    """Return the tasks that the tool has listed since the prompt."""
    results = (result for result in talk.learned if result.tool == SCHEDULE_TASK)
    answers = (decoded(ANSWER, result.text) for result in results)
    return next((answer.jobs for answer in answers if answer and answer.jobs), ())


def fitting(errand: RemoveTasks, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the tasks that have all the words of an errand, one or many of a thing."""
    stems = [word.removesuffix("s") for word in errand.words]
    return tuple(job for job in jobs if all(stem in job.name.lower() for stem in stems))


def meant(errand: RemoveTasks, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the tasks to remove: all that were meant, or the one that fits."""
    found = fitting(errand, jobs)
    return found if errand.every or len(found) == 1 else ()


def outcome_news(talk: Conversation) -> str:
    """Say what tasks came to, if any result was brought."""
    tongue = tongue_for(talk.prompt or "".join(text for _, text in talk.outcomes))
    return "\n\n".join(
        tongue.outcome.format(name=name, text=shortened(text)) for name, text in talk.outcomes
    )


def shortened(text: str) -> str:
    """Return how a text begins."""
    return text if len(text) <= SHOWN_OF_OUTCOME else text[:SHOWN_OF_OUTCOME] + "…"


def regret_tasks(talk: Conversation) -> Reply | None:
    """Say that without the tool nothing can be done again and again."""
    if SCHEDULE_TASK in talk.tools or not isinstance(errand_in(talk), AddTasks):
        return None
    return Reply(tongue_for(talk.prompt).no_tool)


def task_sentence(talk: Conversation, tongue: Tongue, result: Result) -> str | None:
    """Put what the tool answered into words, where it is of a known kind."""
    now = told_time(talk.messages)
    match decoded(ANSWER, result.text):
        case Answer(ok=False, error=error) if error:
            return tongue.refused.format(error=error)
        case Answer(action="add", job=Job() as job):
            return promise(tongue, job, decoded(WANTED, result.arguments) or Wanted(), now)
        case Answer(jobs=tuple(jobs)):
            errand = errand_in(talk)
            if isinstance(errand, RemoveTasks):
                return question(tongue, jobs, now, errand)
            return listing(tongue, jobs, now)
        case Answer(removed=job_id) if job_id:
            known = {job.job_id: job.name for job in listed_in(talk)}
            return tongue.cancelled.format(task=known.get(job_id, job_id))
    return None


def promise(tongue: Tongue, job: Job, wanted: Wanted, now: Now | None) -> str:
    """Say what will be done, and when for the first time."""
    said = tongue.planned.format(schedule=wanted.schedule_text, task=job.name)
    if job.next_run_at is None:
        return said
    return tongue.space.join((said, tongue.first.format(time=clock_time(job.next_run_at, now))))


def listing(tongue: Tongue, jobs: Iterable[Job], now: Now | None) -> str:
    """Tell the tasks there are."""
    shown = "; ".join(
        tongue.job.format(task=job.name, time=clock_time(job.next_run_at, now))
        if job.next_run_at
        else tongue.resting.format(task=job.name)
        for job in jobs
    )
    return tongue.jobs.format(items=shown) if shown else tongue.no_jobs


def question(tongue: Tongue, jobs: tuple[Job, ...], now: Now | None, errand: RemoveTasks) -> str:
    """Say why none of the tasks was removed: none fits, or several do."""
    if not jobs:
        return tongue.no_jobs
    none_fits = tongue.no_job_fits.format(words=" ".join(errand.words))
    why = tongue.which if fitting(errand, jobs) else none_fits
    return tongue.space.join((why, listing(tongue, jobs, now)))
