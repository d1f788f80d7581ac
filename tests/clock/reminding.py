"""Reminders, seen from outside: what upstreams are told of them, what is kept, what is counted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.clock.words import item
from tests.gateway.client import Answer, Client
from tests.gateway.wire import get, request
from tests.run import Running, upstreams_of
from tests.sessions.talk import JSON, Message, messages
from tests.wire.fake import Request

SECOND, HOUR = 1000, 3_600_000
HEADING = "[Clock Reminder]"
NO_HOLD = "x-holdgate-hold: off"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TASK = re.compile(r'^\[scheduled task:("(?:[^"\\]|\\.)*")', re.MULTILINE)


def iso(ms: int) -> str:
    """Write an instant; written for these tests alone, so that it shares no mistake."""
    at = (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")
    return at.removesuffix("+00:00") + "Z"


def due(task: str, due_ms: int, tool: str = "", arguments: str = "{}") -> Message:
    """Write a reminder as it is asked for."""
    return item(iso(due_ms), task, tool, arguments)


def setting(wanted: Message, session: str = "s") -> bytes:
    """Write the request that sets a reminder by hand."""
    path = f"/api/sessions/{session}/reminders"
    return request("POST", path, JSON, body=json.dumps(wanted).encode())


async def remind(gate: Running, task: str, due_ms: int, session: str = "s", **more: str) -> str:
    """Set a reminder by hand, and return its id."""
    answer = await gate.fetch(setting(due(task, due_ms, **more), session))
    assert answer.status == 201, bytes(answer.body)
    task_id: str = answer.json["scheduled"][0]["taskId"]
    return task_id


async def listed(gate: Running, session: str = "s") -> Any:
    """Return what is shown of a session's reminders."""
    answer = await gate.fetch(get(f"/api/sessions/{session}/reminders"))
    assert answer.status == 200, bytes(answer.body)
    return answer.json


# A gateway in a process of its own.


def variables(*ports: int, **settings: object) -> dict[str, str]:
    """Write the environment of a gateway with a clock, whose upstreams listen on these ports."""
    tables = {name: json.dumps(rows) for name, rows in upstreams_of(*ports).items()}
    named = {"clock__enabled": "true", "clock__ntp__enabled": "false", **tables, **settings}
    return {f"HOLDGATE_{name.upper()}": str(value) for name, value in named.items()}


async def fetch(port: int, asked: bytes) -> Answer:
    """Send a request on a connection of its own, and read its answer to the end."""
    client = await Client.connected(port)
    try:
        await client.send(asked)
        return await client.answer()
    finally:
        client.leave()


# What upstreams were told.


def reminding(asked: Request) -> list[str]:
    """Return the messages of a request that bring reminders."""
    told = [message["content"] for message in messages(asked) if message["role"] == "user"]
    return [text for text in told if isinstance(text, str) and text.startswith(HEADING)]


def carried(asked: Request) -> list[str]:
    """Return the tasks a request carries; those of earlier turns of its answer are in it too."""
    return [json.loads(task) for text in reminding(asked) for task in _TASK.findall(text)]


def is_first(asked: Request) -> bool:
    """Tell whether a request is the first turn of an exchange."""
    return b":" not in asked.headers[b"x-request-id"]


def carriers(asked: Sequence[Request], task: str) -> list[Request]:
    """Return the first turns that carry a task."""
    return [one for one in asked if is_first(one) and task in carried(one)]


def results(asked: Request) -> list[Any]:
    """Return what the clock answered to the calls in a request."""
    found = [message for message in messages(asked) if message["role"] == "tool"]
    return [json.loads(message["content"]) for message in found]


# What is kept and counted.


def clock_file(directory: Path, session: str = "s") -> Path:
    """Return the file of a session's reminders."""
    return directory.joinpath("clock", f"{session}.json")


def kept_tasks(directory: Path, session: str = "s") -> list[Message]:
    """Read the reminders in a session's file; none if there is no file."""
    path = clock_file(directory, session)
    found: list[Message] = json.loads(path.read_bytes())["tasks"] if path.exists() else []
    return found


async def counted(gate: Running, event: str) -> int:
    """Read from the metrics how many reminders went this way."""
    answer = await gate.fetch(get("/metrics"))
    name = f'holdgate_reminders_total{{event="{event}"}} '
    (line,) = [one for one in answer.body.decode().splitlines() if one.startswith(name)]
    return int(float(line.removeprefix(name)))
