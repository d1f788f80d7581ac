"""The `schedule_task` tool as a model sees it: its declaration, its calls, its results.

The reader is lenient: a call may be flat or have its job within `job`, objects may be written as
JSON text, a null or empty member counts as absent, and a schedule that is a string is read as
`schedule_text`. The result is read by gateway/jobs/reader.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.errors import InvalidInput
from gateway.exchange.additions import ToolDeclaration
from gateway.jobs.model import Job
from gateway.jobs.reader import flat
from gateway.jobs.view import JobCounts, SchedulerStatus, summarize_job
from gateway.reminders.clock_calls import LONGEST_SHOWN, ToolError, render_result

NAME = "schedule_task"
SENTENCE = (
    "You can set reminders and recurring tasks with the tool schedule_task, which sends you a "
    "message of your choice at a time, at an interval, or as a cron expression says."
)
ACTIONS = ("add", "update", "remove", "enable", "disable", "get", "list", "run", "status")
IN_A_RUN = (
    "A scheduled run cannot add jobs; do what its message asks for, and tell the user what you "
    "would have scheduled."
)
NEEDS_SESSION = (
    "schedule_task needs a session id and this request names none; have the client send one, "
    "for instance the header x-session-id."
)


@dataclass(frozen=True, slots=True)
class ScheduleTaskCall:
    """What a model asks for: an action, and the members of a job."""

    action: str
    members: Mapping[str, object]


_SCHEDULE = {
    "kind": {
        "type": "string",
        "enum": ("at", "every", "cron"),
        "description": "at: once. every: at a steady interval. cron: as an expression says.",
    },
    "at": {
        "type": "string",
        "description": "kind at: when, RFC 3339 with an offset, e.g. 2026-02-04T10:00:00+08:00. "
        "kind every: a point the interval counts from; now if left out.",
    },
    "every_ms": {
        "type": "integer",
        "description": "kind every: the interval in milliseconds, e.g. 3600000 for an hour.",
    },
    "cron": {
        "type": "string",
        "description": "kind cron: minute hour day-of-month month day-of-week, e.g. 0 8 * * 1-5.",
    },
    "tz": {
        "type": "string",
        "description": "The zone that cron, or a time without an offset, is meant in, e.g. "
        "Asia/Shanghai.",
    },
}
_MEMBERS: dict[str, dict[str, object]] = {
    "job_id": {
        "type": "string",
        "description": "The job meant, as add or list named it; for update, remove, enable, "
        "disable, get and run. Never for add.",
    },
    "name": {"type": "string", "description": "A short name of the job."},
    "schedule": {
        "type": "object",
        "description": "When it is due; for add and update.",
        "properties": _SCHEDULE,
    },
    "schedule_text": {
        "type": "string",
        "description": "Instead of schedule, in words: 'every 5 minutes', 'daily at 9am', "
        "'weekdays at 18:30', 'hourly'.",
    },
    "session": {
        "type": "string",
        "enum": ("main", "isolated"),
        "description": "main: you get the message in this conversation. isolated: in a fresh one, "
        "and its result is brought back here.",
    },
    "message": {
        "type": "string",
        "description": "What you are told when it is due, as a user's message: say all that is "
        "needed to do it then.",
    },
    "enabled": {"type": "boolean", "description": "Whether it is to run; true if left out."},
    "delete_after_run": {
        "type": "boolean",
        "description": "Whether it is gone once a run went well.",
    },
    "dedupe_key": {
        "type": "string",
        "description": "A key of your choice: add with a key that is known changes that job, "
        "instead of making another.",
    },
}


def _bare(schema: Mapping[str, object]) -> dict[str, object]:
    """Return a schema without descriptions, for members that are declared twice."""
    bare = {name: part for name, part in schema.items() if name != "description"}
    if isinstance(inner := bare.get("properties"), dict):
        bare["properties"] = {name: _bare(part) for name, part in inner.items()}
    return bare


_PAYLOAD = {"type": "object", "properties": {"message": {"type": "string"}}}
_SCHEMA = {
    "type": "object",
    "properties": {
        "action": {
            "type": "string",
            "enum": ACTIONS,
            "description": "add a job; update what you name of it; remove, enable, disable or get "
            "it; list all; run it now; status of the scheduler.",
        },
        **_MEMBERS,
        "job": {
            "type": "object",
            "description": "The same members as one object, if you prefer; the message may then "
            "stand in payload.",
            "properties": {name: _bare(part) for name, part in _MEMBERS.items()}
            | {"payload": _PAYLOAD},
        },
    },
    "required": ["action"],
}

DECLARATION = ToolDeclaration(
    NAME,
    "Jobs that outlast this conversation: at a time, at an interval, or by a cron expression, you "
    "are sent a message and do what it says, also when nobody is there. Use it for reminders and "
    "recurring tasks. Give each job a schedule, or a schedule_text, and a message that is complete "
    "in itself.",
    msgspec.json.encode(_SCHEMA).decode(),
    strict=False,
)

_fields = msgspec.json.Decoder(dict[str, Any])
_EMPTY: tuple[object, ...] = (None, "", {})
# The member that a plain string means in place of an object.
_MEANT = {"job": "job_id", "schedule": "schedule_text", "payload": "message"}
_FOR_INSTANCE = (
    'send for instance {"action":"add","schedule_text":"every 5 minutes","message":"Check the '
    'build."}.'
)


def read_call(arguments: str) -> ScheduleTaskCall:
    """Read a call's arguments, or raise `ToolError`."""
    fields = _decode_arguments(arguments.strip() or "{}")
    action = fields.pop("action", None)
    action = action.strip().lower()[:LONGEST_SHOWN] if isinstance(action, str) else ""
    if action not in ACTIONS:
        what = f"No action is called '{action}'" if action else "The action is missing"
        raise ToolError(action, f"{what}; use one of {', '.join(ACTIONS)}.")
    return ScheduleTaskCall(action, _members(action, fields))


