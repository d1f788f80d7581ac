"""The topics about what is kept: jobs, one job, sessions, one session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec

from gateway.console.feed import ConsoleFeed, Viewer
from gateway.console.topics import PolledTopic
from gateway.jobs.job_views import show_jobs
from gateway.jobs.relay_sessions import JobIndex
from gateway.jobs.view import show_run
from gateway.stores.job_rows import JobRows

NEWEST_RUNS = 20
JOB = "job"
CHANGED = "changed"
SessionReader = Callable[[Viewer], Awaitable[Mapping[str, object]]]
"""Returns the rows of all sessions that a viewer sees, by owner and name."""
SessionStamp = Callable[[str, str], Awaitable[object]]
"""Returns a value that differs when a session of an owner has changed."""


@dataclass(frozen=True, slots=True)
class JobTopics:
    """Reads jobs again when one has changed, else every few seconds."""

    rows: JobRows
    index: JobIndex

    def add_to(self, feed: ConsoleFeed) -> None:
        """Let the topics be read."""
        feed.add_topic("jobs", lambda viewer, about: self._poll(partial(self._read_all, viewer)))
        feed.add_topic(
            "job:", lambda viewer, about: self._poll(partial(self._read_one, viewer, about))
        )

    def _poll(self, read: Callable[[], Awaitable[Mapping[str, object]]]) -> PolledTopic:
        return PolledTopic(read, stamp=lambda: self.index.latest_change)

    async def _read_all(self, viewer: Viewer) -> Mapping[str, object]:
        found = await self.rows.listing(viewer.scope, None, None)
        return {shown.job_id: shown for shown in await show_jobs(self.rows, found)}

    async def _read_one(self, viewer: Viewer, job_id: str) -> Mapping[str, object]:
        job = await self.rows.get(job_id, viewer.scope)
        if job is None:
            return {}
        runs = [show_run(run) for run in await self.rows.runs(job_id, NEWEST_RUNS)]
        # The whole output of a run is read when it is opened.
        shown = {run.run_id: msgspec.structs.replace(run, result="") for run in runs}
        (view,) = await show_jobs(self.rows, [job])
        return {JOB: view, **shown}


@dataclass(frozen=True, slots=True)
class SessionTopics:
    """Reads sessions every few seconds."""

    read_all: SessionReader
    read_stamp: SessionStamp
    interval: float = 2.0

    def add_to(self, feed: ConsoleFeed) -> None:
        """Let the topics be read."""
        feed.add_topic(
            "sessions",
            lambda viewer, about: PolledTopic(partial(self.read_all, viewer), self.interval),
        )
        feed.add_topic(
            "session:",
            lambda viewer, about: PolledTopic(partial(self._read_one, viewer, about)),
        )

    async def _read_one(self, viewer: Viewer, session: str) -> Mapping[str, object]:
        return {CHANGED: {"version": await self.read_stamp(viewer.name, session)}}
