"""Reminders of one session: what can be asked for, when each is due, and what becomes of it.

A task is scheduled, may be reserved by a turn (in memory, by gateway/reminders), and ends as
delivered, cancelled or expired. Everything here is a pure function of the session's tasks and of
the time, in UTC milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidInput
from gateway.timestamps import iso

EPOCH = datetime(1970, 1, 1)
# The years 1 to 9999: what is outside cannot be written as a date.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
MINUTE_MS = 60_000
# A leap year, so that the same day of the next year is always within it.
YEAR_MS = 366 * 24 * 60 * MINUTE_MS
TOOL_BYTES = 256
DEPTH = 128


class Reminder(msgspec.Struct, frozen=True, gc=False):
    """A reminder: what to do, and when."""

    id: str
    due_ms: int
    created_ms: int
    updated_ms: int
    text: str
    tool: str = ""
    arguments: str = ""
    """JSON: an object, compact and with its names in order, or a text; empty when there is none."""
    delivered_ms: int | None = None
    deliveries: int = 0
    guard: str = ""
    """The chain of the exchange that may not deliver it, since it asked for it just now."""
    session: str = ""
    setter: str = ""
    """The digest of the system text under which it was set, if tools were offered there."""
    main: str = ""
    """The main session, to which it passes if the sub-agent that set it does not take it."""
    passed: bool = False
    """Whether it is on its way there."""

    @property
    def is_pending(self) -> bool:
        """Whether it is still to be delivered, here."""
        return self.delivered_ms is None and not self.passed


class SessionReminders(msgspec.Struct, frozen=True, gc=False):
    """All reminders of a session, in the order in which they were asked for."""

    items: tuple[Reminder, ...] = ()


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What the operator says about reminders."""

    due_window_ms: int = 60_000
    retention_ms: int = 1_200_000
    most: int = 100
    text_bytes: int = 4096
    arguments_bytes: int = 8192


class ReminderRequest(msgspec.Struct, frozen=True, gc=False):
    """A reminder that can be scheduled."""

    due_ms: int
    text: str
    tool: str = ""
    arguments: str = ""


class ReminderOrigin(msgspec.Struct, frozen=True, gc=False):
    """Who schedules: a session, the chain of the exchange if there is one, what kind of request."""

    session: str = ""
    chain: str = ""
    setter: str = ""
    main: str = ""


def read_item(
    due_at: str, task: str, tool: str, arguments: str, now_ms: int, rules: Rules
) -> ReminderRequest:
    """Read what a model or a person wants to be reminded of, or raise `InvalidInput`."""
    return ReminderRequest(
        _read_due(due_at, now_ms, rules),
        _read_text(task, rules),
        _bounded(tool.strip(), "tool", TOOL_BYTES),
        _read_arguments(arguments, rules),
    )


_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:\.([0-9]+))?)?(?:[Zz]|([+-])([01][0-9]|2[0-3]):?([0-5][0-9]))"
)


def _read_due(due_at: str, now_ms: int, rules: Rules) -> int:
    match = _INSTANT.fullmatch(due_at.strip())
    if match is None:
        raise InvalidInput(
            f"dueAt must be a date, a time and an offset, as RFC 3339 writes them; "
            f"{_example(now_ms)}"
        )
    try:
        due_ms = _instant(match)
    except ValueError:
        raise InvalidInput(f"dueAt is not a real date and time; {_example(now_ms)}") from None
    if due_ms > now_ms + YEAR_MS:
        raise InvalidInput(f"dueAt is more than a year ahead; {_example(now_ms)}")
    if is_expired(due_ms, now_ms, rules):
        raise InvalidInput(f"dueAt is too long past; {_example(now_ms)}")
    return due_ms


def _instant(match: re.Match[str]) -> int:
    year, month, day, hour, minute = map(int, match.group(1, 2, 3, 4, 5))
    second = int(match[6] or 0)
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
    local = datetime(year, month, day, hour, minute, second) - EPOCH
    ms = local // timedelta(milliseconds=1) + int(f"{(fraction or '0')[:3]:0<3}")
    if sign is None:
        return ms
    offset = (int(hours) * 60 + int(minutes)) * MINUTE_MS
    return ms + offset if sign == "-" else ms - offset


def _example(now_ms: int) -> str:
    return f"it is now {iso(now_ms)}, so in ten minutes it is {iso(now_ms + 10 * MINUTE_MS)}."


def _read_text(task: str, rules: Rules) -> str:
    text = task.strip()
    if not text:
        raise InvalidInput("task is empty; say what there is to do when the time has come.")
    return _bounded(text, "task", rules.text_bytes)


def _bounded(text: str, name: str, most: int) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name}: a character in it is broken; leave that out.") from None
    if size > most:
        raise InvalidInput(
            f"{name}: {size} bytes are more than the {most} allowed; make it shorter."
        )
    return text


