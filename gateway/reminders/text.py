"""What a model reads of time: instants, the time tag, and the reminders that are due.

A task's text is data: it is written as a JSON string in which nothing can end the line, the quote
or the bracket around it, and no `<**…**>` is left to be taken for a directive.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from gateway.reminders.model import Reminder

Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An instant as `iso` writes it."""

HEADING = "[Clock Reminder]: scheduled tasks are due."
MAY_CALL = "You may call tools to complete these tasks."
TOOLS_ADDED = "If the tool list is incomplete, standard tools have been added."

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400
# A day short of the calendar's ends, where every zone still has a date; what lies beyond is shown
# as that day, since a file may say anything.
FIRST_SECOND = -62_135_596_800 + _DAY
LAST_SECOND = 253_402_300_799 - _DAY

# Whatever any reader takes for the end of a line, what no text can hold, a bracket that closes,
# and the marks of directives.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\]]"
    r"|<(?=\*)|(?<=\*)>"
)
_in_string = re.compile(_UNSAFE)
_in_text = re.compile(rf'["\\]|{_UNSAFE}')
_strings = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_is_bare = re.compile(r"[\w.:/-]++").fullmatch
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def iso(ms: int) -> str:
    """Write an instant in UTC, to the millisecond, as RFC 3339 has it."""
    second, millisecond = divmod(ms, 1000)
    return f"{_utc_second(second)}.{millisecond:03d}Z"


def local(ms: int, tz: tzinfo) -> str:
    """Write an instant as a clock on the wall of this zone shows it, with the zone's offset."""
    second, millisecond = divmod(ms, 1000)
    shown, offset = _local_second(second, tz)
    return f"{shown}.{millisecond:03d} {offset}"


def time_tag(now_ms: int, tz: tzinfo, tz_name: str, offset_ms: int) -> str:
    """Write the message that tells a model what time it is."""
    second, millisecond = divmod(now_ms, 1000)
    utc, wall, zone = _tag_second(second, tz, tz_name)
    fraction = f".{millisecond:03d}"
    return f"{utc}{fraction}{wall}{fraction}{zone} nowMs=`{now_ms}` ntpOffsetMs=`{offset_ms}`"


def reminder_text(tasks: tuple[Reminder, ...], standard_tools: bool) -> str:
    """Write the message that brings due tasks, one line each, in the order they are given."""
    advice = f"{MAY_CALL} {TOOLS_ADDED}" if standard_tools else MAY_CALL
    return "\n".join((HEADING, *map(_line, tasks), advice))


def _line(task: Reminder) -> str:
    tool = f" tool={_name(task.tool)}" if task.tool else ""
    arguments = f" args={_safe_json(task.arguments)}" if task.arguments else ""
    return f"[scheduled task:{_quoted(task.text)}{tool}{arguments} dueAt={iso(task.due_ms)}]"


def _name(tool: str) -> str:
    return tool if _is_bare(tool) else _quoted(tool)


def _quoted(text: str) -> str:
    return f'"{_in_text.sub(_escape, text)}"'


def _safe_json(text: str) -> str:
    # Brackets outside of strings come in pairs; within strings an escape means the same.
    return _strings.sub(lambda string: _in_string.sub(_escape, string[0]), text)


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


# The tag is written on every request; the calendar is asked once a second.
@lru_cache(maxsize=8)
def _tag_second(second: int, tz: tzinfo, tz_name: str) -> tuple[str, str, str]:
    shown, offset = _local_second(second, tz)
    return (
        f"[Time/Date]: utc=`{_utc_second(second)}",
        f"Z` local=`{shown}",
        f" {offset}` tz=`{tz_name}`",
    )


@lru_cache(maxsize=256)
def _utc_second(second: int) -> str:
    return _moment(second).isoformat(timespec="seconds")[:19]


@lru_cache(maxsize=8)
def _local_second(second: int, tz: tzinfo) -> tuple[str, str]:
    text = _moment(second).astimezone(tz).isoformat(" ", timespec="seconds")
    return text[:19], text[19:]


def _moment(second: int) -> datetime:
    return _EPOCH + timedelta(seconds=min(max(second, FIRST_SECOND), LAST_SECOND))
