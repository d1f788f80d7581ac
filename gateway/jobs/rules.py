"""What the operator says about jobs and their schedules."""

from __future__ import annotations

import msgspec


class JobRules(msgspec.Struct, frozen=True, gc=False):
    """What the operator says about jobs."""

    timezone: str = "UTC"
    min_interval_ms: int = 1000
    misfire_grace_ms: int = 3_600_000
    max_consecutive_failures: int = 5
    cron_lookahead_days: int = 3660
    jobs_per_owner: int = 100
