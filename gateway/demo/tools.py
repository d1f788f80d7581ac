"""What the demo model does with its tools, `clock` and `schedule_task`.

Of each it knows what the person wants (`understand`), which calls come next, and how to tell of
the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec

from gateway.demo.dialogue import Dialogue, DialogueResult
from gateway.demo.intents import (
    RecurringTask,
    ReminderIntent,
    TaskIntent,
    read_reminder_intent,
    read_task_intent,
)
from gateway.demo.orders import OrderedCall
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.times import CurrentTime, clock_time, find_time, instant

CLOCK = "clock"
SCHEDULE_TASK = "schedule_task"
LONGEST_NAME = 60
# What is asked of the clock first; setting a reminder needs the time only if no tag tells it.
OPENINGS = {"schedule": "get", "get": "get", "list": "list", "cancel": "list", "clear": "clear"}

T = TypeVar("T")


class ToolArguments(msgspec.Struct, frozen=True):
    """What an earlier call told a tool."""

    action: str = ""
    schedule_text: str = ""


class ListedReminder(msgspec.Struct, frozen=True, rename="camel"):
    """One reminder in an answer of the clock."""

    due_at: str
    task: str
    task_id: str = ""
    delivery: str = ""
    delivered_at: str | None = None

    def fits(self, words: Iterable[str]) -> bool:
        """Whether it is still to come, and its task has all these words."""
        return self.delivered_at is None and all(word in self.task.lower() for word in words)


class ClockResult(msgspec.Struct, frozen=True, rename="camel"):
    """What the clock answered, whatever it was asked to do."""

    ok: bool = True
    error: str = ""
    scheduled: tuple[ListedReminder, ...] = ()
    items: tuple[ListedReminder, ...] | None = None
    removed: str = ""
    removed_count: int | None = None
    local: str = ""
    timezone: str = ""


class ListedTask(msgspec.Struct, frozen=True):
    """One task in an answer of `schedule_task`."""

    job_id: str
    name: str
    next_run_at: str | None = None

    def fits(self, words: Iterable[str]) -> bool:
        """Whether its name has all these words, one or many of a thing."""
        return all(word.removesuffix("s") in self.name.lower() for word in words)


class TaskToolResult(msgspec.Struct, frozen=True):
    """What `schedule_task` answered, whatever it was asked to do."""

    ok: bool = True
    action: str = ""
    error: str = ""
    job: ListedTask | None = None
    jobs: tuple[ListedTask, ...] | None = None
    removed: str = ""


@dataclass(frozen=True, slots=True)
class UnderstoodTurn:
    """A dialogue, understood: what the person wants of each tool, and what time it is for them."""

    dialogue: Dialogue
    phrases: Phrases
    now: CurrentTime | None
    reminders: ReminderIntent | None
    tasks: TaskIntent | None

    def find_actions(self, tool: str) -> set[str]:
        """Return what a tool was already asked to do for this prompt."""
        calls = (call for call in self.dialogue.calls if call.name == tool)
        return {(decode(call.arguments, ToolArguments) or NO_ARGUMENTS).action for call in calls}

    def find_results(self, tool: str, kind: type[T]) -> list[T]:
        """Return what a tool has answered for this prompt, as far as it can be read."""
        texts = (result.text for result in self.dialogue.learned if result.tool == tool)
        return [result for text in texts if (result := decode(text, kind))]

    def find_reminders(self) -> tuple[ListedReminder, ...]:
        """Return the reminders that the clock has listed for this prompt."""
        results = self.find_results(CLOCK, ClockResult)
        return next((result.items for result in results if result.items), ())

    def find_tasks(self) -> tuple[ListedTask, ...]:
        """Return the tasks that `schedule_task` has listed for this prompt."""
        results = self.find_results(SCHEDULE_TASK, TaskToolResult)
        return next((result.jobs for result in results if result.jobs), ())

    def tell_list(
        self,
        kind: str,
        shown: Sequence[str],
        items: Iterable[ListedReminder | ListedTask],
        words: Sequence[str] | None,
    ) -> str:
        """Tell what there is of a kind, `reminder` or `task`.

        With words: none of the items fits them, or several do, and nothing was removed.
        """
        say = self.phrases.say
        if not shown:
            return say(f"no_{kind}s")
        listing = say(f"{kind}s", items="; ".join(shown))
        if words is None:
            return listing
        fits = any(item.fits(words) for item in items)
        why = say("which") if fits else say(f"no_{kind}_fits", words=" ".join(words))
        return self.phrases.space.join((why, listing))


def understand(dialogue: Dialogue) -> UnderstoodTurn:
    """Read what the person wants.

    Without a tool for tasks, what sounds like ending or listing them means reminders. What is
    wanted again and again is no reminder, but the rest of the prompt may ask for one.
    """
    tasks = read_task_intent(dialogue.prompt)
    if tasks and tasks.action != "add" and SCHEDULE_TASK not in dialogue.tools:
        tasks = None
    return UnderstoodTurn(
        dialogue,
        phrases=phrases_for(dialogue.prompt),
        now=find_time(dialogue.messages),
        reminders=read_reminder_intent(tasks.rest if tasks else dialogue.prompt),
        tasks=tasks,
    )


def decode(text: str, kind: type[T]) -> T | None:
    """Read JSON of a known shape; anything else is nothing."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None


