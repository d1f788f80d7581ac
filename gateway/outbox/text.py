"""How deliveries and events are written: for the model, for clients, for webhooks."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.outbox.feed import KINDS
from gateway.reminders.model import Reminder
from gateway.reminders.view import ToolArguments, show_arguments
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.timestamps import Timestamp, iso

REMINDER: Literal["reminder"] = "reminder"
RUN: Literal["run"] = "run"
_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\"\]]+")


def results_text(items: tuple[OutboxItem, ...]) -> str:
    """Write the message with results of runs for a model, in their order."""
    return "\n\n".join(map(_result_text, items))


def _result_text(item: OutboxItem) -> str:
    if item.status == "ok":
        return f"{heading(item.name)}\n{item.text}"
    return f"{heading(item.name, item.status)} {item.text}"


def heading(name: str, what: str = "result") -> str:
    """Write the line above a result; characters that could end it are removed from the name."""
    return f'[Scheduled task "{" ".join(_BREAKS.sub(" ", name).split())}" {what}]:'


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that waits for a session: a reminder that is due, or what a run came to."""

    id: str
    kind: Literal["reminder", "run"]
    at: Timestamp
    text: str
    tool: Annotated[str, Meta(description="Of a reminder.")] | UnsetType = UNSET
    arguments: Annotated[ToolArguments, Meta(description="Of a reminder.")] | UnsetType = UNSET
    name: Annotated[str, Meta(description="Of the job.")] | UnsetType = UNSET
    job_id: str | UnsetType = UNSET
    run_id: str | UnsetType = UNSET
    status: (
        Annotated[
            Literal["failed", "missed"],
            Meta(description="Of a job that is told of without a result."),
        ]
        | UnsetType
    ) = UNSET


class EventView(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """Something that happened in a session, as subscribers and webhooks get it."""

    id: int
    event: Annotated[str, Meta(extra_json_schema={"enum": KINDS})]
    session_id: str
    at: Timestamp
    data: Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


def show_due_reminder(task: Reminder) -> DeliveryView:
    """Return the view of a due reminder."""
    return DeliveryView(
        id=task.id,
        kind=REMINDER,
        at=iso(task.due_ms),
        text=task.text,
        tool=task.tool or UNSET,
        arguments=show_arguments(task),
    )


def show_result(item: OutboxItem) -> DeliveryView:
    """Return the view of a result or notice; only a notice has a `status`."""
    return DeliveryView(
        id=item.id,
        kind=RUN,
        at=iso(item.at_ms),
        text=item.text,
        name=item.name,
        job_id=item.job_id,
        run_id=item.run_id,
        status=UNSET if item.status == "ok" else item.status,
    )


def encode_event(event: SessionEvent) -> bytes:
    """Write an event as a JSON object without line breaks."""
    return msgspec.json.encode(
        EventView(
            id=event.seq,
            event=event.kind,
            session_id=event.session,
            at=iso(event.at_ms),
            data=msgspec.Raw(event.data),
        )
    )
