"""Reminders of one session: how they are scheduled, when they are due, and how they end.

What a model or a person writes is read into a `ReminderRequest` once (clock_calls.py, `read_item`);
after that it is trusted. When it is scheduled, it becomes a `Reminder` in the `ReminderList`, which
is the session's document. A turn may carry a reminder; the ledger knows that
(gateway/outbox/ledger.py), or in a store that instances share the document (`Reservation`), and the
ids of such reminders are passed as `taken`. A reminder ends as delivered, cancelled or expired.
Everything here is a pure function of the session's reminders and of the time, in UTC milliseconds.
Invariants:

1. A delivered reminder stays delivered, and is delivered once: `deliver` skips delivered ones.
2. The same request twice is one reminder while it waits; after the delivery it is a new one.
3. An exchange that schedules a reminder that is due at once does not deliver it itself
   (`not_before_exchange`), since its model has just asked for it. The next exchange may.
4. A session never has more than `rules.most`; new ones only replace delivered ones.
5. Nothing expires while a turn carries it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from gateway.errors import InvalidInput

# The years 1 to 9999: times outside of them cannot be written as a date.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """The turn of some instance that carries a reminder, in a store that instances share."""

    instance: str
    token: str


class Reminder(msgspec.Struct, frozen=True, gc=False):
    """A reminder: what to do, and when."""

    id: str
    due_ms: int
    created_ms: int
    updated_ms: int
    text: str
    tool: str = ""
    arguments: str = ""
    """JSON: an object, compact and with sorted names, or a string; empty if there are none."""
    delivered_ms: int | None = None
    deliveries: int = 0
    not_before_exchange: str = ""
    """The exchange that may not deliver it, because it has just scheduled it."""
    session: str = ""
    setter: str = ""
    """The digest of the system text under which it was set, if tools were offered there."""
    main: str = ""
    """The main session, which gets it if the sub-agent that set it does not take it."""
    passed: bool = False
    """Whether it is being handed over to the main session."""
    reserved: Reservation | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it is still to be delivered in this session."""
        return self.delivered_ms is None and not self.passed


class ReminderList(msgspec.Struct, frozen=True, gc=False):
    """All reminders of a session, in the order in which they were scheduled."""

    items: tuple[Reminder, ...] = ()


class Rules(msgspec.Struct, frozen=True, gc=False):
    """The operator's settings for reminders."""

    due_window_ms: int = 60_000
    retention_ms: int = 1_200_000
    most: int = 100
    text_bytes: int = 4096
    arguments_bytes: int = 8192


class ReminderRequest(msgspec.Struct, frozen=True, gc=False):
    """A valid request for a reminder."""

    due_ms: int
    text: str
    tool: str = ""
    arguments: str = ""


class ReminderOrigin(msgspec.Struct, frozen=True, gc=False):
    """Who schedules a reminder: the session, the exchange if any, and the kind of request."""

    session: str = ""
    exchange_id: str = ""
    setter: str = ""
    main: str = ""


def compact_json(value: Mapping[str, Any] | str) -> str:
    """Write the arguments of a tool as JSON; empty for an empty object or text."""
    # With sorted names, equal arguments are equal texts.
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def is_expired(due_ms: int, now_ms: int, rules: Rules) -> bool:
    """Return whether a reminder is too old to be delivered."""
    return now_ms > due_ms + rules.retention_ms


def schedule(
    reminders: ReminderList,
    wanted: tuple[ReminderRequest, ...],
    origin: ReminderOrigin,
    now_ms: int,
    rules: Rules,
    new_id: Callable[[], str],
) -> tuple[ReminderList, tuple[Reminder, ...]]:
    """Add all wanted reminders, or raise `InvalidInput`; one that exists is not added again."""
    items = {one.id: one for one in reminders.items}
    # By request: two reminders of equal requests are the same.
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
        # The same request twice in one call is one reminder, too.
        items[reminder.id] = pending[request] = reminder
        scheduled.append(reminder)
    fitting = _drop_surplus(tuple(items.values()), rules.most)
    return _replace_items(reminders, fitting), tuple(scheduled)


def _ask_again(reminder: Reminder, not_before: str, setter: str, now_ms: int) -> Reminder:
    """Update a waiting reminder that is requested again: this exchange may not deliver it."""
    not_before = not_before or reminder.not_before_exchange
    setter = setter or reminder.setter
    if (not_before, setter) == (reminder.not_before_exchange, reminder.setter):
        return reminder
    return replace(reminder, not_before_exchange=not_before, setter=setter, updated_ms=now_ms)


def _drop_surplus(items: tuple[Reminder, ...], most: int) -> tuple[Reminder, ...]:
    """Drop the oldest delivered reminders if there are too many; raise if that is not enough."""
    surplus = len(items) - most
    if surplus <= 0:
        return items
    done = sorted((one for one in items if one.delivered_ms is not None), key=_due_ms)
    # Waiting reminders were promised to somebody, so they are never dropped.
    if len(done) < surplus:
        raise InvalidInput(
            f"A session can have at most {most} reminders, and this would make "
            f"{len(items) - len(done)}; cancel some first."
        )
    gone = {one.id for one in done[:surplus]}
    return tuple(one for one in items if one.id not in gone)


