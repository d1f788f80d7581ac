"""Coding agents in sessions where something waits: who of all their requests gets it."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from .cli import SETTINGS
from .processes import Running, running
from .speakers import DIALECTS

HEARD = "heard.jsonl"
WAIT = 90.0
TASK = "drink tea"
RESULT = "The job found nothing new."
GO_ON = "go on"
REPEATS = 2
JOB_MODEL = "jobs"
SUB_PROMPT = 'demo: say="Sub agent here." delay_ms=50'
# Requests without a proxy, whatever the environment says of one.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """A request that the upstream received."""

    exchange: str
    body: Json
    text: str

    def has_client_tools(self) -> bool:
        """Tell whether the agent offered tools of its own."""
        tools = self.body.get("tools") or []
        names = {tool.get("name") or tool.get("function", {}).get("name") for tool in tools}
        return bool(names - {"clock"})


@dataclass(frozen=True, slots=True)
class House:
    """A gateway, its upstream, and the agents' homes."""

    gateway: Running
    heard_file: Path
    place: Path

    def heard(self, model: str) -> list[Heard]:
        """List what the upstream was asked for a model, in order."""
        *lines, _unfinished = self.heard_file.read_bytes().split(b"\n")
        notes = [msgspec.json.decode(line) for line in lines]
        return [
            Heard(dict(note["headers"])["x-request-id"].partition(":")[0], note["body"], text)
            for note in notes
            if note["event"] == "request" and note["body"]["model"] == model
            for text in (json.dumps(note["body"], ensure_ascii=False),)
        ]

    def ask(self, path: str, body: object = None) -> Any:
        """Call the gateway's own API."""
        return ask(self.gateway.url + path, body)

    def put_reminder(self, session: str) -> None:
        """Set a reminder that is due."""
        due = datetime.now(UTC).isoformat()
        self.ask(f"/api/sessions/{session}/reminders", {"dueAt": due, "task": TASK})

    def put_result(self, session: str) -> None:
        """Run a job of the session now, and wait until its result waits for the session."""
        later = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        job = {
            "session_id": session,
            "session": "isolated",
            "name": "news",
            "schedule": {"kind": "at", "at": later},
            "payload": {"message": f'demo: say="{RESULT}" delay_ms=0'},
            "model": JOB_MODEL,
        }
        job_id = self.ask("/api/cron/add", {"job": job})["data"]["job"]["job_id"]
        self.ask("/api/cron/run", {"job_id": job_id})
        runs = f"/api/cron/runs?job_id={job_id}"
        until(lambda: [run["status"] for run in self.ask(runs)["data"]["runs"]] == ["ok"])


@contextmanager
def open_house(models: Iterable[str], place: Path) -> Iterator[House]:
    """Start an upstream and a gateway in front of it that knows these models."""
    backstage, home = place / "upstream", place / "gateway"
    for directory in (backstage, home):
        directory.mkdir(parents=True)
    listen = ("gateway.demo", "--port", "0", "--log", HEARD)
    with running(*listen, home=backstage, settings={}) as upstream:
        (home / "agents.toml").write_text(_config(models, upstream.url))
        serve = ("gateway", "serve", "--port", "0", "--config", "agents.toml")
        with running(*serve, home=home, settings=SETTINGS) as gateway:
            yield House(gateway, backstage / HEARD, place)


def _config(models: Iterable[str], upstream: str) -> str:
    upstreams = (
        f'[[upstreams]]\nid = "{dialect}"\ndialect = "{dialect}"\nbase_url = "{upstream}/v1"\n'
        for dialect in DIALECTS
    )
    # The dialect of a model's upstream stands at the end of its name.
    named = ((JOB_MODEL, DIALECTS[0]), *((model, model.partition("@")[2]) for model in models))
    routes = (f'[[models]]\nname = "{m}"\nroutes = ["{dialect}/{m}"]\n' for m, dialect in named)
    return "".join((*upstreams, *routes))


def ask(url: str, body: object = None) -> Any:
    """Send a small request, and return what the JSON of the answer says."""
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with _direct.open(request, timeout=WAIT) as answer:
        text = answer.read()
    return msgspec.json.decode(text) if text else None


def until(fact: Callable[[], bool]) -> None:
    """Wait for a fact that nothing announces."""
    deadline = time.monotonic() + WAIT
    while not fact():
        assert time.monotonic() < deadline, "this did not become true in time"
        time.sleep(0.05)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Do something beside the block, and fail if it fails."""
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised again below
            failures.append(failure)

    thread = threading.Thread(target=guarded)
    thread.start()
    yield
    thread.join()
    if failures:
        raise failures[0]
