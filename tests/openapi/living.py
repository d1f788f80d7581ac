"""A gateway in a process of its own, in which something goes on, for requests nobody thought of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from tests.run import as_process

AGENT, SESSION, MODEL = "helper", "s1", "demo"
SETTINGS = {
    "HOLDGATE_STORE__URL": "memory:",
    "HOLDGATE_AGENTS": json.dumps([{"id": AGENT, "model": MODEL, "tools": ["schedule_task"]}]),
    # Nobody waits for what is due; what runs is started by hand.
    "HOLDGATE_CRON__MIN_INTERVAL_MS": "600000",
    "HOLDGATE_LIMITS__JOBS_PER_OWNER": "30",
    "ROUTECODEX_CLOCK_NTP": "off",
}
PATIENCE = 20
STREAM = "text/event-stream; charset=utf-8"


class Gate:
    """The gateway, as one client with a connection that is kept sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._job = ""

    def settle(self) -> None:
        """Have something of everything: a conversation, a run, a reminder that waits."""
        with self.send("POST", "/api/chat", json={"agentId": AGENT, "message": "hello"}) as answer:
            assert b"event: complete" in answer.content
        self.send("POST", "/api/cron/run", json={"job_id": self.job()})
        self.task()

    def job(self) -> str:
        """Return the id of a job that is there; if it is gone, of a new one."""
        known = {"job_id": self._job}
        if not self._job or self.send("GET", "/api/cron/get", params=known).status_code == 404:
            wish = {"session_id": SESSION, "message": "well?", "schedule_text": "hourly"}
            made = self.send("POST", "/api/cron/add", json={**wish, "dedupe_key": "ours"})
            self._job = str(made.json()["data"]["job"]["job_id"])
        return self._job

    def task(self) -> str:
        """Return the id of a reminder; if there is none left, set one."""
        path = f"/api/sessions/{SESSION}/reminders"
        items = self.send("GET", path).json()["items"]
        if not items:
            now = self.send("GET", "/api/clock").json()["utc"]
            items = self.send("POST", path, json={"dueAt": now, "task": "tea"}).json()["scheduled"]
        return str(items[0]["taskId"])

    def send(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send a request."""
        return self.request(method=method, url=self.url + path, **more)

    def request(self, **asked: Any) -> requests.Response:
        """Send a request; of a stream that does not end by itself only the head is read."""
        settings = {"stream": True, "timeout": PATIENCE, "allow_redirects": False}
        answer = self._session.request(**{**asked, **settings})
        endless = ("/events", "/api/console/feed")
        if asked["url"].endswith(endless) and answer.headers.get("content-type") == STREAM:
            answer._content = b""
            answer.close()
        assert answer.content is not None
        return answer


@contextmanager
def lively(home: Path) -> Iterator[Gate]:
    """Run a gateway with the demo model while the tests run; it must not have failed inside."""
    with as_process(home, SETTINGS) as process:
        gate = Gate(process.url)
        gate.settle()
        yield gate
    assert "Traceback" not in process.log.read_text()