def _decode_arguments(arguments: str) -> dict[str, Any]:
    try:
        return _fields.decode(arguments)
    except RecursionError:
        says = "they are nested too deeply"
    except UnicodeError:
        says = "they are not valid Unicode"
    except msgspec.DecodeError as error:
        says = str(error)
    raise ToolError("", f"The arguments cannot be read: {says}; {_FOR_INSTANCE}")


def _members(action: str, fields: dict[str, Any]) -> dict[str, object]:
    try:
        return _normalize_members(flat(_normalize_members(fields)))
    except InvalidInput as invalid:
        raise ToolError(action, str(invalid)) from None


def _normalize_members(members: Mapping[str, object]) -> dict[str, object]:
    """Convert strings in place of objects, and remove empty members."""
    spelt = (_read_member(name, value) for name, value in members.items())
    filled = ((name, _drop_empty(value)) for name, value in spelt)
    return {name: value for name, value in filled if value not in _EMPTY}


def _read_member(name: str, value: object) -> tuple[str, object]:
    if name not in _MEANT or not isinstance(value, str):
        return name, value
    text = value.strip()
    if not text.startswith("{"):
        return _MEANT[name], text
    try:
        return name, _fields.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return name, text


def _drop_empty(value: object) -> object:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if part not in _EMPTY}
    return value


def render_job(
    action: str,
    job: Job,
    *,
    deduped: bool | None = None,
    queued: bool | None = None,
    reason: str | None = None,
) -> str:
    """Render a job, and what was done with it."""
    more = {"deduped": deduped, "queued": queued, "reason": reason}
    said = {name: value for name, value in more.items() if value is not None}
    return render_result({"ok": True, "action": action, "job": summarize_job(job), **said})


def render_jobs(jobs: Iterable[Job]) -> str:
    """Render a list of jobs."""
    return render_result(
        {"ok": True, "action": "list", "jobs": [summarize_job(job) for job in jobs]}
    )


def render_removal(job_id: str) -> str:
    """Render that a job was removed."""
    return render_result({"ok": True, "action": "remove", "removed": job_id})


def render_status(scheduler: SchedulerStatus, jobs: JobCounts) -> str:
    """Render the status of the scheduler, and how many jobs there are."""
    return render_result({"ok": True, "action": "status", "scheduler": scheduler, "jobs": jobs})


def describe_unknown_job(action: str, job_id: str) -> ToolError:
    """Say that the owner has no job with this id."""
    return ToolError(
        action,
        f"No job has the job_id '{job_id[:LONGEST_SHOWN]}'; use action list to see all jobs.",
    )
