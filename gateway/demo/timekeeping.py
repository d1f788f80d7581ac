"""What the demo model does with the clock: which call it makes next, and how it tells of it.

All of it works on the conversation, so it is the same in every dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from gateway.demo.calls import actions_of, decoded
from gateway.demo.conversation import Conversation, Reply
from gateway.demo.errands import AddTasks
from gateway.demo.moments import Now, clock_time, instant, told_time
from gateway.demo.phrases import Tongue, tongue_for
from gateway.demo.planning import errand_in
from gateway.demo.wishes import (
    CancelReminder,
    ClearReminders,
    ListReminders,
    RemindSometime,
    SetReminders,
    TellTime,
    Wish,
    wish_of,
)

CLOCK = "clock"
MARKS = (".", "!", "?", "…", "。", "！", "？")

# What is asked of the clock first; setting a reminder needs the time only if no tag tells it.
OPENINGS: dict[type[Wish], str] = {
    SetReminders: "get",
    TellTime: "get",
    ListReminders: "list",
    CancelReminder: "list",
    ClearReminders: "clear",
}


class Item(msgspec.Struct, frozen=True, rename="camel"):
    """One reminder in an answer of the clock."""

    due_at: str
    task: str
    task_id: str = ""
    delivery: str = ""
    delivered_at: str | None = None


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the clock answered, whatever it was asked to do."""

    ok: bool = True
    error: str = ""
    scheduled: tuple[Item, ...] = ()
    items: tuple[Item, ...] | None = None
    removed: str = ""
    removed_count: int | None = None
    local: str = ""
    timezone: str = ""


ANSWER = msgspec.json.Decoder(Answer)


def due_news(talk: Conversation) -> str:
    """Say what is due, if anything is."""
    if not talk.due:
        return ""
    tongue = tongue_for(talk.prompt or "".join(talk.due))
    return announcement(tongue, "; ".join(task.strip() for task in talk.due))


def announcement(tongue: Tongue, tasks: str) -> str:
    """Say that it is time."""
    said = tongue.due.format(tasks=tasks)
    return said if said.endswith(MARKS) else said + tongue.stop


def wish_in(talk: Conversation) -> Wish | None:
    """Read what the person wants of the clock, apart from what is wanted again and again."""
    errand = errand_in(talk)
    if errand is None:
        return wish_of(talk.prompt)
    return wish_of(errand.rest) if isinstance(errand, AddTasks) else None


def clock_call(talk: Conversation) -> str | None:
    """Write what the clock is told next for what the person wishes, if there is anything."""
    return next_call(talk, wish_in(talk)) if CLOCK in talk.tools else None


def needs_time(talk: Conversation) -> bool:
    """Whether the clock is to be asked for the time before a reminder can be set."""
    wish = wish_in(talk) if CLOCK in talk.tools else None
    return isinstance(wish, SetReminders) and told_time(talk.messages) is None


def ask_when(talk: Conversation) -> Reply | None:
    """Ask for the time of a reminder that has none."""
    if not isinstance(wish_in(talk), RemindSometime):
        return None
    return Reply(tongue_for(talk.prompt).when)


def regret(talk: Conversation) -> Reply | None:
    """Say that without a clock there is neither time nor reminder."""
    if CLOCK in talk.tools or wish_in(talk) is None:
        return None
    return Reply(tongue_for(talk.prompt).no_clock)


def next_call(talk: Conversation, wish: Wish | None) -> str | None:
    """Write the arguments of the next call a wish needs; none when it has all it needs."""
    done = actions_of(talk.calls, CLOCK)
    if isinstance(wish, SetReminders) and "schedule" not in done:
        now = told_time(talk.messages)
        if now is not None:
            return arguments_of("schedule", items=items_for(wish, now, tongue_for(talk.prompt)))
    if isinstance(wish, CancelReminder) and "cancel" not in done:
        fitting = fits(wish, listed_in(talk))
        if len(fitting) == 1:
            return arguments_of("cancel", task_id=fitting[0].task_id)
    opening = OPENINGS.get(type(wish)) if wish and not done else None
    return arguments_of(opening) if opening else None


