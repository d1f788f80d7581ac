"""Jobs in the terminal: listed, made, removed and run, over the gateway's own HTTP API."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TypeVar

import httpx
import msgspec

from gateway.core.reminders import Unfit
from gateway.core.schedules import At, Cron, Every, Schedule, in_words
from gateway.terminal.line import CONTROLS, Refused, connected, reason
from gateway.terminal.tables import clipped, table

T = TypeVar("T")
Members = Mapping[str, object]

SECONDS = 30.0
NAME_COLUMNS, WHEN_COLUMNS, SUMMARY_COLUMNS = 28, 44, 60
NOTHING = "-"


class _Schedule(msgspec.Struct):
    kind: str
    at: str | None = None
    every_ms: int | None = None
    cron: str | None = None
    tz: str | None = None


class _Job(msgspec.Struct):
    job_id: str
    session_id: str
    agent_id: str
    name: str
    enabled: bool
    schedule: _Schedule
    next_run_at: str | None = None
    running_at: str | None = None
    last_run_at: str | None = None
    last_status: str | None = None
    disabled_reason: str | None = None


class _Run(msgspec.Struct):
    status: str
    trigger: str
    due_at: str
    summary: str
    result: str = ""
    error: str | None = None
    duration_ms: int | None = None


class _Jobs(msgspec.Struct):
    jobs: list[_Job]


class _Added(msgspec.Struct):
    job: _Job
    deduped: bool = False


class _Removed(msgspec.Struct):
    removed: bool


class _Queued(msgspec.Struct):
    queued: bool
    reason: str = ""


class _Runs(msgspec.Struct):
    runs: list[_Run]


class _Answer(msgspec.Struct):
    data: msgspec.Raw


class Desk:
    """Does what a person asks for, and says what came of it; raises `Refused`."""

    def __init__(self, url: str, key: str, as_json: bool = False) -> None:
        self._url = url
        self._key = key
        self._as_json = as_json

    def list(self, session: str, agent: str, everybody: bool) -> None:
        """Show the jobs: one's own, or with an admin's key everybody's."""
        query = {"session_id": session, "agent_id": agent}
        path = "/api/admin/cron/list" if everybody else "/api/cron/list"
        found = self._ask("GET", path, _Jobs, query)
        if found is not None:
            _show(_job_table(found.jobs) if found.jobs else "There are no jobs.")

    def add(self, wish: Members) -> None:
        """Make a job."""
        made = self._ask("POST", "/api/cron/add", _Added, wish)
        if made is not None:
            did = "changed" if made.deduped else "added"
            job = made.job
            _show(f"{job.job_id} {did}: {job.name}, {_when(job.schedule)}; next run {_next(job)}")

    def remove(self, job_id: str) -> None:
        """Delete a job and its runs."""
        if self._ask("POST", "/api/cron/remove", _Removed, {"job_id": job_id}) is not None:
            _show(f"{job_id} is removed.")

    def run(self, job_id: str) -> None:
        """Run a job now, without waiting for it."""
        queued = self._ask("POST", "/api/cron/run", _Queued, {"job_id": job_id})
        if queued is None:
            return
        if not queued.queued:
            raise Refused(f"{job_id} is not started: {queued.reason}.")
        _show(f"{job_id} is on its way; `holdgate jobs runs {job_id}` shows what comes of it.")

    def runs(self, job_id: str, limit: int, full: bool) -> None:
        """Show the runs of a job, the newest first; in full with all that they said."""
        found = self._ask("GET", "/api/cron/runs", _Runs, {"job_id": job_id, "limit": limit})
        if found is None:
            return
        if not found.runs:
            _show("It has not run yet.")
        elif full:
            _show("\n\n".join(map(_whole_run, found.runs)))
        else:
            _show(_run_table(found.runs))

    def _ask(self, method: str, path: str, kind: type[T], given: Members) -> T | None:
        """Ask for something; as JSON it is shown as it came, and there is nothing to return."""
        with connected(self._url, self._key, {}, SECONDS) as client:
            answer = _sent(client, method, path, given)
        if answer.status_code != 200:
            raise Refused(reason(answer))
        try:
            data = msgspec.json.decode(answer.content, type=_Answer).data
            found = msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            raise Refused(f"who answers at {self._url} is no Holdgate.") from None
        if not self._as_json:
            return found
        _show(msgspec.json.format(bytes(data), indent=2).decode())
        return None


def _sent(client: httpx.Client, method: str, path: str, given: Members) -> httpx.Response:
    if method == "GET":
        return client.get(path, params={name: str(value) for name, value in given.items() if value})
    return client.post(path, json=dict(given))


def _job_table(jobs: Iterable[_Job]) -> str:
    return table(
        ("JOB", "NAME", "SESSION", "WHEN", "NEXT RUN", "LAST RUN"),
        [
            (
                job.job_id,
                clipped(_plain(job.name), NAME_COLUMNS),
                clipped(_plain(job.session_id), NAME_COLUMNS),
                clipped(_when(job.schedule), WHEN_COLUMNS),
                _next(job),
                f"{_moment(job.last_run_at)} {job.last_status or ''}".rstrip(),
            )
            for job in jobs
        ],
    )


def _run_table(runs: Iterable[_Run]) -> str:
    return table(
        ("DUE", "BY", "STATUS", "TOOK", "WHAT CAME OF IT"),
        [
            (
                _moment(run.due_at),
                run.trigger,
                run.status,
                _took(run.duration_ms),
                clipped(_plain(run.summary), SUMMARY_COLUMNS) or NOTHING,
            )
            for run in runs
        ],
    )


def _whole_run(run: _Run) -> str:
    heading = f"{_moment(run.due_at)}  {run.trigger}  {run.status}  {_took(run.duration_ms)}"
    said = "\n".join(text for text in (run.result, run.error) if text)
    return f"{heading}\n{said}".rstrip()


def _next(job: _Job) -> str:
    if job.running_at is not None:
        return "now"
    if not job.enabled:
        return "disabled" + (f": {_plain(job.disabled_reason)}" if job.disabled_reason else "")
    return _moment(job.next_run_at)


def _when(shown: _Schedule) -> str:
    """Say when a job is due; where this version has no words for it, as it is written."""
    try:
        return in_words(_read(shown))
    except (Unfit, ValueError):
        return " ".join(filter(None, (shown.kind, shown.at, shown.cron, shown.tz)))


def _read(shown: _Schedule) -> Schedule:
    if shown.kind == "cron":
        return Cron(shown.cron or "", shown.tz or "UTC")
    at_ms = round(datetime.fromisoformat(shown.at or "").timestamp() * 1000)
    return Every(shown.every_ms or 1, at_ms) if shown.kind == "every" else At(at_ms, shown.tz or "")


def _moment(text: str | None) -> str:
    """Write an instant as a clock on the wall here shows it."""
    if text is None:
        return NOTHING
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _took(ms: int | None) -> str:
    return NOTHING if ms is None else f"{ms / 1000:.1f} s"


def _plain(text: str) -> str:
    """Write a text on one line."""
    return " ".join(CONTROLS.sub(" ", text).split())


def _show(text: str) -> None:
    print(CONTROLS.sub("", text), file=sys.stdout, flush=True)
