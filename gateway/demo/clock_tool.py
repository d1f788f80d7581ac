"""What the demo model does with the clock: which call it makes next, and how it tells of it.

All of it works on the conversation, so it is the same in every dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from gateway.demo.calls import actions_of, decode_json
from gateway.demo.dialogue import Dialogue, ModelReply
from gateway.demo.moments import CurrentTime, clock_time, find_time, instant
from gateway.demo.phrases import Phrases, phrases_for
from gateway.demo.reminder_intents import (
    CancelReminder,
    ClearAllReminders,
    ListReminders,
    ReminderIntent,
    RemindSometime,
    SetReminders,
    TellTime,
    read_reminder_intent,
)
from gateway.demo.task_intents import AddTasks
from gateway.demo.task_tool import task_intent

CLOCK = "clock"
MARKS = (".", "!", "?", "…", "。", "！", "？")

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


ANSWER = msgspec.json.Decoder(ClockResult)


def due_news(dialogue: Dialogue) -> str:
    """Say what is due, if anything is."""
    if not dialogue.due:
        return ""
    phrases = phrases_for(dialogue.prompt or "".join(dialogue.due))
    return announcement(phrases, "; ".join(task.strip() for task in dialogue.due))


def announcement(phrases: Phrases, tasks: str) -> str:
    """Say that it is time."""
    said = phrases.due.format(tasks=tasks)
    return said if said.endswith(MARKS) else said + phrases.stop


def reminder_intent(dialogue: Dialogue) -> ReminderIntent | None:
    """Read what the person wants of the clock, apart from what is wanted again and again."""
    errand = task_intent(dialogue)
    if errand is None:
        return read_reminder_intent(dialogue.prompt)
    return read_reminder_intent(errand.rest) if isinstance(errand, AddTasks) else None


def clock_call(dialogue: Dialogue) -> str | None:
    """Write what the clock is told next for what the person wishes, if there is anything."""
    return next_call(dialogue, reminder_intent(dialogue)) if CLOCK in dialogue.tools else None


def needs_time(dialogue: Dialogue) -> bool:
    """Whether the clock is to be asked for the time before a reminder can be set."""
    wish = reminder_intent(dialogue) if CLOCK in dialogue.tools else None
    return isinstance(wish, SetReminders) and find_time(dialogue.messages) is None


def ask_when(dialogue: Dialogue) -> ModelReply | None:
    """Ask for the time of a reminder that has none."""
    if not isinstance(reminder_intent(dialogue), RemindSometime):
        return None
    return ModelReply(phrases_for(dialogue.prompt).when)


def regret(dialogue: Dialogue) -> ModelReply | None:
    """Say that without a clock there is neither time nor reminder."""
    if CLOCK in dialogue.tools or reminder_intent(dialogue) is None:
        return None
    return ModelReply(phrases_for(dialogue.prompt).no_clock)


def next_call(dialogue: Dialogue, wish: ReminderIntent | None) -> str | None:
    """Write the arguments of the next call a wish needs; none when it has all it needs."""
    done = actions_of(dialogue.calls, CLOCK)
    if isinstance(wish, SetReminders) and "schedule" not in done:
        now = find_time(dialogue.messages)
        if now is not None:
            return arguments_of(
                "schedule", items=items_for(wish, now, phrases_for(dialogue.prompt))
            )
    if isinstance(wish, CancelReminder) and "cancel" not in done:
        fitting = fits(wish, find_reminders(dialogue))
        if len(fitting) == 1:
            return arguments_of("cancel", task_id=fitting[0].task_id)
    opening = OPENINGS.get(type(wish)) if wish and not done else None
    return arguments_of(opening) if opening else None


def items_for(wish: SetReminders, now: CurrentTime, phrases: Phrases) -> tuple[dict[str, str], ...]:
    """Write reminders as the clock wants them."""
    return tuple(
        {
            "dueAt": instant(now, one.when),
            "task": one.task or phrases.task,
            "tool": "",
            "arguments": "{}",
        }
        for one in wish.reminders
    )


def arguments_of(action: str, items: Sequence[dict[str, str]] = (), task_id: str = "") -> str:
    """Write the arguments of a call; the clock's strict schema wants every key."""
    return msgspec.json.encode({"action": action, "items": items, "taskId": task_id}).decode()


