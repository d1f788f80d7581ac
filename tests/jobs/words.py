"""Jobs, their runs and what models are asked by them: the words the tests here are written in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import anyio

from gateway.clock import Clock, ManualClock
from gateway.jobs.model import Job
from gateway.jobs.schedule.model import At
from gateway.timestamps import iso
from tests.gateway.client import Answer
from tests.gateway.wire import get, request
from tests.run import Running, in_process, until
from tests.sessions.talk import JSON, Message
from tests.wire.fake import Request, Story

T = TypeVar("T")

NOW = 1_770_067_358_229
"""2026-02-02T21:22:38.229Z"""
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

HELPER = {
    "id": "helper",
    "model": "m",
    "system": "You help.",
    "tools": ["schedule_task"],
}
ASIDE = {"id": "aside", "model": "m"}
READS = ("list", "get", "runs", "status", "calendar")


class Reached(Protocol):
    """A gateway that can be asked, wherever it runs."""

    async def fetch(self, request: bytes) -> Answer:
        """Send a request, and read its answer to the end."""


def house(
    *stories: Story | None, clock: Clock | None = None, **options: Any
) -> AbstractAsyncContextManager[Running]:
    """Run a gateway with agents and jobs, that looks at busy sessions often."""
    tables = {"agents": [HELPER, ASIDE], **options.pop("tables", {})}
    quick = {"clock__time_tag": "off", "cron__idle_retry_ms": 10, "cron__offer_to_clients": True}
    settings = {**quick, **options.pop("settings", {})}
    return in_process(*stories, tables=tables, clock=clock, settings=settings, **options)


def keys(*owners: str, admin: str = "") -> list[dict[str, Any]]:
    """Write the table of keys: that of an owner is their name with `key-` before it."""
    return [
        {
            "owner": owner,
            "key_sha256": hashlib.sha256(f"key-{owner}".encode()).hexdigest(),
            "admin": owner == admin,
        }
        for owner in owners
    ]


def key(owner: str) -> str:
    """Write the header that says who asks."""
    return f"authorization: Bearer key-{owner}"


# Asking.


async def ask(
    gate: Reached,
    action: str,
    body: Any = None,
    *headers: str,
    path: str = "/api/cron",
    **query: Any,
) -> Answer:
    """Ask for something about jobs."""
    where = f"{path}/{action}" + (f"?{urlencode(query)}" if query else "")
    if body is None and action in READS:
        return await gate.fetch(get(where, *headers))
    data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    return await gate.fetch(request("POST", where, JSON, *headers, body=data))


async def cron(gate: Reached, action: str, body: Any = None, *headers: str, **query: Any) -> Any:
    """Ask for something about jobs that is granted."""
    answer = await ask(gate, action, body, *headers, **query)
    assert answer.status == 200, bytes(answer.body)
    assert list(answer.json) == ["data"]
    return answer.json["data"]


def refused(answer: Answer) -> tuple[int, str, str]:
    """Read how something was refused: the status, the code and the sentence."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["ok"] is False
    assert list(answer.json) == ["ok", "error"]
    error = answer.json["error"]
    assert list(error) == ["code", "message"]
    assert error["message"].endswith(".")
    return answer.status, error["code"], error["message"]


def at(ms: int) -> Mapping[str, Any]:
    """Write the schedule of one time."""
    return {"kind": "at", "at": iso(ms)}


def every(ms: int) -> Mapping[str, Any]:
    """Write the schedule of a steady interval."""
    return {"kind": "every", "every_ms": ms}


async def add(
    gate: Reached,
    message: str = "what is new?",
    *headers: str,
    agent: str = "helper",
    schedule: Mapping[str, Any] | None = None,
    **members: Any,
) -> str:
    """Make a job of an agent's session, due every hour unless said otherwise; return its id."""
    place = {"agent_id": agent} if agent else {"session_id": "s"}
    job = {"schedule": schedule or every(HOUR), "message": message, **place, **members}
    found: str = (await cron(gate, "add", job, *headers))["job"]["job_id"]
    return found


async def job_of(gate: Reached, job_id: str, *headers: str) -> Message:
    """Show a job."""
    found: Message = (await cron(gate, "get", None, *headers, job_id=job_id))["job"]
    return found


