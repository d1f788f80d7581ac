"""Jobs and runs as they are shown."""

from __future__ import annotations

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.jobs.schedule.model import At, Cron, Every
from gateway.jobs.view import LONGEST_SUMMARY, count_jobs, show_job, show_run, summarize_job
from gateway.timestamps import iso

NOW = 1_770_067_358_229
AT = "2026-02-02T21:22:38.229Z"
JOB = Job(
    job_id="j-1",
    user_id="me",
    session_id="s-1",
    name="mail",
    schedule=Cron("0 8 * * *", "Asia/Shanghai"),
    message="Look at the mail.",
    model="fast",
    created_ms=NOW,
    updated_ms=NOW + 1,
)
RUN = Run(run_id="r-1", job_id="j-1", user_id="me", due_ms=NOW)
SCHEDULE = {
    "kind": "cron",
    "at": None,
    "every_ms": None,
    "cron": "0 8 * * *",
    "tz": "Asia/Shanghai",
}


def test_a_job_that_has_not_run() -> None:
    assert to_builtins(show_job(JOB)) == {
        "job_id": "j-1",
        "user_id": "me",
        "session_id": "s-1",
        "agent_id": "",
        "model": "fast",
        "name": "mail",
        "enabled": True,
        "delete_after_run": False,
        "session": "main",
        "schedule": SCHEDULE,
        "payload": {"message": "Look at the mail."},
        "dedupe_key": None,
        "next_run_at": None,
        "running_at": None,
        "run_due_at": None,
        "last_run_at": None,
        "last_status": None,
        "last_error": None,
        "consecutive_failures": 0,
        "disabled_reason": None,
        "created_at": AT,
        "updated_at": "2026-02-02T21:22:38.230Z",
        "state": "on",
        "words": {"en": "daily at 08:00", "zh": "每天 08:00"},
        "next_times": (),
        "last_runs": (),
        "retry_at": None,
        "waits_ms": None,
    }


def test_a_job_with_a_past() -> None:
    shown = to_builtins(
        show_job(
            replace(
                JOB,
                agent_id="post",
                model="small",
                dedupe_key="mail",
                session_mode="isolated",
                delete_after_run=True,
                enabled=False,
                due_ms=NOW + 9,
                next_run_ms=NOW,
                run_id="r-1",
                running_ms=NOW,
                run_due_ms=NOW,
                last_run_ms=NOW,
                last_status="error",
                last_error="No.",
                consecutive_failures=5,
                disabled_reason="Why not.",
            )
        )
    )
    assert {name: shown[name] for name in shown.keys() - to_builtins(show_job(JOB)).keys()} == {}
    assert {
        name: value for name, value in shown.items() if value != to_builtins(show_job(JOB))[name]
    } == {
        "agent_id": "post",
        "model": "small",
        "dedupe_key": "mail",
        "session": "isolated",
        "delete_after_run": True,
        "enabled": False,
        "next_run_at": AT,
        "running_at": AT,
        "run_due_at": AT,
        "last_run_at": AT,
        "last_status": "error",
        "last_error": "No.",
        "consecutive_failures": 5,
        "disabled_reason": "Why not.",
        "state": "running",
    }


def test_a_run_that_is_under_way() -> None:
    assert to_builtins(show_run(RUN)) == {
        "run_id": "r-1",
        "job_id": "j-1",
        "trigger": "timer",
        "status": "running",
        "summary": "",
        "result": "",
        "error": None,
        "duration_ms": None,
        "due_at": AT,
        "started_at": None,
        "finished_at": None,
        "missed": 0,
        "late_ms": None,
        "exchange_id": "r-1",
    }


def test_a_run_that_ended() -> None:
    text = "x" * 50_000
    shown = to_builtins(
        show_run(
            replace(
                RUN,
                trigger="manual",
                status="ok",
                result=text,
                started_ms=NOW,
                finished_ms=NOW,
                duration_ms=0,
            )
        )
    )
    assert shown["summary"] == text[:LONGEST_SUMMARY] == text[:200]
    assert shown["result"] == text
    assert (shown["started_at"], shown["finished_at"], shown["duration_ms"]) == (AT, AT, 0)
    assert (shown["trigger"], shown["status"]) == ("manual", "ok")


