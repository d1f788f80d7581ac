"""What the page about jobs says is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

from msgspec import to_builtins
from starlette.routing import Route

from gateway.api.job_answers import MOST_IN_BULK
from gateway.api.job_queries import JOB_FILTERS, MOST_BUCKETS, MOST_JOBS, RUN_FILTERS, SPANS
from gateway.api.jobs import JobsArea
from gateway.clock import ManualClock
from gateway.jobs import service
from gateway.jobs.listing import HAS_STATE, SORT_VALUES
from gateway.jobs.model import Job, Run, Status
from gateway.jobs.reader import SETTABLE
from gateway.jobs.run_rules import BACK_OFF_MS, RETRY_MS
from gateway.jobs.schedule.model import At
from gateway.jobs.tool_calls import ACTIONS
from gateway.jobs.view import LAST_RUNS, show_job, show_run
from gateway.timestamps import iso
from tests.jobs.words import NOW, add, ask, house
from tests.sessions.talk import model

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs/jobs.md").read_text()
SENT = re.findall(r"-d '(\{.*?\})'", PAGE, re.DOTALL)
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


async def test_a_preview_looks_as_shown() -> None:
    [asked] = [text for text in SENT if '"when"' in text]
    async with house(model(), clock=ManualClock(NOW)) as gate:
        answer = await ask(gate, "preview", json.loads(asked))
    assert answer.json == next(one for one in EXAMPLES if "times" in one.get("data", {}))


async def test_conflicts_and_several_jobs_are_answered_as_shown() -> None:
    at = ManualClock(NOW)
    async with house(model(), clock=at) as gate:
        job_id = await add(gate)
        asked = example("job_ids")
        answer = await ask(gate, "bulk", {**asked, "job_ids": [job_id, *asked["job_ids"][1:]]})
        known = json.dumps(answer.json).replace(job_id, asked["job_ids"][0])
        assert json.loads(known) == next(one for one in EXAMPLES if "done" in one.get("data", {}))
        late = {"job_id": job_id, "name": "x", "if_updated_at": iso(NOW - 1)}
        error = (await ask(gate, "update", late)).json["error"]
    shown = next(one["error"] for one in EXAMPLES if "job" in (one.get("error") or {}))
    assert {**error, "job": {"job_id": shown["job"]["job_id"]}} == shown


def test_parameters_states_and_orders_are_named() -> None:
    for one in (*JOB_FILTERS, *RUN_FILTERS, *SPANS):
        assert f"`{one.name}`" in PAGE or f"{one.name}=" in PAGE, one.name
    for name in (*HAS_STATE, *SORT_VALUES):
        assert f"`{name}`" in PAGE, name
    assert f"at most {MOST_JOBS}" in PAGE
    assert f"at most {MOST_IN_BULK} ids" in PAGE
    assert f"there may be {MOST_BUCKETS} spans" in PAGE
    assert f"the last {LAST_RUNS} runs" in PAGE


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
