"""Reminders of one session: what can be asked for, when each is due, and what becomes of it.

What a model or a person writes is read into a `ReminderRequest` once (clock_calls.py, `read_item`);
inside it is trusted. Scheduled, it is a `Reminder`, one of the `ReminderList` that make the
document. It may be held by a turn, which only the ledger knows (gateway/outbox/ledger.py) and tells
here by the ids that are `taken`, and it ends as delivered, cancelled or expired. Everything here is
a pure function of the session's reminders and of the time, in UTC milliseconds. Invariants:

1. A reminder that was delivered stays so, and is delivered once: `deliver` passes by all others.
2. What is asked for twice is one reminder while it waits, and another one once it was delivered.
3. An exchange that asks for something that is due at once does not get it itself
   (`not_before_exchange`): it would be told of it in the same breath. The next one may.
4. A session never has more than `rules.most`; only those that were delivered give way to new ones.
5. Nothing expires while a turn carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidInput

# The years 1 to 9999: what is outside cannot be written as a date.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


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
    not_before_exchange: str = ""
    """The exchange that may not deliver it, since it asked for it just now."""
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


class ReminderList(msgspec.Struct, frozen=True, gc=False):
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
    """Who schedules: a session, the exchange if there is one, what kind of request."""

    session: str = ""
    exchange_id: str = ""
    setter: str = ""
    main: str = ""


def compact_json(value: Mapping[str, Any] | str) -> str:
    """Write the arguments of a tool; nothing for an object or a text that is empty."""
    # Names in order, so that equal arguments are equal texts.
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def is_expired(due_ms: int, now_ms: int, rules: Rules) -> bool:
    """Tell whether what was due then is not to be delivered any more."""
    return now_ms > due_ms + rules.retention_ms


def schedule(
    reminders: ReminderList,
    wanted: tuple[ReminderRequest, ...],
    origin: ReminderOrigin,
    now_ms: int,
    rules: Rules,
    new_id: Callable[[], str],
) -> tuple[ReminderList, tuple[Reminder, ...]]:
    """Add all that is wanted, or raise `InvalidInput`; what is there already is not added again."""
    items = {one.id: one for one in reminders.items}
    # By what was asked for: that is what makes two of them the same.
    pending = {
        ReminderRequest(one.due_ms, one.text, one.tool, one.arguments): one
        for one in reminders.items
        if one.is_pending
    }
    scheduled: list[Reminder] = []
    for request in wanted:
        is_due = request.due_ms <= now_ms + rules.due_window_ms
        not_before = origin.exchange_id if is_due else ""
        if (known := pending.get(request)) is None:
            reminder = Reminder(
                id=new_id(),
                due_ms=request.due_ms,
                created_ms=now_ms,
                updated_ms=now_ms,
                text=request.text,
                tool=request.tool,
                arguments=request.arguments,
                not_before_exchange=not_before,
                session=origin.session,
                setter=origin.setter,
                main=origin.main,
            )
        else:
            reminder = _ask_again(known, not_before, origin.setter, now_ms)
        # Also what is wanted twice in one call is one reminder.
        items[reminder.id] = pending[request] = reminder
        scheduled.append(reminder)
    fitting = _drop_surplus(tuple(items.values()), rules.most)
    return _replace_items(reminders, fitting), tuple(scheduled)


def _ask_again(reminder: Reminder, not_before: str, setter: str, now_ms: int) -> Reminder:
    """Keep one that is asked for again, now also by this exchange, out of the exchange."""
    not_before = not_before or reminder.not_before_exchange
    setter = setter or reminder.setter
    if (not_before, setter) == (reminder.not_before_exchange, reminder.setter):
        return reminder
    return replace(reminder, not_before_exchange=not_before, setter=setter, updated_ms=now_ms)


def _drop_surplus(items: tuple[Reminder, ...], most: int) -> tuple[Reminder, ...]:
    """Let the delivered ones that are oldest give way, where there are too many."""
    surplus = len(items) - most
    if surplus <= 0:
        return items
    done = sorted((one for one in items if one.delivered_ms is not None), key=_due_ms)
    # Those that wait were promised to somebody, and give way to nobody.
    if len(done) < surplus:
        raise InvalidInput(
            f"A session can have at most {most} reminders, and this would make "
            f"{len(items) - len(done)}; cancel some first."
        )
    gone = {one.id for one in done[:surplus]}
    return tuple(one for one in items if one.id not in gone)


def cancel(reminders: ReminderList, reminder_id: str) -> tuple[ReminderList, Reminder | None]:
    """Take one out; None if there is no such one."""
    found = next((one for one in reminders.items if one.id == reminder_id), None)
    left = tuple(one for one in reminders.items if one.id != reminder_id)
    return _replace_items(reminders, left), found


def clear(reminders: ReminderList) -> tuple[ReminderList, int]:
    """Take all out, and say how many there were."""
    return ReminderList(), len(reminders.items)


def expire(
    reminders: ReminderList, now_ms: int, rules: Rules, taken: Container[str] = ()
) -> tuple[ReminderList, tuple[Reminder, ...]]:
    """Take out what has expired, but not what is being delivered; return the undelivered ones."""
    gone = {
        one.id
        for one in reminders.items
        if is_expired(one.due_ms, now_ms, rules) and one.id not in taken
    }
    # Nearly always: then nothing is copied, and whoever asks sees that nothing changed.
    if not gone:
        return reminders, ()
    lost = tuple(one for one in reminders.items if one.id in gone and one.delivered_ms is None)
    left = tuple(one for one in reminders.items if one.id not in gone)
    return _replace_items(reminders, left), lost


def due(
    reminders: ReminderList, exchange_id: str, now_ms: int, rules: Rules, taken: Container[str]
) -> tuple[Reminder, ...]:
    """Return those that a turn of this exchange may carry now, by the time they are due."""
    ready_ms = now_ms + rules.due_window_ms
    waiting = _find_waiting(reminders, exchange_id, now_ms, rules, taken)
    return tuple(sorted((one for one in waiting if one.due_ms <= ready_ms), key=_due_ms))


def next_ready(
    reminders: ReminderList, exchange_id: str, now_ms: int, rules: Rules, taken: Container[str]
) -> int | None:
    """Return when the next one may be carried by a turn of this exchange, or None."""
    waiting = _find_waiting(reminders, exchange_id, now_ms, rules, taken)
    first = min(map(_due_ms, waiting), default=None)
    return None if first is None else first - rules.due_window_ms


def _find_waiting(
    reminders: ReminderList, exchange_id: str, now_ms: int, rules: Rules, taken: Container[str]
) -> list[Reminder]:
    return [
        one
        for one in reminders.items
        if one.is_pending
        and one.id not in taken
        # Requests without an exchange, by REST or by hand, keep nobody from anything.
        and not (one.not_before_exchange and one.not_before_exchange == exchange_id)
        and not is_expired(one.due_ms, now_ms, rules)
    ]


def deliver(reminders: ReminderList, ids: Container[str], now_ms: int) -> ReminderList:
    """Note that these were delivered; those that were delivered before stay as they are."""
    delivered = tuple(
        replace(one, delivered_ms=now_ms, deliveries=one.deliveries + 1, updated_ms=now_ms)
        if one.id in ids and one.delivered_ms is None
        else one
        for one in reminders.items
    )
    return _replace_items(reminders, delivered)


def _due_ms(reminder: Reminder) -> int:
    return reminder.due_ms


def _replace_items(reminders: ReminderList, items: tuple[Reminder, ...]) -> ReminderList:
    # The same value where nothing changed: a store then writes nothing.
    return reminders if items == reminders.items else ReminderList(items)


def earliest_due(reminders: ReminderList) -> int | None:
    """Return when the first of all is due, delivered or not: after that it has to be taken out."""
    return min(map(_due_ms, reminders.items), default=None)


# The document of a session's reminders. Members keep the names that they have always had: a
# reminder is a `task` here, and what keeps it from the exchange that asked for it is
# `notBeforeRequestId`. People may have edited the document, or have left members out, so it is read
# by a type of its own that is checked and lenient.


def encode_reminders(reminders: ReminderList) -> dict[str, object]:
    """Write a session's reminders as the members of its document."""
    return {"tasks": [_encode_reminder(reminder) for reminder in reminders.items]}


