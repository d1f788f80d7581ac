"""Shows jobs with how their last runs ended; many of them without keeping others waiting."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from gateway.jobs.model import Job
from gateway.jobs.view import LAST_RUNS, JobView, show_job
from gateway.stores.job_rows import JobRows

# How many jobs are shown without giving others a turn.
SHOWN_AT_ONCE = 100


async def show_jobs(rows: JobRows, jobs: Sequence[Job]) -> list[JobView]:
    """Return what is shown of jobs, with how their last runs ended."""
    statuses = await rows.last_statuses([job.job_id for job in jobs], LAST_RUNS)

    def show_all() -> list[JobView]:
        return [show_job(job, statuses.get(job.job_id, ())) for job in jobs]

    # The next times of thousands of cron expressions take seconds: others go on meanwhile.
    return show_all() if len(jobs) <= SHOWN_AT_ONCE else await to_thread.run_sync(show_all)