NO_ARGUMENTS = ToolArguments()


def write_arguments(action: str, **members: object) -> str:
    """Write the arguments of a call."""
    return msgspec.json.encode({"action": action, **members}).decode()


def call_tools(turn: UnderstoodTurn) -> tuple[OrderedCall, ...]:
    """Call the tools for what the person wants, as long as there is something to call them for."""
    clock = next_clock_call(turn)
    calls = [OrderedCall(CLOCK, clock)] if clock else []
    # What comes of both is told at once, so the one waits until the other can be called.
    if not needs_time(turn):
        calls += [OrderedCall(SCHEDULE_TASK, arguments) for arguments in next_task_calls(turn)]
    return tuple(calls)


# The clock.


def needs_time(turn: UnderstoodTurn) -> bool:
    """Whether the clock is to be asked for the time before a reminder can be set."""
    wanted = turn.reminders is not None and turn.reminders.action == "schedule"
    return wanted and CLOCK in turn.dialogue.tools and turn.now is None


def next_clock_call(turn: UnderstoodTurn) -> str | None:
    """Write the arguments of the next call; none when all that was wanted is known or done.

    The clock's strict schema wants every key.
    """
    intent = turn.reminders
    if CLOCK not in turn.dialogue.tools or intent is None:
        return None
    done = turn.find_actions(CLOCK)
    if intent.action == "schedule" and "schedule" not in done and turn.now:
        items = [
            {
                "dueAt": instant(turn.now, one.when),
                "task": one.task or turn.phrases.say("unnamed"),
                "tool": "",
                "arguments": "{}",
            }
            for one in intent.reminders
        ]
        return write_arguments("schedule", items=items, taskId="")
    if intent.action == "cancel" and "cancel" not in done:
        fitting = [one for one in turn.find_reminders() if one.fits(intent.words)]
        if len(fitting) == 1:
            return write_arguments("cancel", items=(), taskId=fitting[0].task_id)
    opening = None if done else OPENINGS.get(intent.action)
    return write_arguments(opening, items=(), taskId="") if opening else None


def describe_clock_result(turn: UnderstoodTurn, text: str) -> str | None:
    """Put what the clock answered into words, where it is of a known kind."""
    say = turn.phrases.say
    match decode(text, ClockResult):
        case ClockResult(ok=False, error=error) if error:
            return say("refused", error=error)
        case ClockResult(scheduled=items) if items:
            return promise_reminders(turn, items)
        case ClockResult(items=tuple(items)):
            return list_reminders(turn, items)
        case ClockResult(removed=task_id) if task_id:
            known = {item.task_id: item.task for item in turn.find_reminders()}
            return say("cancelled", task=known.get(task_id, task_id))
        case ClockResult(removed_count=int(count)):
            return say("cleared", count=count) if count else say("no_reminders")
        case ClockResult(local=local, timezone=zone) if local:
            return tell_time(turn, local, zone)
    return None


