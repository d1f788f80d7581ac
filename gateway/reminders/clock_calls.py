"""The `clock` tool as a model sees it: its declaration, its calls, the reminders in them, results.

The schema is strict, the reader is lenient: only the members that the action needs are read, and
members that a model leaves out, leaves empty or spells differently are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, ClassVar, TypeVar

import msgspec

from gateway.errors import InvalidInput
from gateway.exchange.additions import ToolDeclaration
from gateway.reminders.model import Reminder, ReminderRequest, Rules, compact_json, is_expired
from gateway.reminders.view import Ntp, read_clock, show_reminder
from gateway.timestamps import iso

T = TypeVar("T")

NAME = "clock"
LONGEST_SHOWN = 60
EPOCH = datetime(1970, 1, 1)
MINUTE_MS = 60_000
# A leap year, so that the same day of the next year is always within it.
YEAR_MS = 366 * 24 * 60 * MINUTE_MS
TOOL_BYTES = 256
DEPTH = 128
NEEDS_SESSION = (
    "clock.{action} needs a session id and this request names none; have the client send one, "
    "for instance the header x-session-id."
)

HOLD_ONLY = (
    "This request names no session, so a reminder must be due while this answer is open: within "
    "{seconds:g} seconds from now. For later times have the client send a session id, for instance "
    "the header x-session-id."
)
SIDE_CALL = (
    "{action} does nothing in a side request of an agent; call it in the conversation itself."
)


@dataclass(frozen=True, slots=True)
class ReminderItem:
    """A reminder that is asked for, as it was written."""

    due_at: str
    task: str
    tool: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Get:
    """Return the time."""

    action: ClassVar[str] = "get"


@dataclass(frozen=True, slots=True)
class Schedule:
    """Set reminders, all of them or none."""

    action: ClassVar[str] = "schedule"
    items: tuple[ReminderItem, ...]


@dataclass(frozen=True, slots=True)
class List:
    """List the reminders."""

    action: ClassVar[str] = "list"


@dataclass(frozen=True, slots=True)
class Cancel:
    """Remove one reminder."""

    action: ClassVar[str] = "cancel"
    task_id: str


@dataclass(frozen=True, slots=True)
class ClearAll:
    """Remove all reminders."""

    action: ClassVar[str] = "clear"


Call = Get | Schedule | List | Cancel | ClearAll
ACTIONS = tuple(kind.action for kind in (Get, Schedule, List, Cancel, ClearAll))

_ITEM = {
    "dueAt": {
        "type": "string",
        "description": "When: RFC 3339 with seconds and an offset, e.g. 2026-01-21T20:30:00-08:00 "
        "or 2026-01-22T04:30:00Z. Reckon it from the newest [Time/Date].",
    },
    "task": {
        "type": "string",
        "description": "What to do then, complete in itself: you read only this text when it "
        "comes due.",
    },
    "tool": {
        "type": "string",
        "description": "Name of a tool you will want to call for it; a hint only. '' if none.",
    },
    "arguments": {
        "type": "string",
        "description": "Arguments for that tool, a JSON object as text; a hint only. '{}' if none.",
    },
}
_PROPERTIES = {
    "action": {
        "type": "string",
        "enum": ACTIONS,
        "description": "get: the exact time. schedule: set the reminders in items. list: all "
        "reminders of this conversation. cancel: remove the one in taskId. clear: remove all.",
    },
    "items": {
        "type": "array",
        "description": "The reminders to schedule; [] for the other actions.",
        "items": {
            "type": "object",
            "properties": _ITEM,
            "required": list(_ITEM),
            "additionalProperties": False,
        },
    },
    "taskId": {
        "type": "string",
        "description": "The reminder to cancel, as schedule or list named it; '' for the other "
        "actions.",
    },
}
_SCHEMA = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}

DECLARATION = ToolDeclaration(
    NAME,
    "Time and reminders. The newest [Time/Date] message tells the current time; use action get "
    "when there is none or you need it anew. To do or say something later, schedule a reminder: "
    "you are given it in a [Clock Reminder] message when it comes due. Do not wait or poll "
    'yourself. A result with delivery "hold" wakes you within this same answer, so just finish '
    'what you have to say; "next_request" brings it with the user\'s next message, and the user '
    "should know that.",
    msgspec.json.encode(_SCHEMA).decode(),
)


class ToolError(Exception):
    """A tool cannot do what the model asks; the sentence says why and what to send instead."""

    def __init__(self, action: str, sentence: str) -> None:
        super().__init__(sentence)
        self.action = action
        self.sentence = sentence

    def render(self) -> str:
        """Render it as the tool's result."""
        return render_error(self.action, self.sentence)


