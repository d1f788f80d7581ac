"""What a session is told of a job that failed for good, or whose times were missed."""

from __future__ import annotations

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import At
from gateway.timestamps import iso

LONGEST_REASON = 200
UNKNOWN = "no reason is known."


def failure_notice(before: Job, after: Job | None, run: Run) -> str | None:
    """Say why a job is given up by the end of this run; None if it is not."""
    if after is None or run.status == "ok" or after.enabled or not before.enabled:
        return None
    reason = " ".join((run.error or UNKNOWN).split())[:LONGEST_REASON]
    if isinstance(after.schedule, At):
        tries = after.retries + 1
        times = "once, and is not tried again" if tries == 1 else f"{tries} times"
        return f"It was tried {times}; the last try was {_ended(run)}: {reason}"
    failures = after.consecutive_failures
    times = "once" if failures == 1 else f"{failures} times in a row"
    return f"It failed {times} and is disabled now; the last error: {reason}"


def missed_notice(count: int, last_ms: int) -> str:
    """Say how many times of a job were missed, and which was the last."""
    if count == 1:
        return f"1 time was missed at {iso(last_ms)}."
    return f"{count} times were missed, the last at {iso(last_ms)}."


def _ended(run: Run) -> str:
    return "an error" if run.status == "error" else run.status