def items_for(wish: SetReminders, now: Now, tongue: Tongue) -> tuple[dict[str, str], ...]:
    """Write reminders as the clock wants them."""
    return tuple(
        {
            "dueAt": instant(now, one.when),
            "task": one.task or tongue.task,
            "tool": "",
            "arguments": "{}",
        }
        for one in wish.reminders
    )


def arguments_of(action: str, items: Sequence[dict[str, str]] = (), task_id: str = "") -> str:
    """Write the arguments of a call; the clock's strict schema wants every key."""
    return msgspec.json.encode({"action": action, "items": items, "taskId": task_id}).decode()


def listed_in(talk: Conversation) -> tuple[Item, ...]:
    """Return the reminders the clock has listed since the prompt."""
    answers = (decoded(ANSWER, result.text) for result in talk.learned if result.tool == CLOCK)
    return next((answer.items for answer in answers if answer and answer.items), ())


def to_come(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the reminders that were not brought yet."""
    return tuple(item for item in items if item.delivered_at is None)


def fits(wish: CancelReminder, items: Iterable[Item]) -> tuple[Item, ...]:
    """Return the reminders to come whose task has all the words of a wish."""
    return tuple(
        item for item in to_come(items) if all(word in item.task.lower() for word in wish.words)
    )


def clock_sentence(talk: Conversation, tongue: Tongue, result: str) -> str | None:
    """Put what the clock answered into words, where it is of a known kind."""
    now = told_time(talk.messages)
    match decoded(ANSWER, result):
        case Answer(ok=False, error=error) if error:
            return tongue.refused.format(error=error)
        case Answer(scheduled=items) if items:
            return promise(tongue, items, now)
        case Answer(items=tuple(items)):
            wish = wish_in(talk)
            if isinstance(wish, CancelReminder):
                return question(tongue, to_come(items), now, wish)
            return listing(tongue, items, now)
        case Answer(removed=task_id) if task_id:
            known = {item.task_id: item.task for item in listed_in(talk)}
            return tongue.cancelled.format(task=known.get(task_id, task_id))
        case Answer(removed_count=int(count)):
            return tongue.cleared.format(count=count) if count else tongue.no_reminders
        case Answer(local=local, timezone=zone) if local:
            return time_sentence(tongue, local, zone)
    return None


def promise(tongue: Tongue, items: Sequence[Item], now: Now | None) -> str:
    """Say what was set, when it will come back, and how."""
    said = [tongue.scheduled.format(tasks="; ".join(item.task for item in items))]
    for held, how in ((True, tongue.hold), (False, tongue.next_request)):
        times = [clock_time(i.due_at, now) for i in items if (i.delivery == "hold") is held]
        said += [how.format(times=tongue.also.join(times))] if times else []
    return tongue.space.join(said)


def listing(tongue: Tongue, items: Iterable[Item], now: Now | None) -> str:
    """Tell the reminders there are."""
    shown = "; ".join(
        tongue.brought.format(task=item.task)
        if item.delivered_at
        else tongue.item.format(task=item.task, time=clock_time(item.due_at, now))
        for item in items
    )
    return tongue.listed.format(items=shown) if shown else tongue.no_reminders


def question(tongue: Tongue, items: Sequence[Item], now: Now | None, wish: CancelReminder) -> str:
    """Say why none of the reminders was cancelled: none fits, or several do."""
    if not items:
        return tongue.no_reminders
    why = tongue.which if fits(wish, items) else tongue.none_fits.format(words=" ".join(wish.words))
    return tongue.space.join((why, listing(tongue, items, now)))


def time_sentence(tongue: Tongue, local: str, zone: str) -> str:
    """Say what time it is; the clock writes it as `2026-02-02 13:22:38.229 -08:00`."""
    try:
        time = datetime.fromisoformat(local[:19])
    except ValueError:
        return tongue.result.format(tool=CLOCK, text=local)
    return tongue.time.format(time=f"{time:%H:%M:%S}", date=tongue.date.format(time), timezone=zone)