@pytest.mark.parametrize(
    "started_ms, late_ms", [(NOW, 0), (NOW + 1500, 1500), (NOW - 5, 0), (None, None)]
)
def test_how_late_a_run_began(started_ms: int | None, late_ms: int | None) -> None:
    assert show_run(replace(RUN, started_ms=started_ms)).late_ms == late_ms


def test_a_run_is_shown_without_its_result() -> None:
    shown = to_builtins(show_run(replace(RUN, status="ok", result="x"), with_result=False))
    assert "result" not in shown
    assert shown["summary"] == "x"


@pytest.mark.parametrize(
    "run, exchange_id",
    [
        (replace(RUN, status="ok", exchange_id="r-1"), "r-1"),
        (replace(RUN, status="skipped"), None),
        (replace(RUN, status="missed", missed=2), None),
    ],
)
def test_the_exchange_of_a_run(run: Run, exchange_id: str | None) -> None:
    assert show_run(run).exchange_id == exchange_id


HOUR = 3_600_000
FAILED = replace(JOB, schedule=Every(HOUR, NOW), consecutive_failures=3, due_ms=NOW + 1)


@pytest.mark.parametrize(
    "job, waits_ms",
    [
        (replace(FAILED, next_run_ms=NOW + 300_000), 300_000),
        # The schedule makes it wait longer than the failures do.
        (replace(FAILED, due_ms=NOW + HOUR, next_run_ms=NOW + HOUR), None),
        (replace(FAILED, enabled=False), None),
        (replace(JOB, due_ms=NOW, next_run_ms=NOW), None),
        (replace(JOB, schedule=At(NOW), retries=2, retry_ms=NOW + 9, next_run_ms=NOW + 9), 60_000),
    ],
)
def test_how_long_failures_make_a_job_wait(job: Job, waits_ms: int | None) -> None:
    shown = show_job(job)
    assert shown.waits_ms == waits_ms
    assert shown.retry_at == (None if waits_ms is None else shown.next_run_at)


def test_the_next_and_the_last_runs_of_a_job() -> None:
    grid = replace(FAILED, next_run_ms=NOW + 300_000)
    shown = show_job(grid, ("ok", "error"))
    assert shown.last_runs == ("ok", "error")
    assert shown.next_times == tuple(
        map(iso, (NOW + 300_000, *(NOW + i * HOUR for i in range(1, 5))))
    )
    assert show_job(replace(grid, schedule=At(NOW))).next_times == (iso(NOW + 300_000),)
    assert show_job(replace(grid, enabled=False)).next_times == ()


def test_the_summary_of_a_run_that_failed() -> None:
    shown = to_builtins(show_run(replace(RUN, status="error", error="e" * 300)))
    assert shown["summary"] == "e" * 200
    assert shown["error"] == "e" * 300


def test_what_a_model_is_shown() -> None:
    assert summarize_job(replace(JOB, next_run_ms=NOW, last_run_ms=NOW, last_status="ok")) == {
        "job_id": "j-1",
        "name": "mail",
        "enabled": True,
        "schedule": {"kind": "cron", "cron": "0 8 * * *", "tz": "Asia/Shanghai"},
        "next_run_at": AT,
        "last_run_at": AT,
        "last_status": "ok",
    }
    assert summarize_job(JOB)["next_run_at"] is None


def test_how_many_there_are() -> None:
    off = replace(JOB, enabled=False)
    soon, late = replace(JOB, next_run_ms=NOW, run_id="r-1"), replace(JOB, next_run_ms=NOW + 1)
    assert to_builtins(count_jobs([off, late, soon])) == {
        "total": 3,
        "enabled": 2,
        "running": 1,
        "next_run_at": AT,
    }
    assert to_builtins(count_jobs([])) == {
        "total": 0,
        "enabled": 0,
        "running": 0,
        "next_run_at": None,
    }
