"""The shapes of answers about jobs, and of requests that name them in other ways than `add`."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.jobs.listing import JobTotals
from gateway.jobs.reader import JobChange, JobId
from gateway.jobs.view import JobCounts, JobView, RunView, SchedulerStatus
from gateway.timestamps import Timestamp

T = TypeVar("T")

MOST_IN_BULK = 500

Action = Literal["update", "enable", "disable", "remove"]
BulkAction = Literal["enable", "disable", "remove", "run"]


class Data(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    """What all answers of this area stand in."""

    data: T


class JobAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job."""

    job: JobView


class JobAdded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The job that was made, or the one that had its `dedupe_key` and was changed."""

    job: JobView
    deduped: bool


class JobRemoved(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The job is gone."""

    removed: Literal[True]


class JobQueued(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a job runs now, and if not, why."""

    queued: bool
    job: JobView
    reason: Annotated[str, Meta(description="Why it is not.")] | UnsetType = UNSET


class JobList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs, the oldest first unless another order is asked for."""

    jobs: list[JobView]
    next: Annotated[str | None, Meta(description="The `after` of the next page, if there is one.")]
    totals: Annotated[JobTotals, Meta(description="Of all that are listed, on whatever page.")]


class RunList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Runs, the newest first."""

    job_id: Annotated[str | None, Meta(description="The job, if it was named.")]
    runs: list[RunView]
    next: Annotated[str | None, Meta(description="The `after` of the next page, if there is one.")]


class RunAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run."""

    run: RunView


class JobCalendar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs are planned in each span of time."""

    since: Timestamp = msgspec.field(name="from")
    bucket_ms: int
    counts: list[int]
    total: int


class JobsStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the scheduler is, and how many jobs the owner has."""

    scheduler: SchedulerStatus
    jobs: JobCounts


class BulkFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why nothing was done with a job."""

    job_id: str
    code: str
    message: str


class BulkResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The jobs with which something was done, and the others."""

    done: list[str]
    failed: list[BulkFailure]


class JobErrorDetail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What went wrong, as a code and as a sentence."""

    code: str
    message: str
    job: (
        Annotated[JobView, Meta(description="What it is now, if it was changed meanwhile.")]
        | UnsetType
    ) = UNSET


class JobError(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error, in the form of this area."""

    ok: Literal[False]
    error: JobErrorDetail


class WithinJob(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """The same, written within `job`."""

    job: T


class AnyJobChange(JobChange, kw_only=True):
    """What an admin does with a job."""

    action: Action | None = None


class AnyJobChangeWithin(WithinJob[JobChange]):
    """The same, written within `job`."""

    action: Action | None = None


class BulkRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is to be done with several jobs."""

    action: BulkAction
    job_ids: Annotated[list[JobId], Meta(max_length=MOST_IN_BULK)]
