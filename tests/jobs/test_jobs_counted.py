"""What an operator sees of jobs in the metrics: how runs ended, what became of their results."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from gateway.clock import ManualClock
from gateway.jobs.model import Status
from gateway.outbox.queue import DeliveryCounts
from tests.clock.holding import metrics
from tests.gateway.wire import request
from tests.jobs.models import failing
from tests.jobs.words import HOUR, MINUTE, NOW, add, every, house, inbox, ran, run_now
from tests.run import Running
from tests.sessions.talk import JSON, SESSION, kept, model, talk

PAGE = Path(__file__).parents[2].joinpath("docs/observability.md").read_text()


async def became(gate: Running) -> dict[str, float]:
    """Read what became of results, as far as something did."""
    counted = await metrics(gate, "deliveries_total")
    return {name[7:-1]: count for name, count in counted.items() if count}


async def test_runs_by_how_they_ended(tmp_path: Path) -> None:
    settings = kept(tmp_path)
    async with house(failing("fine"), clock=ManualClock(NOW), settings=settings) as gate:
        job_id = await add(gate, schedule=every(HOUR))
        assert await metrics(gate, "runs_total") == {}
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok", "error")
        assert await metrics(gate, "runs_total") == {'status="ok"': 1, 'status="error"': 1}
    later = ManualClock(NOW + 4 * HOUR + MINUTE)
    async with house(model("fine"), clock=later, settings=settings) as gate:
        await ran(gate, job_id, "ok", "error", "missed", "ok")
        # Three times in one row.
        assert await metrics(gate, "runs_total") == {'status="missed"': 3, 'status="ok"': 1}


async def test_results_by_what_became_of_them() -> None:
    async with house(model()) as gate:
        assert await became(gate) == {}
        job_id = await add(gate, agent="")
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok")
        assert await became(gate) == {"added": 1}
        await gate.ask(talk("and?"), SESSION)
        assert await became(gate) == {"added": 1, "reserved": 1, "committed": 1}
        await run_now(gate, job_id)
        await ran(gate, job_id, "ok", "ok")
        (item,) = await inbox(gate)
        ids = json.dumps({"ids": [item["id"]]}).encode()
        await gate.fetch(request("POST", "/api/sessions/s/inbox/ack", JSON, body=ids))
        counts = {"added": 2, "reserved": 1, "committed": 1, "acknowledged": 1}
        assert await became(gate) == counts


def test_the_page_names_each() -> None:
    (runs,) = re.findall(r"^\| `holdgate_runs_total.*$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", runs)) == set(get_args(Status)) - {"running"}
    (results,) = re.findall(r"^\| `holdgate_deliveries_total.*$", PAGE, re.MULTILINE)
    names = [field.name for field in fields(DeliveryCounts)]
    assert re.findall(r"`(\w+)`", results) == names
