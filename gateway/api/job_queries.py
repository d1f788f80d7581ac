"""What is asked for in lists of jobs and runs, read from the query of a request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request as WebRequest

from gateway.api.requests import read_positive
from gateway.api.route import Parameter
from gateway.errors import InvalidInput
from gateway.jobs.listing import HAS_STATE, SORT_VALUES, JobOrder, JobQuery
from gateway.jobs.planned_runs import RunSpans
from gateway.jobs.reader import JobId
from gateway.stores.job_rows import RunQuery

RUNS, MOST_RUNS = 20, 1000
MOST_JOBS = 1000
BUCKET_MS, MOST_BUCKETS = 15 * 60_000, 2000
DAY_MS, YEAR_MS = 86_400_000, 366 * 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)

ORDERS: Mapping[str, JobOrder] = {
    f"{sign}{name}": JobOrder(name, bool(sign)) for name in SORT_VALUES for sign in ("", "-")
}

WHICH = Parameter("job_id", JobId, "The job.", required=True)
WHICH_RUN = Parameter("run_id", JobId, "The run.", required=True)
OF_JOB = Parameter("job_id", str, "Only those of this job.")
OF_SESSION = Parameter("session_id", str, "Only those of this session.")
OF_AGENT = Parameter("agent_id", str, "Only those of this agent.")
OF_OWNER = Parameter("user_id", str, "Only those of this owner.")
RUN_LIMIT = Parameter("limit", Annotated[int, Meta(ge=1)], "How many; 20 by default, 1000 at most.")
AFTER = Parameter("after", str, "What `next` was in the page before.")
RESULTS = Parameter("results", str, "0: without `result`.")
JOB_FILTERS = (
    OF_SESSION,
    OF_AGENT,
    Parameter("limit", Annotated[int, Meta(ge=1)], "How many; all by default, else 1000 at most."),
    AFTER,
    Parameter(
        "q", str, "Only those with this id, or with this in name, message, session, agent or owner."
    ),
    Parameter("state", str, f"Only those that count as {', '.join(HAS_STATE)}."),
    Parameter("sort", str, f"By {', '.join(SORT_VALUES)}; with `-` before it the other way round."),
)
RUN_FILTERS = (OF_JOB, RUN_LIMIT, AFTER, RESULTS)
SPANS = (
    Parameter("from", str, "When it begins, as RFC 3339 or UTC milliseconds; now by default."),
    Parameter("to", str, "When it ends; 24 hours later by default."),
    Parameter(
        "bucket_ms", Annotated[int, Meta(ge=1)], "How long a span is; 15 minutes by default."
    ),
)


def read_job_query(request: WebRequest) -> JobQuery:
    """Read which jobs are asked for, or raise `InvalidInput`."""
    given = request.query_params
    limit = (
        min(read_positive(request, "limit", MOST_JOBS), MOST_JOBS) if given.get("limit") else None
    )
    state, sort = given.get("state", ""), given.get("sort", "")
    if state and state not in HAS_STATE:
        raise InvalidInput(f"state must be one of {', '.join(HAS_STATE)}.")
    if sort and sort not in ORDERS:
        raise InvalidInput(
            f"sort must be one of {', '.join(SORT_VALUES)}, or one with - before it."
        )
    return JobQuery(
        text=given.get("q", "").strip(),
        state=next((known for known in HAS_STATE if known == state), None),
        order=ORDERS.get(sort),
        limit=limit,
        after=given.get("after", ""),
    )


def read_run_query(request: WebRequest, owner: str | None) -> RunQuery:
    """Read which runs are asked for, and one more, so that it is known whether more follow."""
    given = request.query_params
    return RunQuery(
        owner=owner,
        job_id=given.get("job_id", "").strip() or None,
        before=read_positive(request, "after", 0) or None,
        limit=min(read_positive(request, "limit", RUNS), MOST_RUNS) + 1,
    )


def read_spans(request: WebRequest, now_ms: int) -> RunSpans:
    """Read from when to when runs are counted, and in which spans, or raise `InvalidInput`."""
    from_ms = _read_instant(request, "from", now_ms)
    to_ms = _read_instant(request, "to", from_ms + DAY_MS)
    bucket_ms = read_positive(request, "bucket_ms", BUCKET_MS)
    if abs(from_ms - now_ms) > 10 * YEAR_MS:
        raise InvalidInput("from must be within ten years.")
    if not from_ms < to_ms <= from_ms + YEAR_MS:
        raise InvalidInput("to must be after from, and at most 366 days after it.")
    count = -(-(to_ms - from_ms) // bucket_ms)
    if count > MOST_BUCKETS:
        raise InvalidInput(
            f"bucket_ms is too short: there would be {count} spans; {MOST_BUCKETS} are allowed."
        )
    return RunSpans(from_ms, bucket_ms, count)


def read_id(request: WebRequest, name: str, where: str) -> str:
    """Read an id that has to be named, or raise `InvalidInput`."""
    found = request.query_params.get(name, "").strip()
    if not found:
        raise InvalidInput(f"{name} is missing; name one of the {where}.")
    return found


def _read_instant(request: WebRequest, name: str, default: int) -> int:
    text = request.query_params.get(name, "").strip()
    if not text:
        return default
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    try:
        # A plus sign in a query that is not encoded is a space.
        moment = datetime.fromisoformat(text.replace(" ", "+"))
        if moment.tzinfo is not None:
            return (moment - _EPOCH) // _MS
    except ValueError:
        pass
    raise InvalidInput(f"{name} must be a time in RFC 3339 format, or UTC milliseconds.")
