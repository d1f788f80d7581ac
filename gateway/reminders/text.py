"""What a model reads about time: the time tag, and the message with due reminders.

A task's text is data: it is written as a JSON string in which nothing can end the line, the quote
or the bracket around it, and no `<**…**>` can be taken for a directive.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache

from gateway.reminders.model import Reminder
from gateway.timestamps import FRACTIONS, iso, iso_second, moment

HEADING = "[Clock Reminder]: scheduled tasks are due."
MAY_CALL = "You may call tools to complete these tasks."
TOOLS_ADDED = "If the tool list is incomplete, standard tools have been added."

# Everything that a reader may take for a line end, invalid characters, a closing bracket, and the
# marks of directives.
_UNSAFE = (
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\]]"
    r"|<(?=\*)|(?<=\*)>"
)
_in_string = re.compile(_UNSAFE)
_in_text = re.compile(rf'["\\]|{_UNSAFE}')
_strings = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_is_bare = re.compile(r"[\w.:/-]++").fullmatch
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def local(ms: int, tz: tzinfo) -> str:
    """Write an instant as local time of this zone, with the zone's offset."""
    second, millisecond = divmod(ms, 1000)
    shown, offset = _local_second(second, tz)
    return f"{shown}{FRACTIONS[millisecond]} {offset}"


def time_tag(now_ms: int, tz: tzinfo, tz_name: str, offset_ms: int) -> str:
    """Write the time tag: the message that tells a model the time."""
    second, millisecond = divmod(now_ms, 1000)
    utc, wall, zone = _tag_second(second, tz, tz_name)
    fraction = FRACTIONS[millisecond]
    return f"{utc}{fraction}{wall}{fraction}{zone} nowMs=`{now_ms}` ntpOffsetMs=`{offset_ms}`"


def reminder_text(tasks: tuple[Reminder, ...], standard_tools: bool) -> str:
    """Write the message with due reminders, one line each, in the given order."""
    advice = f"{MAY_CALL} {TOOLS_ADDED}" if standard_tools else MAY_CALL
    return "\n".join((HEADING, *map(_line, tasks), advice))


def _line(task: Reminder) -> str:
    tool = f" tool={_name(task.tool)}" if task.tool else ""
    arguments = f" args={_safe_json(task.arguments)}" if task.arguments else ""
    return f"[scheduled task:{_quote(task.text)}{tool}{arguments} dueAt={iso(task.due_ms)}]"


def _name(tool: str) -> str:
    return tool if _is_bare(tool) else _quote(tool)


def _quote(text: str) -> str:
    return f'"{_in_text.sub(_escape, text)}"'


def _safe_json(text: str) -> str:
    # Brackets outside strings are balanced; inside strings an escape means the same.
    return _strings.sub(lambda string: _in_string.sub(_escape, string[0]), text)


def _escape(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04x}"


# The tag is written on every request, but the date is computed only once a second.
@lru_cache(maxsize=8)
def _tag_second(second: int, tz: tzinfo, tz_name: str) -> tuple[str, str, str]:
    shown, offset = _local_second(second, tz)
    return (
        f"[Time/Date]: utc=`{iso_second(second)}",
        f"Z` local=`{shown}",
        f" {offset}` tz=`{tz_name}`",
    )


@lru_cache(maxsize=8)
def _local_second(second: int, tz: tzinfo) -> tuple[str, str]:
    text = moment(second).astimezone(tz).isoformat(" ", timespec="seconds")
    return text[:19], text[19:]