_Fields = dict[str, msgspec.Raw]


class _ItemFields(msgspec.Struct):
    dueAt: str | None = None
    task: str | None = None
    tool: str | None = None
    arguments: str | _Fields | None = None


_fields = msgspec.json.Decoder(_Fields)
_text = msgspec.json.Decoder(str | None)
_items = msgspec.json.Decoder(list[_ItemFields] | _ItemFields | None)
_ABSENT = msgspec.Raw(b"null")
_FOR_INSTANCE = (
    'send for instance {"action":"schedule","items":[{"dueAt":"2026-01-21T20:30:00-08:00",'
    '"task":"call Ann","tool":"","arguments":"{}"}],"taskId":""}.'
)


def read_call(arguments: str) -> Call:
    """Read a call's arguments, or raise `ToolError`."""
    fields = _decode(_fields, arguments.strip() or "{}", "", "The arguments")
    action = _text_of(fields, "action").lower()[:LONGEST_SHOWN]
    reader = _READERS.get(action)
    if reader is None:
        what = f"No action is called '{action}'" if action else "The action is missing"
        raise ToolError(action, f"{what}; use one of {', '.join(ACTIONS)}.")
    return reader(fields)


def _schedule(fields: _Fields) -> Schedule:
    read = _decode(_items, fields.get("items", _ABSENT), "schedule", "`items`")
    items = [read] if isinstance(read, _ItemFields) else read
    if not items:
        raise ToolError("schedule", f"`items` is empty; {_FOR_INSTANCE}")
    return Schedule(tuple(map(_item, items)))


def _item(read: _ItemFields) -> ReminderItem:
    arguments = read.arguments or ""
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    due_at, task, tool = read.dueAt or "", read.task or "", read.tool or ""
    return ReminderItem(due_at.strip(), task.strip(), tool.strip(), arguments.strip())


def _cancel(fields: _Fields) -> Cancel:
    task_id = _text_of(fields, "taskId")
    if not task_id:
        raise ToolError("cancel", "`taskId` is missing; use one that action list shows.")
    return Cancel(task_id)


def _text_of(fields: _Fields, name: str) -> str:
    """Return a member that is a string; anything else counts as absent."""
    try:
        return (_text.decode(fields.get(name, _ABSENT)) or "").strip()
    except (msgspec.DecodeError, UnicodeError):
        return ""


def _decode(decoder: msgspec.json.Decoder[T], text: str | msgspec.Raw, action: str, what: str) -> T:
    try:
        return decoder.decode(text)
    except RecursionError:
        says = "it is nested too deeply"
    except UnicodeError:
        says = "it is not valid Unicode"
    except msgspec.DecodeError as error:
        says = str(error)
    raise ToolError(action, f"{what} cannot be read: {says}; {_FOR_INSTANCE}")


_READERS: dict[str, Callable[[_Fields], Call]] = {
    Get.action: lambda _: Get(),
    Schedule.action: _schedule,
    List.action: lambda _: List(),
    Cancel.action: _cancel,
    ClearAll.action: lambda _: ClearAll(),
}


def read_item(
    due_at: str, text: str, tool: str, arguments: str, now_ms: int, rules: Rules
) -> ReminderRequest:
    """Read a reminder that a model or a person asks for, or raise `InvalidInput`."""
    return ReminderRequest(
        _read_due(due_at, now_ms, rules),
        _read_text(text, rules),
        _check_size(tool.strip(), "tool", TOOL_BYTES),
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
            f"dueAt must be a date and time with an offset, in RFC 3339 format; {_example(now_ms)}"
        )
    try:
        due_ms = _instant(match)
    except ValueError:
        raise InvalidInput(f"dueAt is not a real date and time; {_example(now_ms)}") from None
    # Models sometimes get the year wrong: refuse it instead of keeping it for years.
    if due_ms > now_ms + YEAR_MS:
        raise InvalidInput(f"dueAt is more than a year ahead; {_example(now_ms)}")
    if is_expired(due_ms, now_ms, rules):
        raise InvalidInput(f"dueAt is too far in the past; {_example(now_ms)}")
    return due_ms


