"""What the page about jobs says is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

from msgspec import to_builtins
from starlette.routing import Route

from gateway.api.jobs import JobsArea
from gateway.clock import ManualClock
from gateway.jobs import service
from gateway.jobs.model import Job, Run, Status
from gateway.jobs.reader import SETTABLE
from gateway.jobs.run_rules import BACK_OFF_MS, RETRY_MS
from gateway.jobs.schedule.model import At
from gateway.jobs.tool_calls import ACTIONS
from gateway.jobs.view import show_job, show_run
from tests.jobs.words import NOW, house
from tests.sessions.talk import model

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs/jobs.md").read_text()
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]


def example(member: str) -> Any:
    """Return the first example that has a member."""
    return next(one for one in EXAMPLES if member in one)


async def test_every_route_is_listed() -> None:
    async with house(model(), clock=ManualClock(NOW)) as gate:
        services = gate.gateway.serving
        area = JobsArea(services.jobs, services.keys, None)  # type: ignore[arg-type]
        paths = [route.path for route in area.routes() if isinstance(route, Route)]
    own = [path for path in paths if path.startswith("/api") and "{" not in path]
    assert own
    assert [path for path in own if f"{path}`" not in PAGE and f"{path}?" not in PAGE] == []


def test_jobs_and_runs_look_as_shown() -> None:
    job = Job(job_id="j", user_id="o", session_id="s", name="n", schedule=At(NOW), message="m")
    assert list(example("payload")) == list(to_builtins(show_job(job)))
    assert list(example("trigger")) == list(
        to_builtins(show_run(Run(run_id="r", job_id="j", user_id="o", due_ms=0)))
    )


def test_members_actions_statuses_and_reasons_are_named() -> None:
    for name in (*set(SETTABLE) - {"job_id", "payload"}, *ACTIONS):
        assert f"`{name}`" in PAGE, name
    for status in set(get_args(Status)) - {"running", "ok"}:
        assert f"`{status}`" in PAGE, status
    for reason in (service.RUNNING, service.SWITCHED_OFF, service.STARTING, service.DRAINING):
        assert f"`{reason}`" in PAGE


def test_the_back_off_is_as_told() -> None:
    assert "30 s, then 1, 5, 15, 60 minutes" in PAGE
    assert "tried again after 30 s, 1, 5 and 15 minutes" in PAGE
    assert [ms // 1000 for ms in RETRY_MS] == [30, 60, 300, 900]
    assert [ms // 1000 for ms in BACK_OFF_MS] == [30, 60, 300, 900, 3600]


def test_what_is_logged_is_told() -> None:
    sources = ROOT.joinpath("gateway/jobs").glob("*.py")
    events = {
        name
        for path in sources
        for name in re.findall(r'"((?:job|run|times|result)_[a-z_]+)"', path.read_text())
    }
    quiet = {"run_not_recorded", "result_not_brought"}
    members = {"run_id"}
    assert events
    assert [name for name in events - quiet - members if f"`{name}`" not in PAGE] == []
