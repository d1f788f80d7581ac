"""How deliveries and events are written: for the model, for clients, for webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from gateway.reminders.model import Reminder
from gateway.reminders.text import iso
from gateway.stores.rows import OutboxItem, SessionEvent

REMINDER, RUN = "reminder", "run"
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\"\]]+")


def told(items: tuple[OutboxItem, ...]) -> str:
    """Write the message that brings what runs came to to a model, in the order it came."""
    return "\n\n".join(map(_told_item, items))


def _told_item(item: OutboxItem) -> str:
    if item.status == "ok":
        return f"{heading(item.name)}\n{item.text}"
    return f"{heading(item.name, item.status)} {item.text}"


def heading(name: str, what: str = "result") -> str:
    """Write the line above a result; no name can look like the end of it."""
    return f'[Scheduled task "{" ".join(_BREAKS.sub(" ", name).split())}" {what}]:'


def shown_task(task: Reminder) -> Mapping[str, object]:
    """Show a reminder that is due as something that waits."""
    shown: dict[str, object] = {
        "id": task.id,
        "kind": REMINDER,
        "at": iso(task.due_ms),
        "text": task.text,
    }
    if task.tool:
        shown["tool"] = task.tool
    if task.arguments:
        shown["arguments"] = msgspec.Raw(task.arguments.encode())
    return shown


def shown_item(item: OutboxItem) -> Mapping[str, object]:
    """Show what a run came to as something that waits; `status` says that it is no result."""
    shown: dict[str, object] = {
        "id": item.id,
        "kind": RUN,
        "at": iso(item.at_ms),
        "text": item.text,
        "name": item.name,
        "job_id": item.job_id,
        "run_id": item.run_id,
    }
    if item.status != "ok":
        shown["status"] = item.status
    return shown


def shown_event(event: SessionEvent) -> bytes:
    """Write an event as subscribers and webhooks get it: a JSON object without line breaks."""
    return msgspec.json.encode(
        {
            "id": event.seq,
            "event": event.kind,
            "sessionId": event.session,
            "at": iso(event.at_ms),
            "data": msgspec.Raw(event.data),
        }
    )
