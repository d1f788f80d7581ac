"""Reminders and the time as clients and models see them; OpenAPI is made from these types."""

from __future__ import annotations

from datetime import tzinfo
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.reminders.model import Reminder
from gateway.reminders.text import local
from gateway.timestamps import Timestamp, iso

ToolArguments = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": ["object", "string"]})]
"""The arguments of a tool as they are kept: JSON, an object or a text."""


class ReminderView(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A reminder as it is shown."""

    task_id: str
    due_at: Timestamp
    task: str
    tool: str | UnsetType = UNSET
    arguments: ToolArguments | UnsetType = UNSET
    delivered_at: Timestamp | UnsetType = UNSET
    delivery_count: int


class Ntp(Protocol):
    """What is told of the correction of the clock."""

    @property
    def status(self) -> str: ...
    @property
    def offset_ms(self) -> int: ...
    @property
    def server(self) -> str: ...
    @property
    def rtt_ms(self) -> int | None: ...
    @property
    def last_sync_ms(self) -> int | None: ...
    @property
    def last_error(self) -> str: ...


class NtpView(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the time was last corrected."""

    status: Literal["synced", "stale", "error", "disabled"]
    offset_ms: int
    server: str
    rtt_ms: int | None
    last_sync_ms: int | None
    last_error: str


class ClockReading(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """The time, as the model's tool tells it."""

    ok: Literal[True]
    action: Literal["get"]
    active: Literal[True]
    now_ms: int
    utc: Timestamp
    local: str
    timezone: str
    ntp: NtpView


def show_reminder(task: Reminder) -> ReminderView:
    """Return what is shown of a reminder, in a list and over HTTP."""
    return ReminderView(
        task_id=task.id,
        due_at=iso(task.due_ms),
        task=task.text,
        tool=task.tool or UNSET,
        arguments=show_arguments(task),
        delivered_at=UNSET if task.delivered_ms is None else iso(task.delivered_ms),
        delivery_count=task.deliveries,
    )


def show_arguments(task: Reminder) -> msgspec.Raw | UnsetType:
    """Return the arguments of the tool that a reminder hints at, if it has any."""
    return msgspec.Raw(task.arguments.encode()) if task.arguments else UNSET


def show_ntp(ntp: Ntp) -> NtpView:
    """Return what is shown of the correction of the clock."""
    return msgspec.convert(ntp, NtpView, from_attributes=True)


def read_clock(now_ms: int, tz: tzinfo, tz_name: str, ntp: Ntp) -> ClockReading:
    """Tell the time."""
    return ClockReading(
        ok=True,
        action="get",
        active=True,
        now_ms=now_ms,
        utc=iso(now_ms),
        local=local(now_ms, tz),
        timezone=tz_name,
        ntp=show_ntp(ntp),
    )
