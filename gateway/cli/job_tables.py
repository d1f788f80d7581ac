"""Jobs and runs as a terminal shows them: one line each, in its own time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from gateway.cli.client import CONTROLS
from gateway.cli.tables import clip, fit_table, table
from gateway.errors import InvalidInput
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, in_words

NOTHING = "-"
LONG_TIME, SHORT_TIME = "%Y-%m-%d %H:%M:%S", "%m-%d %H:%M"
ELASTIC = ("NAME", "SESSION", "WHEN", "WHAT CAME OF IT")
# Where a terminal is too narrow for all columns, these are left out, in this order.
LEFT_OUT = ((), ("LAST RUN",), ("LAST RUN", "SESSION"), ("LAST RUN", "SESSION", "NAME"))


class ShownSchedule(msgspec.Struct):
    """When a job is due, as the API shows it."""

    kind: str
    at: str | None = None
    every_ms: int | None = None
    cron: str | None = None
    tz: str | None = None


class ShownJob(msgspec.Struct):
    """A job, as the API shows it."""

    job_id: str
    session_id: str
    agent_id: str
    name: str
    enabled: bool
    schedule: ShownSchedule
    next_run_at: str | None = None
    running_at: str | None = None
    last_run_at: str | None = None
    last_status: str | None = None
    disabled_reason: str | None = None


class ShownRun(msgspec.Struct):
    """A run, as the API shows it."""

    status: str
    trigger: str
    due_at: str
    summary: str
    result: str = ""
    error: str | None = None
    duration_ms: int | None = None


Cells = Mapping[str, str]
Row = Callable[[str], Cells]


def write_jobs(jobs: Sequence[ShownJob], columns: int | None) -> str:
    """Write a line for each job; none is wider than the terminal, if that has a width."""
    return _write([_job_row(job) for job in jobs], columns)


def write_runs(runs: Sequence[ShownRun], columns: int | None) -> str:
    """Write a line for each run."""
    return _write([_run_row(run) for run in runs], columns)


def write_whole_run(run: ShownRun) -> str:
    """Write a run with all that it said."""
    took = _span(run.duration_ms)
    heading = f"{_moment(run.due_at, LONG_TIME)}  {run.trigger}  {run.status}  {took}"
    said = "\n".join(text for text in (run.result, run.error) if text)
    return f"{heading}\n{said}".rstrip()


def describe_job(job: ShownJob) -> str:
    """Say in a few words what a job is, and when it runs next."""
    next_run = _next(job, LONG_TIME)
    return f"{job.name}, {_when(job.schedule)}; {'next run ' if job.enabled else ''}{next_run}"


def _write(rows: Sequence[Row], columns: int | None) -> str:
    full = [row(LONG_TIME) for row in rows]
    headings = list(full[0])
    if columns is None:
        return table(headings, [list(cells.values()) for cells in full])
    short = [row(SHORT_TIME) for row in rows]
    for shown, without in ((full, ()), *((short, names) for names in LEFT_OUT)):
        kept = [name for name in headings if name not in without]
        cells = [[line[name] for name in kept] for line in shown]
        if (fitting := fit_table(kept, cells, columns, ELASTIC)) is not None:
            return fitting
    narrow = table(headings, [list(line.values()) for line in short])
    return "\n".join(clip(line, columns) for line in narrow.splitlines())


def _job_row(job: ShownJob) -> Row:
    def cells(form: str) -> Cells:
        return {
            "JOB": job.job_id,
            "NAME": _plain(job.name),
            "SESSION": _plain(job.session_id),
            "WHEN": _when(job.schedule),
            "NEXT RUN": _next(job, form),
            "LAST RUN": f"{_moment(job.last_run_at, form)} {job.last_status or ''}".rstrip(),
        }

    return cells


def _run_row(run: ShownRun) -> Row:
    def cells(form: str) -> Cells:
        return {
            "DUE": _moment(run.due_at, form),
            "BY": run.trigger,
            "STATUS": run.status,
            "TOOK": _span(run.duration_ms),
            "WHAT CAME OF IT": _plain(run.summary) or NOTHING,
        }

    return cells


def _next(job: ShownJob, form: str) -> str:
    if job.running_at is not None:
        return "now"
    if not job.enabled:
        why = _plain(job.disabled_reason or "")
        return "disabled" + (f": {why}" if why and form == LONG_TIME else "")
    return _moment(job.next_run_at, form)


def _when(shown: ShownSchedule) -> str:
    """Say when a job is due; where this version has no words for it, as it is written."""
    try:
        return in_words(_read(shown))
    except (InvalidInput, ValueError):
        return " ".join(filter(None, (shown.kind, shown.at, shown.cron, shown.tz)))


def _read(shown: ShownSchedule) -> Schedule:
    if shown.kind == "cron":
        return Cron(shown.cron or "", shown.tz or "UTC")
    at_ms = round(datetime.fromisoformat(shown.at or "").timestamp() * 1000)
    return Every(shown.every_ms or 1, at_ms) if shown.kind == "every" else At(at_ms, shown.tz or "")


def _moment(text: str | None, form: str) -> str:
    """Write an instant as a clock on the wall here shows it."""
    if text is None:
        return NOTHING
    return datetime.fromisoformat(text).astimezone().strftime(form)


def _span(ms: int | None) -> str:
    return NOTHING if ms is None else f"{ms / 1000:.1f} s"


def _plain(text: str) -> str:
    """Write a text on one line."""
    return " ".join(CONTROLS.sub(" ", text).split())
