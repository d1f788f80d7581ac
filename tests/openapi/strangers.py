"""Requests that nobody thought of: made by schemathesis from our own description of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import schemathesis
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from gateway.api.openapi import document
from tests.openapi.living import AGENT, MODEL, SESSION, Gate

QUICK = "demo: tokens=2 delay_ms=0"
# Nobody would guess an id that is there, so those that are right in form are made so; and what is
# said to models is said so that they do not take their time.
KNOWN: Mapping[str, Callable[[Gate], Any]] = {
    "id": lambda gate: SESSION,
    "session_id": lambda gate: SESSION,
    "sessionId": lambda gate: SESSION,
    "agent_id": lambda gate: AGENT,
    "agentId": lambda gate: AGENT,
    "model": lambda gate: MODEL,
    "job_id": Gate.job,
    "taskId": Gate.task,
    "message": lambda gate: QUICK,
    "messages": lambda gate: [{"role": "user", "content": QUICK}],
    "input": lambda gate: QUICK,
}
WAIT_MS, LONGEST_WAIT_MS = 20, 120_000
# What a schedule or a date means is more than a schema can say: what fits may still be refused.
EXCLUDED = [positive_data_acceptance]
# An empty `Last-Event-ID` is none, whatever type it was meant to be.
LENIENT = {"GET /api/sessions/{id}/events"}


def described(*, examples: int, coverage: bool) -> schemathesis.BaseSchema:
    """Return the API as schemathesis sees it."""
    told = json.loads(msgspec.json.encode(document()))
    settings = {
        "generation": {"max-examples": examples, "database": "none"},
        "phases": {"coverage": {"enabled": coverage}},
    }
    return schemathesis.openapi.from_dict(told, config=schemathesis.Config.from_dict(settings))


def check(case: schemathesis.Case[Any], gate: Gate) -> None:
    """Send a request, and check its answer: no fault of ours, and as it is described."""
    asked = _impatient(case.as_transport_kwargs(base_url=gate.url))
    if case.meta is not None and case.meta.generation.mode.is_positive:
        _make_known(asked, case.operation.path, gate)
    lenient = [negative_data_rejection] if case.operation.label in LENIENT else []
    case.validate_response(
        gate.request(**asked),
        excluded_checks=[*EXCLUDED, *lenient],
        transport_kwargs={"base_url": gate.url},
    )


def _make_known(asked: dict[str, Any], path: str, gate: Gate) -> None:
    """Let a request be about what is there."""
    body = asked.get("json")
    within = body.get("job") if isinstance(body, dict) else None
    for members in (asked.get("params"), body, within):
        if isinstance(members, dict):
            members.update({name: KNOWN[name](gate) for name in KNOWN.keys() & members.keys()})
    if path.startswith("/api/sessions/{id}"):
        asked["url"] = gate.url + re.sub(r"{(\w+)}", lambda name: KNOWN[name[1]](gate), path)


def _impatient(asked: dict[str, Any]) -> dict[str, Any]:
    """Wait for nothing that may be waited for."""
    query = asked.get("params")
    if not isinstance(query, dict):
        return asked
    wait = str(query.get("wait_ms"))
    if wait.isdigit() and WAIT_MS < int(wait) <= LONGEST_WAIT_MS:
        return {**asked, "params": {**query, "wait_ms": WAIT_MS}}
    return asked