def _encode_reminder(reminder: Reminder) -> dict[str, object]:
    written: dict[str, object] = {
        "taskId": reminder.id,
        "sessionId": reminder.session,
        "dueAtMs": reminder.due_ms,
        "createdAtMs": reminder.created_ms,
        "updatedAtMs": reminder.updated_ms,
        "task": reminder.text,
    }
    if reminder.tool:
        written["tool"] = reminder.tool
    if reminder.arguments:
        written["arguments"] = msgspec.Raw(reminder.arguments.encode())
    if reminder.delivered_ms is not None:
        written["deliveredAtMs"] = reminder.delivered_ms
    written["deliveryCount"] = reminder.deliveries
    if reminder.not_before_exchange:
        written["notBeforeRequestId"] = reminder.not_before_exchange
    if reminder.setter:
        written["setter"] = reminder.setter
    if reminder.main:
        written["mainSessionId"] = reminder.main
    if reminder.passed:
        written["passed"] = True
    return written


_Id = Annotated[str, msgspec.Meta(min_length=1)]
_Instant = Annotated[int, msgspec.Meta(ge=FIRST_MS, le=LAST_MS)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _StoredReminder(msgspec.Struct, rename="camel"):
    """A reminder as it stands in the document."""

    task_id: _Id
    due_at_ms: _Instant
    task: str
    created_at_ms: _Instant = 0
    updated_at_ms: _Instant = 0
    tool: str | None = None
    arguments: dict[str, Any] | str | None = None
    delivered_at_ms: _Instant | None = None
    delivery_count: _Count = 0
    not_before_request_id: str | None = None
    setter: str | None = None
    main_session_id: str | None = None
    passed: bool = False


def decode_reminders(document: Mapping[str, Any]) -> ReminderList:
    """Read them from a document; an error of lookup, type or value if it is none."""
    session = document["sessionId"]
    rows = msgspec.convert(document["tasks"], list[_StoredReminder])
    return ReminderList(tuple(_read_row(row, session) for row in rows))


def _read_row(row: _StoredReminder, session: str) -> Reminder:
    return Reminder(
        id=row.task_id,
        due_ms=row.due_at_ms,
        created_ms=row.created_at_ms,
        updated_ms=row.updated_at_ms,
        text=row.task,
        tool=row.tool or "",
        arguments=compact_json(row.arguments or {}),
        delivered_ms=row.delivered_at_ms,
        deliveries=row.delivery_count,
        not_before_exchange=row.not_before_request_id or "",
        # The document says whose it is; one that was copied from another is its own.
        session=session,
        setter=row.setter or "",
        main=row.main_session_id or "",
        passed=row.passed,
    )
