"""What models say in the stories: reminders, jobs and texts, in no dialect's words."""

from __future__ import annotations

import json
from typing import Any

from tests.clock.reminding import iso
from tests.golden.placeholders import START
from tests.pairs.neutral import Answer, Call

SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
CLOCK = {"clock__enabled": True}
JOBS = {"cron__offer_to_clients": True}


def clock(action: str, *items: dict[str, str], ident: str = "call_1", task_id: str = "") -> Call:
    """Call the clock as its schema wants it."""
    arguments = {"action": action, "items": items, "taskId": task_id}
    return Call(ident, "clock", json.dumps(arguments))


def reminder(in_ms: int, task: str = "drink tea") -> dict[str, str]:
    """Write a reminder as the schema wants it."""
    return {"dueAt": iso(START + in_ms), "task": task, "tool": "", "arguments": "{}"}


def plan(action: str, ident: str = "call_1", **members: Any) -> Call:
    """Call the tool that jobs are set with."""
    return Call(ident, "schedule_task", json.dumps({"action": action, **members}))


def calls(*called: Call, text: str = "") -> Answer:
    """Call tools."""
    return Answer(text, calls=called, stop="tools")
