"""The jobs of relay sessions by session, in memory: for whoever must not wait to know."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.jobs.model import Job
from gateway.stores.documents import SessionKey
from gateway.stores.waiting import Unsubscribe, Watchers


class JobIndex:
    """Knows which relay sessions have jobs, and when the next run of each begins.

    Agents are not in it: what their jobs come to is in the conversation, and waits for nobody.
    """

    def __init__(self) -> None:
        self._jobs: dict[SessionKey, dict[str, Job]] = {}
        self._session_keys: dict[str, SessionKey] = {}
        self._watchers = Watchers()
        self.is_loaded = False
        """Whether it has all jobs there are."""

    def __len__(self) -> int:
        return len(self._session_keys)

    def __repr__(self) -> str:
        return f"<JobIndex {len(self)} jobs of {len(self._jobs)} sessions>"

    def load(self, jobs: Iterable[Job]) -> None:
        """Take these for all there are."""
        self.is_loaded = True
        jobs = list(jobs)
        for job_id in self._session_keys.keys() - {job.job_id for job in jobs}:
            self.drop(job_id)
        for job in jobs:
            self.put(job)

    def put(self, job: Job) -> None:
        """Note what a job is like now."""
        session_key = (job.user_id, job.session_id)
        if self._session_keys.get(job.job_id, session_key) != session_key or job.agent_id:
            self.drop(job.job_id)
        if job.agent_id:
            return
        before = self._jobs.setdefault(session_key, {}).get(job.job_id)
        self._jobs[session_key][job.job_id] = job
        self._session_keys[job.job_id] = session_key
        if before is None or _next(before) != _next(job):
            self._watchers.notify(session_key)

    def drop(self, job_id: str) -> None:
        """Note that a job is gone."""
        session_key = self._session_keys.pop(job_id, None)
        if session_key is None:
            return
        del self._jobs[session_key][job_id]
        if not self._jobs[session_key]:
            del self._jobs[session_key]
        self._watchers.notify(session_key)

    def has_jobs(self, owner: str, session: str) -> bool:
        """Tell whether a relay session has jobs, whether or not they are enabled."""
        return (owner, session) in self._jobs

    def expecting(self, owner: str, session: str) -> int | None:
        """Return when a session's next run begins, the past if one is under way; None: never."""
        times = (_next(job) for job in self._jobs.get((owner, session), {}).values())
        return min((time for time in times if time is not None), default=None)

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Have the callback called when that changes."""
        return self._watchers.watch((owner, session), callback)


def _next(job: Job) -> int | None:
    return job.running_ms if job.run_id else job.next_run_ms