def cancel(reminders: ReminderList, reminder_id: str) -> tuple[ReminderList, Reminder | None]:
    """Remove a reminder; return it, or None if there is no such reminder."""
    found = next((one for one in reminders.items if one.id == reminder_id), None)
    left = tuple(one for one in reminders.items if one.id != reminder_id)
    return _replace_items(reminders, left), found


def clear(reminders: ReminderList) -> tuple[ReminderList, int]:
    """Remove all reminders; return how many there were."""
    return ReminderList(), len(reminders.items)


def expire(
    reminders: ReminderList, now_ms: int, rules: Rules, taken: Container[str] = ()
) -> tuple[ReminderList, tuple[Reminder, ...]]:
    """Remove expired reminders except those taken; return the removed undelivered ones."""
    gone = {
        one.id
        for one in reminders.items
        if is_expired(one.due_ms, now_ms, rules) and one.id not in taken
    }
    # The usual case: nothing is copied, and callers see by identity that nothing changed.
    if not gone:
        return reminders, ()
    lost = tuple(one for one in reminders.items if one.id in gone and one.delivered_ms is None)
    left = tuple(one for one in reminders.items if one.id not in gone)
    return _replace_items(reminders, left), lost


def due(
    reminders: ReminderList, exchange_id: str, now_ms: int, rules: Rules, taken: Container[str]
) -> tuple[Reminder, ...]:
    """Return the reminders that a turn of this exchange may carry now, sorted by due time."""
    ready_ms = now_ms + rules.due_window_ms
    waiting = _find_waiting(reminders, exchange_id, now_ms, rules, taken)
    return tuple(sorted((one for one in waiting if one.due_ms <= ready_ms), key=_due_ms))


def next_ready(
    reminders: ReminderList, exchange_id: str, now_ms: int, rules: Rules, taken: Container[str]
) -> int | None:
    """Return when a turn of this exchange may carry the next reminder; None if there is none."""
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
        # Reminders set without an exchange, such as by REST, may be delivered by any exchange.
        and not (one.not_before_exchange and one.not_before_exchange == exchange_id)
        and not is_expired(one.due_ms, now_ms, rules)
    ]


def deliver(
    reminders: ReminderList, ids: Container[str], now_ms: int, token: str = ""
) -> ReminderList:
    """Mark reminders as delivered; those delivered before stay as they are.

    With a token, only those that are still reserved by it.
    """
    return _replace_items(
        reminders,
        tuple(
            _mark_delivered(one, now_ms)
            if one.id in ids and one.delivered_ms is None and token in ("", _token(one))
            else one
            for one in reminders.items
        ),
    )


def _mark_delivered(one: Reminder, now_ms: int) -> Reminder:
    count = one.deliveries + 1
    return replace(one, delivered_ms=now_ms, deliveries=count, updated_ms=now_ms, reserved=None)


def reserve(reminders: ReminderList, ids: Container[str], reservation: Reservation) -> ReminderList:
    """Reserve reminders for a turn, in place of whoever had them."""
    items = (
        replace(one, reserved=reservation) if one.id in ids else one for one in reminders.items
    )
    return _replace_items(reminders, tuple(items))


def release(reminders: ReminderList, tokens: Container[str]) -> ReminderList:
    """End the reservations that have one of these tokens."""
    items = (
        replace(one, reserved=None) if one.reserved and one.reserved.token in tokens else one
        for one in reminders.items
    )
    return _replace_items(reminders, tuple(items))


def list_reserved(reminders: ReminderList, token: str) -> tuple[Reminder, ...]:
    """Return the undelivered reminders that are reserved by a token."""
    return tuple(one for one in reminders.items if one.is_pending and _token(one) == token)


def _token(reminder: Reminder) -> str:
    return "" if reminder.reserved is None else reminder.reserved.token


def _due_ms(reminder: Reminder) -> int:
    return reminder.due_ms


def _replace_items(reminders: ReminderList, items: tuple[Reminder, ...]) -> ReminderList:
    # The same value if nothing changed: a store then writes nothing.
    return reminders if items == reminders.items else ReminderList(items)


def earliest_due(reminders: ReminderList) -> int | None:
    """Return when the first reminder is due, delivered or not: sweeps find the document by it."""
    return min(map(_due_ms, reminders.items), default=None)


# The document of a session's reminders. Members keep the names that they have always had: a
# reminder is a `task` here, and `not_before_exchange` is `notBeforeRequestId`. People may have
# edited the document or left members out, so it is read by a type of its own, checked and lenient.


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
    if reminder.reserved is not None:
        written["reservedBy"] = reminder.reserved
    return written


_Id = Annotated[str, msgspec.Meta(min_length=1)]
_Instant = Annotated[int, msgspec.Meta(ge=FIRST_MS, le=LAST_MS)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _StoredReminder(msgspec.Struct, rename="camel"):
    """A reminder as it is stored in the document."""

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
    reserved_by: Reservation | None = None


def decode_reminders(document: Mapping[str, Any]) -> ReminderList:
    """Read reminders from a document; raise a lookup, type or value error if it is invalid."""
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
        # The session of the document counts, even if the row was copied from another document.
        session=session,
        setter=row.setter or "",
        main=row.main_session_id or "",
        passed=row.passed,
        reserved=row.reserved_by,
    )
