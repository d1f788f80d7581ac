"""One request, or more, for every route: what somebody may try with ids that are not theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.timestamps import iso
from tests.gateway.wire import get, request
from tests.jobs.words import DAY, NOW
from tests.openapi.routes import Way
from tests.sessions.talk import JSON

SESSION, AGENT, DEDUPE_KEY = "s", "helper", "k"


@dataclass(frozen=True, slots=True)
class Ids:
    """What belongs to the one who has things."""

    job: str
    run: str
    task: str
    item: str
    response: str
    exchange: str


Try = Callable[[Ids], tuple[str, Any]]
"""Given the ids, the rest of the path and the body."""


def _anything(path: str = "", body: Any = None) -> Try:
    return lambda ids: (path, body)


def _job(**more: Any) -> Try:
    return lambda ids: ("", {"job_id": ids.job, **more})


def _nested_job(**more: Any) -> Try:
    return lambda ids: ("", {"job": {"job_id": ids.job, **more}})


def _jobs(action: str) -> Try:
    return lambda ids: ("", {"action": action, "job_ids": [ids.job]})


def _wish(**more: Any) -> Mapping[str, Any]:
    place = {"session_id": SESSION, "agent_id": AGENT}
    return {"message": "bobs", "schedule_text": "hourly", **place, **more}


def _said(**more: Any) -> Any:
    message = {"role": "user", "content": "bob asks"}
    return {"model": "m", "stream": False, "messages": [message], **more}


OPERATIONS: dict[Way, tuple[Try, ...]] = {
    ("GET", "/"): (_anything(),),
    ("GET", "/healthz"): (_anything(),),
    ("GET", "/readyz"): (_anything(),),
    ("GET", "/metrics"): (_anything(),),
    ("GET", "/openapi.json"): (_anything(),),
    ("GET", "/api/status"): (_anything(),),
    ("GET", "/api/usage"): (
        _anything(),
        _anything("?group_by=owner,model,upstream,hour"),
        _anything("?owner=ann"),
        _anything("?owner=nobody"),
    ),
    ("GET", "/api/console/metrics"): (_anything(), _anything("?window=day")),
    ("GET", "/api/console/health"): (_anything(),),
    ("GET", "/api/console/tools"): (_anything(),),
    ("GET", "/api/clock"): (_anything(),),
    ("GET", "/api/agents"): (_anything(),),
    ("GET", "/v1/models"): (_anything(),),
    ("GET", "/v1/models/{}"): (_anything("m"), _anything("other")),
}
CONSOLE: dict[Way, tuple[Try, ...]] = {
    ("GET", "/console"): (_anything(),),
    ("GET", "/console/"): (_anything(),),
    ("GET", "/console/{}"): (_anything("jobs"),),
    ("GET", "/console/-/{}/{}"): (_anything("0/app.js"),),
    ("GET", "/api/console/me"): (_anything(),),
    ("POST", "/api/console/login"): (_anything(body={}), _anything(body={"key": "guess"})),
    ("POST", "/api/console/logout"): (_anything(),),
}
MODELS: dict[Way, tuple[Try, ...]] = {
    ("POST", "/v1/chat/completions"): (
        _anything(body=_said()),
        _anything(body=_said(stream=True, metadata={"session_id": SESSION})),
    ),
    ("POST", "/v1/responses"): (
        _anything(body={"model": "m", "input": "bob asks"}),
        lambda ids: ("", {"model": "m", "input": "on", "previous_response_id": ids.response}),
    ),
    ("POST", "/v1/messages"): (_anything(body=_said(max_tokens=9)),),
    ("POST", "/v1/messages/count_tokens"): (_anything(body=_said()),),
    ("POST", "/v1/embeddings"): (_anything(body={"model": "m", "input": "bob asks"}),),
    ("POST", "/v1/completions"): (_anything(body={"model": "m", "prompt": "bob asks"}),),
    ("POST", "/v1/responses/compact"): (
        lambda ids: ("", {"model": "m", "previous_response_id": ids.response}),
    ),
    ("POST", "/api/chat"): (
        _anything(body={"message": "bob asks", "agentId": AGENT, "sessionId": SESSION}),
        _anything(body={"message": "x", "agentId": AGENT, "sessionId": SESSION, "userId": "ann"}),
    ),
}
EXCHANGE = "/api/console/exchanges/{}"
FEED: Way = ("GET", "/api/console/feed")
EXCHANGES: dict[Way, tuple[Try, ...]] = {
    ("GET", "/api/console/exchanges"): (
        _anything("?owner=ann"),
        _anything("?session=canary"),
        lambda ids: (f"?q={ids.exchange}", None),
    ),
    ("GET", EXCHANGE): (lambda ids: (ids.exchange, None),),
    ("POST", f"{EXCHANGE}/end_hold"): (lambda ids: (ids.exchange, None),),
    ("POST", f"{EXCHANGE}/cut"): (lambda ids: (ids.exchange, None),),
    FEED: (
        lambda ids: (f"?topics=exchange:{ids.exchange},job:{ids.job},session:{SESSION}", None),
        _anything("?topics=summary,live,jobs,sessions,health"),
    ),
}
SESSIONS: dict[Way, tuple[Try, ...]] = {
    ("GET", "/api/sessions"): (
        _anything(),
        _anything("?limit=1"),
        _anything(f"?q={SESSION}"),
        _anything("?owner=ann"),
        _anything("?owner=*"),
    ),
    ("GET", "/api/sessions/{}"): (_anything(SESSION), _anything(f"{SESSION}?agentId={AGENT}")),
    ("GET", "/api/sessions/{}/reminders"): (_anything(SESSION),),
    ("POST", "/api/sessions/{}/reminders"): (
        _anything(SESSION, {"dueAt": iso(NOW + DAY), "task": "bobs"}),
    ),
    ("DELETE", "/api/sessions/{}/reminders/{}"): (lambda ids: (f"{SESSION}/{ids.task}", None),),
    ("DELETE", "/api/sessions/{}/reminders"): (_anything(SESSION),),
    ("GET", "/api/sessions/{}/inbox"): (
        _anything(f"{SESSION}?wait_ms=0"),
        _anything(f"{SESSION}?wait_ms=1&after=0"),
    ),
    ("POST", "/api/sessions/{}/inbox/ack"): (lambda ids: (SESSION, {"ids": [ids.item, ids.task]}),),
    ("GET", "/api/sessions/{}/events"): (_anything(f"{SESSION}?after=0"),),
    ("GET", "/api/sessions/{}/deliveries"): (
        _anything(SESSION),
        _anything(f"{SESSION}?state=delivered"),
    ),
    ("DELETE", "/api/sessions/{}/stop_message"): (_anything(SESSION),),
    ("DELETE", "/api/sessions/{}/directives"): (_anything(SESSION),),
    ("DELETE", "/api/sessions/{}"): (_anything(SESSION), _anything(SESSION)),
}


def _cron(path: str) -> dict[Way, tuple[Try, ...]]:
    one: Try = lambda ids: (f"?job_id={ids.job}", None)  # noqa: E731 - a row as the others are
    return {
        ("GET", f"{path}/list"): (
            _anything(),
            _anything(f"?session_id={SESSION}&agent_id={AGENT}"),
            _anything("?limit=1&sort=-name&q=bobs&state=on"),
        ),
        ("GET", f"{path}/get"): (one,),
        ("GET", f"{path}/runs"): (one, _anything(), _anything("?after=9&results=0")),
        ("GET", f"{path}/run"): (lambda ids: (f"?run_id={ids.run}", None),),
        ("GET", f"{path}/calendar"): (_anything(),),
        ("POST", f"{path}/preview"): (_anything(body={"when": "daily at 9", "tz": "UTC"}),),
        ("GET", f"{path}/status"): (_anything(),),
        ("POST", f"{path}/add"): (
            _job(**_wish()),
            _nested_job(**_wish()),
            _anything(body=_wish(dedupe_key=DEDUPE_KEY)),
        ),
        ("POST", f"{path}/update"): (_job(name="bobs"), _nested_job(enabled=False)),
        ("POST", f"{path}/enable"): (_job(),),
        ("POST", f"{path}/disable"): (_job(), _nested_job()),
        ("POST", f"{path}/run"): (_job(),),
        ("POST", f"{path}/bulk"): tuple(
            _jobs(action) for action in ("run", "disable", "enable", "remove")
        ),
        ("POST", f"{path}/remove"): (_job(), _nested_job()),
    }


def _admin(path: str) -> dict[Way, tuple[Try, ...]]:
    return {
        ("GET", f"{path}/list"): (_anything(), _anything("?user_id=ann")),
        ("GET", f"{path}/get"): (lambda ids: (f"?job_id={ids.job}", None),),
        ("GET", f"{path}/calendar"): (_anything(), _anything("?user_id=ann")),
        ("POST", f"{path}/bulk"): (_jobs("disable"), _jobs("remove")),
        ("GET", f"{path}/runs"): (_anything(), _anything("?user_id=ann")),
        ("GET", f"{path}/run"): (lambda ids: (f"?run_id={ids.run}", None),),
        ("POST", f"{path}/run"): (_job(),),
        ("POST", f"{path}/update"): (_job(name="bobs"), _job(action="remove")),
    }


TRIES: dict[Way, tuple[Try, ...]] = {
    **OPERATIONS,
    **CONSOLE,
    **MODELS,
    **_cron("/api/cron"),
    **_cron("/wunder/cron"),
    **_admin("/api/admin/cron"),
    **_admin("/wunder/admin/cron"),
    **EXCHANGES,
    **SESSIONS,
}


def written(way: Way, one: Try, ids: Ids, *headers: str) -> bytes:
    """Write a request."""
    method, path = way
    rest, body = one(ids)
    given, _, query = rest.partition("?")
    for name in given.split("/") if given else ():
        path = path.replace("{}", name, 1)
    where = f"{path}?{query}" if query else path
    if body is None:
        return get(where, *headers) if method == "GET" else request(method, where, *headers)
    return request(method, where, JSON, *headers, body=json.dumps(body).encode())
