"""What the demo model does with `clock`: which call it makes next, and how it tells of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from gateway.demo.intents import (
    CancelReminder,
    ClearAllReminders,
    ListReminders,
    ReminderIntent,
    SetReminders,
    TellTime,
)
from gateway.demo.times import clock_time, instant
from gateway.demo.turn import CLOCK, UnderstoodTurn, decode_json

# What is asked of the clock first; setting a reminder needs the time only if no tag tells it.
OPENINGS: dict[type[ReminderIntent], str] = {
    SetReminders: "get",
    TellTime: "get",
    ListReminders: "list",
    CancelReminder: "list",
    ClearAllReminders: "clear",
}


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


RESULT = msgspec.json.Decoder(ClockResult)


def needs_time(turn: UnderstoodTurn) -> bool:
    """Whether the clock is to be asked for the time before a reminder can be set."""
    wanted = CLOCK in turn.dialogue.tools and isinstance(turn.reminders, SetReminders)
    return wanted and turn.now is None


def next_clock_call(turn: UnderstoodTurn) -> str | None:
    """Write the arguments of the next call; none when all that was wanted is known or done."""
    if CLOCK not in turn.dialogue.tools or turn.reminders is None:
        return None
    done = turn.find_actions(CLOCK)
    if isinstance(turn.reminders, SetReminders) and "schedule" not in done and turn.now:
        items = [
            {
                "dueAt": instant(turn.now, one.when),
                "task": one.task or turn.phrases.say("unnamed"),
                "tool": "",
                "arguments": "{}",
            }
            for one in turn.reminders.reminders
        ]
        return write_arguments("schedule", items=items)
    if isinstance(turn.reminders, CancelReminder) and "cancel" not in done:
        fitting = [one for one in find_reminders(turn) if one.fits(turn.reminders.words)]
        if len(fitting) == 1:
            return write_arguments("cancel", task_id=fitting[0].task_id)
    opening = None if done else OPENINGS.get(type(turn.reminders))
    return write_arguments(opening) if opening else None


def write_arguments(action: str, items: Sequence[dict[str, str]] = (), task_id: str = "") -> str:
    """Write the arguments of a call; the clock's strict schema wants every key."""
    return msgspec.json.encode({"action": action, "items": items, "taskId": task_id}).decode()


def find_reminders(turn: UnderstoodTurn) -> tuple[ListedReminder, ...]:
    """Return the reminders the clock has listed since the prompt."""
    return next((result.items for result in turn.find_results(CLOCK, RESULT) if result.items), ())


def describe_clock_result(turn: UnderstoodTurn, text: str) -> str | None:
    """Put what the clock answered into words, where it is of a known kind."""
    say = turn.phrases.say
    match decode_json(RESULT, text):
        case ClockResult(ok=False, error=error) if error:
            return say("refused", error=error)
        case ClockResult(scheduled=items) if items:
            return promise_reminders(turn, items)
        case ClockResult(items=tuple(items)):
            return list_reminders(turn, items)
        case ClockResult(removed=task_id) if task_id:
            known = {item.task_id: item.task for item in find_reminders(turn)}
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


def list_reminders(turn: UnderstoodTurn, items: Iterable[ListedReminder]) -> str:
    """Tell the reminders there are; or, if one was to be cancelled, ask which."""
    say, intent = turn.phrases.say, turn.reminders
    asks = isinstance(intent, CancelReminder)
    shown = [
        say("brought", task=item.task)
        if item.delivered_at
        else say("reminder", task=item.task, time=clock_time(item.due_at, turn.now))
        for item in items
        if not (asks and item.delivered_at is not None)
    ]
    if not isinstance(intent, CancelReminder):
        return turn.tell_list("reminder", shown)
    fits = any(item.fits(intent.words) for item in items)
    return turn.ask_which("reminder", shown, intent.words, fits)


def tell_time(turn: UnderstoodTurn, local: str, zone: str) -> str:
    """Say what time it is; the clock writes it as `2026-02-02 13:22:38.229 -08:00`."""
    say = turn.phrases.say
    try:
        time = datetime.fromisoformat(local[:19])
    except ValueError:
        return say("result", tool=CLOCK, text=local)
    return say("time", time=f"{time:%H:%M:%S}", date=say("date", day=time), timezone=zone)
