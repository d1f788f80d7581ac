"""The document of a session's reminders: how they are written, and read again.

Members keep the names that they have always had: a reminder is a `task` here, and what keeps it
from the exchange that asked for it is `notBeforeRequestId`. People may have edited the document, or
have left members out, so it is read by a type of its own that is checked and lenient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gateway.reminders.model import Reminder, ReminderList, compact_json

# The years 1 to 9999: what is outside cannot be written as a date.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


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