def _read_arguments(arguments: str, rules: Rules) -> str:
    text = _bounded(arguments.strip(), "arguments", rules.arguments_bytes)
    if not text:
        return ""
    value: dict[str, Any] | str
    try:
        value = _decode_object(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # They are only a hint, so what is no object serves as well.
        value = text
    if _is_deeper(value, DEPTH):
        raise InvalidInput(
            f"arguments are nested more than {DEPTH} levels deep; make them flatter."
        )
    return _bounded(_compact(value), "arguments", rules.arguments_bytes)


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def _compact(value: Mapping[str, Any] | str) -> str:
    # Names in order, so that equal arguments are equal texts.
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner: Iterable[object] = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def is_expired(due_ms: int, now_ms: int, rules: Rules) -> bool:
    """Tell whether what was due then is not to be delivered any more."""
    return now_ms > due_ms + rules.retention_ms


def schedule(
    tasks: SessionReminders,
    wanted: tuple[ReminderRequest, ...],
    origin: ReminderOrigin,
    now_ms: int,
    rules: Rules,
    new_id: Callable[[], str],
) -> tuple[SessionReminders, tuple[Reminder, ...]]:
    """Add all that is wanted, or raise `InvalidInput`; what is there already is not added again."""
    items = {task.id: task for task in tasks.items}
    pending = {_wish(task): task for task in tasks.items if task.is_pending}
    scheduled: list[Reminder] = []
    for one in wanted:
        guard = origin.chain if one.due_ms <= now_ms + rules.due_window_ms else ""
        if (known := pending.get(one)) is None:
            task = _new_task(new_id(), one, origin, now_ms, guard)
        else:
            task = _renewed(known, guard, origin.setter, now_ms)
        items[task.id] = pending[one] = task
        scheduled.append(task)
    return _with(tasks, _fitting(tuple(items.values()), rules.most)), tuple(scheduled)


def _wish(task: Reminder) -> ReminderRequest:
    return ReminderRequest(task.due_ms, task.text, task.tool, task.arguments)


def _new_task(
    id_: str, wanted: ReminderRequest, origin: ReminderOrigin, now_ms: int, guard: str
) -> Reminder:
    return Reminder(
        id=id_,
        due_ms=wanted.due_ms,
        created_ms=now_ms,
        updated_ms=now_ms,
        text=wanted.text,
        tool=wanted.tool,
        arguments=wanted.arguments,
        guard=guard,
        session=origin.session,
        setter=origin.setter,
        main=origin.main,
    )


def _renewed(task: Reminder, guard: str, setter: str, now_ms: int) -> Reminder:
    """Keep one that is asked for again, now also by this exchange, out of the exchange."""
    guard, setter = guard or task.guard, setter or task.setter
    if (guard, setter) == (task.guard, task.setter):
        return task
    return replace(task, guard=guard, setter=setter, updated_ms=now_ms)


def _fitting(items: tuple[Reminder, ...], most: int) -> tuple[Reminder, ...]:
    """Let the delivered ones that are oldest give way, where there are too many."""
    surplus = len(items) - most
    if surplus <= 0:
        return items
    done = sorted((t for t in items if t.delivered_ms is not None), key=_due_ms)
    if len(done) < surplus:
        raise InvalidInput(
            f"A session may have {most} reminders, and these would be {len(items) - len(done)}; "
            f"cancel some first."
        )
    gone = {task.id for task in done[:surplus]}
    return tuple(task for task in items if task.id not in gone)


def cancel(tasks: SessionReminders, task_id: str) -> tuple[SessionReminders, Reminder | None]:
    """Take one out; None if there is no such one."""
    found = next((task for task in tasks.items if task.id == task_id), None)
    return _with(tasks, tuple(task for task in tasks.items if task.id != task_id)), found


def clear(tasks: SessionReminders) -> tuple[SessionReminders, int]:
    """Take all out, and say how many there were."""
    return SessionReminders(), len(tasks.items)


def expire(
    tasks: SessionReminders, now_ms: int, rules: Rules, taken: Container[str] = ()
) -> tuple[SessionReminders, tuple[Reminder, ...]]:
    """Take out what has expired, but not what is being delivered; return the undelivered ones."""
    if not any(is_expired(task.due_ms, now_ms, rules) for task in tasks.items):
        return tasks, ()
    gone = {
        task.id
        for task in tasks.items
        if is_expired(task.due_ms, now_ms, rules) and task.id not in taken
    }
    lost = tuple(t for t in tasks.items if t.id in gone and t.delivered_ms is None)
    return _with(tasks, tuple(task for task in tasks.items if task.id not in gone)), lost


def due(
    tasks: SessionReminders, chain: str, now_ms: int, rules: Rules, taken: Container[str]
) -> tuple[Reminder, ...]:
    """Return those that a turn of this chain may carry now, by the time at which they are due."""
    ready_ms = now_ms + rules.due_window_ms
    ready = [t for t in _waiting(tasks, chain, now_ms, rules, taken) if t.due_ms <= ready_ms]
    if len(ready) > 1:
        ready.sort(key=_due_ms)
    return tuple(ready)


def next_ready(
    tasks: SessionReminders, chain: str, now_ms: int, rules: Rules, taken: Container[str]
) -> int | None:
    """Return when the next one may be carried by a turn of this chain, or None."""
    first = min(map(_due_ms, _waiting(tasks, chain, now_ms, rules, taken)), default=None)
    return None if first is None else first - rules.due_window_ms


def _waiting(
    tasks: SessionReminders, chain: str, now_ms: int, rules: Rules, taken: Container[str]
) -> list[Reminder]:
    return [
        task
        for task in tasks.items
        if task.is_pending
        and task.id not in taken
        and not (task.guard and task.guard == chain)
        and not is_expired(task.due_ms, now_ms, rules)
    ]


def deliver(tasks: SessionReminders, ids: Container[str], now_ms: int) -> SessionReminders:
    """Note that these were delivered; those that were delivered before stay as they are."""
    return _with(
        tasks,
        tuple(
            replace(task, delivered_ms=now_ms, deliveries=task.deliveries + 1, updated_ms=now_ms)
            if task.id in ids and task.delivered_ms is None
            else task
            for task in tasks.items
        ),
    )


def _due_ms(task: Reminder) -> int:
    return task.due_ms


def _with(tasks: SessionReminders, items: tuple[Reminder, ...]) -> SessionReminders:
    return tasks if items == tasks.items else SessionReminders(items)


def earliest_due(tasks: SessionReminders) -> int | None:
    """Return when the first of all is due, delivered or not: after that it has to be taken out."""
    return min(map(_due_ms, tasks.items), default=None)


def encode_reminders(tasks: SessionReminders) -> dict[str, object]:
    """Write a session's tasks as the members of its document."""
    return {"tasks": [_written(task) for task in tasks.items]}


def _written(task: Reminder) -> dict[str, object]:
    written: dict[str, object] = {
        "taskId": task.id,
        "sessionId": task.session,
        "dueAtMs": task.due_ms,
        "createdAtMs": task.created_ms,
        "updatedAtMs": task.updated_ms,
        "task": task.text,
    }
    if task.tool:
        written["tool"] = task.tool
    if task.arguments:
        written["arguments"] = msgspec.Raw(task.arguments.encode())
    if task.delivered_ms is not None:
        written["deliveredAtMs"] = task.delivered_ms
    written["deliveryCount"] = task.deliveries
    if task.guard:
        written["notBeforeRequestId"] = task.guard
    if task.setter:
        written["setter"] = task.setter
    if task.main:
        written["mainSessionId"] = task.main
    if task.passed:
        written["passed"] = True
    return written


Name = Annotated[str, msgspec.Meta(min_length=1)]
Instant = Annotated[int, msgspec.Meta(ge=FIRST_MS, le=LAST_MS)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Row(msgspec.Struct, rename="camel"):
    """A task as it stands in the document, perhaps written by hand."""

    task_id: Name
    due_at_ms: Instant
    task: str
    created_at_ms: Instant = 0
    updated_at_ms: Instant = 0
    tool: str | None = None
    arguments: dict[str, Any] | str | None = None
    delivered_at_ms: Instant | None = None
    delivery_count: Count = 0
    not_before_request_id: str | None = None
    setter: str | None = None
    main_session_id: str | None = None
    passed: bool = False


def decode_reminders(document: Mapping[str, Any]) -> SessionReminders:
    """Read a session's tasks from its document; an error of lookup, type or value if it is none."""
    session = document["sessionId"]
    rows = msgspec.convert(document["tasks"], list[_Row])
    return SessionReminders(tuple(_read_row(row, session) for row in rows))


def _read_row(row: _Row, session: str) -> Reminder:
    return Reminder(
        id=row.task_id,
        due_ms=row.due_at_ms,
        created_ms=row.created_at_ms,
        updated_ms=row.updated_at_ms,
        text=row.task,
        tool=row.tool or "",
        arguments=_compact(row.arguments or {}),
        delivered_ms=row.delivered_at_ms,
        deliveries=row.delivery_count,
        guard=row.not_before_request_id or "",
        # The document says whose it is; a task that was copied from another is its own.
        session=session,
        setter=row.setter or "",
        main=row.main_session_id or "",
        passed=row.passed,
    )
