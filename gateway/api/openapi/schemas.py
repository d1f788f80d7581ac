"""The shapes of what the gateway says, each described once."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.api.openapi.text import Json, items, moment, number, or_null, ref, text, thing, truth

# What an upstream says of an error is passed on, and may be more or less than this.
ERROR: Json = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": text("One sentence for the person who reads it."),
                "type": {"type": ["string", "null"]},
                "param": {"type": ["string", "null"], "description": "Which member is meant."},
                "code": {"type": ["string", "number", "null"]},
                "busy_reason": text("What keeps a session busy.", enum=["chat", "job"]),
            },
            "required": ["message"],
        }
    },
    "required": ["error"],
}
MESSAGES_ERROR: Json = {
    "type": "object",
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "properties": {"type": text(), "message": text()},
            "required": ["type", "message"],
        },
    },
    "required": ["type", "error"],
}
# The front door refuses in one shape, whatever the path.
JOB_ERROR: Json = {
    "anyOf": [
        thing({"ok": {"const": False}, "error": thing({"code": text(), "message": text()})}),
        ref("Error"),
    ]
}
READINESS_ERROR: Json = {"anyOf": [thing({"status": {"const": "draining"}}), ref("Error")]}

SCHEDULE: Json = thing(
    {
        "kind": text(enum=["at", "every", "cron"]),
        "at": or_null(moment("The time of `at`; where the grid of `every` begins.")),
        "every_ms": or_null(number()),
        "cron": or_null(text()),
        "tz": or_null(text("An IANA name.")),
    }
)
JOB: Json = thing(
    {
        "job_id": text(),
        "user_id": text("The owner."),
        "session_id": text(),
        "agent_id": text("Empty for a relay session."),
        "model": or_null(text("The one that is asked; null: the agent's, or the last request's.")),
        "name": text(),
        "enabled": truth(),
        "delete_after_run": truth(),
        "session": text(enum=["main", "isolated"]),
        "schedule": ref("Schedule"),
        "payload": thing({"message": text()}),
        "dedupe_key": or_null(text()),
        "next_run_at": or_null(moment()),
        "running_at": or_null(moment()),
        "last_run_at": or_null(moment()),
        "last_status": or_null(ref("RunStatus")),
        "last_error": or_null(text()),
        "consecutive_failures": number(),
        "disabled_reason": or_null(text("Why the gateway disabled it.")),
        "created_at": moment(),
        "updated_at": moment(),
    }
)
RUN_STATUS: Json = text(enum=["running", "ok", "error", "skipped", "interrupted", "missed"])
RUN: Json = thing(
    {
        "run_id": text(),
        "job_id": text(),
        "trigger": text(enum=["timer", "manual"]),
        "status": ref("RunStatus"),
        "summary": text("How the result or the error begins.", maxLength=200),
        "result": text(),
        "error": or_null(text()),
        "duration_ms": or_null(number()),
        "due_at": moment(),
        "started_at": or_null(moment()),
        "finished_at": or_null(moment()),
        "missed": number("How many times a row that is `missed` stands for; else 0."),
    }
)

REMINDER: Json = thing(
    {
        "taskId": text(),
        "dueAt": moment(),
        "task": text(),
        "tool": text(),
        "arguments": {"type": ["object", "string"]},
        "deliveredAt": moment(),
        "deliveryCount": number(),
    },
    optional=("tool", "arguments", "deliveredAt"),
)
ENDED_REMINDER: Json = thing(
    {"taskId": text(), "dueAt": moment(), "task": text(), "outcome": text(), "at": moment()}
)
DELIVERY: Json = thing(
    {
        "id": text(),
        "kind": text(enum=["reminder", "run"]),
        "at": moment(),
        "text": text(),
        "tool": text("Of a reminder."),
        "arguments": {"type": ["object", "string"], "description": "Of a reminder."},
        "name": text("Of the job."),
        "job_id": text(),
        "run_id": text(),
        "status": text("Of a job that is told of without a result.", enum=["failed", "missed"]),
    },
    optional=("tool", "arguments", "name", "job_id", "run_id", "status"),
)

STOP_MESSAGE: Json = thing(
    {
        "text": text(),
        "maxRepeats": number(),
        "used": number(),
        "armed": truth(),
        "updatedAt": moment(),
        "lastUsedAt": or_null(moment()),
    }
)
BOOKMARK: Json = thing({"seq": number("The version."), "timestamp": number("UTC milliseconds.")})
SESSION: Json = thing(
    {
        "sessionId": text(),
        "agentId": or_null(text("Whose conversation this is.")),
        "agents": items(text(), "All whom conversations were held with."),
        "messages": items({"type": "object"}, "As in a Chat Completions request."),
        "bookmark": or_null(BOOKMARK),
        "reminders": items(ref("Reminder")),
        "jobs": items(ref("Job")),
        "deliveries": number("How many wait."),
        "directives": items(text(), "Those in force."),
        "stopMessage": or_null(STOP_MESSAGE),
    }
)
NTP: Json = thing(
    {
        "status": text(enum=["synced", "stale", "error", "disabled"]),
        "offsetMs": number(),
        "server": text(),
        "rttMs": or_null(number()),
        "lastSyncMs": or_null(number()),
        "lastError": text(),
    }
)

ERRORS: Mapping[str, Json] = {
    "Error": ERROR,
    "MessagesError": MESSAGES_ERROR,
    "JobError": JOB_ERROR,
    "ReadinessError": READINESS_ERROR,
}
SCHEMAS: Mapping[str, Json] = {
    **ERRORS,
    "Schedule": SCHEDULE,
    "Job": JOB,
    "Run": RUN,
    "RunStatus": RUN_STATUS,
    "Reminder": REMINDER,
    "EndedReminder": ENDED_REMINDER,
    "Delivery": DELIVERY,
    "Session": SESSION,
    "Ntp": NTP,
}
