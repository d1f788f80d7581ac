"""Whoever runs jobs, as those see it who make them; and what stands there when nobody does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.jobs.model import Job
from gateway.jobs.view import SchedulerStatus

RUNNING = "running"
SWITCHED_OFF = "switched off"
STARTING = "starting"
LEAVING = "shutting down"


@dataclass(frozen=True, slots=True)
class Queued:
    """What became of a wish to run a job now; without a reason against it, it is on its way."""

    job: Job
    reason: str = ""


class SchedulerPort(Protocol):
    """Whoever runs jobs."""

    def wake(self) -> None:
        """Look again when the next job is due."""

    async def start(self, job: Job) -> Queued:
        """Run a job now, and do not wait for it."""

    async def end_session(self, owner: str, session: str) -> None:
        """End all runs of a session that is deleted, and wait until they are over."""

    def status(self) -> SchedulerStatus:
        """Show how it is."""


class DisabledScheduler:
    """Runs nothing: jobs are kept, and wait for better times."""

    def wake(self) -> None:
        """Sleep on."""

    async def start(self, job: Job) -> Queued:
        """Say that it is off."""
        return Queued(job, SWITCHED_OFF)

    async def end_session(self, owner: str, session: str) -> None:
        """Have nothing to end."""

    def status(self) -> SchedulerStatus:
        """Say that it is off."""
        return SchedulerStatus(enabled=False, state="off")
