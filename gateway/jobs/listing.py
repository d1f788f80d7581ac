"""Lists of jobs: which state each is in, which are asked for, in which order, and page by page.

A cursor is the place of the last job of a page in the order that was asked for, not a number of
jobs: what is added or removed meanwhile makes no other job come twice or be left out.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from gateway.errors import InvalidInput
from gateway.jobs.model import Job

JobState = Literal["on", "failing", "running", "off"]
SortName = Literal["created", "name", "next", "last"]
Place = tuple[bool, int | str, str]
"""Whether a job has no value to sort by, that value, and its id."""

BAD_CURSOR = "after is not a cursor of this list; use what next was in the page before."

# What a job counts as; one that fails and runs counts as both, and as on.
HAS_STATE: Mapping[JobState, Callable[[Job], bool]] = {
    "on": lambda job: job.enabled,
    "failing": lambda job: job.enabled and job.consecutive_failures > 0,
    "running": lambda job: bool(job.run_id),
    "off": lambda job: not job.enabled,
}
# Of these the first that fits is shown.
SHOWN_STATES: tuple[JobState, ...] = ("running", "off", "failing", "on")
SORT_VALUES: Mapping[SortName, Callable[[Job], int | str | None]] = {
    "created": lambda job: job.created_ms,
    "name": lambda job: job.name.casefold(),
    "next": lambda job: job.next_run_ms,
    "last": lambda job: job.last_run_ms,
}
_cursors = msgspec.json.Decoder(Place)


class JobTotals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many jobs there are, and how many count as each state."""

    all: int
    on: Annotated[int, Meta(description="Enabled, with those that fail or run.")]
    failing: Annotated[int, Meta(description="Enabled, and the last run failed.")]
    running: int
    off: Annotated[int, Meta(description="Disabled.")]


class JobOrder(NamedTuple):
    """By what jobs are sorted, and whether from the end; those without it come last."""

    name: SortName = "created"
    is_reversed: bool = False

    def place(self, job: Job) -> Place:
        """Return the place of a job in this order."""
        value = SORT_VALUES[self.name](job)
        return (value is None) != self.is_reversed, "" if value is None else value, job.job_id


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the listed jobs are wanted; without a limit, all of them at once."""

    text: str = ""
    state: JobState | None = None
    order: JobOrder | None = None
    """None: as they are stored, the oldest first."""
    limit: int | None = None
    after: str = ""


class JobPage(NamedTuple):
    """Some of the listed jobs, the cursor of the next page, and counts of all."""

    jobs: list[Job]
    next: str | None
    totals: JobTotals


def find_state(job: Job) -> JobState:
    """Return the state that is shown of a job."""
    return next(state for state in SHOWN_STATES if HAS_STATE[state](job))


def find_jobs(jobs: Sequence[Job], query: JobQuery) -> JobPage:
    """Return the page of jobs that is asked for; raise `InvalidInput` for a wrong cursor."""
    matches = [job for job in jobs if _contains(job, query.text.casefold())]
    totals = JobTotals(len(matches), *(sum(map(has, matches)) for has in HAS_STATE.values()))
    if query.state is not None:
        matches = list(filter(HAS_STATE[query.state], matches))
    order = query.order or JobOrder()
    if query.order or query.limit is not None:
        matches.sort(key=order.place, reverse=order.is_reversed)
    if query.after:
        matches = _skip(matches, order, _read_cursor(query.after, order))
    page = matches[: query.limit]
    is_last = len(page) == len(matches)
    return JobPage(page, None if is_last else _write_cursor(order.place(page[-1])), totals)


def _contains(job: Job, text: str) -> bool:
    members = (job.name, job.message, job.session_id, job.agent_id, job.user_id)
    # Of an id only the whole: a few letters are in the ids of many jobs by chance.
    return not text or text == job.job_id or any(text in one.casefold() for one in members)


def _skip(jobs: list[Job], order: JobOrder, place: Place) -> list[Job]:
    if not order.is_reversed:
        return jobs[bisect_right(jobs, place, key=order.place) :]
    return [job for job in jobs if order.place(job) < place]


def _write_cursor(place: Place) -> str:
    return urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _read_cursor(text: str, order: JobOrder) -> Place:
    try:
        place: Place = _cursors.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, msgspec.MsgspecError):
        raise InvalidInput(BAD_CURSOR) from None
    has_no_value = place[0] != order.is_reversed
    wanted = str if has_no_value or order.name == "name" else int
    if not isinstance(place[1], wanted):
        # It is the cursor of another order.
        raise InvalidInput(BAD_CURSOR)
    return place