def _instant(match: re.Match[str]) -> int:
    year, month, day, hour, minute = map(int, match.group(1, 2, 3, 4, 5))
    second = int(match[6] or 0)
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
    # The standard library accepts more than RFC 3339 allows, but not every offset of RFC 3339.
    local = datetime(year, month, day, hour, minute, second) - EPOCH
    ms = local // timedelta(milliseconds=1) + int(f"{(fraction or '0')[:3]:0<3}")
    if sign is None:
        return ms
    offset = (int(hours) * 60 + int(minutes)) * MINUTE_MS
    return ms + offset if sign == "-" else ms - offset


def _example(now_ms: int) -> str:
    return f"it is now {iso(now_ms)}, so in ten minutes it is {iso(now_ms + 10 * MINUTE_MS)}."


def _read_text(written: str, rules: Rules) -> str:
    text = written.strip()
    if not text:
        raise InvalidInput("task is empty; say what to do when the reminder is due.")
    return _check_size(text, "task", rules.text_bytes)


def _check_size(text: str, name: str, most: int) -> str:
    # In bytes, as it is stored; half a surrogate pair cannot be encoded at all.
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} contains an invalid character; remove it.") from None
    if size > most:
        raise InvalidInput(f"{name} has {size} bytes; make it shorter, at most {most} bytes.")
    return text


def _read_arguments(arguments: str, rules: Rules) -> str:
    text = _check_size(arguments.strip(), "arguments", rules.arguments_bytes)
    if not text:
        return ""
    value: dict[str, Any] | str
    try:
        value = _decode_object(text)
        is_deep = _is_deeper(value, DEPTH)
    except (msgspec.MsgspecError, ValueError):
        # They are only a hint, so a text that is not an object is accepted too.
        value, is_deep = text, False
    except RecursionError:
        # How deep msgspec reads depends on the Python it runs on.
        is_deep = True
    if is_deep:
        raise InvalidInput(
            f"arguments are nested more than {DEPTH} levels deep; make them flatter."
        )
    return _check_size(compact_json(value), "arguments", rules.arguments_bytes)


_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    # It stops at the limit, before a reader of the document would hit the recursion limit.
    inner: Iterable[object] = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def render_time(now_ms: int, tz: tzinfo, tz_name: str, ntp: Ntp) -> str:
    """Render the result of action get: the time."""
    return msgspec.json.encode(read_clock(now_ms, tz, tz_name, ntp)).decode()


def render_scheduled(
    tasks: Iterable[Reminder], holds: Callable[[Reminder], bool], hold_only: bool = False
) -> str:
    """Render the reminders that were set, each with whether this answer waits for it."""
    held = "hold_only" if hold_only else "hold"
    scheduled = [
        {
            "taskId": task.id,
            "dueAt": iso(task.due_ms),
            "task": task.text,
            "delivery": held if hold_only or holds(task) else "next_request",
        }
        for task in tasks
    ]
    return render_result({"ok": True, "scheduled": scheduled})


def render_list(tasks: Iterable[Reminder]) -> str:
    """Render all reminders of the session."""
    return render_result({"ok": True, "items": [show_reminder(task) for task in tasks]})


def render_removed(task_id: str) -> str:
    """Render that a reminder was removed."""
    return render_result({"ok": True, "removed": task_id})


def render_cleared(count: int) -> str:
    """Render that all reminders were removed."""
    return render_result({"ok": True, "removedCount": count})


def describe_unknown_reminder(task_id: str) -> ToolError:
    """Say that there is no reminder with this id."""
    return ToolError(
        "cancel",
        f"No reminder of this session has the taskId '{task_id[:LONGEST_SHOWN]}'; "
        "use action list to see all reminders.",
    )


def render_error(action: str, sentence: str) -> str:
    """Render an error."""
    return render_result({"ok": False, "action": action, "error": sentence})


def render_result(members: dict[str, object]) -> str:
    """Render the result of a tool: compact JSON."""
    return msgspec.json.encode(members).decode()
