"""Jobs, described: under the path of this gateway, and that of the one it can stand in for."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.api.openapi.text import (
    Answer,
    Area,
    Json,
    Operation,
    Parameter,
    in_json,
    items,
    moment,
    number,
    or_null,
    ref,
    text,
    thing,
    truth,
    wish,
)
from gateway.jobs.reader import OURS

WISHED_SCHEDULE: Json = wish(
    {
        "kind": text(enum=["at", "every", "cron"]),
        "at": {
            "type": ["string", "number"],
            "description": "RFC 3339, or without an offset and in `tz`, or since 1970 in s or ms.",
        },
        "every_ms": number(minimum=0),
        "cron": text("Five fields, or six with seconds."),
        "tz": text("An IANA name."),
    }
)
SETTABLE: Mapping[str, Json] = {
    "message": text("What is sent when it is time.", minLength=1, maxLength=16_384),
    "payload": wish({"message": text("Another place for it.", minLength=1, maxLength=16_384)}),
    "schedule": WISHED_SCHEDULE,
    "schedule_text": text("Such as `every 5 minutes` or `weekdays at 18:30`.", maxLength=200),
    "name": text(maxLength=128),
    "session": text(enum=["main", "isolated"]),
    "session_id": text("Which session it belongs to.", maxLength=256),
    "agent_id": text("Which agent it belongs to, if any.", maxLength=256),
    "model": text("For a relay session.", maxLength=256),
    "enabled": truth(),
    "delete_after_run": truth(),
    "dedupe_key": text("A known one has that job changed instead.", maxLength=256),
}
JOB_ID = text(minLength=1, maxLength=256)
# Sent back as it was shown, a job has these too; they are passed over.
SHOWN: Mapping[str, Json] = {name: {} for name in sorted(OURS)}
ACTION = text(enum=["update", "enable", "disable", "remove"])
SCHEMAS: Mapping[str, Json] = {
    "JobWish": wish(SETTABLE),
    "JobChange": wish({"job_id": JOB_ID, **SETTABLE, **SHOWN}, "job_id"),
    "JobName": {
        **wish({"job_id": JOB_ID}, "job_id"),
        "description": "Which job is meant; what else a job has may be sent along.",
    },
}


def _flat_or_within(name: str) -> Json:
    return {"anyOf": [ref(name), wish({"job": ref(name)}, "job")]}


ANY_CHANGE: Json = {
    "anyOf": [
        wish({"job_id": JOB_ID, "action": ACTION, **SETTABLE, **SHOWN}, "job_id"),
        wish({"job": ref("JobChange"), "action": ACTION}, "job"),
    ]
}
ERROR = "JobError"
NO_JOB = {404: "There is no such job, or it is somebody else's."}
WHICH = Parameter("job_id", JOB_ID, "Which job.", required=True)
OF = (
    Parameter("session_id", text(), "Only those of this session."),
    Parameter("agent_id", text(), "Only those of this agent."),
)
ONE_JOB = in_json(thing({"data": thing({"job": ref("Job")})}))
JOBS = in_json(thing({"data": thing({"jobs": items(ref("Job"))})}))
REMOVED = thing({"data": thing({"removed": {"const": True}})})
STATUS: Json = thing(
    {
        "scheduler": {
            "type": "object",
            "properties": {
                "enabled": truth(),
                "state": text(enum=["running", "draining", "off"]),
                "runs": number("Under way."),
                "max_concurrent_runs": number(),
            },
            "required": ["enabled", "state"],
        },
        "jobs": thing(
            {
                "total": number(),
                "enabled": number(),
                "running": number(),
                "next_run_at": or_null(moment()),
            }
        ),
    }
)
QUEUED: Json = thing(
    {"queued": truth(), "job": ref("Job"), "reason": text("Why it is not.")}, optional=("reason",)
)


def area(paths: tuple[str, ...], admin_paths: tuple[str, ...]) -> Area:
    """Describe the routes about jobs below these paths."""
    own = [one for path in paths for one in (*_reads(path), *_writes(path))]
    admin = [one for path in admin_paths for one in _admin(path)]
    return Area("jobs", "Messages that are sent when it is time.", (*own, *admin))


def _reads(path: str) -> tuple[Operation, ...]:
    runs = thing({"data": thing({"job_id": text(), "runs": items(ref("Run"))})})
    limit = Parameter("limit", number(minimum=1), "How many; 20 if not said, 1000 at most.")
    return (
        Operation(
            method="get",
            path=f"{path}/list",
            name=_name(path, "List"),
            summary="List your jobs, the oldest first.",
            parameters=OF,
            answers=(Answer("Them.", JOBS),),
            error=ERROR,
        ),
        Operation(
            method="get",
            path=f"{path}/get",
            name=_name(path, "Get"),
            summary="Show a job.",
            parameters=(WHICH,),
            answers=(Answer("It.", ONE_JOB),),
            errors=NO_JOB,
            error=ERROR,
        ),
        Operation(
            method="get",
            path=f"{path}/runs",
            name=_name(path, "Runs"),
            summary="Show the runs of a job, the newest first.",
            parameters=(WHICH, limit),
            answers=(Answer("Them.", in_json(runs)),),
            errors=NO_JOB,
            error=ERROR,
        ),
        Operation(
            method="get",
            path=f"{path}/status",
            name=_name(path, "Status"),
            summary="Show how the scheduler is, and how many jobs you have.",
            answers=(Answer("Both.", in_json(thing({"data": STATUS}))),),
            error=ERROR,
        ),
    )


def _writes(path: str) -> tuple[Operation, ...]:
    added = thing({"data": thing({"job": ref("Job"), "deduped": truth()})})
    taken = {
        409: "Your job_id or dedupe_key is taken.",
        429: "You have as many jobs as are allowed.",
    }
    named = _flat_or_within("JobName")
    return (
        _write(path, "add", "Make a job.", _flat_or_within("JobWish"), in_json(added), taken),
        _write(
            path,
            "update",
            "Change what is named of a job.",
            _flat_or_within("JobChange"),
            ONE_JOB,
            {**NO_JOB, 409: "Another job has this dedupe_key."},
        ),
        _write(path, "enable", "Let a job run again.", named, ONE_JOB, NO_JOB),
        _write(path, "disable", "Let a job rest.", named, ONE_JOB, NO_JOB),
        _write(path, "remove", "Delete a job and its runs.", named, in_json(REMOVED), NO_JOB),
        _write(
            path,
            "run",
            "Run a job now; the answer does not wait for it.",
            named,
            in_json(thing({"data": QUEUED})),
            NO_JOB,
        ),
    )


def _write(
    path: str, verb: str, summary: str, body: Json, answer: Json, errors: Mapping[int, str]
) -> Operation:
    return Operation(
        method="post",
        path=f"{path}/{verb}",
        name=_name(path, verb.capitalize()),
        summary=summary,
        body=body,
        answers=(Answer("Done.", answer),),
        errors=errors,
        error=ERROR,
    )


def _admin(path: str) -> tuple[Operation, ...]:
    changed = {"anyOf": [thing({"data": thing({"job": ref("Job")})}), REMOVED]}
    return (
        Operation(
            method="get",
            path=f"{path}/list",
            name=_name(path, "List"),
            summary="List the jobs of all owners, or of one.",
            parameters=(*OF, Parameter("user_id", text(), "Only those of this owner.")),
            answers=(Answer("Them.", JOBS),),
            error=ERROR,
            access="admin",
        ),
        Operation(
            method="post",
            path=f"{path}/update",
            name=_name(path, "Update"),
            summary="Change, enable, disable or remove whosoever's job.",
            body=ANY_CHANGE,
            answers=(Answer("Done.", in_json(changed)),),
            errors={**NO_JOB, 409: "Another job has this dedupe_key."},
            error=ERROR,
            access="admin",
        ),
    )


def _name(path: str, verb: str) -> str:
    first, *rest = path.strip("/").removeprefix("api/").split("/")
    return first + "".join(map(str.capitalize, rest)) + verb
