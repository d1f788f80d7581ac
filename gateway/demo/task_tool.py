"""What the demo model does with `schedule_task`: which calls it makes, and how it tells of them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gateway.demo.dialogue import DialogueResult
from gateway.demo.intents import AddTasks, ListTasks, RecurringTask, RemoveTasks
from gateway.demo.times import clock_time
from gateway.demo.turn import SCHEDULE_TASK, UnderstoodTurn, decode_json

LONGEST_NAME = 60


class ListedTask(msgspec.Struct, frozen=True):
    """One task in an answer of the tool."""

    job_id: str
    name: str
    enabled: bool = True
    next_run_at: str | None = None

    def fits(self, words: Iterable[str]) -> bool:
        """Whether its name has all these words, one or many of a thing."""
        return all(word.removesuffix("s") in self.name.lower() for word in words)


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


RESULT = msgspec.json.Decoder(TaskToolResult)
CALL = msgspec.json.Decoder(TaskToolCall)


def next_task_calls(turn: UnderstoodTurn) -> list[str]:
    """Write what the tool is told next, call by call; nothing when all is said."""
    if SCHEDULE_TASK not in turn.dialogue.tools:
        return []
    done = turn.find_actions(SCHEDULE_TASK)
    match turn.tasks:
        case AddTasks(tasks=tasks) if not done:
            return [write_addition(turn, task) for task in tasks]
        case RemoveTasks(words=words, every=every) if done == {"list"}:
            found = [task for task in find_tasks(turn) if task.fits(words)]
            chosen = found if every or len(found) == 1 else []
            return [write_arguments("remove", job_id=task.job_id) for task in chosen]
        case ListTasks() | RemoveTasks() if not done:
            return [write_arguments("list")]
    return []


def write_addition(turn: UnderstoodTurn, task: RecurringTask) -> str:
    """Write the call that adds a task."""
    about = task.message or turn.phrases.say("unnamed")
    message = turn.phrases.say("remind", task=about) if task.reminds else task.message
    name = about[:LONGEST_NAME]
    return write_arguments("add", name=name, schedule_text=task.schedule, message=message)


def write_arguments(action: str, **members: str) -> str:
    """Write the arguments of a call."""
    return msgspec.json.encode({"action": action, **members}).decode()


def find_tasks(turn: UnderstoodTurn) -> tuple[ListedTask, ...]:
    """Return the tasks that the tool has listed since the prompt."""
    results = turn.find_results(SCHEDULE_TASK, RESULT)
    return next((result.jobs for result in results if result.jobs), ())


def describe_task_result(turn: UnderstoodTurn, result: DialogueResult) -> str | None:
    """Put what the tool answered into words, where it is of a known kind."""
    say = turn.phrases.say
    match decode_json(RESULT, result.text):
        case TaskToolResult(ok=False, error=error) if error:
            return say("refused", error=error)
        case TaskToolResult(action="add", job=ListedTask() as task):
            asked = decode_json(CALL, result.arguments) or TaskToolCall()
            planned = say("planned", schedule=asked.schedule_text, task=task.name)
            if task.next_run_at is None:
                return planned
            first = say("first", time=clock_time(task.next_run_at, turn.now))
            return turn.phrases.space.join((planned, first))
        case TaskToolResult(jobs=tuple(tasks)):
            return list_tasks(turn, tasks)
        case TaskToolResult(removed=job_id) if job_id:
            known = {task.job_id: task.name for task in find_tasks(turn)}
            return say("cancelled", task=known.get(job_id, job_id))
    return None


def list_tasks(turn: UnderstoodTurn, tasks: Iterable[ListedTask]) -> str:
    """Tell the tasks there are; or, if one was to be removed, ask which."""
    say, intent = turn.phrases.say, turn.tasks
    shown = [
        say("task", task=task.name, time=clock_time(task.next_run_at, turn.now))
        if task.next_run_at
        else say("resting", task=task.name)
        for task in tasks
    ]
    if not isinstance(intent, RemoveTasks):
        return turn.tell_list("task", shown)
    fits = any(task.fits(intent.words) for task in tasks)
    return turn.ask_which("task", shown, intent.words, fits)