def promise_reminders(turn: UnderstoodTurn, items: Iterable[ListedReminder]) -> str:
    """Say what was set, when it will come back, and how."""
    phrases = turn.phrases
    times: dict[str, list[str]] = {"hold": [], "next_request": []}
    for item in items:
        how = "hold" if item.delivery == "hold" else "next_request"
        times[how].append(clock_time(item.due_at, turn.now))
    also = phrases.say("also")
    promises = [phrases.say(how, times=also.join(at)) for how, at in times.items() if at]
    tasks = phrases.say("scheduled", tasks="; ".join(item.task for item in items))
    return phrases.space.join((tasks, *promises))


def list_reminders(turn: UnderstoodTurn, items: Sequence[ListedReminder]) -> str:
    """Tell the reminders there are; or, if one was to be cancelled, ask which."""
    say, intent, words = turn.phrases.say, turn.reminders, None
    if intent is not None and intent.action == "cancel":
        words, items = intent.words, [item for item in items if item.delivered_at is None]
    shown = [
        say("brought", task=item.task)
        if item.delivered_at
        else say("reminder", task=item.task, time=clock_time(item.due_at, turn.now))
        for item in items
    ]
    return turn.tell_list("reminder", shown, items, words)


def tell_time(turn: UnderstoodTurn, local: str, zone: str) -> str:
    """Say what time it is; the clock writes it as `2026-02-02 13:22:38.229 -08:00`."""
    say = turn.phrases.say
    try:
        time = datetime.fromisoformat(local[:19])
    except ValueError:
        return say("result", tool=CLOCK, text=local)
    return say("time", time=f"{time:%H:%M:%S}", date=say("date", day=time), timezone=zone)


# Tasks that are done again and again.


def next_task_calls(turn: UnderstoodTurn) -> list[str]:
    """Write what `schedule_task` is told next, call by call; nothing when all is said."""
    intent = turn.tasks
    if SCHEDULE_TASK not in turn.dialogue.tools or intent is None:
        return []
    done = turn.find_actions(SCHEDULE_TASK)
    if not done:
        added = [write_addition(turn, task) for task in intent.tasks]
        return added if intent.action == "add" else [write_arguments("list")]
    if intent.action != "remove" or done != {"list"}:
        return []
    found = [task for task in turn.find_tasks() if task.fits(intent.words)]
    chosen = found if intent.every or len(found) == 1 else []
    return [write_arguments("remove", job_id=task.job_id) for task in chosen]


def write_addition(turn: UnderstoodTurn, task: RecurringTask) -> str:
    """Write the call that adds a task."""
    about = task.message or turn.phrases.say("unnamed")
    message = turn.phrases.say("remind", task=about) if task.reminds else task.message
    name = about[:LONGEST_NAME]
    return write_arguments("add", name=name, schedule_text=task.schedule, message=message)


def describe_task_result(turn: UnderstoodTurn, result: DialogueResult) -> str | None:
    """Put what `schedule_task` answered into words, where it is of a known kind."""
    say = turn.phrases.say
    match decode(result.text, TaskToolResult):
        case TaskToolResult(ok=False, error=error) if error:
            return say("refused", error=error)
        case TaskToolResult(action="add", job=ListedTask() as task):
            schedule = (decode(result.arguments, ToolArguments) or NO_ARGUMENTS).schedule_text
            planned = say("planned", schedule=schedule, task=task.name)
            if task.next_run_at is None:
                return planned
            first = say("first", time=clock_time(task.next_run_at, turn.now))
            return turn.phrases.space.join((planned, first))
        case TaskToolResult(jobs=tuple(tasks)):
            return list_tasks(turn, tasks)
        case TaskToolResult(removed=job_id) if job_id:
            known = {task.job_id: task.name for task in turn.find_tasks()}
            return say("cancelled", task=known.get(job_id, job_id))
    return None


def list_tasks(turn: UnderstoodTurn, tasks: Sequence[ListedTask]) -> str:
    """Tell the tasks there are; or, if one was to be removed, ask which."""
    say, intent = turn.phrases.say, turn.tasks
    shown = [
        say("task", task=task.name, time=clock_time(task.next_run_at, turn.now))
        if task.next_run_at
        else say("resting", task=task.name)
        for task in tasks
    ]
    words = intent.words if intent is not None and intent.action == "remove" else None
    return turn.tell_list("task", shown, tasks, words)
