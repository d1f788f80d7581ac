"""What a sub-agent scheduled and nobody took passes to the main session, once.

It takes two documents, and the process may die between any two writes. So it is marked in the
sub-agent's document first, which keeps it from being delivered there; then it is added to the main
session's, unless that has it already; then it is removed from the sub-agent's.
"""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from gateway.reminders.model import Reminder, Rules, SessionReminders

GRACE_MS = 60_000


def next_handover(tasks: SessionReminders) -> int | None:
    """Return when the next one passes, unless somebody takes it; None if none does."""
    times = (task.due_ms + GRACE_MS for task in tasks.items if task.main and _is_left(task))
    return min(times, default=None)


def mark_passed(
    tasks: SessionReminders, now_ms: int, taken: Container[str]
) -> tuple[SessionReminders, tuple[Reminder, ...]]:
    """Mark what nobody took in time; return all that is on its way now."""
    items = tuple(
        replace(task, passed=True, updated_ms=now_ms)
        if task.main
        and task.is_pending
        and task.due_ms + GRACE_MS <= now_ms
        and task.id not in taken
        else task
        for task in tasks.items
    )
    return SessionReminders(items), tuple(task for task in items if task.passed and _is_left(task))


def inherit(
    tasks: SessionReminders, passed: tuple[Reminder, ...], session: str, now_ms: int, rules: Rules
) -> tuple[SessionReminders, frozenset[str]]:
    """Add what passes to this session, as far as there is room; return the ids it has now."""
    items = {task.id: task for task in tasks.items}
    room = rules.most - sum(map(_is_left, tasks.items))
    for task in passed:
        if task.id not in items and room > 0:
            own = replace(task, session=session, main="", passed=False, guard="", updated_ms=now_ms)
            items[task.id], room = own, room - 1
    return SessionReminders(tuple(items.values())), frozenset(
        task.id for task in passed if task.id in items
    )


def drop_passed(tasks: SessionReminders, ids: Container[str]) -> SessionReminders:
    """Remove what the main session has now."""
    return SessionReminders(
        tuple(task for task in tasks.items if not (task.passed and task.id in ids))
    )


def _is_left(task: Reminder) -> bool:
    return task.delivered_ms is None
