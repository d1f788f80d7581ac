"""Jobs, described: under the path of this gateway, and that of the one it can stand in for."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from gateway.api.jobs import (
    ADMIN_PATHS,
    PATHS,
    Data,
    JobAdded,
    JobAnswer,
    JobList,
    JobQueued,
    JobRemoved,
    JobsStatus,
    RunList,
)
from gateway.api.openapi.operation import Area, Operation, Parameter, Reply
from gateway.jobs.reader import JobChange, JobId, JobName, JobRequest

T = TypeVar("T")
Action = Literal["update", "enable", "disable", "remove"]


class WithinJob(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """The same, written within `job`."""

    job: T


class AnyJobChange(JobChange, kw_only=True):
    """What an admin does with a job."""

    action: Action | None = None


class AnyJobChangeWithin(WithinJob[JobChange]):
    """The same, written within `job`."""

    action: Action | None = None


NO_JOB = {404: "There is no such job, or it is somebody else's."}
OTHER_HAS_KEY = {409: "Another job has this dedupe_key."}
NAMED = (JobName, WithinJob[JobName])
CHANGE = (JobChange, WithinJob[JobChange])
WHICH = Parameter("job_id", JobId, "Which job.", required=True)
OF = (
    Parameter("session_id", str, "Only those of this session."),
    Parameter("agent_id", str, "Only those of this agent."),
)
OF_OWNER = Parameter("user_id", str, "Only those of this owner.")
LIMIT = Parameter("limit", Annotated[int, Meta(ge=1)], "How many; 20 if not said, 1000 at most.")
THEM, DONE = (Reply("Them.", Data[JobList]),), (Reply("Done.", Data[JobAnswer]),)


# Paths and names are those below one of the paths that all this is found under.
OWN = (
    Operation("get", "list", "List", "List your jobs, the oldest first.", THEM, OF),
    Operation(
        "get",
        "get",
        "Get",
        "Show a job.",
        (Reply("It.", Data[JobAnswer]),),
        (WHICH,),
        errors=NO_JOB,
    ),
    Operation(
        "get",
        "runs",
        "Runs",
        "Show the runs of a job, the newest first.",
        (Reply("Them.", Data[RunList]),),
        (WHICH, LIMIT),
        errors=NO_JOB,
    ),
    Operation(
        "get",
        "status",
        "Status",
        "Show how the scheduler is, and how many jobs you have.",
        (Reply("Both.", Data[JobsStatus]),),
    ),
    Operation(
        "post",
        "add",
        "Add",
        "Make a job.",
        (Reply("Done.", Data[JobAdded]),),
        body=(JobRequest, WithinJob[JobRequest]),
        errors={
            409: "Your job_id or dedupe_key is taken.",
            429: "You have as many jobs as are allowed.",
        },
    ),
    Operation(
        "post",
        "update",
        "Update",
        "Change what is named of a job.",
        DONE,
        body=CHANGE,
        errors={**NO_JOB, **OTHER_HAS_KEY},
    ),
    Operation("post", "enable", "Enable", "Let a job run again.", DONE, body=NAMED, errors=NO_JOB),
    Operation("post", "disable", "Disable", "Let a job rest.", DONE, body=NAMED, errors=NO_JOB),
    Operation(
        "post",
        "remove",
        "Remove",
        "Delete a job and its runs.",
        (Reply("Done.", Data[JobRemoved]),),
        body=NAMED,
        errors=NO_JOB,
    ),
    Operation(
        "post",
        "run",
        "Run",
        "Run a job now; the answer does not wait for it.",
        (Reply("Done.", Data[JobQueued]),),
        body=NAMED,
        errors=NO_JOB,
    ),
)


ADMIN = (
    Operation(
        "get",
        "list",
        "List",
        "List the jobs of all owners, or of one.",
        THEM,
        (*OF, OF_OWNER),
        access="admin",
    ),
    Operation(
        "post",
        "update",
        "Update",
        "Change, enable, disable or remove whosoever's job.",
        (Reply("Done.", (Data[JobAnswer], Data[JobRemoved])),),
        body=(AnyJobChange, AnyJobChangeWithin),
        errors={**NO_JOB, **OTHER_HAS_KEY},
        access="admin",
    ),
)


def _place(operation: Operation, path: str) -> Operation:
    """Describe an operation under one of its paths."""
    first, *rest = path.strip("/").removeprefix("api/").split("/")
    name = first + "".join(map(str.capitalize, rest)) + operation.name
    return replace(operation, path=f"{path}/{operation.path}", name=name, error="JobError")


AREA = Area(
    "jobs",
    "Messages that are sent when it is time.",
    (
        *(_place(one, path) for path in PATHS for one in OWN),
        *(_place(one, path) for path in ADMIN_PATHS for one in ADMIN),
    ),
)
