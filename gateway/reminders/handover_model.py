"""Reminders of a sub-agent that nobody took are handed over to the main session, once.

That changes two documents, and the process may die between any two writes. So the reminder is first
marked in the sub-agent's document, so that it is not delivered there; then it is added to the main
session's document, unless that has it already; then it is removed from the sub-agent's document.
"""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from gateway.reminders.model import Reminder, ReminderList, Rules

GRACE_MS = 60_000


def next_handover(reminders: ReminderList) -> int | None:
    """Return when the next reminder is handed over unless it is taken before; None if none is."""
    left = (item for item in reminders.items if item.main and _is_undelivered(item))
    return min((item.due_ms + GRACE_MS for item in left), default=None)


def mark_passed(
    reminders: ReminderList, now_ms: int, taken: Container[str]
) -> tuple[ReminderList, tuple[Reminder, ...]]:
    """Mark reminders that nobody took in time; return all that are marked and not handed over."""
    items = tuple(
        replace(one, passed=True, updated_ms=now_ms)
        if one.main and one.is_pending and one.due_ms + GRACE_MS <= now_ms and one.id not in taken
        else one
        for one in reminders.items
    )
    # Also those that were marked before: the process may have died before the handover ended.
    return ReminderList(items), tuple(o for o in items if o.passed and _is_undelivered(o))


def inherit(
    reminders: ReminderList,
    passed: tuple[Reminder, ...],
    session: str,
    now_ms: int,
    rules: Rules,
) -> tuple[ReminderList, frozenset[str]]:
    """Add handed-over reminders to the main session while it has room; return the ids it has."""
    items = {one.id: one for one in reminders.items}
    room = rules.most - sum(map(_is_undelivered, reminders.items))
    for one in passed:
        if one.id not in items and room > 0:
            # From now on it belongs to this session, and any exchange of it may deliver it.
            own = replace(one, session=session, main="", passed=False, not_before_exchange="")
            items[one.id], room = replace(own, updated_ms=now_ms, reserved=None), room - 1
    there = frozenset(one.id for one in passed if one.id in items)
    return ReminderList(tuple(items.values())), there


def drop_passed(reminders: ReminderList, ids: Container[str]) -> ReminderList:
    """Remove the reminders that the main session has now."""
    left = (one for one in reminders.items if not (one.passed and one.id in ids))
    return ReminderList(tuple(left))


def _is_undelivered(reminder: Reminder) -> bool:
    return reminder.delivered_ms is None