async def runs_of(gate: Reached, job_id: str, *headers: str) -> list[Message]:
    """Show the runs of a job, the oldest first."""
    data = await cron(gate, "runs", None, *headers, job_id=job_id, limit=1000)
    assert data["job_id"] == job_id
    found: list[Message] = data["runs"][::-1]
    return found


async def statuses(gate: Reached, job_id: str) -> list[str]:
    """Show how the runs of a job ended, the oldest first."""
    return [run["status"] for run in await runs_of(gate, job_id)]


async def seen(
    look: Callable[[], Awaitable[T]], is_so: Callable[[T], bool], patience: float = 10
) -> T:
    """Look again and again until something is so; return it."""
    found = await look()
    with anyio.move_on_after(patience):
        while not is_so(found):
            await anyio.sleep(0.002)
            found = await look()
    assert is_so(found), found
    return found


async def ran(gate: Reached, job_id: str, *wanted: str) -> list[Message]:
    """Wait until the runs of a job have ended so; return them."""
    await seen(lambda: statuses(gate, job_id), lambda found: found == list(wanted))
    return await runs_of(gate, job_id)


async def asked(gate: Running, count: int) -> list[Request]:
    """Wait until the upstreams were asked so often."""
    await until(lambda: len(gate.requests) >= count)
    assert len(gate.requests) == count
    return gate.requests


MARKER = "a marker"


async def let_pass(gate: Running, clock: ManualClock, ms: int) -> None:
    """Let time pass, and wait until all that is due then has been begun.

    What is due is begun in the order of its time, so a job that is due last ends after that.
    """
    at_ms = clock.now_ms() + ms
    marker = await add(gate, MARKER, agent="", session_id=MARKER, schedule=at(at_ms))
    clock.advance(ms)
    await ended(gate, marker)


async def mark(gate: Running) -> None:
    """Run another job to its end, so that whatever was begun before it has had its turn."""
    marker = await add(gate, MARKER, agent="", session_id=MARKER)
    await run_now(gate, marker)
    await ended(gate, marker)
    await cron(gate, "remove", {"job_id": marker})


async def ended(gate: Reached, job_id: str) -> None:
    """Wait until a run of a job has ended, whatever came of it."""
    await seen(lambda: statuses(gate, job_id), lambda found: found not in ([], ["running"]))


def asked_besides(gate: Running) -> list[Request]:
    """Return what the upstreams were asked, without what markers asked."""
    return [request for request in gate.requests if MARKER.encode() not in request.body]


async def run_now(gate: Reached, job_id: str, *headers: str) -> None:
    """Run a job by hand, whatever its schedule says."""
    assert (await cron(gate, "run", {"job_id": job_id}, *headers))["queued"] is True


def ms_of(instant: str | None) -> int:
    """Read an instant that a job tells of."""
    assert instant is not None
    assert instant.endswith("Z")
    return round(datetime.fromisoformat(instant).timestamp() * 1000)


def said(asked: Request) -> list[tuple[str, Any]]:
    """Read who said what in a chat request."""
    return [(m["role"], m["content"]) for m in json.loads(asked.body)["messages"]]


async def events_of(gate: Running, session: str, last: str) -> list[tuple[str, Message]]:
    """Wait for an event of a session; return the names and data of all up to it."""
    client = await gate.send(get(f"/api/sessions/{session}/events?after=0"))
    answer = await client.saw(f"event: {last}".encode())
    while not bytes(answer.body).replace(b"\r", b"").endswith(b"\n\n"):
        await client.more()
    client.leave()
    frames = bytes(answer.body).decode().replace("\r", "").split("\n\n")
    told = [dict(line.split(": ", 1) for line in frame.splitlines()) for frame in frames]
    return [(one["event"], json.loads(one["data"])) for one in told if "event" in one]


async def inbox(gate: Running, session: str = "s", *headers: str) -> list[Message]:
    """Look what waits for a session."""
    client = await gate.send(get(f"/api/sessions/{session}/inbox?wait_ms=0", *headers))
    empty = (await client.head()).status == 204
    answer = await client.answer(bodyless=empty)
    client.leave()
    found: list[Message] = [] if empty else answer.json["items"]
    return found


def job(job_id: str = "a", next_ms: int | None = NOW, **members: object) -> Job:
    """Make a job."""
    known = {"user_id": "o", "session_id": "s", "name": "n", "message": "m"}
    schedule = At(NOW)
    return Job(job_id=job_id, schedule=schedule, next_run_ms=next_ms, **{**known, **members})  # type: ignore[arg-type]