def find_reminders(dialogue: Dialogue) -> tuple[ListedReminder, ...]:
    """Return the reminders the clock has listed since the prompt."""
    answers = (
        decode_json(ANSWER, result.text) for result in dialogue.learned if result.tool == CLOCK
    )
    return next((answer.items for answer in answers if answer and answer.items), ())


def to_come(items: Iterable[ListedReminder]) -> tuple[ListedReminder, ...]:
    """Return the reminders that were not brought yet."""
    return tuple(item for item in items if item.delivered_at is None)


def fits(wish: CancelReminder, items: Iterable[ListedReminder]) -> tuple[ListedReminder, ...]:
    """Return the reminders to come whose task has all the words of a wish."""
    return tuple(
        item for item in to_come(items) if all(word in item.task.lower() for word in wish.words)
    )


def clock_sentence(dialogue: Dialogue, phrases: Phrases, result: str) -> str | None:
    """Put what the clock answered into words, where it is of a known kind."""
    now = find_time(dialogue.messages)
    match decode_json(ANSWER, result):
        case ClockResult(ok=False, error=error) if error:
            return phrases.refused.format(error=error)
        case ClockResult(scheduled=items) if items:
            return promise(phrases, items, now)
        case ClockResult(items=tuple(items)):
            wish = reminder_intent(dialogue)
            if isinstance(wish, CancelReminder):
                return question(phrases, to_come(items), now, wish)
            return listing(phrases, items, now)
        case ClockResult(removed=task_id) if task_id:
            known = {item.task_id: item.task for item in find_reminders(dialogue)}
            return phrases.cancelled.format(task=known.get(task_id, task_id))
        case ClockResult(removed_count=int(count)):
            return phrases.cleared.format(count=count) if count else phrases.no_reminders
        case ClockResult(local=local, timezone=zone) if local:
            return time_sentence(phrases, local, zone)
    return None


def promise(phrases: Phrases, items: Sequence[ListedReminder], now: CurrentTime | None) -> str:
    """Say what was set, when it will come back, and how."""
    said = [phrases.scheduled.format(tasks="; ".join(item.task for item in items))]
    for held, how in ((True, phrases.hold), (False, phrases.next_request)):
        times = [clock_time(i.due_at, now) for i in items if (i.delivery == "hold") is held]
        said += [how.format(times=phrases.also.join(times))] if times else []
    return phrases.space.join(said)


def listing(phrases: Phrases, items: Iterable[ListedReminder], now: CurrentTime | None) -> str:
    """Tell the reminders there are."""
    shown = "; ".join(
        phrases.brought.format(task=item.task)
        if item.delivered_at
        else phrases.item.format(task=item.task, time=clock_time(item.due_at, now))
        for item in items
    )
    return phrases.listed.format(items=shown) if shown else phrases.no_reminders


def question(
    phrases: Phrases, items: Sequence[ListedReminder], now: CurrentTime | None, wish: CancelReminder
) -> str:
    """Say why none of the reminders was cancelled: none fits, or several do."""
    if not items:
        return phrases.no_reminders
    why = (
        phrases.which if fits(wish, items) else phrases.none_fits.format(words=" ".join(wish.words))
    )
    return phrases.space.join((why, listing(phrases, items, now)))


def time_sentence(phrases: Phrases, local: str, zone: str) -> str:
    """Say what time it is; the clock writes it as `2026-02-02 13:22:38.229 -08:00`."""
    try:
        time = datetime.fromisoformat(local[:19])
    except ValueError:
        return phrases.result.format(tool=CLOCK, text=local)
    return phrases.time.format(
        time=f"{time:%H:%M:%S}", date=phrases.date.format(time), timezone=zone
    )
