"""Jobs in the terminal: listed, made, changed, removed and run, over the gateway's own HTTP API."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from typing import TypeVar

import httpx
import msgspec

from gateway.cli.client import CONTROLS, CommandFailed, connect, decode, reason
from gateway.cli.job_tables import (
    ShownJob,
    ShownRun,
    describe_job,
    write_jobs,
    write_runs,
    write_whole_run,
)

T = TypeVar("T")
Members = Mapping[str, object]

SECONDS = 30.0
# The API speaks of its members; who typed a command knows the options that they came from.
OPTIONS = {
    "schedule.every_ms": "--every",
    "schedule.at": "--at",
    "schedule.cron": "--cron",
    "schedule.tz": "--tz",
    "schedule_text": "--text",
    "session_id": "--session",
    "agent_id": "--agent",
    "dedupe_key": "--dedupe-key",
    "job_id": "JOB",
    "give schedule": "give --every, --at or --cron",
}
FIRST_WORDS = ("message", "name", "model", "limit")
_member = re.compile("|".join((r"'[^']*'", '"[^"]*"', *map(re.escape, OPTIONS))))
_milliseconds = re.compile(r"a whole number of milliseconds, from (\d+) to \d+ \(366 days\)")


class _Jobs(msgspec.Struct):
    jobs: list[ShownJob]


class _Made(msgspec.Struct):
    job: ShownJob
    deduped: bool = False


class _Removed(msgspec.Struct):
    removed: bool


class _Queued(msgspec.Struct):
    queued: bool
    reason: str = ""


class _Runs(msgspec.Struct):
    runs: list[ShownRun]


class _Answer(msgspec.Struct):
    data: msgspec.Raw


class JobCommands:
    """Does what a person asks for, and says what came of it; raises `CommandFailed`."""

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
            _show(write_jobs(found.jobs, _columns()) if found.jobs else "There are no jobs.")

    def add(self, wish: Members) -> None:
        """Make a job."""
        self._change("add", wish, "added")

    def update(self, wish: Members) -> None:
        """Change what is named of a job."""
        self._change("update", wish, "changed")

    def enable(self, job_id: str) -> None:
        """Let a job run again."""
        self._change("enable", {"job_id": job_id}, "enabled")

    def disable(self, job_id: str) -> None:
        """Let a job rest."""
        if self._ask("POST", "/api/cron/disable", _Made, {"job_id": job_id}) is not None:
            _show(f"{job_id} is disabled; `holdgate jobs enable {job_id}` lets it run again.")

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
            raise CommandFailed(f"{job_id} is not started: {queued.reason}.")
        _show(f"{job_id} is started; `holdgate jobs runs {job_id}` shows the result.")

    def runs(self, job_id: str, limit: int, full: bool) -> None:
        """Show the runs of a job, the newest first; in full with all that they said."""
        found = self._ask("GET", "/api/cron/runs", _Runs, {"job_id": job_id, "limit": limit})
        if found is None:
            return
        if not found.runs:
            _show("The job has not run yet.")
        elif full:
            _show("\n\n".join(map(write_whole_run, found.runs)))
        else:
            _show(write_runs(found.runs, _columns()))

    def _change(self, action: str, wish: Members, did: str) -> None:
        made = self._ask("POST", f"/api/cron/{action}", _Made, wish)
        if made is not None:
            did = "changed" if made.deduped else did
            _show(f"{made.job.job_id} {did}: {describe_job(made.job)}")

    def _ask(self, method: str, path: str, kind: type[T], given: Members) -> T | None:
        """Ask for something; as JSON it is shown as it came, and there is nothing to return."""
        with connect(self._url, self._key, {}, SECONDS) as client:
            answer = _send(client, method, path, given)
        if answer.status_code != 200:
            raise CommandFailed(name_options(reason(answer)))
        data = decode(answer.content, _Answer, self._url).data
        found = decode(data, kind, self._url)
        if not self._as_json:
            return found
        _show(msgspec.json.format(bytes(data), indent=2).decode())
        return None


def name_options(sentence: str) -> str:
    """Write a sentence about members of a job as one about the options of a command."""
    said = _member.sub(lambda found: OPTIONS.get(found[0], found[0]), sentence)
    said = _milliseconds.sub(r"from \1ms to 366d", said)
    first = re.match(r"\w+", said)
    return f"--{said}" if first and first[0] in FIRST_WORDS else said


def _send(client: httpx.Client, method: str, path: str, given: Members) -> httpx.Response:
    if method == "GET":
        return client.get(path, params={name: str(value) for name, value in given.items() if value})
    return client.post(path, json=dict(given))


def _columns() -> int | None:
    """Return how wide the terminal is; lines into a pipe or a file have no limit."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _show(text: str) -> None:
    print(CONTROLS.sub("", text), file=sys.stdout, flush=True)
