"""What strangers found, each as a story of its own."""

from __future__ import annotations

import json

import pytest

from gateway.clock import ManualClock
from gateway.timestamps import iso
from tests.gateway.wire import PATH, get, request
from tests.jobs.words import DAY, NOW, add, ask, cron, house, refused
from tests.run import in_process
from tests.sessions.talk import JSON, model

ADMIN = "/api/admin/cron"


async def test_a_session_whose_name_has_line_ends_can_be_looked_at_and_forgotten() -> None:
    here = "/api/sessions/a%0Ab%0D%0A"
    async with house(model(), clock=ManualClock(NOW)) as gate:
        body = json.dumps({"dueAt": iso(NOW + DAY), "task": "tea"}).encode()
        made = await gate.fetch(request("POST", f"{here}/reminders", JSON, body=body))
        assert (made.status, made.json["sessionId"]) == (201, "a\nb\r\n")
        shown = await gate.fetch(get(here))
        assert [one["task"] for one in shown.json["reminders"]] == ["tea"]
        acked = request("POST", f"{here}/inbox/ack", JSON, body=b'{"ids":[]}')
        assert (await gate.fetch(acked)).json == {"sessionId": "a\nb\r\n", "acked": []}
        assert (await gate.fetch(request("DELETE", here))).json["deleted"] is True
        assert (await gate.fetch(get(here))).status == 404


async def test_an_action_that_is_null_is_none() -> None:
    async with house(model(), clock=ManualClock(NOW)) as gate:
        job_id = await add(gate)
        change = {"job_id": job_id, "name": "other", "action": None}
        assert (await cron(gate, "update", change, path=ADMIN))["job"]["name"] == "other"
        odd = await ask(gate, "update", {"job_id": job_id, "action": []}, path=ADMIN)
        assert refused(odd)[0] == 400


@pytest.mark.parametrize("after", ["-1", "x", "1.5"])
async def test_a_place_that_is_none_is_refused_beside_a_header_that_counts(after: str) -> None:
    async with house(model(), clock=ManualClock(NOW)) as gate:
        answer = await gate.fetch(get(f"/api/sessions/s/events?after={after}", "last-event-id: 1"))
    assert (answer.status, answer.error["param"]) == (400, "after")


@pytest.mark.parametrize(
    ("path", "allowed"), [(PATH, "POST"), ("/api/chat", "POST"), ("/api/sessions", None)]
)
async def test_no_method_is_promised_that_is_not_there(path: str, allowed: str | None) -> None:
    async with in_process(model()) as gate:
        client = await gate.send(request("OPTIONS", path))
        answer = await client.answer(bodyless=True)
        client.leave()
    assert (answer.status, answer.headers.get("allow")) == (204, allowed)
